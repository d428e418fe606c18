/* Flags, one change of the fleet's records, one line. */
#include "gateway/cli/token_command.h"

#include "common/base/commands.h"
#include "common/net/own_address.h"
#include "gateway/cli/duration.h"
#include "gateway/cli/json_option.h"
#include "gateway/cli/record_states.h"
#include "gateway/cli/records_list_json.h"
#include "gateway/cli/served_fleet.h"
#include "gateway/cli/state_option.h"
#include "gateway/cli/table.h"
#include "gateway/cli/token_files.h"
#include "gateway/membership/host_name.h"
#include "gateway/membership/membership.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TTL_S_MAX     (30 * 86400)
#define FLEET_PORT    7100 /* where the gateway has never been started */
#define ADDRESS_BYTES (LH_HOST_BYTES + 16)

typedef struct token_settings {
    const char *site, *name, *ttl, *address, *output_dir, *state_dir;
    int64_t uses;
    bool json;
} token_settings;

#define AT(field) offsetof(token_settings, field)

static const lh_option token_options[] = {
    {"site", LH_OPTION_TEXT, AT(site), NULL, "NAME", 0, 0, NULL,
     "the site of whoever joins with it: workers of one site share a fast network"},
    {"name", LH_OPTION_TEXT, AT(name), "", "NAME", 0, 0, NULL,
     "the worker's name; default: the worker says its own, which is its machine's"},
    {"ttl", LH_OPTION_TEXT, AT(ttl), "1h", "TIME", 0, 0, NULL,
     "for how long it is good: a number and s, m, h or d, 30d at most"},
    {"uses", LH_OPTION_NUMBER, AT(uses), "1", "N", 1, LH_INVITATION_USES_MAX, NULL,
     "how many machines may join with it"},
    {"address", LH_OPTION_TEXT, AT(address), "", "HOST:PORT", 0, 0, NULL,
     "where the worker reaches the gateway's fleet port; default: its host and port, or this "
     "machine's address where it listens on all"},
    {"output-dir", LH_OPTION_TEXT, AT(output_dir), "", "DIR", 0, 0, NULL,
     "no line is printed: each site of --site, here a list A,B,..., has a file of its name there "
     "with the line, for longhaul-worker --join-file; one whose token is still good for half of "
     "--ttl stays"},
    LH_OPTION_STATE_DIR(token_settings, state_dir, LH_STATE_DIR_OF_COMMANDS),
};

const lh_option_table lh_token_command_options = {
    .program = "longhaul-gateway token",
    .summary =
        "Makes a token with which a machine joins the fleet as a worker. The command to paste "
        "there goes to standard output, and is a secret until it has been used",
    .example = "longhaul-gateway token --site office --uses 3 --ttl 1d",
    .options = token_options,
    .count = sizeof token_options / sizeof token_options[0],
};

static const lh_option tokens_options[] = {
    LH_OPTION_JSON(token_settings, json),
    LH_OPTION_STATE_DIR(token_settings, state_dir, LH_STATE_DIR_OF_COMMANDS),
};

const lh_option_table lh_tokens_command_options = {
    .program = "longhaul-gateway tokens",
    .summary = "Lists the join tokens, used, ended and revoked ones of the last week included",
    .example = "longhaul-gateway tokens",
    .options = tokens_options,
    .count = sizeof tokens_options / sizeof tokens_options[0],
};

/* ---- Checking ---- */

static lh_status check_terms(const token_settings *settings, lh_invitation_terms *terms,
                             lh_error *error) {
    if (!settings->output_dir[0] && !lh_name_is_valid(settings->site))
        return lh_fail(error, LH_ERR_INVALID, "--site: a site is 1 to 63 of A-Z a-z 0-9 . _ -");
    if (settings->name[0] && !lh_name_is_valid(settings->name))
        return lh_fail(error, LH_ERR_INVALID, "--name: a name is 1 to 63 of A-Z a-z 0-9 . _ -");
    if (settings->name[0] && settings->uses > 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "--uses %lld: one machine can have the name %.63s: leave --name out, and "
                       "each says its own",
                       (long long)settings->uses, settings->name);
    *terms = (lh_invitation_terms){
        .site = settings->site, .name = settings->name, .uses_max = (uint32_t)settings->uses};
    return lh_duration_parse("--ttl", settings->ttl, 1, TTL_S_MAX, &terms->life_s, error);
}

