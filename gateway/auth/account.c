/* Two buckets and a count. */
#include "gateway/auth/account.h"

#include <assert.h>

/* What a request is taken to last before one has. */
#define DURATION_GUESS_US 1000000
/* One part in so many of the mean is the newest. */
#define MEAN_WEIGHT 8

void lh_account_init(lh_account *account, const lh_key_limits *limits, int64_t now_us) {
    *account = (lh_account){.limits = *limits};
    lh_rate_bucket_init(&account->requests, limits->requests_per_minute, now_us);
    lh_rate_bucket_init(&account->tokens, limits->tokens_per_minute, now_us);
}

void lh_account_set_limits(lh_account *account, const lh_key_limits *limits, int64_t now_us) {
    account->limits = *limits;
    lh_rate_bucket_set_limit(&account->requests, limits->requests_per_minute, now_us);
    lh_rate_bucket_set_limit(&account->tokens, limits->tokens_per_minute, now_us);
}

static bool refuse(lh_account_refusal *refusal, lh_account_limit limit, uint32_t most,
                   int64_t wait_us) {
    *refusal = (lh_account_refusal){limit, most, wait_us};
    return false;
}

/* With so many running side by side, one of them ends in each such part of their mean duration. */
static int64_t concurrent_wait_us(const lh_account *account) {
    int64_t mean_us = account->mean_us ? account->mean_us : DURATION_GUESS_US;
    return mean_us / account->limits.concurrent_requests;
}

static bool refuse_tokens(const lh_account *account, lh_account_refusal *refusal, int64_t wait_us) {
    return refuse(refusal, LH_ACCOUNT_TOKENS, account->limits.tokens_per_minute, wait_us);
}

/* Of two rates, the one for which it is longer to be waited is told. */
bool lh_account_take_request(lh_account *account, int64_t now_us, lh_account_refusal *refusal) {
    const lh_key_limits *limits = &account->limits;
    int64_t requests_us = lh_rate_bucket_wait_us(&account->requests, 1, now_us);
    int64_t tokens_us = lh_rate_bucket_wait_us(&account->tokens, 1, now_us);
    if (requests_us > 0 && requests_us >= tokens_us)
        return refuse(refusal, LH_ACCOUNT_REQUESTS, limits->requests_per_minute, requests_us);
    if (tokens_us > 0)
        return refuse_tokens(account, refusal, tokens_us);
    if (limits->concurrent_requests && account->running >= limits->concurrent_requests)
        return refuse(refusal, LH_ACCOUNT_CONCURRENT, limits->concurrent_requests,
                      concurrent_wait_us(account));
    lh_rate_bucket_spend(&account->requests, 1, now_us);
    account->running++;
    return true;
}

bool lh_account_take_prompt(lh_account *account, uint64_t prompt_tokens, int64_t now_us,
                            lh_account_refusal *refusal) {
    assert(account->running > 0);
    int64_t tokens_us = lh_rate_bucket_wait_us(&account->tokens, prompt_tokens, now_us);
    if (tokens_us > 0)
        return refuse_tokens(account, refusal, tokens_us);
    lh_rate_bucket_spend(&account->tokens, prompt_tokens, now_us);
    return true;
}

void lh_account_leave(lh_account *account, int64_t duration_us) {
    assert(account->running > 0);
    account->running--;
    account->mean_us +=
        account->mean_us ? (duration_us - account->mean_us) / MEAN_WEIGHT : duration_us;
}

void lh_account_drop(lh_account *account) {
    assert(account->running > 0);
    account->running--;
}

void lh_account_refund(lh_account *account, uint64_t prompt_tokens, int64_t now_us) {
    assert(account->running > 0);
    account->running--;
    lh_rate_bucket_refund(&account->requests, 1, now_us);
    lh_rate_bucket_refund(&account->tokens, prompt_tokens, now_us);
}
