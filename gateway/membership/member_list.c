/* An array that is searched from end to end: a fleet has some dozens of workers. */
#include "gateway/membership/member_list.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

void lh_member_list_reset(lh_member_list *list) {
    free(list->members);
    *list = (lh_member_list){0};
}

/* Makes room for one more of this name. */
static void drop_oldest(lh_member_list *list, const char *name) {
    size_t oldest = list->count, count = 0;
    for (size_t i = list->count; i > 0; i--)
        if (strcmp(list->members[i - 1].name, name) == 0) {
            oldest = i - 1;
            count++;
        }
    if (count < LH_MEMBER_CERTIFICATES_MAX)
        return;
    list->count--;
    memmove(&list->members[oldest], &list->members[oldest + 1],
            (list->count - oldest) * sizeof *list->members);
}

lh_status lh_member_list_add(lh_member_list *list, const lh_member *member, lh_error *error) {
    drop_oldest(list, member->name);
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

void lh_member_list_prune(lh_member_list *list, int64_t now_s) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->members[i].expires_s > now_s)
            list->members[kept++] = list->members[i];
    list->count = kept;
}

bool lh_member_is_good(const lh_member *member, int64_t now_s) {
    return !member->is_revoked && member->expires_s > now_s;
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

bool lh_member_list_depends_on(const lh_member_list *list, const char *authority, int64_t now_s) {
    for (size_t i = 0; i < list->count; i++) {
        const lh_member *member = &list->members[i];
        if (lh_member_is_good(member, now_s) && lh_member_list_find(list, member->name) == member &&
            strcmp(member->authority, authority) == 0)
            return true;
    }
    return false;
}
