/* The fleet in memory. */
#include "tests/fleet/support/simulation.h"

#include "tests/fleet/support/toy_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 512

typedef struct open_request {
    uint64_t number; /* 0: free */
    uint32_t epoch;
    uint64_t step;
} open_request;

struct simulation {
    int64_t now_us;
    event_queue *queue;
    network *net;
    simulation_options options;
    lh_model_profile model;
    lh_router *router;                /* NULL: the gateway is down */
    int first_nodes[LH_REPLICAS_MAX]; /* where the gateway's connections go; 0: none */
    uint64_t next_request;
    open_request requests[REQUESTS_MAX];
    int worker_count;
    toy_worker *workers[NETWORK_NODES_MAX];
    char names[NETWORK_NODES_MAX][LH_WORKER_NAME_BYTES];
    int stream_count;
    simulation_stream streams[SIMULATION_STREAMS_MAX];
};

static void pump(simulation *sim);

/* ---- The gateway's side of the network ---- */

static int node_of(void *context, const char *name) {
    simulation *sim = context;
    for (int node = 1; node <= sim->worker_count; node++)
        if (strncmp(sim->names[node], name, strcspn(name, ":")) == 0 &&
            sim->names[node][strcspn(name, ":")] == 0)
            return node;
    assert(false && "a name of no worker");
    return -1;
}

/* Every chain has epochs of its own. */
static uint32_t chain_of(const simulation *sim, uint32_t epoch) {
    return epoch % sim->options.replicas;
}

typedef struct late_answer {
    uint32_t epoch;
    uint64_t step;
    lh_status status;
} late_answer;

static void tell_step_done(void *context, void *argument) {
    simulation *sim = context;
    late_answer *late = argument;
    if (!sim->router)
        return;
    lh_chain_controller_step_done(lh_router_controller(sim->router, chain_of(sim, late->epoch)),
                                  late->epoch, late->step, late->status, "",
                                  "told by the first hop", sim->now_us);
    pump(sim);
}

/* As from the event loop: never inside the call that caused it. */
static void close_request(simulation *sim, open_request *request, lh_status status) {
    late_answer *late = malloc(sizeof *late);
    assert(late);
    *late = (late_answer){request->epoch, request->step, status};
    request->number = 0;
    event_queue_push(sim->queue, sim->now_us, tell_step_done, sim, late);
}

static void submit_step(simulation *sim, const lh_step_manifest *manifest) {
    size_t capacity = lh_step_manifest_bytes(manifest), length = 0;
    uint8_t *bytes = malloc(capacity);
    assert(bytes);
    lh_error error;
    lh_status status = lh_step_encode_manifest(manifest, bytes, capacity, &length, &error);
    if (status != LH_OK)
        fprintf(stderr, "%s\n", error.message);
    assert(status == LH_OK);
    open_request *request = sim->requests;
    while (request->number)
        request++;
    assert(request < sim->requests + REQUESTS_MAX);
    *request = (open_request){sim->next_request++, manifest->epoch, manifest->step};
    int to = sim->first_nodes[chain_of(sim, manifest->epoch)];
    if (!network_send(sim->net, 0, to, false, MESSAGE_REQUEST, request->number,
                      (int)manifest->step_class, LH_OK, bytes, length))
        close_request(sim, request, LH_ERR_UNAVAILABLE);
    free(bytes);
}

static void reset_request(simulation *sim, open_request *request) {
    int to = sim->first_nodes[chain_of(sim, request->epoch)];
    network_send(sim->net, 0, to, false, MESSAGE_RESET, request->number, 0, LH_OK, NULL, 0);
    close_request(sim, request, LH_ERR_CANCELLED);
}

static bool is_of_chain(const simulation *sim, const open_request *request, uint32_t chain) {
    return request->number && chain_of(sim, request->epoch) == chain;
}

static void reset_step(simulation *sim, uint32_t chain, uint64_t step) {
    for (int i = 0; i < REQUESTS_MAX; i++)
        if (is_of_chain(sim, &sim->requests[i], chain) && sim->requests[i].step == step)
            reset_request(sim, &sim->requests[i]);
}

