/* One trial, looked at until its probes have stopped. */
#include "worker/serve/hop_survey.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOK_MS = 250,
    PING_MS = 100, /* so that some come while no probe is on its way */
    /* Several of the meter's slots: what this machine does meanwhile tells less of it. */
    PROBE_MS = 50,
    /* The probes that open a window follow each other at once. */
    STILL_LOOKS = 2,
    /* Where nothing has filled the link: as many as it takes until none will. */
    STILL_LOOKS_OF_A_BOUND = 4,
    /* A link of 1 Mbit/s is known by then. */
    SURVEY_US = 8000000
};

static void on_handle_closed(uv_handle_t *handle) {
    lh_hop_survey *survey = handle->data;
    survey->open_parts--;
    survey->on_closed(survey->context);
}

static void on_trial_closed(void *context) {
    lh_hop_survey *survey = context;
    survey->open_parts--;
    survey->on_closed(survey->context);
}

static void end_trial(lh_hop_survey *survey) {
    uv_timer_stop(&survey->timer);
    if (survey->trial)
        lh_hop_trial_close(survey->trial, on_trial_closed, survey);
    survey->trial = NULL;
}

/* ---- While it is under way ---- */

static bool has_measured(lh_hop_survey *survey, const lh_hop_profile *hop) {
    bool is_still = hop->probe_bytes_sent == survey->probed_bytes;
    survey->still_count = is_still ? survey->still_count + 1 : 0;
    survey->probed_bytes = hop->probe_bytes_sent;
    bool is_rate = hop->bytes_per_us > 0 && !hop->bytes_per_us_is_bound;
    return survey->still_count >= (unsigned)(is_rate ? STILL_LOOKS : STILL_LOOKS_OF_A_BOUND);
}

static void conclude(lh_hop_survey *survey) {
    survey->report = *lh_hop_trial_read(survey->trial);
    lh_hop_trial_read_profile(survey->trial, &survey->report.hop);
    if (survey->report.state == LH_HOP_TRIAL_RUNNING) {
        survey->report.state = LH_HOP_TRIAL_FAILED;
        snprintf(survey->report.error, sizeof survey->report.error,
                 "%.200s: nobody has answered within %d s", survey->target.next.address,
                 SURVEY_US / 1000000);
    }
    end_trial(survey);
    survey->on_change(survey->context);
}

static void look(lh_hop_survey *survey) {
    lh_hop_profile hop;
    lh_hop_trial_state state = lh_hop_trial_read(survey->trial)->state;
    lh_hop_trial_read_profile(survey->trial, &hop);
    bool is_over = (int64_t)uv_now(survey->loop) * 1000 - survey->begun_us >= SURVEY_US;
    bool is_done = state == LH_HOP_TRIAL_PROVEN && has_measured(survey, &hop);
    if (state == LH_HOP_TRIAL_FAILED || is_done || is_over)
        conclude(survey);
}

static void on_look(uv_timer_t *timer) {
    look(timer->data);
}

/* Why it cannot be measured is told at once. */
static void on_trial_change(void *context) {
    lh_hop_survey *survey = context;
    if (lh_hop_trial_read(survey->trial)->state == LH_HOP_TRIAL_FAILED)
        conclude(survey);
}

/* ---- Its beginning ---- */

/* Probes double, so all of them are not quite twice the last one. */
static uint64_t probe_bytes_max(uint64_t bytes_max) {
    uint64_t bytes = LH_LINK_PROBE_BYTES_MIN;
    while (4 * bytes <= bytes_max && bytes < LH_LINK_PROBE_BYTES_MAX)
        bytes *= 2;
    return bytes;
}

/* The trial takes the client over before it can tell anything. */
static void on_nothing(void *context, bool connected, const char *reason) {
    (void)context;
    (void)connected;
    (void)reason;
}

static void on_no_step(void *context, void *step_context, lh_status status, const char *worker,
                       const char *message) {
    (void)context;
    (void)step_context;
    (void)status;
    (void)worker;
    (void)message;
}

static lh_status begin(lh_hop_survey *survey, lh_error *error) {
    static const lh_worker_client_events nobody = {.on_state = on_nothing, .on_done = on_no_step};
    const lh_survey_target *target = &survey->target;
    const lh_hop_trial_options options = {.next = target->next.worker,
                                          .address = target->next.address,
                                          .on_change = on_trial_change,
                                          .context = survey};
    if (target->next.tls && !survey->tls)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.80s takes TLS: give --tls-cert, --tls-key and --tls-ca",
                       target->next.address);
    lh_tls_options meant = {0};
    if (target->next.tls)
        meant = lh_tls_options_for(survey->tls, lh_way_peer(&target->next));
    lh_h2_limits limits = survey->limits;
    if (LH_LINK_PROBE_BYTES_MIN > target->bytes_max)
        limits.probe_percent = 0;
    limits.probe_span_ms = PROBE_MS;
    limits.ping_interval_ms = PING_MS;
    limits.probe_bytes_max = probe_bytes_max(target->bytes_max);
    lh_worker_client *client;
    lh_status status = lh_worker_client_create(survey->loop, target->next.address, "survey",
                                               target->next.tls ? &meant : NULL, &limits, &nobody,
                                               NULL, &client, error);
    if (status != LH_OK)
        return status;
    survey->open_parts++;
    status = lh_hop_trial_create(survey->loop, client, &options, &survey->trial, error);
    if (status != LH_OK)
        lh_worker_client_close(client, on_trial_closed, survey);
    return status;
}

void lh_hop_survey_want(lh_hop_survey *survey, const lh_survey_target *target) {
    lh_error error;
    if (target && survey->report.state != LH_HOP_TRIAL_NONE &&
        lh_way_is_same(&survey->target.next, &target->next))
        return;
    end_trial(survey);
    survey->report = (lh_hop_trial_report){.state = LH_HOP_TRIAL_NONE};
    if (!target)
        return;
    survey->target = *target;
    survey->probed_bytes = 0;
    survey->still_count = 0;
    survey->begun_us = (int64_t)uv_now(survey->loop) * 1000;
    if (begin(survey, &error) != LH_OK) {
        survey->report = lh_hop_trial_stuck(target->next.worker, target->next.address, &error);
        survey->on_change(survey->context);
        return;
    }
    survey->report.state = LH_HOP_TRIAL_RUNNING;
    uv_timer_start(&survey->timer, on_look, LOOK_MS, LOOK_MS);
}

void lh_hop_survey_read(const lh_hop_survey *survey, lh_hop_trial_report *report) {
    *report = survey->report;
    if (!survey->trial)
        return;
    *report = *lh_hop_trial_read(survey->trial);
    report->state = LH_HOP_TRIAL_RUNNING;
    lh_hop_trial_read_profile(survey->trial, &report->hop);
}

/* ---- Life ---- */

void lh_hop_survey_open(lh_hop_survey *survey) {
    uv_timer_init(survey->loop, &survey->timer);
    survey->timer.data = survey;
    survey->open_parts++;
}

void lh_hop_survey_close(lh_hop_survey *survey) {
    end_trial(survey);
    uv_close((uv_handle_t *)&survey->timer, on_handle_closed);
}
