/* A rate as a bucket: it holds what may be spent in a minute, and fills evenly. It may be
 * overdrawn, by what is known only afterwards; then nothing more is let through until the debt is
 * paid. Sans-I/O: the time is an argument. Thread: its owner's. */
#pragma once

#include <stdint.h>

typedef struct lh_rate_bucket {
    uint32_t per_minute; /* 0: without a limit */
    /* what is left, in parts of 1/60,000,000, so that a microsecond fills `per_minute` parts */
    int64_t level;
    int64_t filled_us;
} lh_rate_bucket;

/* Full. */
void lh_rate_bucket_init(lh_rate_bucket *bucket, uint32_t per_minute, int64_t now_us);
/* Another limit from now on; the same share of it is left. */
void lh_rate_bucket_set_limit(lh_rate_bucket *bucket, uint32_t per_minute, int64_t now_us);
/* Takes it out, whatever is left. */
void lh_rate_bucket_spend(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us);
/* Puts back what was not used. */
void lh_rate_bucket_refund(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us);
/* Until `amount` may be spent, if nobody spends meanwhile; 0: it may now. More than the whole limit
 * may be, once the bucket is full: else it never could. */
int64_t lh_rate_bucket_wait_us(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us);
/* What is left, 0 in debt. */
uint32_t lh_rate_bucket_remaining(lh_rate_bucket *bucket, int64_t now_us);
