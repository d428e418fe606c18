/* The engine's side of one chain: does what its conductor wants at the first hop, and tells it what comes from there. */
#include "gateway/engine/engine_state.h"

#include "common/clock.h"
#include "common/log.h"

/* ---- Actions ----------------------------------------------------------------------------------------------------- */

static void record_step(const lh_engine_chain *chain, const lh_step_manifest *manifest, int64_t formed_us) {
    lh_engine *engine = chain->engine;
    if (!engine->recorder)
        return;
    const lh_scheduler *scheduler = lh_conductor_scheduler(lh_replicas_at(engine->replicas, chain->index));
    uint32_t count = lh_scheduler_traced_parts(scheduler, manifest->step, engine->parts,
                                               engine->options.scheduler.sequences_max);
    lh_step_recorder_submit(engine->recorder, manifest, engine->parts, count, formed_us, lh_clock_us());
}

static void submit_step(const lh_engine_chain *chain, const lh_step_manifest *manifest) {
    lh_error error;
    uint32_t epoch = manifest->epoch;
    uint64_t step = manifest->step;
    int64_t formed_us = lh_clock_us();
    lh_status status = lh_engine_hop_submit(chain->hop, manifest, &error);
    if (status == LH_OK && manifest->timed)
        record_step(chain, manifest, formed_us);
    if (status != LH_OK)
        lh_replicas_step_done(chain->engine->replicas, chain->index, epoch, step, status, error.message,
                              lh_clock_us());
}

static void connect_first(const lh_engine_chain *chain, const char *address, bool over_tls) {
    lh_error error;
    lh_log(LH_LOG_INFO, "engine", "connecting to the first worker chain=%u address=%s tls=%d",
           chain->index + 1, address, over_tls);
    if (lh_engine_hop_connect(chain->hop, address, over_tls, &error) != LH_OK)
        lh_log(LH_LOG_ERROR, "engine", "no connection to the first worker address=%s error=\"%s\"", address,
               error.message);
}

void lh_engine_chain_act(const lh_engine_chain *chain, const lh_action *action) {
    switch (action->kind) {
    case LH_ACTION_CONNECT:
        connect_first(chain, action->address, action->tls);
        break;
    case LH_ACTION_SUBMIT:
        submit_step(chain, action->manifest);
        break;
    case LH_ACTION_CANCEL:
        lh_engine_hop_cancel(chain->hop, action->step);
        break;
    case LH_ACTION_ABANDON:
        lh_engine_hop_cancel_all(chain->hop);
        break;
    }
}

/* ---- What is heard ----------------------------------------------------------------------------------------------- */

void lh_engine_chain_measure(const lh_engine_chain *chain) {
    lh_hop_profile first_hop;
    lh_engine_hop_read_profile(chain->hop, &first_hop);
    lh_replicas_measure_first_hop(chain->engine->replicas, chain->index, &first_hop);
}

static void on_hop_state(void *context, bool connected, const char *reason) {
    const lh_engine_chain *chain = context;
    lh_engine_chain_measure(chain);
    lh_replicas_first_hop(chain->engine->replicas, chain->index, connected, lh_clock_us(), reason);
    lh_engine_turn(chain->engine);
}

static void on_hop_done(void *context, uint32_t epoch, uint64_t step, lh_status status, const char *message) {
    const lh_engine_chain *chain = context;
    lh_engine *engine = chain->engine;
    if (engine->recorder)
        lh_step_recorder_done(engine->recorder, epoch, step, status, lh_clock_us());
    lh_replicas_step_done(engine->replicas, chain->index, epoch, step, status, message, lh_clock_us());
    lh_engine_turn(engine);
}

static void on_hop_times(void *context, uint32_t epoch, uint64_t step, const uint8_t *frames, size_t length) {
    lh_engine *engine = ((const lh_engine_chain *)context)->engine;
    if (engine->recorder)
        lh_step_recorder_times(engine->recorder, epoch, step, frames, length);
}

lh_status lh_engine_chain_create(lh_engine *engine, uint32_t index, lh_error *error) {
    const lh_engine_options *o = &engine->options;
    lh_engine_chain *chain = &engine->chains[index];
    const lh_engine_hop_events events = {chain, on_hop_state, on_hop_done, on_hop_times};
    *chain = (lh_engine_chain){.engine = engine, .index = index};
    return lh_engine_hop_create(&engine->loop, lh_replicas_name(engine->replicas, index), o->tls, &o->limits,
                                &events, &chain->hop, error);
}
