/* A look at the folder, and what is due. */
#include "gateway/membership/upkeep.h"

#include "common/base/log.h"
#include "gateway/membership/authority_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What is due is looked for so often, where nothing on the disk has changed. */
enum { LOOK_S = 10 };

/* Whether the records are others than those that were seen last. */
static bool has_changed(const lh_upkeep *upkeep, struct stat *info) {
    char path[LH_STATE_PATH_BYTES];
    if (lh_state_folder_path(upkeep->issuer->folder, LH_RECORDS_FILE, path, NULL) != LH_OK ||
        stat(path, info) != 0)
        return true;
    return info->st_ino != upkeep->seen_inode || info->st_mtim.tv_sec != upkeep->seen.tv_sec ||
           info->st_mtim.tv_nsec != upkeep->seen.tv_nsec;
}

static bool may_leave(const lh_records *records, const lh_authority_entry *entry, int64_t now_s) {
    return entry->state == LH_AUTHORITY_LEAVING && now_s >= entry->since_s + LOOK_S &&
           !lh_member_list_depends_on(&records->members, entry->id, now_s);
}

/* Moves CAs on. True: something has changed. */
static bool advance(lh_records *records, int64_t now_s, bool everybody_believes) {
    lh_authority_list *list = &records->authorities;
    const lh_authority_entry *next = lh_authority_list_next(list);
    bool has_changed = next && (everybody_believes || now_s >= next->until_s);
    if (has_changed) {
        lh_log(LH_LOG_INFO, "fleet", "another CA signs from now on ca=%s reason=\"%s\"", next->id,
               everybody_believes ? "all members believe it" : "the overlap is over");
        lh_authority_list_promote(list, now_s);
    }
    for (size_t i = list->count; i > 1; i--) {
        lh_authority_entry entry = list->entries[i - 1];
        if (!may_leave(records, &entry, now_s))
            continue;
        lh_log(LH_LOG_INFO, "fleet", "a CA is believed no more: nobody depends on it ca=%s",
               entry.id);
        lh_authority_list_remove(list, entry.id);
        has_changed = true;
    }
    return has_changed;
}

/* The CAs' files follow the records, which are on the disk. */
static void follow(const lh_upkeep *upkeep, const lh_authority_list *before,
                   const lh_authority_list *after) {
    for (size_t i = 0; i < before->count; i++)
        if (!lh_authority_list_has(after, before->entries[i].id))
            lh_authority_files_remove(upkeep->issuer->folder, before->entries[i].id);
    for (size_t i = 0; i < after->count; i++)
        if (after->entries[i].state == LH_AUTHORITY_LEAVING)
            lh_authority_files_drop_key(upkeep->issuer->folder, after->entries[i].id);
}

static lh_status advance_on_disk(lh_upkeep *upkeep, int64_t now_s, bool everybody_believes,
                                 lh_error *error) {
    lh_records_change change;
    lh_status status = lh_records_begin(upkeep->issuer->folder, &change, error);
    if (status != LH_OK)
        return status;
    lh_authority_list before = change.records.authorities;
    if (before.count == 0) {
        lh_records_abandon(&change);
        return lh_fail(error, LH_ERR_INVALID, "the records in %.200s are gone",
                       upkeep->issuer->folder);
    }
    if (!advance(&change.records, now_s, everybody_believes)) {
        lh_records_abandon(&change);
        return LH_OK;
    }
    lh_authority_list after = change.records.authorities;
    status = lh_records_commit(&change, error);
    if (status == LH_OK)
        follow(upkeep, &before, &after);
    return status;
}

static lh_status renew_own(lh_upkeep *upkeep, const char *id, int64_t now_s, lh_error *error) {
    lh_status status =
        lh_issuer_issue_own(upkeep->issuer, LH_OWN_CERTIFICATE_FILE, id, now_s, error);
    if (status != LH_OK)
        return status;
    upkeep->own_due_s = now_s + upkeep->issuer->life_s * 2 / 3;
    snprintf(upkeep->own_authority, sizeof upkeep->own_authority, "%s", id);
    return LH_OK;
}

static bool is_own_due(const lh_upkeep *upkeep, const char *signing, int64_t now_s) {
    return now_s >= upkeep->own_due_s || strcmp(upkeep->own_authority, signing) != 0;
}

