/* A simulated worker: the real step codec, the rules of PROTOCOL.md and CONTROL.md, a toy model,
 * and a clock that says how long a step takes. It checks what the gateway promises and counts every
 * breach. */
#pragma once

#include "gateway/fleet/fleet.h"
#include "tests/fleet/support/network.h"

typedef struct toy_worker toy_worker;

typedef struct toy_worker_options {
    const char *name, *site;
    uint32_t threads;
    uint64_t memory_bytes;
    uint32_t pages_total, page_positions;
    /* a row that leaves over a wire other than f32 loses what that would take from real numbers */
    int64_t step_us, row_us; /* a step of n > 0 rows takes step_us + n * row_us, */
    int64_t layer_us;        /* and for each layer of its stage n * layer_us more */
    /* of a row in a layer: what it says at its start that its machine is like; 0: nothing */
    int64_t start_us;
    int64_t load_us;   /* to load a stage */
    bool counts_load;  /* reports how far it is with that */
    bool measures;     /* reports what its steps and its hop take */
    int64_t hidden_us; /* of each step's time, which it does not report */
    /* in all that it says of its speed it is so many times as fast as it is; 0: as it is */
    double boasts;
    uint64_t lies; /* what its meter is told of its steps: liar.h; 0: the truth */
    /* every so many-th token that it draws is one that does not exist, or, where it is drawn by a
     * mask, it says that it lacks that; 0: none */
    uint32_t forges;
    /* as the last worker every so many-th token that it draws, as another one every so many-th row
     * that it computes, is a wrong one that could be right; 0: none */
    uint32_t falsifies;
    uint32_t poison_token; /* a step that holds it is refused; 0: none */
    uint32_t vocabulary;   /* tokens of a mask; 0: it takes none */
    /* it may compute a stage together with others: as the first of them it does all of it, as
     * another one nothing but to load */
    bool joins;
} toy_worker_options;

/* What the worker sees of the rest. */
typedef struct toy_world {
    void *context;
    event_queue *queue;
    const int64_t *now_us;
    network *net;
    int (*node_of)(void *context, const char *worker);
    /* The control plane, without its delay. False: the gateway is not there. */
    bool (*put)(void *context, const lh_worker_report *report, lh_fleet_answer *answer);
} toy_world;

typedef struct toy_worker_figures {
    uint64_t steps, rows;
    int64_t busy_us;
    /* pages or steps over the limit, a gap or overlap in positions, a wrong counter */
    uint64_t breaches;
    uint64_t forged; /* tokens */
    uint64_t falsified;
    uint64_t masks;    /* that came */
    uint64_t corrupt;  /* bodies refused for their checksums */
    uint64_t repeated; /* steps refused since they had come before */
    uint64_t loads;    /* of stages, since the process started; prepared ones count, too */
    uint64_t waits;    /* loads in which the stage that was to serve was awaited */
    uint64_t surveys;  /* of links, that came to their end */
    bool is_surveying;
    uint32_t sequences; /* held now */
    uint32_t pages;
    bool awaits_resync; /* what is held is still to be cut to what the gateway knows of */
} toy_worker_figures;

toy_worker *toy_worker_create(const toy_world *world, const toy_worker_options *options, int node);
void toy_worker_destroy(toy_worker *worker);

/* Starts the process, with an empty KV cache and no assignment. */
void toy_worker_start(toy_worker *worker);
void toy_worker_kill(toy_worker *worker);
bool toy_worker_is_alive(const toy_worker *worker);
/* Asked to leave: it dies when it may go. */
void toy_worker_set_leaving(toy_worker *worker, bool leaving);

void toy_worker_on_message(toy_worker *worker, const message *received);
void toy_worker_on_connection(toy_worker *worker, int from, int to, bool connected);

/* From now on its layers take so many times as long; of new stages its meter believes layer_us at
 * first. */
void toy_worker_set_slowness(toy_worker *worker, double times);

/* From now on, as the option. */
void toy_worker_set_forging(toy_worker *worker, uint32_t forges);

void toy_worker_set_falsifying(toy_worker *worker, uint32_t falsifies);

toy_worker_figures toy_worker_current_figures(const toy_worker *worker);
