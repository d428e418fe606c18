/* The server's own structs. Private to server*.c. */
#pragma once

#include "common/byte_queue.h"
#include "worker/api/step.h"
#include "worker/api/worker_client.h"
#include "worker/pipeline/pipeline.h"
#include "worker/server/server.h"
#include "worker/server/server_meter.h"
#include "worker/server/server_stopwatch.h"
#include "worker/server/server_times.h"
#include "worker/server/step_window.h"

#include <sys/queue.h>

/* The request that brings a step's shards apart from its manifest. */
typedef struct lh_server_shards {
    lh_server *server;
    TAILQ_ENTRY(lh_server_shards) links;
    lh_h2_stream *stream;
    uint64_t number;
    uint32_t epoch;
    struct lh_server_step *step; /* NULL: it has not come, or wants them no more */
    bool is_unwanted;            /* the latter */
    bool ended, answered;
    lh_byte_queue waiting; /* for the step */
} lh_server_shards;

typedef TAILQ_HEAD(lh_server_shards_list, lh_server_shards) lh_server_shards_list;

/* One step from its request to its answer. It goes when nobody holds it any more: not the stream upstream,
 * not the pipeline, not the submission downstream. */
typedef struct lh_server_step {
    lh_server *server;
    TAILQ_ENTRY(lh_server_step) links;
    uint64_t number; /* of the path */
    uint32_t epoch;
    lh_step_class step_class;
    lh_h2_stream *upstream;   /* NULL: closed */
    lh_server_shards *shards; /* NULL: they come with the manifest, have not come, or have gone */
    lh_step_reader *reader;
    lh_pipeline_step *pipeline_step; /* NULL: not begun, or ended */
    lh_step_submission *downstream;  /* NULL: not opened, or done */
    size_t held_bytes;               /* come, and their window not opened again */
    size_t pending_bytes;            /* of shards that the compute side has not taken */
    size_t sent_bytes;               /* given downstream, and not yet counted as gone */
    int64_t first_byte_us;           /* of the body; 0: none has come */
    lh_server_times *times;          /* NULL: not timed */
    lh_server_stopwatch stopwatch;
    bool shards_go_apart; /* by another connection */
    bool ends_here;       /* it is not passed on */
    bool has_manifest;
    bool awaits_shards; /* its manifest is here, and they may be read */
    bool body_ended;    /* read to its end, and sound */
    bool computed;      /* the pipeline has ended it well */
    bool passed;        /* the next hop has answered 200 */
    bool settled;       /* answered, failed or cancelled */
    bool hop_failed;    /* it failed at the next hop: 502 */
} lh_server_step;

typedef TAILQ_HEAD(lh_server_steps, lh_server_step) lh_server_steps;

/* lh_server_route with texts of its own. */
typedef struct lh_server_place {
    lh_server_route route;
    char *chain, *next_name, *next_address;
} lh_server_place;

struct lh_server {
    uv_loop_t *loop;
    char *name;
    const lh_tls_options *tls;
    lh_h2_limits limits;
    uint32_t hop_connections;
    lh_h2_server *plain, *secure; /* NULL: none */
    uv_async_t woken;             /* the pipeline has something to poll */
    uv_check_t after_io;          /* counts what has left downstream */
    lh_pipeline *pipeline;
    lh_server_meter meter; /* of the stage; without points where there is none */
    lh_worker_client *next;
    bool routed; /* place is set */
    lh_server_place place;
    lh_step_window window; /* the steps of this epoch that have come */
    uint32_t kv_epoch;     /* with which the KV cache was last emptied; 0: it has no place */
    bool awaits_roll;      /* it was kept, and no step has come since */
    bool has_begun;        /* a step of this epoch has come */
    int64_t passed_us;     /* when a step was last taken by the next hop; 0: none was */
    bool hop_is_suspect;   /* a step was given up that the next hop had not answered for long */
    lh_server_steps steps;
    lh_server_shards_list shards; /* requests that are open */
    size_t shards_waiting_bytes;  /* of all that have no step yet */
    uint32_t step_count;
    uint64_t steps_done, steps_failed;
    bool window_held; /* some step's window waits for room in the inbox */
    bool leaving;
    void (*on_change)(void *), (*on_trouble)(void *);
    void *change_context;
    void (*on_idle)(void *);
    void *idle_context;
    void (*on_removed)(void *);
    void *removed_context;
    unsigned open_parts; /* listeners, hops and handles that are open or still closing */
    bool close_wanted, closing;
    void (*on_closed)(void *);
    void *closed_context;
};

