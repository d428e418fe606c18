/* The certificates that the gateway has issued and that have not ended: whose they are, and which
 * are revoked. Who shows one that is not in the list, or is revoked, is none of ours. A worker has
 * several for a while, each time that it renews its own. Plain data, no clock. Thread: the owner's.
 */
#pragma once

#include "common/base/name.h"
#include "gateway/membership/certificate_authority.h"

#define LH_MEMBER_OBSERVED_BYTES 64
/* Of one name: the one in use, and those of renewals that it did not live to see. */
#define LH_MEMBER_CERTIFICATES_MAX 8u
#define LH_MEMBERS_MAX             4096u /* certificates of all */

/* One certificate. */
typedef struct lh_member {
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES];
    char serial[LH_SERIAL_BYTES];
    char authority[LH_AUTHORITY_ID_BYTES]; /* that has signed it */
    uint8_t key_sha256[LH_SHA256_BYTES];
    int64_t issued_s, expires_s;             /* Unix time */
    char observed[LH_MEMBER_OBSERVED_BYTES]; /* the IP address that asked for it */
    bool is_revoked;
} lh_member;

/* An empty list is {0}. */
typedef struct lh_member_list {
    lh_member *members; /* [count], malloc'd, in the order in which they were issued */
    size_t count, capacity;
} lh_member_list;

void lh_member_list_reset(lh_member_list *list);
/* Where the name has LH_MEMBER_CERTIFICATES_MAX, the oldest one leaves the list. LH_ERR_LIMIT: the
 * list is full; LH_ERR_NO_MEMORY. */
lh_status lh_member_list_add(lh_member_list *list, const lh_member *member, lh_error *error);
/* Whether it is good now. */
bool lh_member_is_good(const lh_member *member, int64_t now_s);
/* Drops those that have ended: nobody believes them any more. */
void lh_member_list_prune(lh_member_list *list, int64_t now_s);

/* Whether a certificate that is good now has the name, for another key than this one. */
bool lh_member_list_has_taken(const lh_member_list *list, const char *name,
                              const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s);
/* The youngest certificate of the name; NULL: none. */
const lh_member *lh_member_list_find(const lh_member_list *list, const char *name);
/* All certificates of the name. How many were good until now. */
size_t lh_member_list_revoke(lh_member_list *list, const char *name, int64_t now_s);
/* Whether a certificate of this authority is good now, and its owner has no younger one of
 * another authority. */
bool lh_member_list_depends_on(const lh_member_list *list, const char *authority, int64_t now_s);
