/* Which CAs a fleet has, and how one follows another so that nobody is left out. Plain data, no
 * clock, no keys: an entry names an authority by its id. Thread: the owner's.
 *
 *     next ------------------> signing --------------------> leaving ---------> gone
 *          all workers believe         another one signs              nobody has a
 *          it, or the overlap          from now on                    certificate of
 *          is over                                                    it any more
 *
 * One signs at any time; at most one is next. */
#pragma once

#include "gateway/membership/certificate_authority.h"

#define LH_AUTHORITIES_MAX 4u

typedef enum lh_authority_state {
    LH_AUTHORITY_SIGNING,
    LH_AUTHORITY_NEXT,
    LH_AUTHORITY_LEAVING
} lh_authority_state;

/* "signing", "next", "leaving"; static storage. */
const char *lh_authority_state_name(lh_authority_state state);

typedef struct lh_authority_entry {
    char id[LH_AUTHORITY_ID_BYTES];
    lh_authority_state state;
    int64_t since_s; /* Unix time: in this state */
    int64_t until_s; /* next: signs from then on, whoever has not heard of it; else 0 */
} lh_authority_entry;

/* In the order in which they stand in the bundle: the one that signs first. */
typedef struct lh_authority_list {
    lh_authority_entry entries[LH_AUTHORITIES_MAX];
    size_t count;
} lh_authority_list;

/* A list with one that signs. */
void lh_authority_list_begin(lh_authority_list *list, const char *id, int64_t now_s);
/* The rules above hold. */
bool lh_authority_list_is_valid(const lh_authority_list *list);
const lh_authority_entry *lh_authority_list_signing(const lh_authority_list *list);
bool lh_authority_list_has(const lh_authority_list *list, const char *id);
/* NULL: none. */
const lh_authority_entry *lh_authority_list_next(const lh_authority_list *list);

/* LH_ERR_BUSY: one is next already; LH_ERR_LIMIT: too many are still leaving. */
lh_status lh_authority_list_add_next(lh_authority_list *list, const char *id, int64_t now_s,
                                     int64_t until_s, lh_error *error);
/* The next one signs from now on. There is one. */
void lh_authority_list_promote(lh_authority_list *list, int64_t now_s);
/* Takes out one that is leaving. */
void lh_authority_list_remove(lh_authority_list *list, const char *id);
