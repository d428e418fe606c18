/* Flags, and one look at the fleet's records or one change of them. */
#include "gateway/cli/member_command.h"

#include "common/base/commands.h"
#include "gateway/cli/duration.h"
#include "gateway/cli/json_option.h"
#include "gateway/cli/record_states.h"
#include "gateway/cli/records_list_json.h"
#include "gateway/cli/state_option.h"
#include "gateway/cli/table.h"
#include "gateway/membership/membership.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#define OVERLAP_S_MAX (365 * 86400)

typedef struct member_settings {
    const char *state_dir, *overlap;
    bool json;
} member_settings;

#define AT(field) offsetof(member_settings, field)

static const lh_option state_options[] = {
    LH_OPTION_STATE_DIR(member_settings, state_dir, LH_STATE_DIR_OF_COMMANDS),
};

static const lh_option members_options[] = {
    LH_OPTION_JSON(member_settings, json),
    LH_OPTION_STATE_DIR(member_settings, state_dir, LH_STATE_DIR_OF_COMMANDS),
};

static const lh_option rotate_options[] = {
    {"overlap", LH_OPTION_TEXT, AT(overlap), "7d", "TIME", 0, 0, NULL,
     "for how long to wait at most until every worker with a certificate believes the new CA: a "
     "number and s, m, h or d. A worker that was off for all of that time has to join again"},
    LH_OPTION_STATE_DIR(member_settings, state_dir, LH_STATE_DIR_OF_COMMANDS),
};

const lh_option_table lh_members_command_options = {
    .program = "longhaul-gateway members",
    .summary = "Lists the workers that have a certificate, and the CAs that the fleet believes",
    .example = "longhaul-gateway members",
    .options = members_options,
    .count = sizeof members_options / sizeof members_options[0],
};

const lh_option_table lh_revoke_command_options = {
    .program = "longhaul-gateway revoke",
    .arguments = "worker NAME | token ID",
    .summary = "worker NAME: ends all certificates of that worker; the running gateway closes its "
               "connections within a second. token ID: ends a join token",
    .example = "longhaul-gateway revoke worker office-1",
    .options = state_options,
    .count = sizeof state_options / sizeof state_options[0],
};

const lh_option_table lh_rotate_command_options = {
    .program = "longhaul-gateway rotate-ca",
    .summary =
        "Has another CA follow the fleet's: it signs as soon as all workers believe it, and "
        "the one before goes when nobody has a certificate of it any more. The gateway has to "
        "run for that",
    .example = "longhaul-gateway rotate-ca --overlap 7d",
    .options = rotate_options,
    .count = sizeof rotate_options / sizeof rotate_options[0],
};

/* ---- What all of them do ---- */

typedef lh_status action_of(const member_settings *settings, const char *folder, char **words,
                            lh_error *error);

static lh_status run_in_folder(action_of *act, const member_settings *settings, char **words,
                               lh_error *error) {
    char folder[LH_STATE_PATH_BYTES];
    lh_status status = lh_state_option_folder(settings->state_dir, folder, error);
    if (status == LH_OK)
        status = act(settings, folder, words, error);
    if (status == LH_OK && fflush(stdout) != 0)
        status = lh_fail(error, LH_ERR_IO, "the answer could not be written");
    return status;
}

/* `words`: those between the command and its flags. */
static int run_command(const lh_option_table *table, int argc, char **argv, int word_count,
                       action_of *act) {
    member_settings settings = {0};
    lh_error error;
    int code;
    if (!lh_command_take_flags(table, argc - 1 - word_count, argv + 1 + word_count, &settings,
                               &code))
        return code;
    return lh_command_finish(table, run_in_folder(act, &settings, argv + 2, &error), &error);
}

static lh_status open_fleet(const char *folder, lh_membership **membership, lh_error *error) {
    const lh_membership_options options = {.folder = folder};
    return lh_membership_open_existing(&options, membership, error);
}

/* ---- members ---- */

static void print_member(const lh_member *member, int64_t now_s) {
    char expires[LH_TABLE_TIME_BYTES];
    lh_table_time(member->expires_s, expires);
    printf("%-24s %-16s %-8s %-21s %-16s %s\n", member->name, member->site,
           lh_member_state(member, now_s), expires, member->authority, member->observed);
}

