/* Out by json_pack, in by the reader. */
#include "gateway/membership/records_json.h"

#include "common/json/json_reader.h"
#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

#define RECORDS_VERSION 1
/* The last second of the year 9999, where certificates end. */
#define TIME_S_MAX INT64_C(253402300799)

/* ---- Out ---- */

static json_t *hash(const uint8_t digest[LH_SHA256_BYTES]) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_render(digest, hex);
    return json_string(hex);
}

static json_t *render_authorities(const lh_authority_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const lh_authority_entry *entry = &list->entries[i];
        array = lh_json_append(array, json_pack("{s:s,s:s,s:I,s:I}", "id", entry->id, "state",
                                                lh_authority_state_name(entry->state), "since",
                                                (json_int_t)entry->since_s, "until",
                                                (json_int_t)entry->until_s));
    }
    return array;
}

static json_t *render_uses(const lh_invitation *invitation) {
    json_t *array = json_array();
    for (size_t i = 0; i < invitation->use_count; i++) {
        const lh_invitation_use *use = &invitation->uses[i];
        array = lh_json_append(
            array, json_pack("{s:o,s:s}", "key_sha256", hash(use->key_sha256), "name", use->name));
    }
    return array;
}

static json_t *render_invitation(const lh_invitation *invitation) {
    return json_pack("{s:s,s:o,s:s,s:s,s:I,s:I,s:I,s:b,s:o}", "id", invitation->id, "secret_sha256",
                     hash(invitation->secret_sha256), "site", invitation->site, "name",
                     invitation->name, "uses_max", (json_int_t)invitation->uses_max, "made",
                     (json_int_t)invitation->made_s, "expires", (json_int_t)invitation->expires_s,
                     "revoked", (int)invitation->is_revoked, "uses", render_uses(invitation));
}

static json_t *render_member(const lh_member *member) {
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:I,s:I,s:s,s:b}", "name", member->name, "site",
                     member->site, "serial", member->serial, "authority", member->authority,
                     "key_sha256", hash(member->key_sha256), "issued", (json_int_t)member->issued_s,
                     "expires", (json_int_t)member->expires_s, "observed", member->observed,
                     "revoked", (int)member->is_revoked);
}

lh_status lh_records_render(const lh_records *records, lh_text_buffer *text) {
    json_t *invitations = json_array(), *members = json_array();
    for (size_t i = 0; i < records->invitation_count; i++)
        invitations = lh_json_append(invitations, render_invitation(&records->invitations[i]));
    for (size_t i = 0; i < records->members.count; i++)
        members = lh_json_append(members, render_member(&records->members.members[i]));
    return lh_json_render(json_pack("{s:i,s:s,s:o,s:o,s:o}", "version", RECORDS_VERSION,
                                    "fleet_listen", records->fleet_listen, "authorities",
                                    render_authorities(&records->authorities), "tokens",
                                    invitations, "members", members),
                          text);
}

/* ---- In ---- */

static int64_t read_time(const lh_json_reader *r, const char *field) {
    return lh_json_read_integer(r, field, 0, TIME_S_MAX);
}

static void read_hash(const lh_json_reader *r, const char *field, uint8_t digest[LH_SHA256_BYTES]) {
    const char *text = lh_json_peek_string(r, field);
    if (!text || !lh_sha256_parse(text, digest))
        lh_json_refuse(r, field, "64 lower-case hex digits");
}

/* "" where it may be empty. */
static void read_optional_name(const lh_json_reader *r, const char *field,
                               char name[LH_NAME_BYTES]) {
    const char *text = lh_json_peek_string(r, field);
    name[0] = '\0';
    if (!text || text[0])
        lh_json_read_name(r, field, name);
}

static lh_authority_state read_state(const lh_json_reader *r) {
    const char *text = lh_json_peek_string(r, "state");
    for (lh_authority_state state = LH_AUTHORITY_SIGNING; text && state <= LH_AUTHORITY_LEAVING;
         state++)
        if (strcmp(text, lh_authority_state_name(state)) == 0)
            return state;
    lh_json_refuse(r, "state", "signing, next or leaving");
    return LH_AUTHORITY_LEAVING;
}

static void read_authorities(const lh_json_reader *root, lh_authority_list *list) {
    list->count = lh_json_read_array(root, "authorities", LH_AUTHORITIES_MAX);
    for (size_t i = 0; i < list->count; i++) {
        lh_json_reader r = lh_json_element(root, "authorities", i);
        lh_authority_entry *entry = &list->entries[i];
        lh_json_read_hex(&r, "id", entry->id, sizeof entry->id - 1);
        entry->state = read_state(&r);
        entry->since_s = read_time(&r, "since");
        entry->until_s = read_time(&r, "until");
    }
    if (lh_json_is_good(root) && !lh_authority_list_is_valid(list))
        lh_json_refuse(root, "authorities", "one that signs, and then at most one that is next");
}

