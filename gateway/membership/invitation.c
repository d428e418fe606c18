/* A few comparisons, in the order in which they may be told. */
#include "gateway/membership/invitation.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_invitation_reset(lh_invitation *invitation) {
    free(invitation->uses);
    *invitation = (lh_invitation){0};
}

static bool refuse(lh_join_refusal *refusal, lh_join_refusal_code code, const char *message) {
    refusal->code = code;
    snprintf(refusal->message, sizeof refusal->message, "%s", message);
    return false;
}

/* In a time that tells nothing of the hash. */
static bool is_secret(const lh_invitation *invitation, const uint8_t secret[LH_JOIN_SECRET_BYTES]) {
    uint8_t digest[LH_SHA256_BYTES];
    return lh_sha256_digest(secret, LH_JOIN_SECRET_BYTES, digest) == LH_OK &&
           lh_sha256_equal(digest, invitation->secret_sha256);
}

bool lh_invitation_admits(const lh_invitation *invitation,
                          const uint8_t secret[LH_JOIN_SECRET_BYTES],
                          const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s,
                          lh_join_refusal *refusal) {
    if (!invitation || !is_secret(invitation, secret))
        return refuse(refusal, LH_JOIN_TOKEN_UNKNOWN,
                      "the gateway knows no such token: was it copied whole, and is it of this "
                      "fleet?");
    if (invitation->is_revoked)
        return refuse(refusal, LH_JOIN_TOKEN_REVOKED,
                      "the token was revoked: ask for another one (longhaul-gateway token)");
    if (now_s >= invitation->expires_s)
        return refuse(refusal, LH_JOIN_TOKEN_EXPIRED,
                      "the token's time is over: ask for another one (longhaul-gateway token)");
    if (invitation->made_s > now_s + LH_INVITATION_EARLY_S)
        return refuse(refusal, LH_JOIN_TOKEN_EXPIRED,
                      "the token was made while the gateway's clock was ahead: ask for another one "
                      "(longhaul-gateway token)");
    if (invitation->use_count >= invitation->uses_max &&
        !lh_invitation_find_use(invitation, key_sha256))
        return refuse(refusal, LH_JOIN_TOKEN_USED,
                      "the token has been used as often as it may be: ask for another one "
                      "(longhaul-gateway token)");
    return true;
}

const lh_invitation_use *lh_invitation_find_use(const lh_invitation *invitation,
                                                const uint8_t key_sha256[LH_SHA256_BYTES]) {
    for (size_t i = 0; i < invitation->use_count; i++)
        if (memcmp(invitation->uses[i].key_sha256, key_sha256, LH_SHA256_BYTES) == 0)
            return &invitation->uses[i];
    return NULL;
}

bool lh_invitation_note_use(lh_invitation *invitation, const uint8_t key_sha256[LH_SHA256_BYTES],
                            const char *name) {
    if (lh_invitation_find_use(invitation, key_sha256))
        return true;
    assert(invitation->use_count < invitation->uses_max);
    if (!lh_growing_array_reserve(&invitation->uses, &invitation->use_capacity,
                                  invitation->use_count + 1, sizeof *invitation->uses))
        return false;
    lh_invitation_use *use = &invitation->uses[invitation->use_count++];
    *use = (lh_invitation_use){0};
    memcpy(use->key_sha256, key_sha256, LH_SHA256_BYTES);
    snprintf(use->name, sizeof use->name, "%s", name);
    return true;
}

bool lh_invitation_was_used_by(const lh_invitation *invitation, const char *name) {
    for (size_t i = 0; i < invitation->use_count; i++)
        if (strcmp(invitation->uses[i].name, name) == 0)
            return true;
    return false;
}