static void print_authority(const lh_authority_entry *entry) {
    char since[LH_TABLE_TIME_BYTES], until[LH_TABLE_TIME_BYTES];
    lh_table_time(entry->since_s, since);
    lh_table_time(entry->until_s, until);
    printf("CA %s: %s since %s%s%s\n", entry->id, lh_authority_state_name(entry->state), since,
           entry->until_s ? ", signs at the latest from " : "", entry->until_s ? until : "");
}

static lh_status print_json(const lh_records *records, lh_error *error) {
    lh_text_buffer out = {0};
    return lh_table_print_rendered(lh_records_list_members(records, time(NULL), &out), &out, error);
}

/* Of each name the youngest certificate. */
static void print_members(const lh_records *records) {
    printf("%-24s %-16s %-8s %-21s %-16s %s\n", "NAME", "SITE", "STATE", "ENDS", "CA", "SEEN AT");
    for (size_t i = 0; i < records->members.count; i++) {
        const lh_member *member = &records->members.members[i];
        if (lh_member_list_find(&records->members, member->name) == member)
            print_member(member, time(NULL));
    }
    for (size_t i = 0; i < records->authorities.count; i++)
        print_authority(&records->authorities.entries[i]);
}

static lh_status list_members(const member_settings *settings, const char *folder, char **words,
                              lh_error *error) {
    lh_records records;
    (void)words;
    lh_status status = lh_records_read_existing(folder, &records, error);
    if (status != LH_OK)
        return status;
    if (settings->json)
        status = print_json(&records, error);
    else
        print_members(&records);
    lh_records_reset(&records);
    return status;
}

int lh_members_command(int argc, char **argv) {
    return run_command(&lh_members_command_options, argc, argv, 0, list_members);
}

/* ---- revoke ---- */

static lh_status revoke(const member_settings *settings, const char *folder, char **words,
                        lh_error *error) {
    lh_membership *membership;
    (void)settings;
    bool is_worker = strcmp(words[0], "worker") == 0;
    lh_status status = open_fleet(folder, &membership, error);
    if (status != LH_OK)
        return status;
    status = is_worker ? lh_membership_revoke_worker(membership, words[1], time(NULL), error)
                       : lh_membership_revoke_token(membership, words[1], error);
    lh_membership_close(membership);
    if (status == LH_OK && is_worker)
        fprintf(stderr,
                "The certificates of worker %s are revoked, and the token with which it "
                "joined. With another token the name may join again.\n",
                words[1]);
    else if (status == LH_OK)
        fprintf(stderr, "The token %s is revoked.\n", words[1]);
    return status;
}

static bool has_words(int argc, char **argv) {
    return argc > 3 && (strcmp(argv[2], "worker") == 0 || strcmp(argv[2], "token") == 0) &&
           strncmp(argv[3], "--", 2) != 0;
}

int lh_revoke_command(int argc, char **argv) {
    if (has_words(argc, argv))
        return run_command(&lh_revoke_command_options, argc, argv, 2, revoke);
    member_settings settings;
    lh_option_action action = LH_OPTIONS_RUN;
    lh_error error;
    if (lh_options_parse(&lh_revoke_command_options, argc - 1, argv + 1, &settings, stdout, &action,
                         &error) == LH_OK &&
        action == LH_OPTIONS_EXIT)
        return 0;
    fprintf(stderr, "longhaul-gateway revoke: what? Say longhaul-gateway revoke worker NAME, or "
                    "longhaul-gateway revoke token ID\n");
    return 2;
}

/* ---- rotate-ca ---- */

static lh_status rotate(const member_settings *settings, const char *folder, char **words,
                        lh_error *error) {
    lh_membership *membership;
    int64_t overlap_s;
    char id[LH_AUTHORITY_ID_BYTES];
    (void)words;
    lh_status status =
        lh_duration_parse("--overlap", settings->overlap, 1, OVERLAP_S_MAX, &overlap_s, error);
    if (status == LH_OK)
        status = open_fleet(folder, &membership, error);
    if (status != LH_OK)
        return status;
    status = lh_membership_rotate(membership, time(NULL), overlap_s, id, error);
    lh_membership_close(membership);
    if (status == LH_OK)
        fprintf(stderr,
                "The CA %s follows: it signs when all workers believe it, at the latest in "
                "%s. Join tokens that were made before are no good from then on.\n",
                id, settings->overlap);
    return status;
}

int lh_rotate_command(int argc, char **argv) {
    return run_command(&lh_rotate_command_options, argc, argv, 0, rotate);
}
