/* Members, CAs and tokens as lists. */
#include "gateway/cli/records_list_json.h"

#include "common/json/json_text.h"
#include "gateway/cli/record_states.h"
#include "gateway/cli/table.h"

#include <string.h>

static json_t *text_or_null(const char *text) {
    return text[0] ? lh_json_text(text, strlen(text)) : json_null();
}

static json_t *time_or_null(int64_t unix_s) {
    char text[LH_TABLE_TIME_BYTES];
    if (!unix_s)
        return json_null();
    lh_table_time(unix_s, text);
    return json_string(text);
}

static lh_status finish(json_t *object, lh_text_buffer *out) {
    lh_status status = lh_json_render(object, out);
    return status == LH_OK ? lh_text_buffer_append(out, "\n", 1, NULL) : status;
}

static json_t *render_member(const lh_member *member, int64_t now_s) {
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:o}", "name", member->name, "site", member->site,
                     "state", lh_member_state(member, now_s), "ends",
                     time_or_null(member->expires_s), "authority", member->authority, "seen_at",
                     text_or_null(member->observed));
}

static json_t *render_authority(const lh_authority_entry *entry) {
    return json_pack("{s:s, s:s, s:o, s:o}", "id", entry->id, "state",
                     lh_authority_state_name(entry->state), "since", time_or_null(entry->since_s),
                     "signs_from", time_or_null(entry->until_s));
}

lh_status lh_records_list_members(const lh_records *records, int64_t now_s, lh_text_buffer *out) {
    json_t *members = json_array(), *authorities = json_array();
    for (size_t i = 0; i < records->members.count; i++) {
        const lh_member *member = &records->members.members[i];
        if (lh_member_list_find(&records->members, member->name) == member)
            members = lh_json_append(members, render_member(member, now_s));
    }
    for (size_t i = 0; i < records->authorities.count; i++)
        authorities =
            lh_json_append(authorities, render_authority(&records->authorities.entries[i]));
    return finish(json_pack("{s:o, s:o}", "members", members, "authorities", authorities), out);
}

static json_t *render_token(const lh_invitation *invitation, int64_t now_s) {
    json_t *joined = json_array();
    for (size_t i = 0; i < invitation->use_count; i++)
        joined = lh_json_append(joined, json_string(invitation->uses[i].name));
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:o}", "id", invitation->id, "state",
                     lh_invitation_state(invitation, now_s), "site", invitation->site, "name",
                     text_or_null(invitation->name), "uses_max", (json_int_t)invitation->uses_max,
                     "joined", joined, "ends", time_or_null(invitation->expires_s));
}

lh_status lh_records_list_tokens(const lh_records *records, int64_t now_s, lh_text_buffer *out) {
    json_t *tokens = json_array();
    for (size_t i = 0; i < records->invitation_count; i++)
        tokens = lh_json_append(tokens, render_token(&records->invitations[i], now_s));
    return finish(json_pack("{s:o}", "tokens", tokens), out);
}