static lh_status check_address(const char *text, lh_address *address, lh_error *error) {
    lh_error cause;
    if (lh_address_parse(text, address, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--address: %.300s", cause.message);
    if (address->port == 0 || !lh_host_name_is_valid(address->host))
        return lh_fail(error, LH_ERR_INVALID,
                       "--address %.200s: HOST:PORT is wanted, as workers "
                       "reach the fleet port",
                       text);
    return LH_OK;
}

/* ---- Where workers reach the gateway ---- */

static bool is_any(const char *host) {
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* From where the gateway listens; it may never have been started. */
static lh_status choose_address(const char *folder, lh_address *address, lh_error *error) {
    lh_records records;
    char own[LH_ADDRESS_TEXT_BYTES];
    lh_status status = lh_records_read(folder, &records, error);
    if (status != LH_OK)
        return status;
    *address = (lh_address){.host = "0.0.0.0", .port = FLEET_PORT};
    if (records.fleet_listen[0])
        status = lh_address_parse(records.fleet_listen, address, error);
    lh_records_reset(&records);
    if (status != LH_OK || !is_any(address->host))
        return status;
    if (!lh_own_address(own))
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "this machine's address is not known: give --address HOST:PORT");
    snprintf(address->host, sizeof address->host, "%s", own);
    return LH_OK;
}

static void render_address(const lh_address *address, char text[ADDRESS_BYTES]) {
    bool is_v6 = strchr(address->host, ':');
    snprintf(text, ADDRESS_BYTES, "%s%s%s:%d", is_v6 ? "[" : "", address->host, is_v6 ? "]" : "",
             address->port);
}

/* ---- token ---- */

static lh_status print_token(const lh_join_token *token, const lh_address *address,
                             const token_settings *settings, lh_error *error) {
    char text[LH_JOIN_TOKEN_TEXT_BYTES], where[ADDRESS_BYTES];
    lh_join_token_render(token, text);
    render_address(address, where);
    bool is_printed =
        printf("longhaul-worker join https://%s %s\n", where, text) > 0 && fflush(stdout) == 0;
    explicit_bzero(text, sizeof text);
    if (!is_printed)
        return lh_fail(error, LH_ERR_IO, "the line could not be written");
    fprintf(stderr,
            "Paste that line on the new worker's machine; where it has the Debian package, behind\n"
            "`sudo longhaul-worker-service`, which makes it a service. It is good for %s and %lld "
            "machine%s of "
            "site %s,\nwhich must reach the gateway at %s%s.\n",
            settings->ttl, (long long)settings->uses, settings->uses == 1 ? "" : "s",
            settings->site, where, settings->address[0] ? "" : " (else give --address)");
    if (lh_address_is_loopback(address))
        fprintf(stderr, "Only this machine reaches it there: start the gateway with --fleet-listen "
                        "0.0.0.0:7100 for others.\n");
    return LH_OK;
}

/* A line is pasted at once, so somebody has to be there for it; files are for containers, which may
 * start before their gateway. */
static lh_status check_served(const char *folder, lh_error *error) {
    lh_status status = lh_served_fleet_check(folder, error);
    if (status != LH_ERR_UNAVAILABLE)
        return status;
    fprintf(stderr, "The gateway does not run now (%s): start it before the line is pasted.\n",
            error->message);
    return LH_OK;
}

static lh_status make_line(const token_settings *settings, const lh_address *address,
                           lh_membership *membership, const lh_invitation_terms *terms,
                           int64_t now_s, lh_error *error) {
    lh_join_token token;
    lh_status status = lh_membership_invite(membership, terms, now_s, &token, error);
    if (status == LH_OK)
        status = print_token(&token, address, settings, error);
    explicit_bzero(&token, sizeof token);
    return status;
}

static lh_status make_token(const token_settings *settings, lh_error *error) {
    lh_invitation_terms terms;
    lh_membership *membership;
    lh_address address = {.port = 0};
    char folder[LH_STATE_PATH_BYTES];
    int64_t now_s = time(NULL);
    bool is_line = !settings->output_dir[0];
    lh_status status = lh_state_option_folder(settings->state_dir, folder, error);
    if (status == LH_OK)
        status = check_terms(settings, &terms, error);
    if (status == LH_OK && is_line)
        status = check_served(folder, error);
    if (status == LH_OK)
        status = settings->address[0] ? check_address(settings->address, &address, error)
                                      : choose_address(folder, &address, error);
    if (status != LH_OK)
        return status;
    const lh_membership_options options = {.folder = folder};
    status = lh_membership_open(&options, now_s, &membership, error);
    if (status != LH_OK)
        return status;
    char where[ADDRESS_BYTES];
    render_address(&address, where);
    status = is_line ? make_line(settings, &address, membership, &terms, now_s, error)
                     : lh_token_files_keep(settings->output_dir, where, folder, membership, &terms,
                                           now_s, error);
    lh_membership_close(membership);
    return status;
}

int lh_token_command(int argc, char **argv) {
    token_settings settings;
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_token_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    lh_status status = make_token(&settings, &error);
    code = lh_command_finish(&lh_token_command_options, status, &error);
    return status == LH_ERR_INVALID ? 2 : code;
}

/* ---- tokens ---- */

static void print_invitation(const lh_invitation *invitation, int64_t now_s) {
    char expires[LH_TABLE_TIME_BYTES];
    lh_table_time(invitation->expires_s, expires);
    printf("%-16s  %-8s %-20s %-20s %zu of %-6u %s\n", invitation->id,
           lh_invitation_state(invitation, now_s), invitation->site,
           invitation->name[0] ? invitation->name : "any", invitation->use_count,
           invitation->uses_max, expires);
    for (size_t i = 0; i < invitation->use_count; i++)
        printf("%-16s  joined: %s\n", "", invitation->uses[i].name);
}

static lh_status print_json(const lh_records *records, lh_error *error) {
    lh_text_buffer out = {0};
    return lh_table_print_rendered(lh_records_list_tokens(records, time(NULL), &out), &out, error);
}

static lh_status print_tokens(const lh_records *records, lh_error *error) {
    printf("%-16s  %-8s %-20s %-20s %-11s %s\n", "ID", "STATE", "SITE", "NAME", "USED", "ENDS");
    for (size_t i = 0; i < records->invitation_count; i++)
        print_invitation(&records->invitations[i], time(NULL));
    return fflush(stdout) == 0 ? LH_OK : lh_fail(error, LH_ERR_IO, "the list could not be written");
}

static lh_status list_tokens(const token_settings *settings, lh_error *error) {
    lh_records records;
    char folder[LH_STATE_PATH_BYTES];
    lh_status status = lh_state_option_folder(settings->state_dir, folder, error);
    if (status == LH_OK)
        status = lh_records_read_existing(folder, &records, error);
    if (status != LH_OK)
        return status;
    status = settings->json ? print_json(&records, error) : print_tokens(&records, error);
    lh_records_reset(&records);
    return status;
}

int lh_tokens_command(int argc, char **argv) {
    token_settings settings;
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_tokens_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    return lh_command_finish(&lh_tokens_command_options, list_tokens(&settings, &error), &error);
}
