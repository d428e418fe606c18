/* What a certificate says, and whether it may be relied on. Thread: any. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_certificate_life {
    int64_t not_before_s, not_after_s; /* Unix time */
} lh_certificate_life;

/* Of the first certificate in the PEM text. LH_ERR_INVALID: there is none. */
lh_status lh_certificate_read_life(const char *certificate, lh_certificate_life *life,
                                   lh_error *error);
/* When it is to be renewed: a third of its life before its end, where its life begins when it was
 * issued, an hour after not_before (JOINING.md). */
int64_t lh_certificate_renewal_s(const lh_certificate_life *life);

/* All texts are PEM. LH_ERR_INVALID: the key is another one's, no CA of `trust` has signed it, or
 * it is not for worker `name` on `site`. Whether it is valid at this time is not looked at. */
lh_status lh_certificate_check(const char *certificate, const char *key, const char *trust,
                               const char *name, const char *site, lh_error *error);
/* Whether it is signed by the first CA of `trust`. */
bool lh_certificate_is_by_first(const char *certificate, const char *trust);
/* Whether a CA of `trust` has this key: SHA-256 of its SubjectPublicKeyInfo. */
bool lh_certificate_has_pin(const char *trust, const uint8_t pin[LH_SHA256_BYTES]);