/* The last one first, so that no worker sees a gap. */
static void reset_all(simulation *sim, uint32_t chain) {
    for (;;) {
        open_request *last = NULL;
        for (int i = 0; i < REQUESTS_MAX; i++)
            if (is_of_chain(sim, &sim->requests[i], chain) &&
                (!last || sim->requests[i].step > last->step))
                last = &sim->requests[i];
        if (!last)
            return;
        reset_request(sim, last);
    }
}

static void connect_first(simulation *sim, uint32_t chain, const char *address) {
    int *first_node = &sim->first_nodes[chain];
    if (*first_node)
        network_close(sim->net, 0, *first_node);
    *first_node = node_of(sim, address);
    network_open(sim->net, 0, *first_node);
}

/* The gateway's own trial, which this says everything of. */
typedef struct first_try {
    uint32_t chain;
    lh_hop_trial_report trial;
} first_try;

static void finish_try(void *context, void *argument) {
    simulation *sim = context;
    first_try *tried = argument;
    bool is_proven = network_is_passable(sim->net, 0, node_of(sim, tried->trial.next));
    if (!sim->router)
        return;
    tried->trial.state = is_proven ? LH_HOP_TRIAL_PROVEN : LH_HOP_TRIAL_FAILED;
    lh_chain_controller_first_trial(lh_router_controller(sim->router, tried->chain), &tried->trial,
                                    sim->now_us);
    pump(sim);
}

static void try_first(simulation *sim, uint32_t chain, const lh_action *action) {
    if (!action->way->address[0])
        return;
    first_try *tried = calloc(1, sizeof *tried);
    assert(tried);
    tried->chain = chain;
    snprintf(tried->trial.next, sizeof tried->trial.next, "%s", action->way->worker);
    snprintf(tried->trial.address, sizeof tried->trial.address, "%s", action->way->address);
    int64_t round_trip_us = 2 * network_delay_us(sim->net, 0, node_of(sim, action->way->worker));
    event_queue_push(sim->queue, sim->now_us + round_trip_us, finish_try, sim, tried);
}

static void pump(simulation *sim) {
    lh_action action;
    uint32_t chain;
    while (sim->router && lh_router_next_action(sim->router, sim->now_us, &chain, &action)) {
        switch (action.kind) {
        case LH_ACTION_CONNECT:
            connect_first(sim, chain, action.way->address);
            break;
        case LH_ACTION_TRY:
            try_first(sim, chain, &action);
            break;
        case LH_ACTION_STUDY:
            lh_plan_study_run(action.study);
            lh_chain_controller_studied(lh_router_controller(sim->router, chain), action.study,
                                        sim->now_us);
            break;
        case LH_ACTION_SUBMIT:
            submit_step(sim, action.manifest);
            break;
        case LH_ACTION_CANCEL:
            reset_step(sim, chain, action.step);
            break;
        case LH_ACTION_ABANDON:
            reset_all(sim, chain);
            break;
        }
    }
}

typedef struct ring_body {
    simulation *sim;
    uint32_t epoch;
    uint64_t step;
    lh_status verdict;
} ring_body;

static lh_status on_ring_manifest(void *context, const lh_step_manifest *manifest,
                                  lh_error *error) {
    ring_body *body = context;
    (void)error;
    body->epoch = manifest->epoch;
    body->step = manifest->step;
    return LH_OK;
}

static lh_status on_ring_results(void *context, const lh_step_result *results, uint32_t count,
                                 lh_error *error) {
    ring_body *body = context;
    uint32_t chain = chain_of(body->sim, body->epoch);
    body->verdict =
        lh_chain_controller_results(lh_router_controller(body->sim->router, chain), body->epoch,
                                    body->step, results, count, body->sim->now_us, error);
    return body->verdict;
}

static void take_ring(simulation *sim, const message *received) {
    static const lh_step_reader_events events = {.on_manifest = on_ring_manifest,
                                                 .on_results = on_ring_results};
    ring_body body = {.sim = sim};
    lh_step_reader *reader;
    lh_error error;
    lh_status status = lh_step_reader_create(0, &events, &body, &reader, &error);
    assert(status == LH_OK);
    status = lh_step_reader_feed(reader, received->bytes, received->size, &error);
    if (status == LH_OK)
        status = lh_step_reader_finish(reader, &error);
    lh_step_reader_destroy(reader);
    if (status != LH_OK && body.verdict == LH_OK)
        lh_chain_controller_refuse_results(
            lh_router_controller(sim->router, chain_of(sim, body.epoch)), body.epoch, body.step,
            error.message, sim->now_us);
    network_send(sim->net, 0, received->from, true, MESSAGE_ANSWER, received->request, 0, status,
                 NULL, 0);
    pump(sim);
}

