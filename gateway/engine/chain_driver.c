/* Between a chain controller, which decides, and a first hop, which knows no chains. */
#include "gateway/engine/chain_driver.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gateway/engine/first_hop.h"
#include "gateway/engine/study_runner.h"
#include "gateway/trace/step_recorder.h"

#include <stdlib.h>

struct lh_chain_driver {
    lh_chain_driver_options options;
    lh_first_hop *hop;
    lh_study_runner studies;
    lh_step_recorder *recorder; /* NULL: nothing is traced */
    lh_trace_part *parts;       /* [sequences_max]: scratch of the recorder */
    void (*on_closed)(void *);
    void *closed_context;
};

/* ---- What the first hop says ---- */

lh_hop_profile lh_chain_driver_first_hop(const lh_chain_driver *driver) {
    return lh_first_hop_profile(driver->hop);
}

void lh_chain_driver_measure(lh_chain_driver *driver) {
    lh_hop_profile profile = lh_chain_driver_first_hop(driver);
    lh_chain_controller_measure_first_hop(driver->options.controller, &profile);
}

static void on_state(void *context, bool connected, const char *reason) {
    lh_chain_driver *driver = context;
    lh_chain_driver_measure(driver);
    lh_chain_controller_first_hop(driver->options.controller, connected, lh_clock_us(), reason);
    driver->options.on_news(driver->options.context);
}

static void on_done(void *context, uint32_t epoch, uint64_t step, lh_status status,
                    const char *blamed, const char *message) {
    lh_chain_driver *driver = context;
    if (driver->recorder)
        lh_step_recorder_done(driver->recorder, epoch, step, status, lh_clock_us());
    lh_chain_controller_step_done(driver->options.controller, epoch, step, status, blamed, message,
                                  lh_clock_us());
    driver->options.on_news(driver->options.context);
}

static void on_times(void *context, uint32_t epoch, uint64_t step, const uint8_t *frames,
                     size_t length) {
    const lh_chain_driver *driver = context;
    if (driver->recorder)
        lh_step_recorder_times(driver->recorder, epoch, step, frames, length);
}

static void on_trial(void *context, const lh_hop_trial_report *report) {
    lh_chain_driver *driver = context;
    lh_chain_controller_first_trial(driver->options.controller, report, lh_clock_us());
    driver->options.on_news(driver->options.context);
}

/* ---- What a study says ---- */

static void on_studied(void *context, lh_plan_study *study) {
    lh_chain_driver *driver = context;
    lh_chain_controller_studied(driver->options.controller, study, lh_clock_us());
    driver->options.on_news(driver->options.context);
}

/* ---- Life ---- */

static void destroy(lh_chain_driver *driver) {
    lh_step_recorder_destroy(driver->recorder);
    free(driver->parts);
    free(driver);
}

