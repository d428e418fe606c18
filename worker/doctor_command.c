/* What the worker's flags and state folder say of this machine, then one table of checks. */
#include "worker/doctor_command.h"

#include "common/base/commands.h"
#include "common/base/log.h"
#include "common/base/state_folder.h"
#include "common/doctor/findings_print.h"
#include "common/doctor/machine_checks.h"
#include "common/net/congestion_control.h"
#include "common/net/reach.h"
#include "common/net/tls_credentials.h"
#include "common/sandbox/sandbox.h"
#include "kernels/kernels.h"
#include "worker/defaults.h"
#include "worker/membership/membership_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REACH_TIMEOUT_MS 3000
/* Places of peers, those without a handshake yet, and the weight cache. */
#define OPEN_FILES 512
/* What a link is taken for that nobody has measured: 100 Mbit/s and 20 ms. */
#define LINK_BYTES         250000
#define LINK_ROUND_TRIP_US 20000

typedef struct doctor_settings {
    const char *gateway, *state_dir, *cache_dir, *isa, *congestion_control;
    int64_t memory_bytes, kv_bytes;
    bool json;
} doctor_settings;

#define AT(field) offsetof(doctor_settings, field)

static const lh_option options[] = {
    {"gateway", LH_OPTION_TEXT, AT(gateway), "", "URL", 0, 0, NULL,
     "the gateway's fleet port, http://HOST:PORT or https://HOST:PORT; default: the one whose "
     "fleet this machine has joined"},
    {"state-dir", LH_OPTION_TEXT, AT(state_dir), "", "DIR", 0, 0, NULL, "as the worker's"},
    {"cache-dir", LH_OPTION_TEXT, AT(cache_dir), "", "PATH", 0, 0, NULL, "as the worker's"},
    {"memory-bytes", LH_OPTION_BYTES, AT(memory_bytes), "0", "BYTES", 0, (int64_t)1 << 50, NULL,
     "as the worker's"},
    {"kv-bytes", LH_OPTION_BYTES, AT(kv_bytes), "512M", "BYTES", 1 << 20, (int64_t)1 << 50, NULL,
     "as the worker's"},
    {"isa", LH_OPTION_TEXT, AT(isa), "auto", "NAME", 0, 0, NULL, "as the worker's"},
    {"congestion-control", LH_OPTION_TEXT, AT(congestion_control), "", "NAME", 0, 0, NULL,
     "as the worker's"},
    {"json", LH_OPTION_FLAG, AT(json), "0", NULL, 0, 0, NULL, "one JSON object instead"},
};

const lh_option_table lh_worker_doctor_command_options = {
    .program = "longhaul-worker doctor",
    .summary = "looks at this machine before it serves, or beside a worker that does, and says for "
               "each thing that it is fine, or what to do; status 0 if nothing is to be done, 1 if "
               "something is",
    .example = "longhaul-worker doctor",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* What the checks look at. */
typedef struct examination {
    const doctor_settings *settings;
    char gateway[LH_MEMBERSHIP_URL_BYTES]; /* "": nobody has said */
    char current[LH_STATE_PATH_BYTES];     /* the folder of its certificate; "": it has none */
    lh_error problem;                      /* with that; status LH_OK: none */
    lh_host_facts facts;
} examination;

/* ---- What is so ---- */

static void read_gateway(examination *e) {
    char *bytes = NULL;
    size_t length;
    if (lh_state_file_read(e->current, "gateway.url", sizeof e->gateway - 1, &bytes, &length,
                           &e->problem) != LH_OK)
        return;
    snprintf(e->gateway, sizeof e->gateway, "%.*s", (int)strcspn(bytes, "\n"), bytes);
    free(bytes);
}

static void read_certificate(examination *e) {
    char certificate[LH_STATE_PATH_BYTES + 32], key[LH_STATE_PATH_BYTES + 32],
        trust[LH_STATE_PATH_BYTES + 32];
    lh_tls_credentials *credentials;
    snprintf(certificate, sizeof certificate, "%s/certificate.pem", e->current);
    snprintf(key, sizeof key, "%s/key.pem", e->current);
    snprintf(trust, sizeof trust, "%s/trust.pem", e->current);
    const lh_tls_options files = {
        .certificate_file = certificate, .key_file = key, .ca_file = trust, .own = LH_TLS_WORKER};
    if (lh_tls_credentials_create(&files, &credentials, &e->problem) != LH_OK)
        return;
    lh_tls_credentials_note(credentials, &e->facts);
    lh_tls_credentials_destroy(credentials);
}

/* Where this machine has joined: beside a worker that runs, so nothing is locked. */
static void read_membership(examination *e) {
    char folder[LH_STATE_PATH_BYTES];
    lh_error none;
    if (lh_state_folder_choose(e->settings->state_dir, "worker", folder, &none) != LH_OK ||
        !lh_membership_store_is_joined(folder) ||
        lh_state_folder_path(folder, "current", e->current, &none) != LH_OK)
        return;
    if (!e->gateway[0])
        read_gateway(e);
    read_certificate(e);
}

/* In a child, for there is no way back. Its status: two bits. */
static int enter_sandbox(void) {
    lh_sandbox_rules rules = {0};
    lh_log_set_level(LH_LOG_ERROR);
    lh_status status = lh_sandbox_enter(&rules, "worker", NULL);
    return status == LH_OK ? rules.has_seccomp + 2 * rules.has_landlock : 0;
}

static void try_sandbox(examination *e) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(enter_sandbox());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return;
    lh_host_facts_set(&e->facts, LH_HOST_SECCOMP, WEXITSTATUS(status) & 1);
    lh_host_facts_set(&e->facts, LH_HOST_LANDLOCK, WEXITSTATUS(status) >> 1 & 1);
}

