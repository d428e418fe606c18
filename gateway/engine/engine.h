/* The engine: the seam between the public API (libmicrohttpd's threads) and the fleet (the engine's
 * own libuv thread). A request for token ids goes in, events come out. It owns the router with its
 * chain controllers, the first hops, the fleet port and the submission queue. */
#pragma once

#include "common/base/status.h"
#include "common/metrics/exposition.h"
#include "gateway/schedule/sequence_request.h"

#include <stdint.h>

typedef struct lh_engine lh_engine;

/* ---- Beginning and end: one thread, the program's ---- */

typedef struct lh_engine_options lh_engine_options; /* engine_options.h */

/* Listens on the fleet port and starts the engine's thread. All that the options point to outlives
 * the engine. Errors: those of lh_h2_server_create (address, port in use, certificates),
 * LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_engine_create(const lh_engine_options *options, lh_engine **engine, lh_error *error);
int lh_engine_fleet_port(const lh_engine *engine);
/* Takes no new sequences from now on: LH_ENGINE_DRAINING. */
void lh_engine_drain(lh_engine *engine);
/* Sequences that are left fail. Nobody may call the engine any more. NULL is allowed. */
void lh_engine_destroy(lh_engine *engine);

/* ---- Any thread ----
 *
 * A request's on_event runs on the engine's thread, must not block, and must not call back into the
 * engine, but for lh_engine_cancel_later. */

/* Admits `count` sequences, all or none. handles[count] identify them. LH_ERR_BUSY: the queue is
 * full (429); LH_ERR_UNAVAILABLE: no complete chain (503); LH_ERR_UNSUPPORTED: nor will there be
 * one of the workers that are there, since one says that it cannot compute the model; LH_ERR_LIMIT:
 * more positions than the chain's KV caches hold; LH_ERR_NO_MEMORY; those of lh_sequence_create.
 * Events may come before it returns. */
lh_status lh_engine_submit(lh_engine *engine, const lh_sequence_request *requests, uint32_t count,
                           uint64_t *handles, lh_error *error);
/* Stops a sequence and frees its pages everywhere. After it returns no further event comes for the
 * handle: it waits for one that is being delivered, so never call it from on_event. A handle that
 * has ended is no error. */
void lh_engine_cancel(lh_engine *engine, uint64_t handle);
/* The same without waiting, and allowed inside on_event. Until the engine has acted on it, events
 * of the sequence may still come; none need to, not even a last one. */
void lh_engine_cancel_later(lh_engine *engine, uint64_t handle);

typedef enum lh_engine_state {
    LH_ENGINE_LOADING,
    LH_ENGINE_READY,
    LH_ENGINE_NO_CHAIN,
    LH_ENGINE_DRAINING
} lh_engine_state;
lh_engine_state lh_engine_current_state(const lh_engine *engine);
/* With what lh_engine_submit would fail where the engine is not ready. */
void lh_engine_refusal(const lh_engine *engine, lh_error *refusal);
/* Why no chain serves: `reason` as GET /fleet reports it, with names of workers; `shortfall`
 * without them, that the model does not fit. Each is "" where it does, or is not known. */
typedef struct lh_engine_outage {
    bool is_out; /* no chain serves */
    char reason[LH_ERROR_MESSAGE_BYTES], shortfall[LH_ERROR_MESSAGE_BYTES];
    bool is_loading; /* workers fetch and load what the next chain needs, of which they have */
    uint32_t loaded_percent;
    int64_t ready_us; /* about then they have all of it; INT64_MAX: not known yet */
} lh_engine_outage;
void lh_engine_current_outage(lh_engine *engine, lh_engine_outage *outage);
/* What there is for sequences, and what is left of it for further ones. */
typedef struct lh_engine_room {
    /* Sequences that run on the chains, and that wait for it. */
    uint32_t running, waiting;
    /* Sequences that may run or wait. */
    uint32_t sequences_max, sequences_free;
    /* Of prompt and answer, in the KV caches of the chain; UINT64_MAX while there is none. */
    uint64_t positions_max, positions_free;
} lh_engine_room;
lh_engine_room lh_engine_current_room(const lh_engine *engine);
/* The metrics of requests and fleet, the latter as they were at most a second or so ago: nobody is
 * waited for. */
void lh_engine_render_metrics(lh_engine *engine, lh_exposition *exposition);
/* GET /fleet: a JSON text (workers, chains, stages, links, state), malloc'd, the caller frees;
 * NULL: out of memory. */
char *lh_engine_fleet_json(lh_engine *engine);
/* GET /fleet/map: what plans are made from (fleet_map_json.h); the same. */
char *lh_engine_fleet_map_json(lh_engine *engine);
