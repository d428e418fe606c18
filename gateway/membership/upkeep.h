/* What the running gateway sees of its fleet's folder, and does in it: commands change it beside
 * the gateway (membership.h), and things come due. No clock: now_s is Unix time. Its functions
 * block, for as long as a disk takes. Thread: any; one call at a time.
 *
 * The clock may be wrong, and be set right later. So what is issued is issued again when it turns
 * out to be of the future; and what cannot be undone (a CA signs since its time has come, another
 * one is believed no more) waits until the clock has not been set for a while (clock_jumps.h). */
#pragma once

#include "common/base/digest.h"
#include "gateway/membership/issuer.h"

#include <sys/types.h>
#include <time.h>

/* In the folder: the bundle of CAs, and the gateway's own key and certificate. */
#define LH_TRUST_FILE           "trust.pem"
#define LH_OWN_CERTIFICATE_FILE "gateway.pem"

/* What it acts on. */
typedef struct lh_membership_view {
    /* The rest, or the files of its TLS, which are then to be read again; otherwise it is empty. */
    bool is_new;
    char *trust; /* [trust_length], malloc'd and terminated: the bundle */
    size_t trust_length;
    char trust_sha256[LH_SHA256_HEX_BYTES];
    bool has_next;          /* another CA is in it, and is to sign when everybody believes it */
    lh_member_list members; /* the certificates that are not revoked */
} lh_membership_view;
void lh_membership_view_reset(lh_membership_view *view);

/* What it has found and made. */
typedef struct lh_upkeep {
    const lh_issuer *issuer; /* outlives it */
    struct timespec seen;
    ino_t seen_inode;
    int64_t looked_s;
    bool has_next;
    char trust_sha256[LH_SHA256_HEX_BYTES];    /* of the bundle that it has written; "": none yet */
    lh_issued_life own;                        /* of its own certificate; 0: it has none yet */
    char own_authority[LH_AUTHORITY_ID_BYTES]; /* that has signed it */
} lh_upkeep;

/* What is known when it looks. */
typedef struct lh_upkeep_moment {
    int64_t now_s;
    bool is_clock_settled;                /* it has not been set for a while */
    bool everybody_believes;              /* the CA that is to sign next */
    const lh_certificates_in_use *in_use; /* NULL: nothing is known */
} lh_upkeep_moment;

/* Looks whether anything has changed on the disk or is due: the gateway's own certificate when a
 * third of its life is left, or when it was issued by a clock that was ahead; another CA that
 * signs, when everybody believes it or its time has come; one that nobody depends on any more.
 * LH_ERR_IO, LH_ERR_INVALID, LH_ERR_NO_MEMORY: to be tried again. */
lh_status lh_upkeep_refresh(lh_upkeep *upkeep, const lh_upkeep_moment *moment,
                            lh_membership_view *view, lh_error *error);
/* The next lh_upkeep_refresh finds everything new. */
void lh_upkeep_look_anew(lh_upkeep *upkeep);
