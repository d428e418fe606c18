/* What an engine is created with. A header of its own, so that those who only use the engine see
 * nothing of fleet, scheduler and sockets. */
#pragma once

#include "common/http2/limits.h"
#include "common/net/tls_channel.h"
#include "gateway/engine/engine.h"
#include "gateway/engine/self_description.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/port/model_file.h"
#include "gateway/membership/membership.h"
#include "gateway/schedule/scheduler.h"
#include "gateway/trace/trace_store.h"

struct lh_engine_options {
    /* Chains of the model: 1..LH_REPLICAS_MAX. */
    uint32_t replicas;
    double spot_check_rate; /* the share of answers that several chains check: 0 to 1 */
    lh_fleet_options fleet;
    /* sequences_max: of each chain; queue_max: of all. */
    lh_scheduler_options scheduler;
    /* Its digests have not been started. */
    lh_model_file *model_file;
    const char *model_name;
    const char *fleet_listen;
    /* Of the fleet port and the first hops; NULL: none. */
    const lh_tls_options *tls;
    /* Of the fleet's members, where the gateway has a CA of its own; else NULL. */
    lh_membership *membership;
    /* Of the connections of both. */
    lh_h2_limits limits;
    uint32_t digest_threads;
    /* Of the logits, with every token that has one. */
    bool logs_digests;
    /* For GET /fleet. */
    lh_self_description self;
    /* Where the steps of traced requests are put; NULL: nothing is traced. */
    lh_trace_store *traces;
    /* Called on the engine's thread every so often while its loop turns: who hears nothing knows
     * that it hangs. It must not block. 0: never. */
    uint32_t alive_interval_ms;
    void (*on_alive)(void *context, const lh_engine *engine);
    void *alive_context;
    /* Whether lh_engine_render_metrics is to tell of the fleet. */
    bool publishes_metrics;
};
