/* What one client (a name in the list of keys) has used of its limits. Sans-I/O: the time is an
 * argument. Thread: its owner's.
 *
 *     take_request() --> it is read --> take_prompt() --> it runs, its tokens are spent --> leave()
 *       |                  |              |              as they are sampled
 *       |                  |              \--> refused --> refund()
 *       |                  \--> what it says cannot be answered --> drop()
 *       \--> refused: which limit, and when it is worth coming again
 *
 * A request counts from when it begins to be read, so that one that cannot be answered has counted.
 * Prompts are paid for at once, and wait until the bucket holds them; what is drawn is paid for as
 * it comes and may overdraw the bucket, so that no answer is cut short by its client's rate: the
 * next request waits for it. */
#pragma once

#include "gateway/auth/key_list.h"
#include "gateway/auth/rate_bucket.h"

typedef enum lh_account_limit {
    LH_ACCOUNT_REQUESTS, /* a minute */
    LH_ACCOUNT_TOKENS,   /* a minute */
    LH_ACCOUNT_READING,  /* milliseconds a minute: reading_ledger.h counts them */
    LH_ACCOUNT_CONCURRENT
} lh_account_limit;

typedef struct lh_account_refusal {
    lh_account_limit limit;
    uint32_t most; /* the limit */
    int64_t wait_us;
} lh_account_refusal;

typedef struct lh_account {
    lh_key_limits limits;
    lh_rate_bucket requests, tokens; /* tokens that are sampled are spent from it directly */
    uint32_t running;
    int64_t mean_us; /* of a request, the later the more it counts; 0: none has ended */
} lh_account;

void lh_account_init(lh_account *account, const lh_key_limits *limits, int64_t now_us);
/* What it has used stays used. */
void lh_account_set_limits(lh_account *account, const lh_key_limits *limits, int64_t now_us);
/* Takes a request of which nothing is known, or nothing. */
bool lh_account_take_request(lh_account *account, int64_t now_us, lh_account_refusal *refusal);
/* Pays for the prompt of a request that was taken, or for nothing. */
bool lh_account_take_prompt(lh_account *account, uint64_t prompt_tokens, int64_t now_us,
                            lh_account_refusal *refusal);
/* A request whose prompt was paid for has ended after so long. */
void lh_account_leave(lh_account *account, int64_t duration_us);
/* A request that was taken could not be answered, by what it says: it has counted. */
void lh_account_drop(lh_account *account);
/* A request that was taken was not served after all, whatever it says: it costs nothing.
 * prompt_tokens: what was paid for; 0: nothing yet. */
void lh_account_refund(lh_account *account, uint64_t prompt_tokens, int64_t now_us);