/* Counts beyond what it says are left out, which lh_invitation_note_use promises not to make. */
static lh_status read_uses(const lh_json_reader *r, lh_invitation *invitation) {
    size_t count = lh_json_read_array(r, "uses", invitation->uses_max);
    for (size_t i = 0; i < count && lh_json_is_good(r); i++) {
        lh_json_reader element = lh_json_element(r, "uses", i);
        uint8_t key_sha256[LH_SHA256_BYTES] = {0};
        char name[LH_NAME_BYTES];
        read_hash(&element, "key_sha256", key_sha256);
        lh_json_read_name(&element, "name", name);
        if (lh_json_is_good(r) && !lh_invitation_note_use(invitation, key_sha256, name))
            return LH_ERR_NO_MEMORY;
    }
    return LH_OK;
}

static lh_status read_invitation(const lh_json_reader *r, lh_invitation *invitation) {
    *invitation = (lh_invitation){0};
    lh_json_read_hex(r, "id", invitation->id, sizeof invitation->id - 1);
    read_hash(r, "secret_sha256", invitation->secret_sha256);
    lh_json_read_name(r, "site", invitation->site);
    read_optional_name(r, "name", invitation->name);
    invitation->uses_max = (uint32_t)lh_json_read_integer(r, "uses_max", 1, LH_INVITATION_USES_MAX);
    invitation->made_s = read_time(r, "made");
    invitation->expires_s = read_time(r, "expires");
    invitation->is_revoked = lh_json_read_bool(r, "revoked");
    return read_uses(r, invitation);
}

static lh_status read_invitations(const lh_json_reader *root, lh_records *records,
                                  lh_error *error) {
    size_t count = lh_json_read_array(root, "tokens", LH_INVITATIONS_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader r = lh_json_element(root, "tokens", i);
        lh_invitation invitation;
        lh_status status = read_invitation(&r, &invitation);
        if (status == LH_OK)
            status = lh_records_add_invitation(records, &invitation, error);
        lh_invitation_reset(&invitation);
        if (status != LH_OK)
            return lh_fail(error, status, "no memory for the fleet's records");
    }
    return LH_OK;
}

/* The digits by which it was issued. */
static void read_serial(const lh_json_reader *r, char serial[LH_SERIAL_BYTES]) {
    const char *text = lh_json_peek_string(r, "serial");
    serial[0] = '\0';
    if (text && strlen(text) == LH_SERIAL_BYTES - 1 &&
        strspn(text, "0123456789ABCDEF") == LH_SERIAL_BYTES - 1)
        memcpy(serial, text, LH_SERIAL_BYTES);
    else
        lh_json_refuse(r, "serial", "%u upper-case hex digits", LH_SERIAL_BYTES - 1);
}

static void read_member(const lh_json_reader *r, lh_member *member) {
    *member = (lh_member){0};
    lh_json_read_name(r, "name", member->name);
    lh_json_read_name(r, "site", member->site);
    read_serial(r, member->serial);
    lh_json_read_hex(r, "authority", member->authority, sizeof member->authority - 1);
    read_hash(r, "key_sha256", member->key_sha256);
    member->issued_s = read_time(r, "issued");
    member->expires_s = read_time(r, "expires");
    lh_json_read_text(r, "observed", member->observed, sizeof member->observed);
    member->is_revoked = lh_json_read_bool(r, "revoked");
}

static lh_status read_members(const lh_json_reader *root, lh_member_list *members,
                              lh_error *error) {
    size_t count = lh_json_read_array(root, "members", LH_MEMBERS_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader r = lh_json_element(root, "members", i);
        lh_member member;
        read_member(&r, &member);
        lh_status status =
            lh_json_is_good(root) ? lh_member_list_append(members, &member, error) : LH_OK;
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

lh_status lh_records_parse(const char *bytes, size_t length, lh_records *records, lh_error *error) {
    lh_json_document document = {.name = "the fleet's records", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    lh_json_read_integer(&root, "version", RECORDS_VERSION, RECORDS_VERSION);
    lh_json_read_text(&root, "fleet_listen", records->fleet_listen, sizeof records->fleet_listen);
    read_authorities(&root, &records->authorities);
    status = read_invitations(&root, records, error);
    if (status == LH_OK)
        status = read_members(&root, &records->members, error);
    lh_status read = lh_json_document_close(&document);
    return status == LH_OK ? read : status;
}
