/* A timer that looks at the clock, and one request at a time. */
#include "worker/membership/renewal.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "worker/membership/member_request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LOOK_S = 10,
    PAUSE_S_MAX = 3600,
    /* so that a fleet that hears of a new CA does not ask in one moment */
    SPREAD_S = 10,
    DAY_S = 86400
};

#define SECOND_US INT64_C(1000000)

struct lh_renewal {
    lh_renewal_options options;
    uv_timer_t timer;
    uv_work_t work;
    lh_certificate_life life;
    char trust[LH_SHA256_HEX_BYTES];        /* of the bundle in use */
    char trust_wanted[LH_SHA256_HEX_BYTES]; /* as the gateway says; "": it has not */
    int64_t due_s;                          /* Unix time, as the certificate says */
    /* On the steady clock, since the other one may be set: due from the first on, where another CA
     * signs now; and no try before the second. */
    int64_t soon_us, retry_us;
    int failures; /* in a row */
    bool working, closing;
    void (*on_closed)(void *);
    void *closed_context;
    /* The request's: the pool's thread writes them. */
    bool is_for_trust;
    lh_own_membership fresh;
    lh_status status;
    lh_error error;
};

static int64_t now(void) {
    return (int64_t)time(NULL);
}

/* ---- When ---- */

int64_t lh_renewal_pause_s(int failures, int64_t left_s) {
    assert(failures > 0);
    int64_t pause_s = failures > 12 ? PAUSE_S_MAX : (int64_t)1 << (failures - 1);
    int64_t share_s = left_s > 8 ? left_s / 8 : 1;
    return lh_min_i64(pause_s, lh_min_i64(share_s, PAUSE_S_MAX));
}

