/* Whether a machine that shows a join token becomes a member, and under which name; and whether a
 * member gets another certificate. Pure. */
#pragma once

#include "gateway/membership/records.h"

/* How far a worker's clock may be off: a certificate is valid from an hour before it was issued. */
#define LH_ADMISSION_CLOCK_S 1800

typedef struct lh_admission {
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES];
} lh_admission;

/* key_sha256: of the key that is to be certified. False: *refusal says why. Who does not have the
 * secret learns nothing but that. */
bool lh_admission_decide(const lh_records *records, const lh_join_request *request,
                         const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s,
                         lh_admission *admission, lh_join_refusal *refusal);
/* Of the certificates that a worker may have at once, so many are for whoever has its key; the
 * others are for the machine from which the worker serves. So a copy of the key that asks in time
 * does not keep the worker from renewing. */
#define LH_ADMISSION_ANYWHERE_MAX 4u

/* Somebody who shows a certificate and asks for another one. */
typedef struct lh_renewal_claim {
    const char *name, *serial; /* of the certificate that was shown */
    const uint8_t *key_sha256; /* of the key that is to be certified */
    bool is_where_it_serves;   /* it asks from where the worker of this name serves */
} lh_renewal_claim;

/* A certificate is renewed when half of its life is over, when another CA signs than the one that
 * has signed it, and when by our clock it is not valid yet. Who asks again for the same key may
 * have lost the answer, and gets the same certificate again. */
bool lh_admission_decide_renewal(const lh_records *records, const lh_renewal_claim *claim,
                                 int64_t now_s, lh_join_refusal *refusal);
/* Whether a certificate that was issued then was issued by a clock that was ahead of ours. */
bool lh_admission_is_early(int64_t issued_s, int64_t now_s);
/* Whether a certificate of the signing CA stays as it is: it is neither early, nor is half of its
 * life over. */
bool lh_admission_is_fresh(const lh_records *records, const lh_member *member, int64_t now_s);
/* Whether the clocks agree well enough; false: *refusal says by how much they do not. */
bool lh_admission_agrees_on_time(int64_t worker_s, int64_t now_s, lh_join_refusal *refusal);
