/* Which requests are admitted, and how many: the list of keys, an account for each of their names,
 * and the retry estimator for all. The list is read again while requests are in progress: those
 * keep the ticket that they were admitted with, and accounts live on by name.
 *
 * Thread: any; a ticket is for one thread at a time. The authenticator outlives its tickets. */
#pragma once

#include "common/base/log_limit.h"
#include "gateway/auth/account.h"
#include "gateway/auth/retry_estimator.h"

typedef struct lh_authenticator lh_authenticator;

/* An admission ticket: the request of a known client. Plain data. */
typedef struct lh_ticket {
    lh_authenticator *authenticator;
    /* NULL: no keys are asked for, and nothing is limited */
    struct lh_authenticator_client *client;
    const char *name; /* of the client, while the ticket is open; "" where no keys are asked for */
    uint64_t tenant;  /* stands for the name, in every run; 0: no keys are asked for */
    int32_t priority; /* the least that it may have */
    bool is_admin;
    uint32_t reading_ms_per_minute; /* 0: without a limit */
    /* The authenticator's. */
    bool taken, paid; /* the request, and its prompt */
    uint64_t prompt_tokens, sampled_tokens;
    int64_t taken_us;
    uint32_t inside;
} lh_ticket;

/* Lines of the log that a request may cause, whatever becomes of it. */
typedef enum lh_client_line {
    LH_CLIENT_LINE_REQUEST,  /* which one it was, and its status */
    LH_CLIENT_LINE_REASON,   /* why it was not served */
    LH_CLIENT_LINE_LEFT_OUT, /* what of it was left out */
    LH_CLIENT_LINE_KINDS
} lh_client_line;

/* What of a limit is left; `most` 0: there is no such limit. */
typedef struct lh_allowance {
    uint32_t most, remaining;
    int64_t whole_us; /* until all of it is there again */
} lh_allowance;

/* path: the file of keys; NULL or "": everybody is admitted. `limits`: of keys that name none.
 * Statuses of lh_key_list_read. */
lh_status lh_authenticator_create(const char *path, const lh_key_limits *limits, int64_t now_us,
                                  lh_authenticator **authenticator, lh_error *error);
/* NULL is allowed. */
void lh_authenticator_destroy(lh_authenticator *authenticator);
/* Reads the file again. Where that fails all stays as it was. Statuses of lh_key_list_read. */
lh_status lh_authenticator_reload(lh_authenticator *authenticator, int64_t now_us, lh_error *error);
/* Keys in force; 0: none are asked for. */
size_t lh_authenticator_keys(lh_authenticator *authenticator);

/* `authorization`: the header's value, or NULL; unix_s: the time of day. False: there is no such
 * key, or it has expired. */
bool lh_ticket_open(lh_authenticator *authenticator, const char *authorization, int64_t unix_s,
                    lh_ticket *ticket);
/* Nothing more will be computed for it: its place is free. Before the answer's last bytes leave, so
 * that a client who then asks again at once is not one too many. */
void lh_ticket_leave(lh_ticket *ticket, int64_t now_us);
/* The request is over, however far it came: its account counts it as ended, and has counted it
 * where it was read and could not be answered. A ticket that was never
 * opened (all zero) is allowed. */
void lh_ticket_close(lh_ticket *ticket, int64_t now_us);

/* The bound of such lines: that of the ticket's client, so that none hides what becomes of another,
 * or one for all who have shown no key (a ticket that was never opened is allowed). Lives as long
 * as the ticket is open, or the authenticator. */
lh_log_limit *lh_ticket_log_limit(lh_authenticator *authenticator, const lh_ticket *ticket,
                                  lh_client_line kind);

/* As lh_account_take_request, before the request is read; once. */
bool lh_ticket_take_request(lh_ticket *ticket, int64_t now_us, lh_account_refusal *refusal);
/* As lh_account_take_prompt, once, of a request that was taken. */
bool lh_ticket_take_prompt(lh_ticket *ticket, uint64_t prompt_tokens, int64_t now_us,
                           lh_account_refusal *refusal);
/* The request was not served after all, whatever it says: what was taken is given back. */
void lh_ticket_refund(lh_ticket *ticket, int64_t now_us);
/* How many tokens its answer has in all by now. */
void lh_ticket_spend(lh_ticket *ticket, uint64_t sampled_tokens, int64_t now_us);
/* The engine has taken its sequences; once. */
void lh_ticket_enter(lh_ticket *ticket, uint32_t sequences, int64_t now_us);
/* The engine was full for them: when to come again, as lh_retry_estimator_wait_us. */
int64_t lh_ticket_retry_us(lh_ticket *ticket, uint32_t sequences, int64_t now_us);
void lh_ticket_allowances(lh_ticket *ticket, int64_t now_us, lh_allowance *requests,
                          lh_allowance *tokens);
