/* The seam between the public API (libmicrohttpd's threads) and the fleet (the engine's libuv thread): a request for
 * token ids goes in, events come out. The engine owns the scheduler, the registry and the fleet port.
 *
 * Thread: lh_engine_submit, _cancel and the snapshots may be called by any thread. on_event runs on the
 * engine's thread, must not block, and must not call back into the engine. */
#pragma once

#include "common/status.h"
#include "gateway/schedule/sequence_request.h"

#include <stdint.h>

typedef struct lh_engine lh_engine;

/* Admits `count` sequences, all or none. handles[count] identify them. LH_ERR_BUSY: the queue is full (429);
 * LH_ERR_UNAVAILABLE: no complete chain (503); LH_ERR_NO_MEMORY. Events may come before it returns. */
lh_status lh_engine_submit(lh_engine *engine, const lh_sequence_request *requests, uint32_t count,
                           uint64_t *handles, lh_error *error);
/* Stops a sequence and frees its pages everywhere. After it returns no further event comes for the handle (it waits for one
 * that is being delivered; so never call it from on_event). A handle that has ended is no error. */
void lh_engine_cancel(lh_engine *engine, uint64_t handle);
/* The same without waiting, and allowed inside on_event: some events may still come after it, but none need to, not even a last one. */
void lh_engine_cancel_later(lh_engine *engine, uint64_t handle);

typedef enum lh_engine_state {
    LH_ENGINE_LOADING,
    LH_ENGINE_READY,
    LH_ENGINE_NO_CHAIN,
    LH_ENGINE_DRAINING
} lh_engine_state;
lh_engine_state lh_engine_current_state(const lh_engine *engine);
/* Sequences running and waiting. */
void lh_engine_load(const lh_engine *engine, uint32_t *running, uint32_t *waiting);
/* What there is for sequences, and what is left of it for further ones. */
typedef struct lh_engine_room {
    uint32_t sequences_max, sequences_free; /* that run or wait */
    uint64_t positions_max,
        positions_free; /* prompt and answer, in the KV caches of the chain; UINT64_MAX while there is none */
} lh_engine_room;
lh_engine_room lh_engine_current_room(const lh_engine *engine);
/* GET /fleet: a JSON text (workers, chains, stages, links, state), malloc'd, the caller frees; NULL: out of memory. */
char *lh_engine_fleet_json(lh_engine *engine);
