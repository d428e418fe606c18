/* The options that every program of ours has: how much it logs, with which files it proves who it
 * is or may do without, and how it treats the links between machines. Each program's settings hold
 * one lh_program_options and its table the rows below, so that name, kind and default are said
 * once. Thread: start-up only, but for the TLS files, which may be read again. */
#pragma once

#include "common/base/host_facts.h"
#include "common/base/options.h"
#include "common/net/tls_channel.h"

typedef struct lh_program_options {
    lh_tls_options tls; /* "" where not given */
    bool insecure_plaintext;
    const char *log_level;
    const char *log_format; /* "text", "json" */
    const char *sandbox;    /* "on", "off" */
    const char *congestion_control;
    int64_t hop_probe_budget;
} lh_program_options;

/* Rows of an lh_option array, where `field` is the lh_program_options of the struct `type`. What
 * the certificate stands for and what plaintext would expose differ, so that each program says it.
 */
#define LH_OPTION_PEM_FILE(type, path, option, text)                                               \
    {.name = option,                                                                               \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, path),                                                               \
     .default_text = "",                                                                           \
     .placeholder = "PATH",                                                                        \
     .help = text}
#define LH_OPTION_TLS_CERT(type, field, text)                                                      \
    LH_OPTION_PEM_FILE(type, field.tls.certificate_file, "tls-cert", text)
#define LH_OPTION_TLS_KEY(type, field)                                                             \
    LH_OPTION_PEM_FILE(type, field.tls.key_file, "tls-key",                                        \
                       "PEM key of that certificate, readable by its owner only; SIGHUP has the "  \
                       "three TLS files read again")
#define LH_OPTION_TLS_CA(type, field)                                                              \
    LH_OPTION_PEM_FILE(type, field.tls.ca_file, "tls-ca",                                          \
                       "PEM certificates of the CA that signs workers and gateway")
#define LH_OPTION_INSECURE_PLAINTEXT(type, field, text)                                            \
    {.name = "insecure-plaintext",                                                                 \
     .kind = LH_OPTION_FLAG,                                                                       \
     .offset = offsetof(type, field.insecure_plaintext),                                           \
     .default_text = "0",                                                                          \
     .help = text}
#define LH_OPTION_CONGESTION_CONTROL(type, field)                                                  \
    {.name = "congestion-control",                                                                 \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, field.congestion_control),                                           \
     .default_text = "",                                                                           \
     .placeholder = "NAME",                                                                        \
     .help = "TCP congestion control between machines, for example bbr; default: the system's"}
#define LH_OPTION_HOP_PROBE_BUDGET(type, field)                                                    \
    {.name = "hop-probe-budget",                                                                   \
     .kind = LH_OPTION_NUMBER,                                                                     \
     .offset = offsetof(type, field.hop_probe_budget),                                             \
     .default_text = "1",                                                                          \
     .placeholder = "PERCENT",                                                                     \
     .maximum = 100,                                                                               \
     .help = "how much of a link's time, as the mean over a minute, may go into probes, which "    \
             "open a new connection's window before it is needed, and see that a link has become " \
             "faster; 0: none"}
#define LH_OPTION_SANDBOX(type, field)                                                             \
    {.name = "sandbox",                                                                            \
     .kind = LH_OPTION_CHOICE,                                                                     \
     .offset = offsetof(type, field.sandbox),                                                      \
     .default_text = "on",                                                                         \
     .choices = "on|off",                                                                          \
     .help = "on: after its start the program opens no files but its own, listens on no other "    \
             "ports, starts no programs, and leaves no core dump. off: whoever finds a fault in "  \
             "it can do all that its user can; for debuggers, profilers and core dumps"}
#define LH_OPTION_LOG_LEVEL(type, field)                                                           \
    {.name = "log-level",                                                                          \
     .kind = LH_OPTION_CHOICE,                                                                     \
     .offset = offsetof(type, field.log_level),                                                    \
     .default_text = "info",                                                                       \
     .choices = "error|warn|info|debug",                                                           \
     .help = "what to log"}
#define LH_OPTION_LOG_FORMAT(type, field)                                                          \
    {.name = "log-format",                                                                         \
     .kind = LH_OPTION_CHOICE,                                                                     \
     .offset = offsetof(type, field.log_format),                                                   \
     .default_text = "text",                                                                       \
     .choices = "text|json",                                                                       \
     .help = "how to write a line of the log: for people, or as one JSON object"}

/* Whether the TLS files are given; all of them are where lh_program_options_check has returned
 * LH_OK. */
bool lh_program_options_have_tls(const lh_program_options *options);
/* LH_ERR_INVALID: some of the TLS files are given, but not all; the system has no such congestion
 * control. */
lh_status lh_program_options_check(const lh_program_options *options, lh_error *error);
/* Sets level and format of the log, and tells it what the kernel's settings mean for links. */
void lh_program_options_apply(const lh_program_options *options);

/* What this machine is to a program with these options; before the sandbox. */
void lh_program_options_read_host(const lh_program_options *options, lh_host_facts *facts);

/* Reads the TLS files, where they are given, and keeps what they hold in options->tls.credentials;
 * the certificate has to be that of a program of this kind. Statuses of lh_tls_credentials_create.
 */
lh_status lh_program_options_open_tls(lh_program_options *options, lh_tls_identity_kind own,
                                      lh_error *error);
/* Reads them again, and logs which certificate is in use from now on, or why it is the one before.
 * `room` is whose line of the log that is. Not where there are none. Any thread. */
void lh_program_options_reload_tls(const lh_program_options *options, const char *room);
/* When nothing that uses the options is left. */
void lh_program_options_close_tls(lh_program_options *options);