static void on_message(void *context, const message *received) {
    simulation *sim = context;
    if (received->to != 0) {
        toy_worker_on_message(sim->workers[received->to], received);
    } else if (!sim->router) {
        return;
    } else if (received->kind == MESSAGE_REQUEST) {
        take_ring(sim, received);
    } else if (received->kind == MESSAGE_ANSWER) {
        for (int i = 0; i < REQUESTS_MAX; i++)
            if (sim->requests[i].number == received->request)
                close_request(sim, &sim->requests[i], received->status);
    }
}

static void on_connection(void *context, int from, int to, bool connected) {
    simulation *sim = context;
    if (from != 0)
        toy_worker_on_connection(sim->workers[from], from, to, connected);
    if (to != 0)
        toy_worker_on_connection(sim->workers[to], from, to, connected);
    uint32_t chain = 0;
    while (chain < sim->options.replicas && sim->first_nodes[chain] != to)
        chain++;
    if (from != 0 || chain == sim->options.replicas || !sim->router)
        return;
    for (int i = 0; !connected && i < REQUESTS_MAX; i++)
        if (is_of_chain(sim, &sim->requests[i], chain))
            close_request(sim, &sim->requests[i], LH_ERR_CLOSED);
    lh_chain_controller *controller = lh_router_controller(sim->router, chain);
    lh_chain_controller_measure_first_hop(
        controller, &(lh_hop_profile){.refused = network_is_refused(sim->net, 0, to)});
    lh_chain_controller_first_hop(controller, connected, sim->now_us, "connection lost");
    pump(sim);
}

static bool on_put(void *context, const lh_worker_report *report, lh_fleet_answer *answered) {
    simulation *sim = context;
    int node = node_of(sim, report->name);
    if (!sim->router || !network_is_passable(sim->net, node, 0))
        return false;
    lh_error error;
    for (uint32_t i = 0; i < sim->options.replicas; i++) {
        link_options link = network_link(sim->net, 0, sim->first_nodes[i]);
        lh_chain_controller_measure_first_hop(
            lh_router_controller(sim->router, i),
            &(lh_hop_profile){.round_trip_us = 2 * link.delay_us,
                              .bytes_per_us = (double)link.bytes_per_s / 1e6});
    }
    bool is_taken = lh_router_put(sim->router, report, sim->now_us, answered, &error) == LH_OK;
    pump(sim);
    return is_taken;
}

/* ---- Streams ---- */

static void end_stream(simulation *sim, simulation_stream *stream) {
    assert(!stream->is_finished && !stream->is_failed && !stream->is_cancelled);
    stream->ended_us = sim->now_us;
}

static void note_token(simulation *sim, simulation_stream *stream, uint32_t token) {
    assert(!stream->is_finished && !stream->is_failed && !stream->is_cancelled);
    assert(stream->count < stream->max_tokens);
    if (stream->count == 0)
        stream->first_token_us = sim->now_us;
    else if (sim->now_us - stream->last_token_us > stream->longest_gap_us)
        stream->longest_gap_us = sim->now_us - stream->last_token_us;
    stream->last_token_us = sim->now_us;
    stream->tokens[stream->count++] = token;
}

static void keep_pooled(simulation_stream *stream, const lh_sequence_event *event) {
    const lh_row_answer *answer = event->answer;
    assert(!stream->pooled);
    stream->cached_tokens = event->cached_tokens;
    stream->pooled_count = answer->pooled_count;
    stream->pooled = malloc(answer->pooled_count * sizeof *stream->pooled);
    assert(stream->pooled);
    memcpy(stream->pooled, answer->pooled, answer->pooled_count * sizeof *stream->pooled);
}

