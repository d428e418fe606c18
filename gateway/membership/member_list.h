/* The certificates that the gateway has issued: whose they are, and which are revoked. Who shows
 * one that is not in the list, or is revoked, is none of ours. A worker has several for a while,
 * each time that it renews its own.
 *
 * A certificate that is good never leaves the list to make room for another one, since somebody may
 * be serving with it; and one that has ended stays for a while, so that a clock that was ahead for
 * a moment has not emptied the list. Plain data, no clock. Thread: the owner's. */
#pragma once

#include "common/base/name.h"
#include "gateway/membership/authority_list.h"
#include "gateway/membership/certificates_in_use.h"

#define LH_MEMBER_OBSERVED_BYTES 64
/* Of one name: the one in use, and those of renewals that it did not live to see. */
#define LH_MEMBER_CERTIFICATES_MAX 8u
#define LH_MEMBERS_MAX             4096u        /* certificates of all */
#define LH_MEMBER_KEPT_S           (45 * 86400) /* after its end */

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
/* LH_ERR_LIMIT: the list is full; LH_ERR_NO_MEMORY. */
lh_status lh_member_list_append(lh_member_list *list, const lh_member *member, lh_error *error);
/* The same for a certificate that has just been issued. Where the name has
 * LH_MEMBER_CERTIFICATES_MAX, the oldest one that is not in force any more leaves the list: it has
 * ended, was revoked, or none of the believed CAs has signed it. Where the list is full, all that
 * have ended do. LH_ERR_LIMIT: there is no room even so. */
lh_status lh_member_list_add(lh_member_list *list, const lh_member *member,
                             const lh_authority_list *believed, int64_t now_s, lh_error *error);
/* Whether it is good now. */
bool lh_member_is_good(const lh_member *member, int64_t now_s);
/* Drops those that ended LH_MEMBER_KEPT_S ago. */
void lh_member_list_prune(lh_member_list *list, int64_t now_s);

/* Whether a certificate that is good now has the name, for another key than this one. */
bool lh_member_list_has_taken(const lh_member_list *list, const char *name,
                              const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s);
/* The youngest certificate of the name; NULL: none. */
const lh_member *lh_member_list_find(const lh_member_list *list, const char *name);
/* The one with this serial number; NULL: none. */
const lh_member *lh_member_list_find_serial(const lh_member_list *list, const char *serial);
/* The youngest of the name for this key that is good now; NULL: none. */
const lh_member *lh_member_list_find_key(const lh_member_list *list, const char *name,
                                         const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s);
/* How many of the name are in force. */
size_t lh_member_list_count(const lh_member_list *list, const char *name,
                            const lh_authority_list *believed, int64_t now_s);
/* All certificates of the name. How many were good until now. */
size_t lh_member_list_revoke(lh_member_list *list, const char *name, int64_t now_s);
/* Whether a certificate of this authority is good now, and its owner has not told that a younger
 * one is in use. That a younger one was issued says nothing: its owner may have lost it, or a copy
 * of the key may have asked for it. in_use NULL: nobody has told. */
bool lh_member_list_depends_on(const lh_member_list *list, const char *authority,
                               const lh_certificates_in_use *in_use, int64_t now_s);
