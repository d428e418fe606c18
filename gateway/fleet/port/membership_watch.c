/* A timer, and one piece of work at a time. */
#include "gateway/fleet/port/membership_watch.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gateway/membership/clock_jumps.h"
#include "gateway/membership/trust_spread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 300 /* a revoked worker is out within a second */

struct lh_membership_watch {
    lh_membership_watch_options options;
    lh_membership_view view;
    lh_trust_spread spread;
    lh_certificates_in_use in_use;
    lh_clock_jumps clock;
    uv_timer_t timer;
    uv_work_t work;
    bool is_working, is_closing, has_failed;
    bool is_timer_closed;
    lh_membership_waiter *waiting, *served; /* the second: by the work that goes on */
    /* Of the work; the loop looks at them when it is done. */
    lh_upkeep_moment moment;
    lh_certificates_in_use told; /* the moment's */
    lh_membership_view found;
    lh_status status;
    lh_error error;
    void (*on_closed)(void *);
    void *context;
};

/* ---- On another thread ---- */

static lh_status reload(lh_tls_credentials *credentials, const lh_member_list *members,
                        lh_error *error) {
    lh_tls_serial *serials = calloc(members->count ? members->count : 1, sizeof *serials);
    if (!serials)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the list of members");
    for (size_t i = 0; i < members->count; i++)
        memcpy(serials[i], members->members[i].serial, LH_SERIAL_BYTES);
    lh_status status = lh_tls_credentials_reload_for(credentials, serials, members->count, error);
    free(serials);
    return status;
}

static void look(lh_membership_watch *watch) {
    const lh_membership_watch_options *o = &watch->options;
    watch->status = lh_upkeep_refresh(lh_membership_upkeep(o->membership), &watch->moment,
                                      &watch->found, &watch->error);
    if (watch->status != LH_OK || !watch->found.is_new)
        return;
    watch->status = reload(o->credentials, &watch->found.members, &watch->error);
    if (watch->status == LH_OK)
        return;
    lh_membership_view_reset(&watch->found);
    lh_upkeep_look_anew(lh_membership_upkeep(o->membership));
}

static void on_work(uv_work_t *work) {
    look(work->data);
}

/* ---- On the loop ---- */

/* Once for a row of failures. */
static void tell_failure(lh_membership_watch *watch) {
    if (watch->status != LH_OK && !watch->has_failed)
        lh_log(LH_LOG_ERROR, "fleet", "the fleet's membership stays as it was: %s",
               watch->error.message);
    watch->has_failed = watch->status != LH_OK;
}

static void take_found(lh_membership_watch *watch) {
    const lh_membership_watch_options *o = &watch->options;
    lh_membership_view before = watch->view;
    watch->view = watch->found;
    watch->found = (lh_membership_view){0};
    lh_trust_spread_begin(&watch->spread, watch->view.trust_sha256);
    if (before.is_new && o->on_change) /* not the first one */
        o->on_change(o->context, &before);
    lh_membership_view_reset(&before);
}

static void finish_closing(lh_membership_watch *watch) {
    void (*on_closed)(void *) = watch->on_closed;
    void *context = watch->context;
    lh_membership_view_reset(&watch->view);
    lh_membership_view_reset(&watch->found);
    free(watch);
    on_closed(context);
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_membership_watch *watch = handle->data;
    watch->is_timer_closed = true;
    if (!watch->is_working)
        finish_closing(watch);
}

static void start_look(lh_membership_watch *watch);

static void on_looked(uv_work_t *work, int status) {
    lh_membership_watch *watch = work->data;
    lh_membership_waiter *served = watch->served;
    (void)status;
    watch->is_working = false;
    if (watch->is_closing) {
        if (watch->is_timer_closed)
            finish_closing(watch);
        return;
    }
    tell_failure(watch);
    if (watch->status == LH_OK && watch->found.is_new)
        take_found(watch);
    while (served) {
        lh_membership_waiter *waiter = served;
        served = waiter->next;
        waiter->on_looked(waiter);
    }
    if (watch->waiting)
        start_look(watch);
}

static void note_clock(lh_membership_watch *watch) {
    int64_t now_s = time(NULL), jump_s = lh_clock_jumps_note(&watch->clock, now_s, lh_clock_us());
    bool is_settled = lh_clock_jumps_is_settled(&watch->clock);
    watch->moment = (lh_upkeep_moment){.now_s = now_s, .is_clock_settled = is_settled};
    if (jump_s)
        lh_log(LH_LOG_WARN, "fleet",
               "the clock was set: for an hour no CA leaves and none signs by it set_by_s=%lld",
               (long long)jump_s);
}

/* Certificates that have ended by a clock that was just set may not have. */
static void note_what_is_told(lh_membership_watch *watch) {
    lh_upkeep_moment *moment = &watch->moment;
    moment->everybody_believes =
        watch->view.has_next &&
        lh_trust_spread_is_complete(&watch->spread, &watch->view.members,
                                    moment->is_clock_settled ? moment->now_s : 0);
    watch->told = watch->in_use;
    moment->in_use = &watch->told;
}

static void start_look(lh_membership_watch *watch) {
    note_clock(watch);
    note_what_is_told(watch);
    watch->served = watch->waiting;
    watch->waiting = NULL;
    watch->is_working = true;
    int code = uv_queue_work(watch->options.loop, &watch->work, on_work, on_looked);
    assert(code == 0); /* it fails for want of a function alone */
    (void)code;
}

static void on_timer(uv_timer_t *timer) {
    lh_membership_watch *watch = timer->data;
    if (!watch->is_working)
        start_look(watch);
}

void lh_membership_watch_await(lh_membership_watch *watch, lh_membership_waiter *waiter) {
    assert(!watch->is_closing);
    waiter->next = watch->waiting;
    watch->waiting = waiter;
    if (!watch->is_working)
        start_look(watch);
}

lh_status lh_membership_watch_create(const lh_membership_watch_options *options,
                                     lh_membership_watch **out, lh_error *error) {
    lh_membership_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet's membership");
    watch->options = *options;
    lh_upkeep_look_anew(lh_membership_upkeep(options->membership));
    note_clock(watch);
    look(watch);
    lh_status status = watch->status;
    if (status != LH_OK) {
        lh_fail(error, status, "%s", watch->error.message);
        free(watch);
        return status;
    }
    take_found(watch);
    uv_timer_init(options->loop, &watch->timer);
    watch->timer.data = watch->work.data = watch;
    uv_timer_start(&watch->timer, on_timer, LOOK_MS, LOOK_MS);
    *out = watch;
    return LH_OK;
}

void lh_membership_watch_close(lh_membership_watch *watch, void (*on_closed)(void *),
                               void *context) {
    assert(!watch->is_closing && !watch->waiting);
    watch->is_closing = true;
    watch->on_closed = on_closed;
    watch->context = context;
    uv_close((uv_handle_t *)&watch->timer, on_timer_closed);
}

const lh_membership_view *lh_membership_watch_view(const lh_membership_watch *watch) {
    return &watch->view;
}

void lh_membership_watch_note(lh_membership_watch *watch, const char *worker,
                              const char *bundle_sha256, int64_t certificate_ends_s) {
    lh_trust_spread_note(&watch->spread, worker, bundle_sha256);
    lh_certificates_in_use_note(&watch->in_use, worker, certificate_ends_s);
}
