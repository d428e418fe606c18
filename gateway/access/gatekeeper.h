/* Who may ask, and how much: the list of keys, an account for each of their names, and the turnstile for all. The list is read again
 * while requests are in progress: those keep the pass that they came in with, and accounts live on by name.
 *
 * Thread: any; passes are for one thread at a time. It outlives its passes. */
#pragma once

#include "gateway/access/account.h"
#include "gateway/access/turnstile.h"

typedef struct lh_gatekeeper lh_gatekeeper;

/* A request that was let in. Plain data. */
typedef struct lh_pass {
    lh_gatekeeper *gatekeeper;
    struct lh_gatekeeper_client *client; /* NULL: no keys are asked for, and nothing is limited */
    const char *name; /* of the client, while the pass is open; "" where no keys are asked for */
    uint64_t tenant;  /* stands for the name, in every run; 0: no keys are asked for */
    int32_t priority; /* the least that it may have */
    bool is_admin;
    /* The gatekeeper's. */
    bool taken;
    uint64_t prompt_tokens, drawn_tokens;
    int64_t taken_us;
    uint32_t inside;
} lh_pass;

/* What of a limit is left; `most` 0: there is no such limit. */
typedef struct lh_allowance {
    uint32_t most, remaining;
    int64_t whole_us; /* until all of it is there again */
} lh_allowance;

/* path: the file of keys; NULL or "": everybody is let in. `limits`: of keys that name none. Statuses of lh_key_list_read. */
lh_status lh_gatekeeper_create(const char *path, const lh_key_limits *limits, int64_t now_us,
                               lh_gatekeeper **gatekeeper, lh_error *error);
void lh_gatekeeper_destroy(lh_gatekeeper *gatekeeper);
/* Reads the file again. Where that fails all stays as it was. Statuses of lh_key_list_read. */
lh_status lh_gatekeeper_reload(lh_gatekeeper *gatekeeper, int64_t now_us, lh_error *error);
/* Keys in force; 0: none are asked for. */
size_t lh_gatekeeper_keys(lh_gatekeeper *gatekeeper);

/* `authorization`: the header's value, or NULL; unix_s: the time of day. False: there is no such key, or it has expired. */
bool lh_pass_open(lh_gatekeeper *gatekeeper, const char *authorization, int64_t unix_s, lh_pass *pass);
/* The request is over, however far it came: what was taken is given back or counted. One that was never opened is allowed (all zero). */
void lh_pass_close(lh_pass *pass, int64_t now_us);

/* As lh_account_has_room, before anything is known of the prompt. */
bool lh_pass_may_take(lh_pass *pass, int64_t now_us, lh_account_refusal *refusal);
/* As lh_account_take, once. */
bool lh_pass_take(lh_pass *pass, uint64_t prompt_tokens, int64_t now_us, lh_account_refusal *refusal);
/* It was not served after all: what was taken costs nothing. */
void lh_pass_refund(lh_pass *pass, int64_t now_us);
/* How many tokens its answer has in all by now. */
void lh_pass_spend(lh_pass *pass, uint64_t drawn_tokens, int64_t now_us);
/* Its sequences were admitted, once; and the engine's house was full for them: when to come again, as lh_turnstile_turn_us. */
void lh_pass_enter(lh_pass *pass, uint32_t sequences, int64_t now_us);
int64_t lh_pass_turn_us(lh_pass *pass, uint32_t sequences, int64_t now_us);
void lh_pass_allowances(lh_pass *pass, int64_t now_us, lh_allowance *requests, lh_allowance *tokens);
