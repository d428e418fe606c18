/* One GET /health over the worker's own certificate: whoever answers that has its loop going. */
#include "worker/check_command.h"

#include "common/base/commands.h"
#include "common/base/state_folder.h"
#include "common/net/address.h"
#include "common/net/program_options.h"
#include "worker/membership/exchange.h"
#include "worker/membership/membership_store.h"
#include "worker/worker_settings.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES_MAX = 4096, TIMEOUT_MS = 5000, ADDRESS_BYTES = LH_ADDRESS_BYTES + 8 };

typedef struct check_settings {
    const char *listen, *listen_tls, *state_dir;
    int64_t state_slots;
    lh_program_options program; /* the TLS files alone */
} check_settings;

#define AT(field) offsetof(check_settings, field)

static const lh_option options[] = {
    {"listen-tls", LH_OPTION_TEXT, AT(listen_tls), "", "HOST:PORT", 0, 0, NULL,
     "where the worker takes steps over TLS; default of one that has joined: port 7101"},
    {"listen", LH_OPTION_TEXT, AT(listen), "", "HOST:PORT", 0, 0, NULL,
     "where it takes steps without encryption, which is asked where there is no TLS; default: "
     "127.0.0.1:7101"},
    {"state-dir", LH_OPTION_TEXT, AT(state_dir), "", "DIR", 0, 0, NULL,
     "the worker's state folder, with the certificate that it got as it joined; default: as the "
     "worker's"},
    {"state-slots", LH_OPTION_NUMBER, AT(state_slots), "0", "N", 0, LH_STATE_SLOTS_MAX, NULL,
     "how many workers share that folder"},
    LH_OPTION_TLS_CERT(check_settings, program, "PEM certificate of the worker"),
    LH_OPTION_TLS_KEY(check_settings, program),
    LH_OPTION_TLS_CA(check_settings, program),
};

const lh_option_table lh_check_command_options = {
    .program = "longhaul-worker check",
    .summary = "asks the worker of this machine whether it is there: status 0 if it answers, 1 if "
               "not. Its flags are those of the worker that say where it listens and who it is",
    .example = "longhaul-worker check --listen 127.0.0.1:7101",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* ---- Where ---- */

/* Of all addresses, this machine's own. */
static lh_status choose_address(const char *listen, char address[ADDRESS_BYTES], lh_error *error) {
    lh_address parsed;
    lh_status status = lh_address_parse(listen, &parsed, error);
    if (status != LH_OK)
        return status;
    const char *host = parsed.host;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0)
        host = "127.0.0.1";
    if (strcmp(host, "::") == 0)
        host = "::1";
    bool is_v6 = strchr(host, ':');
    snprintf(address, ADDRESS_BYTES, "%s%s%s:%d", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             parsed.port);
    return parsed.port ? LH_OK
                       : lh_fail(error, LH_ERR_INVALID,
                                 "%.120s: port 0 is whichever was free: give the one that the "
                                 "worker's log tells",
                                 listen);
}

/* ---- Asking ---- */

static lh_status ask(const char *listen, const lh_tls_options *tls, lh_error *error) {
    char address[ADDRESS_BYTES];
    lh_exchange_answer answer;
    const lh_exchange_request request = {.method = "GET",
                                         .path = "/health",
                                         .answer_bytes_max = ANSWER_BYTES_MAX,
                                         .timeout_ms = TIMEOUT_MS};
    lh_error cause;
    lh_status status = choose_address(listen, address, error);
    if (status != LH_OK)
        return status;
    status = lh_exchange(address, tls, &request, &answer, &cause);
    if (status != LH_OK)
        return lh_fail(error, status, "%.120s: %.200s", address, cause.message);
    if (answer.http_status == 200)
        printf("%s\n", answer.body);
    else
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "%.120s: HTTP %d: %.200s", address,
                         answer.http_status, answer.body);
    free(answer.body);
    return status;
}

/* The one whose certificate that is: its identity is its peer's, too. */
static lh_status ask_by_tls(check_settings *settings, lh_error *error) {
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%d", LH_WORKER_MEMBER_PORT);
    lh_status status = lh_program_options_open_tls(&settings->program, LH_TLS_WORKER, error);
    if (status != LH_OK)
        return status;
    lh_tls_options tls = settings->program.tls;
    tls.expected = lh_tls_credentials_identity(tls.credentials);
    status = ask(settings->listen_tls[0] ? settings->listen_tls : listen, &tls, error);
    lh_program_options_close_tls(&settings->program);
    return status;
}

static lh_status ask_member(check_settings *settings, const char *folder, lh_error *error) {
    lh_membership_files files;
    lh_membership_files_of(folder, &files);
    settings->program.tls.certificate_file = files.certificate;
    settings->program.tls.key_file = files.key;
    settings->program.tls.ca_file = files.trust;
    return ask_by_tls(settings, error);
}

/* Of the workers that share a folder, the one that is here. */
static lh_status ask_any_member(check_settings *settings, const char *folder, lh_error *error) {
    lh_status status = LH_ERR_NOT_FOUND;
    for (uint32_t slot = 1; slot <= (uint32_t)settings->state_slots && status != LH_OK; slot++) {
        char number[16], path[LH_STATE_PATH_BYTES];
        snprintf(number, sizeof number, "%u", slot);
        if (lh_state_folder_path(folder, number, path, NULL) == LH_OK &&
            lh_membership_store_is_joined(path) && lh_membership_store_was_used_here(path))
            status = ask_member(settings, path, error);
    }
    return status == LH_ERR_NOT_FOUND
               ? lh_fail(error, status, "no worker has joined in %.200s yet", folder)
               : status;
}

static lh_status check(check_settings *settings, lh_error *error) {
    char folder[LH_STATE_PATH_BYTES];
    if (lh_program_options_have_tls(&settings->program) && settings->listen_tls[0])
        return ask_by_tls(settings, error);
    bool is_named = settings->state_dir[0] || settings->listen_tls[0];
    bool has_folder = lh_state_folder_choose(settings->state_dir, "worker", folder, NULL) == LH_OK;
    if (has_folder && settings->state_slots > 0)
        return ask_any_member(settings, folder, error);
    if (has_folder && lh_membership_store_is_joined(folder))
        return ask_member(settings, folder, error);
    if (is_named)
        return lh_fail(error, LH_ERR_NOT_FOUND, "no worker has joined in %.200s yet",
                       has_folder ? folder : "a state folder");
    return ask(settings->listen[0] ? settings->listen : "127.0.0.1:7101", NULL, error);
}

int lh_check_command(int argc, char **argv) {
    check_settings settings = {0};
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_check_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    signal(SIGPIPE, SIG_IGN);
    return lh_command_finish(&lh_check_command_options, check(&settings, &error), &error);
}
