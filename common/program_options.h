/* The options that every program of ours has: how much it logs, with which files it proves who it is or may do
 * without, and how it treats the links between machines. Each program's settings hold one lh_program_options and its table the rows below, so that name, kind and
 * default are said once. Thread: start-up only. */
#pragma once

#include "common/h2_stream.h"
#include "common/options.h"
#include "common/tls_channel.h"

typedef struct lh_program_options {
    lh_tls_options tls; /* "" where not given */
    bool insecure_plaintext;
    const char *log_level;
    const char *congestion_control;
    int64_t hop_probe_budget;
} lh_program_options;

/* Rows of an lh_option array for `member`, an lh_program_options of the struct `type`. What the certificate stands for
 * and what plaintext would expose differ, so that each program says it. */
#define LH_TLS_OPTION_ROWS(type, member, certificate_help, plaintext_help)                                   \
    {"tls-cert", LH_OPTION_TEXT,  offsetof(type, member.tls.certificate_file), "", "PATH", 0, 0,             \
     NULL,       certificate_help},                                                                          \
        {"tls-key", LH_OPTION_TEXT, offsetof(type, member.tls.key_file), "", "PATH", 0,                      \
         0,         NULL,           "PEM key of that certificate"},                                          \
        {"tls-ca", LH_OPTION_TEXT, offsetof(type, member.tls.ca_file),                                       \
         "",       "PATH",         0,                                                                        \
         0,        NULL,           "PEM certificates of the CA that signs workers and gateway"},             \
    {                                                                                                        \
        "insecure-plaintext", LH_OPTION_FLAG, offsetof(type, member.insecure_plaintext), "0", NULL, 0, 0,    \
            NULL, plaintext_help                                                                             \
    }
#define LH_LINK_OPTION_ROWS(type, member)                                                                    \
    {"congestion-control",                                                                                   \
     LH_OPTION_TEXT,                                                                                         \
     offsetof(type, member.congestion_control),                                                              \
     "",                                                                                                     \
     "NAME",                                                                                                 \
     0,                                                                                                      \
     0,                                                                                                      \
     NULL,                                                                                                   \
     "TCP congestion control between machines, for example bbr; default: the system's"},                     \
    {                                                                                                        \
        "hop-probe-budget", LH_OPTION_NUMBER, offsetof(type, member.hop_probe_budget), "1", "PERCENT", 0,    \
            100, NULL,                                                                                       \
            "how much of a link's time, as the mean over a minute, may go into probes, which open a new "    \
            "connection's window before it is needed, and see that a link has become faster; 0: none"        \
    }
#define LH_LOG_LEVEL_OPTION_ROW(type, member)                                                                \
    {                                                                                                        \
        "log-level", LH_OPTION_CHOICE, offsetof(type, member.log_level), "info", NULL, 0, 0,                 \
            "error|warn|info|debug", "what to log"                                                           \
    }

/* Whether the TLS files are given; all of them are where lh_program_options_check has returned LH_OK. */
bool lh_program_options_have_tls(const lh_program_options *options);
/* LH_ERR_INVALID: some of the TLS files are given, but not all; the system has no such congestion control. */
lh_status lh_program_options_check(const lh_program_options *options, lh_error *error);
/* The default limits with what the options say of links. */
lh_h2_limits lh_program_options_limits(const lh_program_options *options);
/* Sets the level of the log, and tells it what the kernel's settings mean for links. */
void lh_program_options_apply(const lh_program_options *options);