/* From what is in use. */
static lh_status note_set(lh_renewal *renewal, lh_error *error) {
    const lh_own_membership *membership = renewal->options.membership;
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_certificate_read_life(membership->certificate, &renewal->life, error);
    if (status != LH_OK)
        return status;
    if (lh_sha256_digest(membership->trust, strlen(membership->trust), digest) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    lh_sha256_render(digest, renewal->trust);
    renewal->due_s = lh_certificate_renewal_s(&renewal->life);
    renewal->soon_us = INT64_MAX;
    if (!lh_certificate_is_by_first(membership->certificate, membership->trust))
        renewal->soon_us = lh_clock_us() + (int64_t)(lh_random_u64() % SPREAD_S) * SECOND_US;
    return LH_OK;
}

static bool wants_trust(const lh_renewal *renewal) {
    return renewal->trust_wanted[0] && strcmp(renewal->trust, renewal->trust_wanted) != 0;
}

static void on_look(uv_timer_t *timer);

/* Seconds until that time on the steady clock; 0: it is past. */
static int64_t until_s(int64_t us) {
    int64_t left_us = us - lh_clock_us();
    return left_us > 0 ? (left_us - 1) / SECOND_US + 1 : 0;
}

/* 0: now. A certificate that is not valid yet was issued by a clock that was ahead. */
static int64_t due_in_s(const lh_renewal *renewal) {
    int64_t now_s = now();
    if (wants_trust(renewal) || now_s < renewal->life.not_before_s || now_s >= renewal->due_s)
        return 0;
    return lh_min_i64(renewal->due_s - now_s, until_s(renewal->soon_us));
}

static void look_later(lh_renewal *renewal) {
    int64_t wait_s = lh_max_i64(due_in_s(renewal), until_s(renewal->retry_us));
    wait_s = lh_min_i64(wait_s, LOOK_S);
    uv_timer_start(&renewal->timer, on_look, (uint64_t)wait_s * 1000, 0);
}

/* ---- Asking ---- */

static void ask_on_pool(uv_work_t *work) {
    lh_renewal *renewal = work->data;
    renewal->status =
        renewal->is_for_trust
            ? lh_member_request_trust(&renewal->options.program->tls, renewal->trust_wanted,
                                      &renewal->fresh, &renewal->error)
            : lh_member_request_certificate(&renewal->options.program->tls, renewal->options.store,
                                            &renewal->fresh, &renewal->error);
    if (renewal->status == LH_OK)
        renewal->status =
            lh_membership_store_save(renewal->options.store, &renewal->fresh, &renewal->error);
}

/* The next try is later, and sooner towards the end. */
static void note_failure(lh_renewal *renewal) {
    int64_t left_s = renewal->life.not_after_s - now(),
            pause_s = lh_renewal_pause_s(++renewal->failures, left_s);
    renewal->retry_us = lh_clock_us() + pause_s * SECOND_US;
    lh_log(LH_LOG_WARN, "membership", "%s, trying again in %lld s days_left=%.1f reason=\"%s\"",
           renewal->is_for_trust ? "the fleet's new CAs are not known yet"
                                 : "the certificate is not renewed",
           (long long)pause_s, (double)left_s / DAY_S, renewal->error.message);
}

static void take_fresh(lh_renewal *renewal) {
    lh_error error;
    *renewal->options.membership = renewal->fresh;
    renewal->failures = 0;
    renewal->retry_us = 0;
    lh_log(LH_LOG_INFO, "membership", "%s",
           renewal->is_for_trust ? "the fleet trusts other CAs now" : "the certificate is renewed");
    lh_program_options_reload_tls(renewal->options.program, "membership");
    if (note_set(renewal, &error) != LH_OK) {
        renewal->error = error;
        note_failure(renewal);
    }
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_renewal *renewal = handle->data;
    void (*on_closed)(void *) = renewal->on_closed;
    void *context = renewal->closed_context;
    explicit_bzero(&renewal->fresh, sizeof renewal->fresh);
    free(renewal);
    on_closed(context);
}

static void on_asked(uv_work_t *work, int cancelled) {
    lh_renewal *renewal = work->data;
    assert(cancelled == 0 && renewal->working);
    (void)cancelled;
    renewal->working = false;
    if (renewal->closing) {
        uv_close((uv_handle_t *)&renewal->timer, on_timer_closed);
        return;
    }
    if (renewal->status == LH_OK)
        take_fresh(renewal);
    else
        note_failure(renewal);
    explicit_bzero(&renewal->fresh, sizeof renewal->fresh);
    look_later(renewal);
}

static void on_look(uv_timer_t *timer) {
    lh_renewal *renewal = timer->data;
    assert(!renewal->working && !renewal->closing);
    if (due_in_s(renewal) > 0 || until_s(renewal->retry_us) > 0) {
        look_later(renewal);
        return;
    }
    renewal->is_for_trust = wants_trust(renewal);
    renewal->fresh = *renewal->options.membership;
    renewal->working = true;
    uv_queue_work(timer->loop, &renewal->work, ask_on_pool, on_asked); /* which cannot fail */
}

/* ---- From outside ---- */

lh_status lh_renewal_create(const lh_renewal_options *options, lh_renewal **out, lh_error *error) {
    lh_renewal *renewal = calloc(1, sizeof *renewal);
    if (!renewal)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    renewal->options = *options;
    lh_status status = note_set(renewal, error);
    if (status != LH_OK) {
        free(renewal);
        return status;
    }
    uv_timer_init(options->loop, &renewal->timer);
    renewal->timer.data = renewal->work.data = renewal;
    look_later(renewal);
    *out = renewal;
    return LH_OK;
}

void lh_renewal_hear_trust(lh_renewal *renewal, const char *digest) {
    if (renewal->closing || strcmp(digest, renewal->trust_wanted) == 0)
        return;
    snprintf(renewal->trust_wanted, sizeof renewal->trust_wanted, "%s", digest);
    if (!renewal->working)
        look_later(renewal);
}

const char *lh_renewal_trust(const lh_renewal *renewal) {
    return renewal->trust;
}

void lh_renewal_close(lh_renewal *renewal, void (*on_closed)(void *), void *context) {
    assert(!renewal->closing);
    renewal->closing = true;
    renewal->on_closed = on_closed;
    renewal->closed_context = context;
    uv_timer_stop(&renewal->timer);
    if (!renewal->working)
        uv_close((uv_handle_t *)&renewal->timer, on_timer_closed);
}