static lh_status view_members(const lh_member_list *members, int64_t now_s,
                              lh_membership_view *view, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < members->count && status == LH_OK; i++)
        if (lh_member_is_good(&members->members[i], now_s))
            status = lh_member_list_add(&view->members, &members->members[i], error);
    return status;
}

/* Writes the bundle where it has changed. */
static lh_status write_trust(lh_upkeep *upkeep, const lh_text_buffer *trust,
                             char trust_sha256[LH_SHA256_HEX_BYTES], lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    if (lh_sha256_digest(trust->bytes, trust->length, digest) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the bundle of CAs");
    lh_sha256_render(digest, trust_sha256);
    if (strcmp(upkeep->trust_sha256, trust_sha256) == 0)
        return LH_OK;
    lh_status status = lh_state_file_write(upkeep->issuer->folder, LH_TRUST_FILE, trust->bytes,
                                           trust->length, error);
    if (status == LH_OK)
        memcpy(upkeep->trust_sha256, trust_sha256, LH_SHA256_HEX_BYTES);
    return status;
}

static lh_status view_trust(lh_upkeep *upkeep, const lh_authority_list *authorities,
                            lh_membership_view *view, lh_error *error) {
    lh_text_buffer trust = {0};
    lh_status status =
        lh_authority_files_render_trust(upkeep->issuer->folder, authorities, &trust, error);
    if (status == LH_OK)
        status = write_trust(upkeep, &trust, view->trust_sha256, error);
    if (status == LH_OK)
        status = lh_text_buffer_append(&trust, "", 1, error);
    if (status != LH_OK) {
        lh_text_buffer_reset(&trust);
        return status;
    }
    view->trust = trust.bytes;
    view->trust_length = trust.length - 1;
    return LH_OK;
}

static lh_status make_view(lh_upkeep *upkeep, int64_t now_s, lh_membership_view *view,
                           lh_error *error) {
    lh_records records;
    lh_status status = lh_records_read(upkeep->issuer->folder, &records, error);
    if (status == LH_OK && records.authorities.count == 0)
        status = lh_fail(error, LH_ERR_INVALID, "the records in %.200s are gone",
                         upkeep->issuer->folder);
    if (status == LH_OK)
        status = view_trust(upkeep, &records.authorities, view, error);
    if (status == LH_OK)
        status = view_members(&records.members, now_s, view, error);
    const char *signing = records.authorities.entries[0].id;
    if (status == LH_OK && is_own_due(upkeep, signing, now_s))
        status = renew_own(upkeep, signing, now_s, error);
    view->has_next = lh_authority_list_next(&records.authorities);
    lh_records_reset(&records);
    return status;
}

/* Nothing has happened since, and nothing is due. */
static bool is_quiet(const lh_upkeep *upkeep, int64_t now_s, bool everybody_believes) {
    return !everybody_believes && now_s >= upkeep->looked_s && now_s < upkeep->looked_s + LOOK_S &&
           now_s < upkeep->own_due_s;
}

lh_status lh_upkeep_refresh(lh_upkeep *upkeep, int64_t now_s, bool everybody_believes,
                            lh_membership_view *view, lh_error *error) {
    struct stat info;
    *view = (lh_membership_view){0};
    everybody_believes = everybody_believes && upkeep->has_next;
    if (!has_changed(upkeep, &info) && is_quiet(upkeep, now_s, everybody_believes))
        return LH_OK;
    lh_status status = advance_on_disk(upkeep, now_s, everybody_believes, error);
    if (status != LH_OK)
        return status;
    upkeep->looked_s = now_s;
    if (!has_changed(upkeep, &info) && now_s < upkeep->own_due_s)
        return LH_OK;
    status = make_view(upkeep, now_s, view, error);
    if (status != LH_OK) {
        lh_membership_view_reset(view);
        return status;
    }
    upkeep->seen = info.st_mtim;
    upkeep->seen_inode = info.st_ino;
    upkeep->has_next = view->has_next;
    view->is_new = true;
    return LH_OK;
}

void lh_membership_view_reset(lh_membership_view *view) {
    free(view->trust);
    lh_member_list_reset(&view->members);
    *view = (lh_membership_view){0};
}

void lh_upkeep_look_anew(lh_upkeep *upkeep) {
    upkeep->seen_inode = 0;
}