static lh_status create_recorder(lh_chain_driver *driver, lh_error *error) {
    driver->parts = calloc(driver->options.sequences_max, sizeof *driver->parts);
    if (!driver->parts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for traces of steps");
    return lh_step_recorder_create(driver->options.traces, &driver->recorder, error);
}

lh_status lh_chain_driver_create(const lh_chain_driver_options *options, lh_chain_driver **driver,
                                 lh_error *error) {
    lh_chain_driver *d = calloc(1, sizeof *d);
    const lh_first_hop_events events = {.context = d,
                                        .on_state = on_state,
                                        .on_done = on_done,
                                        .on_times = on_times,
                                        .on_trial = on_trial};
    if (!d)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a chain");
    d->options = *options;
    lh_study_runner_init(&d->studies, options->loop, on_studied, d);
    lh_status status = options->traces ? create_recorder(d, error) : LH_OK;
    if (status == LH_OK)
        status = lh_first_hop_create(options->loop, options->name, options->tls, &options->limits,
                                     &events, &d->hop, error);
    if (status != LH_OK) {
        destroy(d);
        return status;
    }
    *driver = d;
    return LH_OK;
}

static void on_studies_closed(void *context) {
    lh_chain_driver *driver = context;
    driver->on_closed(driver->closed_context);
    destroy(driver);
}

static void on_hop_closed(void *context) {
    lh_chain_driver *driver = context;
    lh_study_runner_close(&driver->studies, on_studies_closed, driver);
}

void lh_chain_driver_close(lh_chain_driver *driver, void (*on_closed)(void *), void *context) {
    driver->on_closed = on_closed;
    driver->closed_context = context;
    lh_first_hop_close(driver->hop, on_hop_closed, driver);
}

/* ---- What the controller wants ---- */

static void record(lh_chain_driver *driver, const lh_step_manifest *manifest, int64_t formed_us) {
    const lh_scheduler *scheduler = lh_chain_controller_scheduler(driver->options.controller);
    double believed_us[LH_COST_STAGES_MAX];
    if (!driver->recorder)
        return;
    uint32_t count = lh_scheduler_traced_parts(scheduler, manifest->step, driver->parts,
                                               driver->options.sequences_max);
    lh_step_recorder_submit(driver->recorder, manifest, driver->parts, count, formed_us,
                            lh_clock_us());
    count = lh_scheduler_believed_us(scheduler, manifest->step, believed_us);
    lh_step_recorder_believe(driver->recorder, manifest->epoch, manifest->step, believed_us, count);
}

static void submit(lh_chain_driver *driver, const lh_step_manifest *manifest) {
    lh_error error;
    int64_t formed_us = lh_clock_us();
    lh_status status = lh_first_hop_submit(driver->hop, manifest, &error);
    if (status != LH_OK)
        lh_chain_controller_step_done(driver->options.controller, manifest->epoch, manifest->step,
                                      status, "", error.message, lh_clock_us());
    else if (manifest->timed)
        record(driver, manifest, formed_us);
}

static void connect_first(lh_chain_driver *driver, const lh_action *action) {
    lh_error error;
    lh_log(LH_LOG_INFO, "engine",
           "connecting to the first worker chain=%s worker=%s address=%s tls=%d",
           driver->options.name, action->way->worker, action->way->address, action->way->tls);
    if (lh_first_hop_connect(driver->hop, action->way, &error) != LH_OK)
        lh_log(LH_LOG_ERROR, "engine", "no connection to the first worker address=%s error=\"%s\"",
               action->way->address, error.message);
}

static void try_first(lh_chain_driver *driver, const lh_action *action) {
    const bool is_tried = action->way->address[0] != '\0';
    lh_first_hop_try(driver->hop, is_tried ? action->way : NULL, action->width);
}

void lh_chain_driver_act(lh_chain_driver *driver, const lh_action *action) {
    switch (action->kind) {
    case LH_ACTION_CONNECT:
        connect_first(driver, action);
        break;
    case LH_ACTION_TRY:
        try_first(driver, action);
        break;
    case LH_ACTION_STUDY:
        lh_study_runner_run(&driver->studies, action->study);
        break;
    case LH_ACTION_SUBMIT:
        submit(driver, action->manifest);
        break;
    case LH_ACTION_CANCEL:
        lh_first_hop_cancel(driver->hop, action->step);
        break;
    case LH_ACTION_ABANDON:
        lh_first_hop_cancel(driver->hop, 0);
        break;
    }
}

static bool takes_results_of(const lh_chain_driver *driver, const lh_tls_identity *peer) {
    return !driver->options.tls ||
           lh_chain_controller_takes_results_of(driver->options.controller, peer);
}

void lh_chain_driver_refuse_results(lh_chain_driver *driver, const lh_tls_identity *peer,
                                    uint32_t epoch, uint64_t step, const char *message) {
    if (takes_results_of(driver, peer))
        lh_chain_controller_refuse_results(driver->options.controller, epoch, step, message,
                                           lh_clock_us());
}

lh_status lh_chain_driver_results(lh_chain_driver *driver, const lh_tls_identity *peer,
                                  uint32_t epoch, uint64_t step, const lh_step_result *results,
                                  uint32_t count, lh_error *error) {
    lh_chain_controller *controller = driver->options.controller;
    int64_t now_us = lh_clock_us();
    if (!takes_results_of(driver, peer)) {
        char text[LH_TLS_IDENTITY_TEXT_BYTES];
        lh_tls_identity_describe(peer, text);
        return lh_fail(error, LH_ERR_INVALID, "%s is not the chain's last worker", text);
    }
    if (driver->recorder)
        lh_step_recorder_results(driver->recorder, epoch, step, now_us);
    return lh_chain_controller_results(controller, epoch, step, results, count, now_us, error);
}
