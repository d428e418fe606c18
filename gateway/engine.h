/* The seam between the public API (libmicrohttpd's threads) and the fleet (the engine's libuv thread): a request for
 * token ids goes in, events come out. The engine owns the scheduler, the registry and the fleet port.
 *
 * Thread: lh_engine_submit, _cancel and the snapshots may be called by any thread. on_event runs on the
 * engine's thread, must not block, and must not call back into the engine. */
#pragma once

#include "common/status.h"
#include "gateway/overlap_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_engine lh_engine;

typedef struct lh_engine_bias {
    uint32_t token;
    float bias;
} lh_engine_bias;

typedef struct lh_engine_sampling {
    float temperature;
    uint32_t top_k;
    float top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    uint64_t seed;
    bool want_logprob, want_digest;
    uint32_t top_logprobs;
    const lh_engine_bias *biases; /* [bias_count]; copied */
    uint32_t bias_count;
} lh_engine_sampling;

typedef enum lh_finish_reason { LH_FINISH_STOP, LH_FINISH_LENGTH } lh_finish_reason;

typedef struct lh_engine_logprob {
    uint32_t token;
    float logprob;
} lh_engine_logprob;

typedef enum lh_engine_event_kind {
    LH_ENGINE_TOKEN,    /* one drawn token; a stop token is not reported, only the finish */
    LH_ENGINE_FINISHED, /* the last event of the sequence */
    LH_ENGINE_FAILED    /* the last event of the sequence: status and message */
} lh_engine_event_kind;

typedef struct lh_engine_event {
    lh_engine_event_kind kind;
    uint32_t token;
    uint32_t position; /* of the token in the sequence, the prompt included */
    float logprob;
    uint32_t top_count;
    const lh_engine_logprob *top; /* during the call */
    uint64_t digest;
    lh_finish_reason reason;
    lh_status status; /* FAILED: LH_ERR_UNAVAILABLE (no chain: 503), LH_ERR_TIMEOUT (504), else 500 */
    const char *message;
} lh_engine_event;

typedef void lh_engine_on_event(void *context, const lh_engine_event *event);

/* One sequence: a request with n choices submits n of them. */
typedef struct lh_engine_request {
    const uint32_t *prompt; /* [prompt_tokens], > 0; copied */
    uint32_t prompt_tokens;
    uint32_t max_tokens;         /* >= 1; prompt_tokens + max_tokens <= the context */
    const uint32_t *stop_tokens; /* [stop_token_count]: end of generation; copied */
    uint32_t stop_token_count;
    uint32_t min_tokens; /* stop tokens do not end it before so many */
    lh_engine_sampling sampling;
    bool has_overlap; /* else the server's */
    lh_overlap_spec overlap;
    uint64_t trace; /* its number in the trace store; 0: it is not traced */
    lh_engine_on_event *on_event;
    void *context;
} lh_engine_request;

/* Admits `count` sequences, all or none. handles[count] identify them. LH_ERR_BUSY: the queue is full (429);
 * LH_ERR_UNAVAILABLE: no complete chain (503); LH_ERR_NO_MEMORY. Events may come before it returns. */
lh_status lh_engine_submit(lh_engine *engine, const lh_engine_request *requests, uint32_t count,
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
