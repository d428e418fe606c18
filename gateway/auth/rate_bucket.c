/* Integers alone: nothing is lost however often it is asked. */
#include "gateway/auth/rate_bucket.h"

#define MINUTE_US 60000000LL
/* No debt is longer than an hour: it keeps every product within 64 bits (limits up to 10^9, so 10^9
 * * 60 * 6 * 10^7), and a client from being shut out for good by one request that nobody bounded.
 */
#define DEBT_MINUTES_MAX 60

static int64_t whole(const lh_rate_bucket *bucket) {
    return bucket->per_minute * MINUTE_US;
}

static void fill(lh_rate_bucket *bucket, int64_t now_us) {
    int64_t elapsed_us = now_us - bucket->filled_us, lacking = whole(bucket) - bucket->level;
    if (elapsed_us <= 0)
        return;
    bucket->filled_us = now_us;
    if (bucket->per_minute && elapsed_us < lacking / bucket->per_minute)
        bucket->level += elapsed_us * bucket->per_minute;
    else
        bucket->level = whole(bucket);
}

/* In parts, at most what a debt may come to. */
static int64_t parts_of(const lh_rate_bucket *bucket, uint64_t amount) {
    uint64_t most = (uint64_t)bucket->per_minute * DEBT_MINUTES_MAX;
    return (int64_t)(amount < most ? amount : most) * MINUTE_US;
}

void lh_rate_bucket_init(lh_rate_bucket *bucket, uint32_t per_minute, int64_t now_us) {
    *bucket = (lh_rate_bucket){.per_minute = per_minute, .filled_us = now_us};
    bucket->level = whole(bucket);
}

void lh_rate_bucket_set_limit(lh_rate_bucket *bucket, uint32_t per_minute, int64_t now_us) {
    if (bucket->per_minute == per_minute)
        return;
    fill(bucket, now_us);
    double share = bucket->per_minute ? (double)bucket->level / (double)whole(bucket) : 1;
    bucket->per_minute = per_minute;
    bucket->level = (int64_t)(share * (double)whole(bucket));
}

void lh_rate_bucket_spend(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us) {
    fill(bucket, now_us);
    int64_t lowest = -whole(bucket) * DEBT_MINUTES_MAX,
            left = bucket->level - parts_of(bucket, amount);
    bucket->level = left > lowest ? left : lowest;
}

void lh_rate_bucket_refund(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us) {
    fill(bucket, now_us);
    int64_t left = bucket->level + parts_of(bucket, amount);
    bucket->level = left < whole(bucket) ? left : whole(bucket);
}

int64_t lh_rate_bucket_wait_us(lh_rate_bucket *bucket, uint64_t amount, int64_t now_us) {
    if (bucket->per_minute == 0)
        return 0;
    fill(bucket, now_us);
    int64_t wanted = parts_of(bucket, amount < bucket->per_minute ? amount : bucket->per_minute);
    int64_t lacking = wanted - bucket->level;
    return lacking > 0 ? (lacking + bucket->per_minute - 1) / bucket->per_minute : 0;
}

uint32_t lh_rate_bucket_remaining(lh_rate_bucket *bucket, int64_t now_us) {
    fill(bucket, now_us);
    return bucket->level > 0 ? (uint32_t)(bucket->level / MINUTE_US) : 0;
}
