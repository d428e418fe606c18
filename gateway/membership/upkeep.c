/* A look at the folder, and what is due. */
#include "gateway/membership/upkeep.h"

#include "common/base/log.h"
#include "gateway/membership/admission.h"
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

static bool may_leave(const lh_records *records, const lh_authority_entry *entry,
                      const lh_upkeep_moment *moment) {
    return entry->state == LH_AUTHORITY_LEAVING && moment->is_clock_settled &&
           moment->now_s >= entry->since_s + LOOK_S &&
           !lh_member_list_depends_on(&records->members, entry->id, moment->in_use, moment->now_s);
}

static bool may_sign(const lh_authority_entry *next, const lh_upkeep_moment *moment) {
    return next && (moment->everybody_believes ||
                    (moment->is_clock_settled && moment->now_s >= next->until_s));
}

/* Moves CAs on. True: something has changed. */
static bool advance(lh_records *records, const lh_upkeep_moment *moment) {
    lh_authority_list *list = &records->authorities;
    const lh_authority_entry *next = lh_authority_list_next(list);
    bool has_changed = may_sign(next, moment);
    if (has_changed) {
        lh_log(LH_LOG_INFO, "fleet", "another CA signs from now on ca=%s reason=\"%s\"", next->id,
               moment->everybody_believes ? "all members believe it" : "the overlap is over");
        lh_authority_list_promote(list, moment->now_s);
    }
    for (size_t i = list->count; i > 1; i--) {
        lh_authority_entry entry = list->entries[i - 1];
        if (!may_leave(records, &entry, moment))
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

static lh_status advance_on_disk(lh_upkeep *upkeep, const lh_upkeep_moment *moment,
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
    if (!advance(&change.records, moment)) {
        lh_records_abandon(&change);
        return LH_OK;
    }
    lh_authority_list after = change.records.authorities;
    status = lh_records_commit(&change, error);
    if (status == LH_OK)
        follow(upkeep, &before, &after);
    return status;
}

/* ---- Its own certificate ---- */

static bool is_own_early(const lh_upkeep *upkeep, int64_t now_s) {
    return lh_admission_is_early(upkeep->own.issued_s, now_s);
}

static bool is_own_due(const lh_upkeep *upkeep, int64_t now_s) {
    const lh_issued_life *own = &upkeep->own;
    return is_own_early(upkeep, now_s) ||
           now_s >= own->issued_s + (own->ends_s - own->issued_s) * 2 / 3;
}

/* That of an earlier start, where the CA of this id has signed it. */
static void find_own(lh_upkeep *upkeep, const char *id) {
    if (upkeep->own_authority[0] ||
        !lh_issuer_read_own(upkeep->issuer, LH_OWN_CERTIFICATE_FILE, id, &upkeep->own))
        return;
    snprintf(upkeep->own_authority, sizeof upkeep->own_authority, "%s", id);
}

/* Issues it, where that is due or another CA signs now. */
static lh_status renew_own(lh_upkeep *upkeep, const char *id, int64_t now_s, lh_error *error) {
    find_own(upkeep, id);
    bool is_by_it = strcmp(upkeep->own_authority, id) == 0;
    if (is_by_it && !is_own_due(upkeep, now_s))
        return LH_OK;
    if (is_by_it && is_own_early(upkeep, now_s))
        lh_log(LH_LOG_WARN, "fleet",
               "the gateway's certificate was issued by a clock that was ahead, and is issued "
               "again ahead_s=%lld",
               (long long)(upkeep->own.issued_s - now_s));
    lh_status status =
        lh_issuer_issue_own(upkeep->issuer, LH_OWN_CERTIFICATE_FILE, id, now_s, error);
    if (status != LH_OK)
        return status;
    upkeep->own = (lh_issued_life){.issued_s = now_s, .ends_s = now_s + upkeep->issuer->life_s};
    snprintf(upkeep->own_authority, sizeof upkeep->own_authority, "%s", id);
    return LH_OK;
}

/* ---- The view ---- */

/* Those that have ended are among them: TLS refuses them by itself, and by a clock that may be
 * another one in a moment. */
static lh_status view_members(const lh_member_list *members, lh_membership_view *view,
                              lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < members->count && status == LH_OK; i++)
        if (!members->members[i].is_revoked)
            status = lh_member_list_append(&view->members, &members->members[i], error);
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
        status = view_members(&records.members, view, error);
    const char *signing = records.authorities.entries[0].id;
    if (status == LH_OK)
        status = renew_own(upkeep, signing, now_s, error);
    view->has_next = lh_authority_list_next(&records.authorities);
    lh_records_reset(&records);
    return status;
}

/* Nothing has happened since, and nothing is due. */
static bool is_quiet(const lh_upkeep *upkeep, const lh_upkeep_moment *moment) {
    int64_t now_s = moment->now_s;
    return !moment->everybody_believes && now_s >= upkeep->looked_s &&
           now_s < upkeep->looked_s + LOOK_S && !is_own_due(upkeep, now_s);
}

lh_status lh_upkeep_refresh(lh_upkeep *upkeep, const lh_upkeep_moment *at, lh_membership_view *view,
                            lh_error *error) {
    struct stat info;
    lh_upkeep_moment moment = *at;
    *view = (lh_membership_view){0};
    moment.everybody_believes = at->everybody_believes && upkeep->has_next;
    if (!has_changed(upkeep, &info) && is_quiet(upkeep, &moment))
        return LH_OK;
    lh_status status = advance_on_disk(upkeep, &moment, error);
    if (status != LH_OK)
        return status;
    upkeep->looked_s = moment.now_s;
    if (!has_changed(upkeep, &info) && !is_own_due(upkeep, moment.now_s))
        return LH_OK;
    status = make_view(upkeep, moment.now_s, view, error);
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
