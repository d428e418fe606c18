/* Inside the engine: its state, which engine.c (the thread and its turns) and engine_chain.c (its side of a chain) share. Thread: the
 * engine's, but for what is atomic. */
#pragma once

#include "gateway/engine/engine_hop.h"
#include "gateway/engine/engine_life.h"
#include "gateway/engine/event_mail.h"
#include "gateway/engine/fleet_queries.h"
#include "gateway/engine/front_desk.h"
#include "gateway/engine/replicas.h"
#include "gateway/fleet/fleet_server.h"
#include "gateway/trace/step_recorder.h"

#include <pthread.h>
#include <stdatomic.h>

/* One of the chains, as the loop sees it. */
typedef struct lh_engine_chain {
    lh_engine *engine;
    uint32_t index;
    lh_engine_hop *hop;
} lh_engine_chain;

struct lh_engine {
    lh_engine_options options;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_prepare_t written; /* before the loop looks for news: what was to be written has been */
    pthread_t thread;
    lh_replicas *replicas;
    lh_front_desk *desk;
    lh_event_mail *mail;
    lh_fleet_queries *queries;
    lh_engine_chain chains[LH_REPLICAS_MAX];
    lh_fleet_server *server;
    lh_step_recorder *recorder; /* NULL: nothing is traced */
    lh_trace_part *parts;       /* [sequences_max]: scratch */
    uint32_t parts_open;        /* hops and server: the loop ends when they have closed */
    bool was_ready, is_closing;

    atomic_bool is_draining, is_stopping;
    atomic_int state;
    atomic_uint running, waiting;
    uint32_t places;
    _Atomic uint64_t positions, positions_free;
};

/* After everything that was told to the chains' conductors: does what they want done. */
void lh_engine_turn(lh_engine *engine);

/* The way to the first worker of a chain, not yet connected. As lh_engine_hop_create. */
lh_status lh_engine_chain_create(lh_engine *engine, uint32_t index, lh_error *error);
/* Does what the chain's conductor wants. */
void lh_engine_chain_act(const lh_engine_chain *chain, const lh_action *action);
/* Tells the conductor what is known of the first hop. */
void lh_engine_chain_measure(const lh_engine_chain *chain);
