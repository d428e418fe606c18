/* Whether a machine that shows a join token becomes a member, and under which name. Pure. */
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
/* Whether the clocks agree well enough; false: *refusal says by how much they do not. */
bool lh_admission_agrees_on_time(int64_t worker_s, int64_t now_s, lh_join_refusal *refusal);
