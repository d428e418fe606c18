/* Changes of the records by an operator, each under the folder's lock, and the files that follow
 * from them. */
#include "gateway/membership/membership.h"

#include "common/base/random_id.h"
#include "common/base/state_folder.h"
#include "gateway/membership/authority_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_membership {
    lh_issuer issuer;
    lh_upkeep upkeep;
    char trust_path[LH_STATE_PATH_BYTES], own_path[LH_STATE_PATH_BYTES];
};

/* ---- Opening ---- */

/* Does what a program that was killed had still to do with the CAs' files. */
static void tidy(const lh_records_change *change) {
    const lh_authority_list *list = &change->records.authorities;
    lh_authority_files_remove_others(change->folder, list);
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].state == LH_AUTHORITY_LEAVING)
            lh_authority_files_drop_key(change->folder, list->entries[i].id);
}

static lh_status found_fleet(lh_records_change *change, int64_t now_s, lh_error *error) {
    char id[LH_AUTHORITY_ID_BYTES];
    lh_status status = lh_authority_files_make(change->folder, now_s, id, error);
    if (status == LH_OK)
        lh_authority_list_begin(&change->records.authorities, id, now_s);
    return status;
}

/* Ends the change. */
static lh_status found_where_none_is(lh_records_change *change, int64_t now_s, lh_error *error) {
    lh_status status = LH_OK;
    bool is_new = change->records.authorities.count == 0;
    if (is_new)
        status = found_fleet(change, now_s, error);
    if (is_new && status == LH_OK)
        return lh_records_commit(change, error);
    if (!is_new)
        tidy(change);
    lh_records_abandon(change);
    return status;
}

static lh_status create(const lh_membership_options *options, lh_membership **out,
                        lh_error *error) {
    lh_membership *m = calloc(1, sizeof *m);
    if (!m)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet's records");
    lh_issuer_init(&m->issuer, options->folder, options->certificate_life_s, options->hosts,
                   options->host_count);
    m->upkeep.issuer = &m->issuer;
    lh_status status = lh_state_folder_path(options->folder, LH_TRUST_FILE, m->trust_path, error);
    if (status == LH_OK)
        status = lh_state_folder_path(options->folder, LH_OWN_CERTIFICATE_FILE, m->own_path, error);
    if (status == LH_OK)
        *out = m;
    else
        free(m);
    return status;
}

lh_status lh_membership_open(const lh_membership_options *options, int64_t now_s,
                             lh_membership **out, lh_error *error) {
    lh_records_change change;
    lh_status status = lh_state_folder_make(options->folder, error);
    if (status == LH_OK)
        status = lh_records_begin(options->folder, &change, error);
    if (status == LH_OK)
        status = found_where_none_is(&change, now_s, error);
    return status == LH_OK ? create(options, out, error) : status;
}

lh_status lh_membership_open_existing(const lh_membership_options *options, lh_membership **out,
                                      lh_error *error) {
    lh_records records;
    lh_status status = lh_records_read_existing(options->folder, &records, error);
    if (status != LH_OK)
        return status;
    lh_records_reset(&records);
    return create(options, out, error);
}

void lh_membership_close(lh_membership *membership) {
    free(membership);
}

lh_tls_options lh_membership_tls(const lh_membership *membership) {
    return (lh_tls_options){.certificate_file = membership->own_path,
                            .key_file = membership->own_path,
                            .ca_file = membership->trust_path};
}

lh_status lh_membership_note_listen(lh_membership *membership, const char *fleet_listen,
                                    lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(membership->issuer.folder, &change, error);
    if (status != LH_OK)
        return status;
    snprintf(change.records.fleet_listen, sizeof change.records.fleet_listen, "%s", fleet_listen);
    return lh_records_commit(&change, error);
}

const lh_issuer *lh_membership_issuer(const lh_membership *membership) {
    return &membership->issuer;
}

lh_upkeep *lh_membership_upkeep(lh_membership *membership) {
    return &membership->upkeep;
}

/* ---- What an operator does ---- */

