/* An array that is searched from end to end: a fleet has some dozens of workers. */
#include "gateway/membership/member_list.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

void lh_member_list_reset(lh_member_list *list) {
    free(list->members);
    *list = (lh_member_list){0};
}

/* Drops those that ended so long ago. */
static void drop_ended(lh_member_list *list, int64_t now_s, int64_t kept_s) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->members[i].expires_s > now_s - kept_s)
            list->members[kept++] = list->members[i];
    list->count = kept;
}

bool lh_member_is_good(const lh_member *member, int64_t now_s) {
    return !member->is_revoked && member->expires_s > now_s;
}

static bool is_in_force(const lh_member *member, const lh_authority_list *believed, int64_t now_s) {
    return lh_member_is_good(member, now_s) && lh_authority_list_has(believed, member->authority);
}

/* Makes room for one more of this name. False: all that it has are in force. */
static bool make_room(lh_member_list *list, const char *name, const lh_authority_list *believed,
                      int64_t now_s) {
    size_t oldest = list->count, count = 0;
    for (size_t i = list->count; i > 0; i--) {
        if (strcmp(list->members[i - 1].name, name) != 0)
            continue;
        count++;
        if (!is_in_force(&list->members[i - 1], believed, now_s))
            oldest = i - 1;
    }
    if (count < LH_MEMBER_CERTIFICATES_MAX || oldest == list->count)
        return count < LH_MEMBER_CERTIFICATES_MAX;
    list->count--;
    memmove(&list->members[oldest], &list->members[oldest + 1],
            (list->count - oldest) * sizeof *list->members);
    return true;
}

lh_status lh_member_list_append(lh_member_list *list, const lh_member *member, lh_error *error) {
    if (list->count == LH_MEMBERS_MAX)
        return lh_fail(error, LH_ERR_LIMIT,
                       "the fleet has %u certificates, which is as many as it "
                       "may have",
                       LH_MEMBERS_MAX);
    if (!lh_growing_array_reserve(&list->members, &list->capacity, list->count + 1,
                                  sizeof *list->members))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the list of members");
    list->members[list->count++] = *member;
    return LH_OK;
}

lh_status lh_member_list_add(lh_member_list *list, const lh_member *member,
                             const lh_authority_list *believed, int64_t now_s, lh_error *error) {
    if (!make_room(list, member->name, believed, now_s))
        return lh_fail(error, LH_ERR_LIMIT,
                       "worker %s has %u certificates that are good, which is as many as it may "
                       "have",
                       member->name, LH_MEMBER_CERTIFICATES_MAX);
    if (list->count == LH_MEMBERS_MAX)
        drop_ended(list, now_s, 0);
    return lh_member_list_append(list, member, error);
}

void lh_member_list_prune(lh_member_list *list, int64_t now_s) {
    drop_ended(list, now_s, LH_MEMBER_KEPT_S);
}

bool lh_member_list_has_taken(const lh_member_list *list, const char *name,
                              const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s) {
    for (size_t i = 0; i < list->count; i++) {
        const lh_member *member = &list->members[i];
        if (lh_member_is_good(member, now_s) && strcmp(member->name, name) == 0 &&
            memcmp(member->key_sha256, key_sha256, LH_SHA256_BYTES) != 0)
            return true;
    }
    return false;
}

const lh_member *lh_member_list_find(const lh_member_list *list, const char *name) {
    for (size_t i = list->count; i > 0; i--)
        if (strcmp(list->members[i - 1].name, name) == 0)
            return &list->members[i - 1];
    return NULL;
}

const lh_member *lh_member_list_find_serial(const lh_member_list *list, const char *serial) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->members[i].serial, serial) == 0)
            return &list->members[i];
    return NULL;
}

const lh_member *lh_member_list_find_key(const lh_member_list *list, const char *name,
                                         const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s) {
    for (size_t i = list->count; i > 0; i--) {
        const lh_member *member = &list->members[i - 1];
        if (lh_member_is_good(member, now_s) && strcmp(member->name, name) == 0 &&
            memcmp(member->key_sha256, key_sha256, LH_SHA256_BYTES) == 0)
            return member;
    }
    return NULL;
}

size_t lh_member_list_count(const lh_member_list *list, const char *name,
                            const lh_authority_list *believed, int64_t now_s) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += is_in_force(&list->members[i], believed, now_s) &&
                 strcmp(list->members[i].name, name) == 0;
    return count;
}

size_t lh_member_list_revoke(lh_member_list *list, const char *name, int64_t now_s) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        lh_member *member = &list->members[i];
        if (strcmp(member->name, name) != 0)
            continue;
        count += lh_member_is_good(member, now_s);
        member->is_revoked = true;
    }
    return count;
}

/* The ends of two certificates tell them apart. */
static bool has_younger_in_use(const lh_member_list *list, size_t of,
                               const lh_certificates_in_use *in_use) {
    const char *name = list->members[of].name;
    int64_t ends_s = in_use ? lh_certificates_in_use_find(in_use, name) : -1;
    for (size_t i = of + 1; i < list->count; i++)
        if (list->members[i].expires_s == ends_s && strcmp(list->members[i].name, name) == 0)
            return true;
    return false;
}

bool lh_member_list_depends_on(const lh_member_list *list, const char *authority,
                               const lh_certificates_in_use *in_use, int64_t now_s) {
    for (size_t i = 0; i < list->count; i++) {
        const lh_member *member = &list->members[i];
        if (lh_member_is_good(member, now_s) && strcmp(member->authority, authority) == 0 &&
            !has_younger_in_use(list, i, in_use))
            return true;
    }
    return false;
}
