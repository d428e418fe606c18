/* A short array, kept in order. */
#include "gateway/membership/authority_list.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *lh_authority_state_name(lh_authority_state state) {
    static const char *const names[] = {"signing", "next", "leaving"};
    assert(state <= LH_AUTHORITY_LEAVING);
    return names[state];
}

static lh_authority_entry make_entry(const char *id, lh_authority_state state, int64_t since_s) {
    lh_authority_entry entry = {.state = state, .since_s = since_s};
    snprintf(entry.id, sizeof entry.id, "%.16s", id);
    return entry;
}

void lh_authority_list_begin(lh_authority_list *list, const char *id, int64_t now_s) {
    *list = (lh_authority_list){.count = 1};
    list->entries[0] = make_entry(id, LH_AUTHORITY_SIGNING, now_s);
}

bool lh_authority_list_is_valid(const lh_authority_list *list) {
    if (list->count == 0 || list->count > LH_AUTHORITIES_MAX ||
        list->entries[0].state != LH_AUTHORITY_SIGNING)
        return false;
    for (size_t i = 1; i < list->count; i++)
        if (list->entries[i].state == LH_AUTHORITY_SIGNING ||
            (i > 1 && list->entries[i].state == LH_AUTHORITY_NEXT))
            return false;
    return true;
}

const lh_authority_entry *lh_authority_list_signing(const lh_authority_list *list) {
    assert(lh_authority_list_is_valid(list));
    return &list->entries[0];
}

bool lh_authority_list_has(const lh_authority_list *list, const char *id) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].id, id) == 0)
            return true;
    return false;
}

const lh_authority_entry *lh_authority_list_next(const lh_authority_list *list) {
    return list->count > 1 && list->entries[1].state == LH_AUTHORITY_NEXT ? &list->entries[1]
                                                                          : NULL;
}

lh_status lh_authority_list_add_next(lh_authority_list *list, const char *id, int64_t now_s,
                                     int64_t until_s, lh_error *error) {
    if (lh_authority_list_next(list))
        return lh_fail(error, LH_ERR_BUSY,
                       "the CA %s is to follow already: wait until it signs (longhaul-gateway "
                       "members tells)",
                       lh_authority_list_next(list)->id);
    if (list->count == LH_AUTHORITIES_MAX)
        return lh_fail(error, LH_ERR_LIMIT,
                       "workers still have certificates of %zu earlier CAs: wait until they have "
                       "renewed them (longhaul-gateway members tells), or revoke those workers",
                       list->count - 1);
    memmove(&list->entries[2], &list->entries[1], (list->count - 1) * sizeof list->entries[0]);
    list->entries[1] = make_entry(id, LH_AUTHORITY_NEXT, now_s);
    list->entries[1].until_s = until_s;
    list->count++;
    return LH_OK;
}

void lh_authority_list_promote(lh_authority_list *list, int64_t now_s) {
    assert(lh_authority_list_next(list));
    lh_authority_entry before = list->entries[0];
    list->entries[0] = make_entry(list->entries[1].id, LH_AUTHORITY_SIGNING, now_s);
    list->entries[1] = make_entry(before.id, LH_AUTHORITY_LEAVING, now_s);
}

void lh_authority_list_remove(lh_authority_list *list, const char *id) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].state != LH_AUTHORITY_LEAVING || strcmp(list->entries[i].id, id) != 0)
            list->entries[kept++] = list->entries[i];
    list->count = kept;
    assert(lh_authority_list_is_valid(list));
}