/* ---- server_step.c ------------------------------------------------------------------------------ */

extern const lh_h2_stream_events lh_server_step_stream_events;
extern const lh_pipeline_events lh_server_step_pipeline_events; /* all but on_removed */

/* A step of this number on the stream. LH_ERR_NO_MEMORY. */
lh_status lh_server_step_create(lh_server *server, lh_h2_stream *upstream, uint64_t number,
                                bool shards_go_apart, lh_server_step **step, lh_error *error);
/* Answers with a failure of this worker and cancels what is under way. The step may be gone afterwards. */
void lh_server_step_fail(lh_server_step *step, lh_status status, const char *message);
/* The next hop is done with the step. */
void lh_server_step_on_passed(void *context, void *step_context, lh_status status, const char *worker,
                              const char *message);
/* The answer of the next hop brought times. */
void lh_server_step_on_times(void *context, void *step_context, const uint8_t *frames, size_t length);
/* Counts the bytes that have left downstream. */
void lh_server_step_count_sent(lh_server_step *step);
/* The pipeline is gone: it holds the step no more. The step may be gone afterwards. */
void lh_server_step_forget_pipeline(lh_server_step *step);

/* The body goes on with these bytes, which stay in their stream's window until the compute side has room. The step may be gone
 * afterwards. */
void lh_server_step_feed(lh_server_step *step, const uint8_t *bytes, size_t length);
/* The body is here to its end. The step may be gone afterwards. */
void lh_server_step_end_body(lh_server_step *step);
/* The connection that brought its shards has gone before their end. The step may be gone afterwards. */
void lh_server_step_lose_shards(lh_server_step *step);

/* ---- server_manifest.c -------------------------------------------------------------------------- */

/* For the step's reader: begins the step that `step` is, and submits it to the next hop where it goes on. LH_ERR_STALE,
 * LH_ERR_UNAVAILABLE: of another epoch. LH_ERR_INVALID: against the roll. Else as the pipeline and the next hop say. */
lh_status lh_server_step_on_manifest(void *step, const lh_step_manifest *manifest, lh_error *error);
/* The manifest goes on without the cut of this worker's own result, and with one worker less to go. Where the next hop
 * does not take it, hop_failed is set. */
lh_status lh_server_step_submit(lh_server_step *step, const lh_step_manifest *manifest, lh_error *error);

/* ---- server_shards.c ---------------------------------------------------------------------------- */

/* A request with the shards of a step that has come or will come: sets *events and *context, or cancels. */
void lh_server_shards_take(lh_server *server, lh_h2_stream *stream, uint32_t epoch, uint64_t number,
                           const lh_h2_stream_events **events, void **context);
/* The step awaits its shards: those that are here already go in. The step may be gone afterwards. */
void lh_server_shards_find(lh_server_step *step);
/* The step wants no more of them; held_bytes: so many that it was fed are still in the window. */
void lh_server_shards_leave(lh_server_shards *shards, size_t held_bytes);

/* ---- server.c ----------------------------------------------------------------------------------- */

/* For the listeners (server_request.c). */
void lh_server_on_request(void *server, lh_h2_stream *stream, const lh_h2_request *request,
                          const lh_h2_stream_events **events, void **context);
/* A step's life has ended. */
void lh_server_on_step_gone(lh_server *server);
/* A step failed, was refused (NULL) or was cancelled: counts it, and tells whoever watches. */
void lh_server_on_step_lost(lh_server *server, const lh_server_step *step);