static void look(examination *e) {
    const char *given = e->settings->cache_dir;
    char own[LH_CACHE_DIR_BYTES];
    snprintf(e->gateway, sizeof e->gateway, "%s", e->settings->gateway);
    lh_host_facts_read(&e->facts, "/proc", "/sys/fs/cgroup");
    if (lh_host_facts_know(&e->facts, LH_HOST_SLOW_START_AFTER_IDLE))
        lh_host_facts_set(&e->facts, LH_HOST_SLOW_START_AFTER_IDLE,
                          lh_congestion_control_will_decay(e->settings->congestion_control));
    if (given[0] || lh_default_cache_dir(own, NULL) == LH_OK)
        lh_host_facts_read_disk(&e->facts, given[0] ? given : own);
    read_membership(e);
    try_sandbox(e);
}

/* ---- The checks ---- */

static void check_membership(const examination *e, lh_findings *f) {
    if (e->problem.status != LH_OK)
        lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, "", "%s", e->problem.message),
                          "mend what that names, as the worker's user; or let the machine join "
                          "again: longhaul-worker join");
    else if (e->current[0])
        lh_findings_add(f, LH_VERDICT_FINE, "", "this machine has joined: %s", e->current);
    else
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "",
                        "this machine has not joined: the line of `longhaul-gateway token` lets "
                        "it, or certificates of your own");
}

static void check_gateway(const examination *e, lh_findings *f) {
    const char *host = strstr(e->gateway, "://");
    char text[LH_MEMBERSHIP_URL_BYTES], reached[LH_ADDRESS_TEXT_BYTES];
    lh_address address;
    lh_error error;
    if (!e->gateway[0]) {
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "nobody has said where: give --gateway");
        return;
    }
    snprintf(text, sizeof text, "%s", host ? host + 3 : e->gateway);
    text[strcspn(text, "/")] = '\0';
    lh_status status = lh_address_parse(text, &address, &error);
    if (status == LH_OK)
        status = lh_reach_try(&address, REACH_TIMEOUT_MS, reached, &error);
    if (status == LH_OK)
        lh_findings_add(f, LH_VERDICT_FINE, "", "%s takes connections", reached);
    else
        lh_finding_advise(
            lh_findings_add(f, LH_VERDICT_TO_DO, "", "%.200s: %.100s", e->gateway, error.message),
            "see whether the gateway runs, listens there (--fleet-listen; 7100 by default), and no "
            "firewall is between");
}

/* What sets the clock in a container or a virtual machine is often its host. */
static void check_clock(const examination *e, lh_findings *f) {
    struct timex none = {0};
    (void)e;
    if (adjtimex(&none) == TIME_ERROR)
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "",
                        "the kernel knows of nobody who sets it (chrony, systemd-timesyncd); "
                        "longhaul-gateway doctor compares clocks");
    else
        lh_findings_add(f, LH_VERDICT_FINE, "", "set by the network");
}

static void check_instructions(const examination *e, lh_findings *f) {
    const lh_kernels *kernels;
    lh_error error;
    if (lh_kernels_select(e->settings->isa, &kernels, &error) != LH_OK)
        lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, "", "%s", error.message),
                          "leave --isa out: then the best is taken that the machine has");
    else if (strcmp(kernels->name, "reference") == 0)
        lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, "", "plain C, without vectors"),
                          "take a machine with AVX2 or 64-bit Arm, or leave --isa out; in a "
                          "virtual machine let it see the host's processor");
    else
        lh_findings_add(f, LH_VERDICT_FINE, "", "%s", kernels->name);
}

static void check_machine(const examination *e, lh_findings *f) {
    const doctor_settings *s = e->settings;
    int64_t weights = s->memory_bytes ? s->memory_bytes : lh_default_memory_bytes(s->kv_bytes);
    const lh_machine machine = {.name = "",
                                .facts = e->facts,
                                .may_take_bytes = weights + s->kv_bytes,
                                .sends_bytes = LINK_BYTES,
                                .receives_bytes = LINK_BYTES,
                                .round_trip_us = LINK_ROUND_TRIP_US,
                                .open_files_needed = OPEN_FILES,
                                .disk_flag = "--cache-dir",
                                .own_renewal = "the worker renews it while it runs and reaches the "
                                               "gateway; ended, it has to join again",
                                .now_s = time(NULL)};
    lh_machine_checks_run(&machine, 1, f);
}

static void examine(const doctor_settings *settings, lh_findings *findings) {
    static const struct {
        const char *name;
        void (*look)(const examination *e, lh_findings *findings);
    } checks[] = {{"membership", check_membership},
                  {"gateway", check_gateway},
                  {"clock", check_clock},
                  {"instructions", check_instructions},
                  {"machine", check_machine}};
    examination e = {.settings = settings};
    look(&e);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        lh_findings_begin(findings, checks[i].name);
        checks[i].look(&e, findings);
    }
}

/* ---- The command ---- */

int lh_worker_doctor_command(int argc, char **argv) {
    doctor_settings settings;
    lh_findings findings = {0};
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_worker_doctor_command_options, argc - 1, argv + 1, &settings,
                               &code))
        return code;
    examine(&settings, &findings);
    lh_status status = lh_findings_print(&findings, settings.json, &error);
    size_t to_do = lh_findings_count(&findings, LH_VERDICT_TO_DO);
    lh_findings_reset(&findings);
    code = lh_command_finish(&lh_worker_doctor_command_options, status, &error);
    return status == LH_OK ? to_do > 0 : code;
}