static void on_event(void *context, uint64_t handle, const lh_sequence_event *event) {
    simulation *sim = context;
    simulation_stream *stream = &sim->streams[handle];
    switch (event->kind) {
    case LH_SEQUENCE_TOKEN:
        assert(event->position == stream->prompt_tokens + stream->count);
        note_token(sim, stream, event->token);
        stream->cached_tokens = event->cached_tokens;
        break;
    case LH_SEQUENCE_PROMPT:
        if (event->answer->pooled_count > 0) {
            keep_pooled(stream, event);
            break;
        }
        assert(event->position == stream->scored + 1 && stream->count == 0);
        assert(event->position + event->answer->score_count <= stream->prompt_tokens);
        for (uint32_t i = 0; i < event->answer->score_count; i++)
            stream->scores[++stream->scored] = event->answer->scores[i].logprob;
        break;
    case LH_SEQUENCE_FINISHED:
        end_stream(sim, stream);
        stream->is_finished = true;
        stream->reason = event->reason;
        break;
    case LH_SEQUENCE_FAILED:
        end_stream(sim, stream);
        stream->is_failed = true;
        stream->status = event->status;
        snprintf(stream->message, sizeof stream->message, "%s", event->message);
        break;
    }
}

int simulation_submit_request(simulation *sim, const lh_sequence_request *request,
                              lh_status *status) {
    assert(sim->stream_count < SIMULATION_STREAMS_MAX && sim->router);
    int index = sim->stream_count;
    lh_sequence *sequence;
    lh_error error;
    lh_status result =
        lh_sequence_create(request, (uint64_t)index, sim->options.fleet.context, &sequence, &error);
    if (result == LH_OK) {
        simulation_stream *stream = &sim->streams[index];
        *stream = (simulation_stream){.prompt_tokens = request->prompt_tokens,
                                      .max_tokens = request->max_tokens,
                                      .seed = request->sampling.seed,
                                      .submitted_us = sim->now_us};
        stream->prompt = malloc(request->prompt_tokens * sizeof *stream->prompt);
        stream->tokens = malloc((request->max_tokens + 1) * sizeof *stream->tokens);
        stream->scores = calloc(request->prompt_tokens, sizeof *stream->scores);
        assert(stream->prompt && stream->tokens && stream->scores);
        memcpy(stream->prompt, request->prompt, request->prompt_tokens * sizeof *stream->prompt);
        sim->stream_count++;
        result = lh_router_submit(sim->router, sequence, sim->now_us, &error);
        if (result != LH_OK) {
            free(stream->prompt);
            free(stream->tokens);
            free(stream->scores);
            sim->stream_count--;
        }
    }
    if (status)
        *status = result;
    pump(sim);
    return result == LH_OK ? index : -1;
}

int simulation_submit(simulation *sim, uint32_t prompt_tokens, uint32_t max_tokens, uint64_t seed,
                      lh_status *status) {
    uint32_t *prompt = malloc(prompt_tokens * sizeof *prompt);
    assert(prompt);
    for (uint32_t i = 0; i < prompt_tokens; i++)
        prompt[i] = (uint32_t)((toy_embed(i) ^ seed * 0x9e3779b97f4a7c15u) % TOY_VOCABULARY);
    int index = simulation_submit_request(
        sim,
        &(lh_sequence_request){
            .prompt = prompt,
            .prompt_tokens = prompt_tokens,
            .max_tokens = max_tokens,
            .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed}},
        status);
    free(prompt);
    return index;
}

simulation_stream *simulation_stream_at(simulation *sim, int index) {
    assert(index >= 0 && index < sim->stream_count);
    return &sim->streams[index];
}

void simulation_cancel(simulation *sim, int index) {
    simulation_stream *stream = simulation_stream_at(sim, index);
    if (stream->is_finished || stream->is_failed || stream->is_cancelled)
        return;
    lh_router_cancel(sim->router, stream->handle = (uint64_t)index);
    stream->is_cancelled = true;
    stream->ended_us = sim->now_us;
    pump(sim);
}

bool simulation_stream_is_true(const simulation_stream *stream) {
    uint32_t *expected = malloc((stream->count + 1) * sizeof *expected);
    assert(expected);
    if (stream->count)
        toy_generate(stream->prompt, stream->prompt_tokens, stream->seed, expected, stream->count);
    bool is_true = memcmp(expected, stream->tokens, stream->count * sizeof *expected) == 0;
    free(expected);
    return is_true;
}

/* ---- Life ---- */