static void make_secret(lh_join_token *token) {
    uint64_t parts[LH_JOIN_SECRET_BYTES / sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        parts[i] = lh_random_u64();
    memcpy(token->secret, parts, sizeof token->secret);
    explicit_bzero(parts, sizeof parts);
    snprintf(token->id, sizeof token->id, "%016" PRIx64, lh_random_u64());
}

/* The pin is that of the CA that signs. */
static lh_status make_token(const lh_membership *m, const lh_records *records, lh_join_token *token,
                            lh_error *error) {
    lh_certificate_authority *authority;
    const char *id = lh_authority_list_signing(&records->authorities)->id;
    lh_status status = lh_authority_files_load(m->issuer.folder, id, &authority, error);
    if (status != LH_OK)
        return status;
    make_secret(token);
    memcpy(token->pin, lh_certificate_authority_pin(authority), sizeof token->pin);
    lh_certificate_authority_destroy(authority);
    return LH_OK;
}

static lh_status add_invitation(lh_records *records, const lh_invitation_terms *terms,
                                const lh_join_token *token, int64_t now_s, lh_error *error) {
    lh_invitation invitation = {
        .uses_max = terms->uses_max, .made_s = now_s, .expires_s = now_s + terms->life_s};
    snprintf(invitation.id, sizeof invitation.id, "%s", token->id);
    snprintf(invitation.site, sizeof invitation.site, "%s", terms->site);
    snprintf(invitation.name, sizeof invitation.name, "%s", terms->name);
    if (lh_sha256_digest(token->secret, sizeof token->secret, invitation.secret_sha256) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a token");
    return lh_records_add_invitation(records, &invitation, error);
}

lh_status lh_membership_invite(lh_membership *membership, const lh_invitation_terms *terms,
                               int64_t now_s, lh_join_token *token, lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(membership->issuer.folder, &change, error);
    if (status != LH_OK)
        return status;
    lh_records_prune(&change.records, now_s);
    status = make_token(membership, &change.records, token, error);
    if (status == LH_OK)
        status = add_invitation(&change.records, terms, token, now_s, error);
    if (status == LH_OK)
        return lh_records_commit(&change, error);
    lh_records_abandon(&change);
    return status;
}

lh_status lh_membership_revoke_token(lh_membership *membership, const char *id, lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(membership->issuer.folder, &change, error);
    if (status != LH_OK)
        return status;
    lh_invitation *invitation = lh_records_find_invitation(&change.records, id);
    if (!invitation) {
        lh_records_abandon(&change);
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "there is no token %.32s: longhaul-gateway tokens lists them by their ids",
                       id);
    }
    invitation->is_revoked = true;
    return lh_records_commit(&change, error);
}

lh_status lh_membership_revoke_worker(lh_membership *membership, const char *name, int64_t now_s,
                                      lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(membership->issuer.folder, &change, error);
    if (status != LH_OK)
        return status;
    if (lh_member_list_revoke(&change.records.members, name, now_s) == 0) {
        lh_records_abandon(&change);
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "no worker %.63s has a certificate that is good: longhaul-gateway members "
                       "lists those that have",
                       name);
    }
    for (size_t i = 0; i < change.records.invitation_count; i++)
        if (lh_invitation_was_used_by(&change.records.invitations[i], name))
            change.records.invitations[i].is_revoked = true;
    return lh_records_commit(&change, error);
}

lh_status lh_membership_rotate(lh_membership *membership, int64_t now_s, int64_t overlap_s,
                               char id[LH_AUTHORITY_ID_BYTES], lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(membership->issuer.folder, &change, error);
    if (status != LH_OK)
        return status;
    status = lh_authority_files_make(membership->issuer.folder, now_s, id, error);
    if (status == LH_OK)
        status = lh_authority_list_add_next(&change.records.authorities, id, now_s,
                                            now_s + overlap_s, error);
    if (status == LH_OK)
        return lh_records_commit(&change, error);
    lh_authority_files_remove(membership->issuer.folder, id);
    lh_records_abandon(&change);
    return status;
}
