/* Beginning and end of the engine, for main.c. */
#pragma once

#include "common/h2_stream.h"
#include "common/tls_channel.h"
#include "gateway/engine/engine.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/model_file.h"
#include "gateway/schedule/scheduler.h"
#include "gateway/trace/trace_store.h"

typedef struct lh_engine_options {
    uint32_t replicas; /* chains of the model: 1..LH_REPLICAS_MAX */
    lh_fleet_options fleet;
    lh_scheduler_options scheduler; /* sequences_max: of each chain; queue_max: of all */
    const lh_model_profile *profile;
    lh_model_file *model_file; /* its digests have not been started */
    const char *model_name;
    const char *fleet_listen;
    const lh_tls_options *tls; /* of the fleet port and the first hop; NULL: none */
    lh_h2_limits limits;       /* of the connections of both */
    uint32_t digest_threads;
    bool logs_digests;      /* of the logits, with every token that has one */
    lh_trace_store *traces; /* where traced requests' steps are told of; NULL: nothing is traced */
} lh_engine_options;

/* Listens on the fleet port and starts the engine's thread. All that the options point to outlives the engine. Errors: those of
 * lh_h2_server_create (address, port in use, certificates), LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_engine_create(const lh_engine_options *options, lh_engine **engine, lh_error *error);
int lh_engine_fleet_port(const lh_engine *engine);
/* Takes no new sequences from now on: LH_ENGINE_DRAINING. */
void lh_engine_drain(lh_engine *engine);
/* Sequences that are left fail. Nobody may call the engine any more. */
void lh_engine_destroy(lh_engine *engine);
