/* What the gateway keeps of a join token: for which site and name it is, how often and until when,
 * the hash of its secret, and who has joined with it. Plain data, no clock. Thread: the owner's.
 *
 *     made --> used, as often as it says --> it ends, or is revoked
 *
 * The same key may use it again for as long as it lives: a worker that was killed before it had its
 * certificate asks again, and counts once. */
#pragma once

#include "common/base/digest.h"
#include "common/base/name.h"
#include "common/protocol/join/join_messages.h"

#define LH_INVITATION_USES_MAX 1000u
/* A token that was made so much later than now was made by a clock that was ahead. It is refused,
 * since otherwise it would be good for longer than its maker has said. */
#define LH_INVITATION_EARLY_S 1800

/* One machine that joined. */
typedef struct lh_invitation_use {
    uint8_t key_sha256[LH_SHA256_BYTES];
    char name[LH_NAME_BYTES];
} lh_invitation_use;

typedef struct lh_invitation {
    char id[LH_JOIN_ID_BYTES];
    uint8_t secret_sha256[LH_SHA256_BYTES];
    char site[LH_NAME_BYTES];
    char name[LH_NAME_BYTES]; /* "": whichever the worker says */
    uint32_t uses_max;
    int64_t made_s, expires_s; /* Unix time; at the second one it has ended */
    bool is_revoked;
    lh_invitation_use *uses; /* [use_count], malloc'd */
    size_t use_count, use_capacity;
} lh_invitation;

void lh_invitation_reset(lh_invitation *invitation);

/* Whether whoever shows this secret may join with this key now; *refusal says why not:
 * token_unknown, token_revoked, token_expired or token_used. Of a token whose secret is another one
 * nothing is told. `invitation` NULL: there is none of that id. */
bool lh_invitation_admits(const lh_invitation *invitation,
                          const uint8_t secret[LH_JOIN_SECRET_BYTES],
                          const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s,
                          lh_join_refusal *refusal);
/* The use by this key, or NULL. */
const lh_invitation_use *lh_invitation_find_use(const lh_invitation *invitation,
                                                const uint8_t key_sha256[LH_SHA256_BYTES]);
/* Counts a use, where the key has none yet. False: no memory. */
bool lh_invitation_note_use(lh_invitation *invitation, const uint8_t key_sha256[LH_SHA256_BYTES],
                            const char *name);
bool lh_invitation_was_used_by(const lh_invitation *invitation, const char *name);