static uint32_t number_or(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static int64_t time_or(int64_t value, int64_t otherwise) {
    return value ? value : otherwise;
}

static void fill_defaults(simulation_options *o) {
    o->replicas = number_or(o->replicas, 1);
    o->scheduler.sequences_max = number_or(o->scheduler.sequences_max, 16);
    o->scheduler.queue_max = number_or(o->scheduler.queue_max, 64);
    o->scheduler.rows_max = number_or(o->scheduler.rows_max, 512);
    o->scheduler.vocabulary = number_or(o->scheduler.vocabulary, TOY_VOCABULARY);
    o->scheduler.width = TOY_WIDTH;
    o->scheduler.step_timeout_us = time_or(o->scheduler.step_timeout_us, 30000000);
    o->scheduler.replay_timeout_us = time_or(o->scheduler.replay_timeout_us, 5000000);
    o->scheduler.takeover_timeout_us = time_or(o->scheduler.takeover_timeout_us, 60000000);
    o->fleet.chain_name = "toy";
    o->fleet.model_digest = "toy";
    o->fleet.kv_type = "f32";
    o->fleet.origin.site = "gateway";
    o->fleet.context = number_or(o->fleet.context, 4096);
    o->fleet.rows_max = o->scheduler.rows_max;
    o->fleet.plan_delay_us = time_or(o->fleet.plan_delay_us, 1500000);
    o->fleet.renew_us = time_or(o->fleet.renew_us, 500000);
    o->fleet.lease_us = time_or(o->fleet.lease_us, 3000000);
    o->fleet.probation_us = time_or(o->fleet.probation_us, 1500000);
    o->fleet.first_epoch = number_or(o->fleet.first_epoch, 1000);
}

static void start_gateway(void *context, void *argument) {
    simulation *sim = context;
    (void)argument;
    lh_error error;
    lh_scheduler_sink sink = {sim, on_event};
    lh_fleet_options fleet = sim->options.fleet;
    fleet.model = &sim->model;
    fleet.first_epoch += (uint32_t)(sim->now_us / 1000000);
    lh_status status = lh_router_create(sim->options.replicas, &fleet, &sim->options.scheduler,
                                        &sink, sim->now_us, &sim->router, &error);
    if (status == LH_OK)
        status = lh_router_check_answers(sim->router, sim->options.spot_check_rate,
                                         sim->options.seed, &error);
    assert(status == LH_OK);
    network_set_alive(sim->net, 0, true);
}

simulation *simulation_create(const simulation_options *options) {
    simulation *sim = calloc(1, sizeof *sim);
    assert(sim);
    sim->options = *options;
    fill_defaults(&sim->options);
    sim->next_request = 1;
    sim->queue = event_queue_create();
    sim->net = network_create(sim->queue, &sim->now_us, options->seed,
                              &(network_events){sim, on_message, on_connection});
    for (int i = 0; i < NETWORK_NODES_MAX; i++)
        for (int j = 0; j < NETWORK_NODES_MAX; j++)
            network_set_link(sim->net, i, j, options->link);
    sim->model = (lh_model_profile){.layers = TOY_LAYERS,
                                    .context = sim->options.fleet.context,
                                    .width = TOY_WIDTH,
                                    .vocabulary = TOY_VOCABULARY,
                                    .embedding_bytes = 500,
                                    .head_bytes = 500,
                                    .gather_row_bytes = 4 * TOY_WIDTH};
    for (uint32_t i = 0; i < TOY_LAYERS; i++)
        sim->model.layer_bytes[i] = sim->model.row_bytes[i] = TOY_LAYER_BYTES;
    start_gateway(sim, NULL);
    return sim;
}

void simulation_destroy(simulation *sim) {
    lh_router_destroy(sim->router);
    for (int node = 1; node <= sim->worker_count; node++)
        toy_worker_destroy(sim->workers[node]);
    for (int i = 0; i < sim->stream_count; i++) {
        free(sim->streams[i].prompt);
        free(sim->streams[i].tokens);
        free(sim->streams[i].scores);
        free(sim->streams[i].pooled);
    }
    event_queue_destroy(sim->queue);
    network_destroy(sim->net);
    free(sim);
}

int simulation_add_worker(simulation *sim, const toy_worker_options *options) {
    int node = ++sim->worker_count;
    assert(node < NETWORK_NODES_MAX);
    toy_world world = {sim, sim->queue, &sim->now_us, sim->net, node_of, on_put};
    snprintf(sim->names[node], sizeof sim->names[node], "%s", options->name);
    sim->workers[node] = toy_worker_create(&world, options, node);
    toy_worker_start(sim->workers[node]);
    return node;
}

toy_worker *simulation_worker(simulation *sim, int node) {
    return sim->workers[node];
}

network *simulation_network(simulation *sim) {
    return sim->net;
}

const lh_chain_controller *simulation_controller(simulation *sim) {
    return lh_router_controller(sim->router, 0);
}

const lh_router *simulation_router(simulation *sim) {
    return sim->router;
}

int64_t simulation_now_us(const simulation *sim) {
    return sim->now_us;
}

void simulation_restart_gateway(simulation *sim, int64_t down_us) {
    lh_router_destroy(sim->router);
    sim->router = NULL;
    memset(sim->first_nodes, 0, sizeof sim->first_nodes);
    memset(sim->requests, 0, sizeof sim->requests);
    for (int i = 0; i < sim->stream_count; i++) {
        simulation_stream *stream = &sim->streams[i];
        if (!stream->is_finished && !stream->is_failed && !stream->is_cancelled) {
            stream->is_failed = true;
            stream->status = LH_ERR_CLOSED;
        }
    }
    network_set_alive(sim->net, 0, false);
    event_queue_push(sim->queue, sim->now_us + down_us, start_gateway, sim, NULL);
}

void simulation_pause_gateway(simulation *sim, int64_t until_us) {
    network_stall(sim->net, 0, until_us);
}

bool simulation_has_gateway(const simulation *sim) {
    return sim->router && network_stalled_until(sim->net, 0) <= sim->now_us;
}

/* ---- Time ---- */

static int64_t next_us(const simulation *sim) {
    int64_t event_us = event_queue_next_us(sim->queue);
    int64_t deadline_us = sim->router ? lh_router_deadline_us(sim->router) : INT64_MAX;
    if (sim->router && deadline_us != INT64_MAX && deadline_us < network_stalled_until(sim->net, 0))
        deadline_us = network_stalled_until(sim->net, 0);
    if (deadline_us < sim->now_us)
        deadline_us = sim->now_us;
    return event_us < deadline_us ? event_us : deadline_us;
}

static void run_next(simulation *sim) {
    int64_t time_us = next_us(sim);
    int64_t before_us = sim->router ? lh_router_deadline_us(sim->router) : INT64_MAX;
    assert(time_us >= sim->now_us && time_us != INT64_MAX);
    sim->now_us = time_us;
    if (event_queue_next_us(sim->queue) <= time_us) {
        event_queue_run_next(sim->queue);
        return;
    }
    lh_router_tick(sim->router, sim->now_us);
    assert(lh_router_deadline_us(sim->router) > sim->now_us ||
           lh_router_deadline_us(sim->router) != before_us);
    pump(sim);
}

void simulation_step_until(simulation *sim, int64_t time_us) {
    while (next_us(sim) <= time_us)
        run_next(sim);
    sim->now_us = time_us;
}

void simulation_wait_ready(simulation *sim, int64_t limit_us) {
    while (lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)))->state !=
           LH_CHAIN_READY) {
        if (next_us(sim) > limit_us) {
            fprintf(stderr, "the chain is not ready: %s\n",
                    lh_fleet_reason(lh_chain_controller_fleet(simulation_controller(sim))));
            abort();
        }
        run_next(sim);
    }
}

static bool has_open_streams(const simulation *sim) {
    for (int i = 0; i < sim->stream_count; i++)
        if (!sim->streams[i].is_finished && !sim->streams[i].is_failed &&
            !sim->streams[i].is_cancelled)
            return true;
    return false;
}

bool simulation_run_streams(simulation *sim, int64_t limit_us) {
    while (has_open_streams(sim)) {
        if (next_us(sim) > limit_us)
            return false;
        run_next(sim);
    }
    return true;
}

uint64_t simulation_breaches(const simulation *sim) {
    uint64_t breaches = 0;
    for (int node = 1; node <= sim->worker_count; node++)
        breaches += toy_worker_current_figures(sim->workers[node]).breaches;
    return breaches;
}
