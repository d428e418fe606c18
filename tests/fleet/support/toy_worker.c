/* One simulated worker. */
#include "tests/fleet/support/toy_worker.h"

#include "tests/fleet/support/liar.h"
#include "tests/fleet/support/toy_model.h"
#include "worker/compute/stage/mask_store.h"
#include "worker/serve/meter.h"
#include "worker/serve/step_window.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_HEAD_BYTES 16u
/* PROTOCOL.md, "Order of steps" */
#define OVERTAKES_MAX 4u
#define TROUBLE_US    30000  /* a report follows so soon after something failed */
#define SURVEY_US     700000 /* that a link's probes take, and what is waited for after them */

typedef enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_FORWARDED } job_state;

typedef struct job {
    struct job *next;
    job_state state;
    uint64_t id; /* also the number of its request downstream */
    int from;
    uint64_t request;          /* the number of its request upstream */
    lh_step_manifest manifest; /* arrays are the job's own; biases and counts are not kept */
    uint32_t *tokens;
    lh_step_segment *segments;
    lh_step_truncation *truncations;
    uint64_t *values;
    uint32_t values_come;
    uint8_t *manifest_frame;
    size_t manifest_bytes;
} job;

/* Some positions of one sequence or, once it is full, of several. */
typedef struct toy_page {
    uint32_t holders;
    uint64_t states[][TOY_LAYERS]; /* [page_positions]: after each */
} toy_page;

typedef struct held_sequence {
    struct held_sequence *next;
    uint64_t sequence;
    uint32_t length, page_count;
    toy_page **pages; /* [page_count] */
} held_sequence;

struct toy_worker {
    toy_world world;
    toy_worker_options options;
    double slowness; /* of its layers */
    int node;
    bool is_alive, is_leaving;
    uint64_t life; /* counts starts: events of an earlier life are ignored */
    /* the number of the report that is to come: events of earlier ones are ignored */
    uint64_t put_count;
    int64_t put_due_us;
    uint64_t next_job;
    job *jobs; /* in the order in which they came */
    job *running;
    uint32_t overtakes; /* decode jobs that have begun in a row while a prefill job waited */
    held_sequence *held;
    lh_mask_store *masks; /* NULL: it takes none */
    lh_stage_meter meter;
    liar liar;

    bool has_assignment;
    lh_worker_stage_state state;
    uint32_t epoch, first_layer, last_layer;
    uint32_t kv_epoch; /* with which the KV cache was last emptied; 0: it has no place in a chain */
    bool awaits_resync,
        has_begun; /* in this epoch: the cache was kept and no roll was called; a step has come */
    uint32_t team_epoch;                /* of the team that it is of; 0: none */
    uint32_t loaded_first, loaded_last; /* what is in memory: loading it again takes no time */
    uint32_t loaded_team;
    uint32_t prepared_first, prepared_last; /* beside it: being loaded until then; 0, 0: nothing */
    uint32_t prepared_team;
    bool prepares_hold;
    int64_t loading_since_us;
    int64_t prepared_us;
    lh_hop_trial_report trial;
    int tried_node;
    uint64_t trial_count;
    lh_hop_trial_report surveyed;
    lh_survey_task survey; /* of that, where it has a state */
    uint64_t survey_count;
    int next_node;   /* -1: none */
    bool has_failed; /* in this epoch: then later positions may well not continue */
    lh_step_window window;
    toy_worker_figures figures;
    uint64_t drawn;       /* tokens */
    uint64_t falsifiable; /* draws or rows that could have been falsified */
    lh_wire_type wire;    /* of what it passes on */
};

typedef struct life_event {
    uint64_t life, id;
} life_event;

static void *copy_life(const toy_worker *worker, uint64_t id) {
    life_event *event = malloc(sizeof *event);
    assert(event);
    *event = (life_event){worker->life, id};
    return event;
}

static void at(toy_worker *worker, int64_t time_us, event_function *run, uint64_t id) {
    event_queue_push(worker->world.queue, time_us, run, worker, copy_life(worker, id));
}

static void put(void *context, void *argument);

/* Instead of the report that was to come. */
static void put_later(toy_worker *worker, int64_t after_us) {
    worker->put_due_us = *worker->world.now_us + after_us;
    at(worker, worker->put_due_us, put, ++worker->put_count);
}

static void put_soon(toy_worker *worker) {
    if (worker->put_due_us > *worker->world.now_us + TROUBLE_US)
        put_later(worker, TROUBLE_US);
}

/* A stalled process runs its events when it goes on. */
static bool is_due(toy_worker *worker, const life_event *event, event_function *run) {
    int64_t stalled_until = network_stalled_until(worker->world.net, worker->node);
    if (!worker->is_alive || event->life != worker->life)
        return false;
    if (stalled_until <= *worker->world.now_us)
        return true;
    at(worker, stalled_until, run, event->id);
    return false;
}

static void put(void *context, void *argument);

static double step_time_us(const toy_worker *worker, uint32_t rows, double slowness) {
    uint32_t layers = worker->last_layer - worker->first_layer;
    double row_us =
        (double)worker->options.row_us + (double)worker->options.layer_us * layers * slowness;
    return (double)worker->options.step_us + rows * row_us;
}

static void calibrate(toy_worker *worker) {
    const lh_compute_profile calibrated = {
        .point_count = 2,
        .points = {{1, step_time_us(worker, 1, 1)}, {512, step_time_us(worker, 512, 1)}}};
    lh_stage_meter_init(&worker->meter, &calibrated, *worker->world.now_us);
}

toy_worker *toy_worker_create(const toy_world *world, const toy_worker_options *options, int node) {
    toy_worker *worker = calloc(1, sizeof *worker);
    assert(worker);
    worker->world = *world;
    worker->options = *options;
    worker->node = node;
    worker->next_node = -1;
    worker->next_job = 1;
    if (options->vocabulary > 0 &&
        lh_mask_store_create(options->vocabulary, &worker->masks, NULL) != LH_OK)
        abort();
    worker->slowness = 1;
    calibrate(worker);
    liar_init(&worker->liar, options->lies);
    return worker;
}

static void note_breach(toy_worker *worker, const char *what) {
    worker->figures.breaches++;
    fprintf(stderr, "breach at %lld us, worker %s, epoch %u: %s\n",
            (long long)*worker->world.now_us, worker->options.name, worker->epoch, what);
}

/* ---- KV cache ---- */

static void drop_page(toy_worker *worker, held_sequence *held) {
    toy_page *page = held->pages[--held->page_count];
    if (--page->holders > 0)
        return;
    worker->figures.pages--;
    free(page);
}

static void push_page(held_sequence *held, toy_page *page) {
    held->pages = realloc(held->pages, (held->page_count + 1) * sizeof(toy_page *));
    assert(held->pages);
    page->holders++;
    held->pages[held->page_count++] = page;
}

/* A page for the next position. */
static void begin_page(toy_worker *worker, held_sequence *held) {
    toy_page *page =
        calloc(1, sizeof *page + worker->options.page_positions * sizeof page->states[0]);
    assert(page);
    push_page(held, page);
    worker->figures.pages++;
}

static uint64_t *states_at(const toy_worker *worker, const held_sequence *held, uint32_t position) {
    uint32_t size = worker->options.page_positions;
    return held->pages[position / size]->states[position % size];
}

/* Those of the next position, which go on from the last one's. */
static uint64_t *next_states(toy_worker *worker, held_sequence *held) {
    if (held->length % worker->options.page_positions == 0)
        begin_page(worker, held);
    uint64_t *states = states_at(worker, held, held->length);
    if (held->length > 0)
        memcpy(states, states_at(worker, held, held->length - 1), TOY_LAYERS * sizeof *states);
    return states;
}

static void forget(toy_worker *worker, held_sequence **link) {
    held_sequence *gone = *link;
    while (gone->page_count > 0)
        drop_page(worker, gone);
    worker->figures.sequences--;
    *link = gone->next;
    free(gone->pages);
    free(gone);
}

static void empty_kv(toy_worker *worker) {
    while (worker->held)
        forget(worker, &worker->held);
    assert(worker->figures.pages == 0 && worker->figures.sequences == 0);
}

static held_sequence *find_held(toy_worker *worker, uint64_t sequence) {
    held_sequence *held = worker->held;
    while (held && held->sequence != sequence)
        held = held->next;
    return held;
}

static held_sequence *hold(toy_worker *worker, uint64_t sequence) {
    held_sequence *held = find_held(worker, sequence);
    if (held)
        return held;
    held = calloc(1, sizeof *held);
    assert(held);
    held->sequence = sequence;
    held->next = worker->held;
    worker->held = held;
    worker->figures.sequences++;
    return held;
}

static void truncate_held(toy_worker *worker, const lh_step_truncation *truncation) {
    held_sequence **link = &worker->held;
    while (*link && (*link)->sequence != truncation->sequence)
        link = &(*link)->next;
    if (!*link || ((*link)->length <= truncation->length && truncation->length > 0))
        return;
    uint32_t kept = truncation->length / worker->options.page_positions;
    while ((*link)->page_count > kept)
        drop_page(worker, *link);
    (*link)->length = kept * worker->options.page_positions;
    if (kept == 0)
        forget(worker, link);
}

static const lh_step_truncation *find_named(const job *j, uint64_t sequence) {
    for (uint32_t i = 0; i < j->manifest.truncation_count; i++)
        if (j->truncations[i].sequence == sequence)
            return &j->truncations[i];
    return NULL;
}

/* Only what is named goes on, from exactly so many positions. */
static bool resync(toy_worker *worker, const job *j) {
    for (uint32_t i = 0; i < j->manifest.truncation_count; i++) {
        const held_sequence *held = find_held(worker, j->truncations[i].sequence);
        if (held && held->length >= j->truncations[i].length)
            continue;
        note_breach(worker, "a KV resync names what is not here");
        empty_kv(worker);
        return false;
    }
    for (held_sequence **link = &worker->held; *link;) {
        const lh_step_truncation *named = find_named(j, (*link)->sequence);
        if (!named) {
            forget(worker, link);
            continue;
        }
        uint32_t size = worker->options.page_positions;
        while ((*link)->page_count > (named->length + size - 1) / size)
            drop_page(worker, *link);
        (*link)->length = named->length;
        link = &(*link)->next;
    }
    return true;
}

/* The sequence of a segment; NULL: it does not fit what is here. */
static held_sequence *held_of(toy_worker *worker, const lh_step_segment *segment) {
    if (segment->forks) {
        const held_sequence *source = find_held(worker, segment->source);
        uint32_t pages = segment->first_position / worker->options.page_positions;
        if (find_held(worker, segment->sequence) || !source ||
            segment->first_position % worker->options.page_positions ||
            source->length < segment->first_position)
            return NULL;
        held_sequence *held = hold(worker, segment->sequence);
        for (uint32_t i = 0; i < pages; i++)
            push_page(held, source->pages[i]);
        held->length = segment->first_position;
        return held;
    }
    held_sequence *held = find_held(worker, segment->sequence);
    if (!held && segment->first_position == 0)
        held = hold(worker, segment->sequence);
    return held && held->length == segment->first_position ? held : NULL;
}

/* ---- Jobs ---- */

static void free_job(job *j) {
    free(j->tokens);
    free(j->segments);
    free(j->truncations);
    free(j->values);
    free(j->manifest_frame);
    free(j);
}

static void remove_job(toy_worker *worker, job *gone) {
    job **at_link = &worker->jobs;
    while (*at_link != gone)
        at_link = &(*at_link)->next;
    *at_link = gone->next;
    if (worker->running == gone)
        worker->running = NULL;
    free_job(gone);
}

static void answer(toy_worker *worker, int to, uint64_t request, lh_status status) {
    network_send(worker->world.net, worker->node, to, true, MESSAGE_ANSWER, request, 0, status,
                 NULL, 0);
}

static void fail_job(toy_worker *worker, job *j, lh_status status) {
    worker->has_failed = true;
    put_soon(worker);
    if (j->state == JOB_FORWARDED)
        network_send(worker->world.net, worker->node, worker->next_node, false, MESSAGE_RESET,
                     j->id, 0, LH_OK, NULL, 0);
    answer(worker, j->from, j->request, status);
    remove_job(worker, j);
}

/* It ends here, well. */
static void conclude(toy_worker *worker, job *j) {
    answer(worker, j->from, j->request, LH_OK);
    remove_job(worker, j);
}

static void fail_all_jobs(toy_worker *worker, lh_status status) {
    while (worker->jobs)
        fail_job(worker, worker->jobs, status);
}

/* Before a position, or the first ones of one that forks. */
static bool has_rows_of(const job *j, uint64_t sequence, uint32_t below) {
    for (uint32_t i = 0; i < j->manifest.segment_count; i++)
        if (j->segments[i].sequence == sequence &&
            (j->segments[i].first_position < below || j->segments[i].forks))
            return true;
    return false;
}

static bool forks_from(const job *j, uint64_t sequence) {
    for (uint32_t i = 0; i < j->manifest.segment_count; i++)
        if (j->segments[i].forks && j->segments[i].source == sequence)
            return true;
    return false;
}

/* Whether the later job needs what the earlier one does, or takes away what that needs. */
static bool depends_on(const job *later, const job *earlier) {
    for (uint32_t i = 0; i < later->manifest.segment_count; i++) {
        const lh_step_segment *segment = &later->segments[i];
        if (has_rows_of(earlier, segment->sequence, UINT32_MAX) ||
            (segment->forks && has_rows_of(earlier, segment->source, segment->first_position)))
            return true;
    }
    for (uint32_t i = 0; i < later->manifest.truncation_count; i++)
        if (has_rows_of(earlier, later->truncations[i].sequence, UINT32_MAX) ||
            forks_from(earlier, later->truncations[i].sequence))
            return true;
    return false;
}

static bool may_run_before(const toy_worker *worker, const job *candidate) {
    for (const job *earlier = worker->jobs; earlier != candidate; earlier = earlier->next)
        if (earlier->state == JOB_QUEUED && depends_on(candidate, earlier))
            return false;
    return true;
}

static job *find_job(toy_worker *worker, lh_step_class step_class) {
    for (job *j = worker->jobs; j; j = j->next)
        if (j->state == JOB_QUEUED && j->manifest.step_class == step_class &&
            may_run_before(worker, j))
            return j;
    return NULL;
}

/* Decode first, until prefill's turn has come. */
static job *pick_job(toy_worker *worker) {
    job *decode = find_job(worker, LH_STEP_DECODE), *prefill = find_job(worker, LH_STEP_PREFILL);
    bool is_prefill = prefill && (!decode || worker->overtakes >= OVERTAKES_MAX);
    worker->overtakes = decode && prefill && !is_prefill ? worker->overtakes + 1 : 0;
    return is_prefill ? prefill : decode;
}

static void start_job(toy_worker *worker);

static bool falsifies_this_one(toy_worker *worker) {
    const uint32_t falsifies = worker->options.falsifies;
    bool is_wrong = falsifies > 0 && ++worker->falsifiable % falsifies == 0;
    worker->figures.falsified += is_wrong;
    return is_wrong;
}

/* What a row becomes on its way out of a stage that is not the last one. */
static uint64_t pass_row(toy_worker *worker, uint64_t value) {
    value = worker->wire == LH_WIRE_F32 ? value : value & ~(uint64_t)0xff;
    return falsifies_this_one(worker) ? value ^ 0x100 : value;
}

/* The rows through the layers; false: the positions do not continue, or the pages run out. */
static bool compute(toy_worker *worker, job *j) {
    uint32_t row = 0;
    for (uint32_t i = 0; i < j->manifest.segment_count; i++) {
        const lh_step_segment *segment = &j->segments[i];
        held_sequence *held = held_of(worker, segment);
        if (!held) {
            if (!worker->has_failed)
                note_breach(worker, segment->forks ? "there is nothing to fork"
                                                   : "positions do not continue");
            return false;
        }
        for (uint32_t r = 0; r < segment->rows; r++, row++, held->length++) {
            uint64_t *states = next_states(worker, held);
            if (held->pages[held->page_count - 1]->holders > 1)
                note_breach(worker, "a shared page is written");
            uint64_t value = worker->first_layer == 0 ? toy_embed(j->tokens[row]) : j->values[row];
            for (uint32_t layer = worker->first_layer; layer < worker->last_layer; layer++)
                value = toy_layer(&states[layer], layer, held->length, value);
            j->values[row] = worker->last_layer < TOY_LAYERS ? pass_row(worker, value) : value;
        }
        if (segment->ask.draws && segment->ask.sampling.counter != held->length)
            note_breach(worker, "wrong counter");
    }
    for (uint32_t i = 0; i < j->manifest.truncation_count && !j->manifest.resyncs; i++)
        truncate_held(worker, &j->truncations[i]);
    if (worker->figures.pages <= worker->options.pages_total)
        return true;
    note_breach(worker, "out of pages");
    return false;
}

static size_t append_shard(const job *j, uint8_t *bytes, size_t capacity) {
    if (j->manifest.rows == 0)
        return 0;
    float *floats = malloc((size_t)j->manifest.rows * TOY_WIDTH * sizeof *floats);
    assert(floats);
    for (uint32_t row = 0; row < j->manifest.rows; row++)
        for (uint32_t c = 0; c < TOY_WIDTH; c++)
            floats[row * TOY_WIDTH + c] = (float)((j->values[row] >> (16 * c)) & 0xffff);
    size_t length = 0;
    lh_error error;
    lh_status status = lh_step_encode_shard(LH_WIRE_F32, 0, j->manifest.rows, 0, TOY_WIDTH, floats,
                                            bytes, capacity, &length, &error);
    assert(status == LH_OK);
    free(floats);
    return length;
}

/* What goes on in place of the manifest that came: for one worker less. */
static void shorten_hop_limit(job *j) {
    lh_error error;
    j->manifest.hop_limit--;
    lh_step_manifest onward = j->manifest;
    onward.tokens = j->tokens;
    onward.segments = j->segments;
    onward.truncations = j->truncations;
    onward.cut_count = 0;
    free(j->manifest_frame);
    size_t capacity = lh_step_manifest_bytes(&onward);
    j->manifest_frame = malloc(capacity);
    assert(j->manifest_frame);
    lh_status status =
        lh_step_encode_manifest(&onward, j->manifest_frame, capacity, &j->manifest_bytes, &error);
    assert(status == LH_OK);
}

static void forward_shards(toy_worker *worker, job *j) {
    if (j->manifest.hop_limit > 0)
        shorten_hop_limit(j);
    size_t capacity =
        j->manifest_bytes + lh_step_shard_bytes(LH_WIRE_F32, j->manifest.rows, TOY_WIDTH) + 64;
    uint8_t *bytes = malloc(capacity);
    assert(bytes);
    memcpy(bytes, j->manifest_frame, j->manifest_bytes);
    size_t length = j->manifest_bytes +
                    append_shard(j, bytes + j->manifest_bytes, capacity - j->manifest_bytes);
    j->state = JOB_FORWARDED;
    if (!network_send(worker->world.net, worker->node, worker->next_node, false, MESSAGE_REQUEST,
                      j->id, (int)j->manifest.step_class, LH_OK, bytes, length))
        fail_job(worker, j, LH_ERR_UNAVAILABLE);
    free(bytes);
}

static uint32_t draw_token(toy_worker *worker, uint64_t row, const lh_sampling *sampling) {
    if (sampling->mask == 0)
        return toy_draw(row, sampling->seed, sampling->counter);
    const uint64_t *mask = worker->masks ? lh_mask_store_find(worker->masks, sampling->mask) : NULL;
    if (!mask) {
        note_breach(worker, "a mask is named that is not here");
        return LH_STEP_NO_TOKEN;
    }
    return toy_draw_masked(row, sampling->seed, sampling->counter, mask,
                           worker->options.vocabulary);
}

static void score(const job *j, const lh_step_segment *segment, uint32_t first,
                  lh_step_result *result) {
    const lh_row_scoring *scoring = &segment->ask.scoring;
    result->answer.scores = calloc(scoring->rows + 1, sizeof *result->answer.scores);
    assert(result->answer.scores);
    for (uint32_t i = 0; i < scoring->rows; i++) {
        uint32_t row = first + scoring->first_row + i;
        uint32_t token =
            row + 1 == first + segment->rows ? scoring->next_token : j->tokens[row + 1];
        result->answer.scores[result->answer.score_count++] =
            (lh_token_score){.logprob = toy_score(j->values[row], token), .rank = 1};
    }
}

static void pool(const job *j, const lh_step_segment *segment, uint32_t first,
                 lh_step_result *result) {
    const lh_row_pooling *pooling = &segment->ask.pooling;
    if (pooling->rows == 0)
        return;
    result->answer.pooled_count = TOY_WIDTH;
    result->answer.pooled = calloc(result->answer.pooled_count, sizeof *result->answer.pooled);
    assert(result->answer.pooled);
    for (uint32_t i = 0; i < pooling->rows; i++)
        for (uint32_t c = 0; c < result->answer.pooled_count; c++)
            result->answer.pooled[c] += toy_pool(j->values[first + pooling->first_row + i], c);
}

static uint32_t forge(toy_worker *worker, const lh_sampling *sampling, uint32_t token) {
    const uint32_t forges = worker->options.forges;
    if (forges == 0 || ++worker->drawn % forges != 0)
        return token;
    worker->figures.forged++;
    return sampling->mask ? LH_STEP_NO_TOKEN : LH_STEP_NO_TOKEN - 1;
}

static uint32_t falsify(toy_worker *worker, uint32_t token) {
    return falsifies_this_one(worker) ? (token + 1) % TOY_VOCABULARY : token;
}

static uint32_t draw(toy_worker *worker, const job *j, lh_step_result *results) {
    uint32_t count = 0, row = 0;
    for (uint32_t i = 0; i < j->manifest.segment_count; i++) {
        const lh_step_segment *segment = &j->segments[i];
        row += segment->rows;
        if (!lh_row_ask_is_any(&segment->ask))
            continue;
        lh_step_result *result = &results[count++];
        *result = (lh_step_result){.sequence = segment->sequence,
                                   .position = segment->first_position + segment->rows,
                                   .answer.token = LH_STEP_NO_TOKEN};
        score(j, segment, row - segment->rows, result);
        pool(j, segment, row - segment->rows, result);
        if (segment->ask.draws)
            result->answer.token = falsify(
                worker, forge(worker, &segment->ask.sampling,
                              draw_token(worker, j->values[row - 1], &segment->ask.sampling)));
    }
    return count;
}

static void forward_results(toy_worker *worker, job *j) {
    lh_step_result *results = calloc(j->manifest.segment_count + 1, sizeof *results);
    assert(results);
    uint32_t count = draw(worker, j, results);
    lh_step_manifest head = {
        .epoch = j->manifest.epoch, .step = j->manifest.step, .step_class = j->manifest.step_class};
    size_t capacity = lh_step_manifest_bytes(&head) + lh_step_results_bytes(results, count) + 64,
           length = 0, more = 0;
    uint8_t *bytes = malloc(capacity);
    assert(bytes);
    lh_error error;
    lh_status status = lh_step_encode_manifest(&head, bytes, capacity, &length, &error);
    assert(status == LH_OK);
    status =
        lh_step_encode_results(results, count, bytes + length, capacity - length, &more, &error);
    assert(status == LH_OK);
    j->state = JOB_FORWARDED;
    if (!network_send(worker->world.net, worker->node, 0, false, MESSAGE_REQUEST, j->id,
                      (int)j->manifest.step_class, LH_OK, bytes, length + more))
        fail_job(worker, j, LH_ERR_UNAVAILABLE);
    free(bytes);
    for (uint32_t i = 0; i < count; i++) {
        free(results[i].answer.scores);
        free(results[i].answer.pooled);
    }
    free(results);
}

static void finish_job(void *context, void *argument) {
    toy_worker *worker = context;
    if (!is_due(worker, argument, finish_job))
        return;
    job *j = worker->running;
    if (!j || j->id != ((life_event *)argument)->id)
        return;
    worker->running = NULL;
    if (!compute(worker, j))
        fail_job(worker, j, LH_ERR_INVALID);
    else if (j->manifest.hop_limit == 1)
        conclude(worker, j);
    else if (worker->last_layer == TOY_LAYERS)
        forward_results(worker, j);
    else
        forward_shards(worker, j);
    start_job(worker);
}

static bool is_poisoned(const toy_worker *worker, const job *j) {
    for (uint32_t row = 0; worker->options.poison_token && row < j->manifest.rows; row++)
        if (j->tokens[row] == worker->options.poison_token)
            return true;
    return false;
}

/* What a step takes; the meter is told of it. */
static int64_t measure_step(toy_worker *worker, uint32_t rows) {
    int64_t seen_us = (int64_t)step_time_us(worker, rows, worker->slowness);
    double told_us = (double)seen_us * liar_next(&worker->liar);
    const lh_step_cost cost = {.rows = rows, .busy_us = (int64_t)told_us};
    lh_stage_meter_note_step(&worker->meter, &cost, *worker->world.now_us);
    return seen_us + worker->options.hidden_us;
}

static void start_job(toy_worker *worker) {
    while (!worker->running) {
        job *j = pick_job(worker);
        if (!j)
            return;
        if (is_poisoned(worker, j)) {
            fail_job(worker, j, LH_ERR_INTERNAL);
            continue;
        }
        int64_t time_us = j->manifest.rows ? measure_step(worker, j->manifest.rows) : 0;
        worker->running = j;
        j->state = JOB_RUNNING;
        worker->figures.steps++;
        worker->figures.rows += j->manifest.rows;
        worker->figures.busy_us += time_us;
        at(worker, *worker->world.now_us + time_us, finish_job, j->id);
    }
}

/* ---- Bodies ---- */

static void *copy_array(const void *from, size_t count, size_t bytes) {
    void *copy = calloc(count + 1, bytes);
    assert(copy);
    if (count)
        memcpy(copy, from, count * bytes);
    return copy;
}

/* They are needed only until the worker has taken them. */
static void copy_masks(job *j, const lh_step_masks *masks) {
    lh_step_mask *list = copy_array(masks->list, masks->count, sizeof *list);
    for (uint32_t i = 0; i < masks->count; i++)
        list[i].code = copy_array(list[i].code, list[i].code_bytes, 1);
    j->manifest.masks.list = list;
    j->manifest.masks.drops = copy_array(masks->drops, masks->drop_count, sizeof *masks->drops);
}

static void drop_mask_copies(job *j) {
    lh_step_masks *masks = &j->manifest.masks;
    for (uint32_t i = 0; i < masks->count; i++)
        free((void *)(uintptr_t)masks->list[i].code);
    free((void *)(uintptr_t)masks->list);
    free((void *)(uintptr_t)masks->drops);
    *masks = (lh_step_masks){.count = 0};
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    job *j = context;
    (void)error;
    j->manifest = *manifest;
    j->tokens = copy_array(manifest->tokens, manifest->rows, sizeof *j->tokens);
    j->segments = copy_array(manifest->segments, manifest->segment_count, sizeof *j->segments);
    j->truncations =
        copy_array(manifest->truncations, manifest->truncation_count, sizeof *j->truncations);
    copy_masks(j, &manifest->masks);
    j->values = calloc(manifest->rows + 1, sizeof *j->values);
    assert(j->values);
    return LH_OK;
}

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    job *j = context;
    (void)error;
    for (uint32_t row = 0; row < header->rows; row++)
        for (uint32_t c = 0; c < header->columns; c++)
            j->values[header->first_row + row] |= (uint64_t)values[row * header->columns + c]
                                                  << (16 * (header->first_column + c));
    return LH_OK;
}

static lh_status read_body(const message *received, uint32_t width, job *j) {
    static const lh_step_reader_events events = {.on_manifest = on_manifest, .on_shard = on_shard};
    lh_step_reader *reader;
    lh_error error;
    lh_status status = lh_step_reader_create(width, &events, j, &reader, &error);
    assert(status == LH_OK);
    status = lh_step_reader_feed(reader, received->bytes, received->size, &error);
    if (status == LH_OK)
        status = lh_step_reader_finish(reader, &error);
    lh_step_reader_destroy(reader);
    return status;
}

/* A cache that was kept goes on from a KV resync, the first step of an epoch, and from nothing
 * else. */
static lh_status judge_resync(toy_worker *worker, const job *j) {
    bool is_first = !worker->has_begun, resyncs = j->manifest.resyncs,
         is_awaited = worker->awaits_resync;
    worker->has_begun = true;
    if ((resyncs && !is_first) || (!resyncs && is_awaited)) {
        if (!worker->has_failed)
            note_breach(worker,
                        resyncs ? "a KV resync that is not the first step" : "no KV resync");
        return LH_ERR_INVALID;
    }
    worker->awaits_resync = false;
    return is_awaited && !resync(worker, j) ? LH_ERR_INVALID : LH_OK;
}

static lh_status judge(toy_worker *worker, const job *j) {
    uint32_t in_progress = 0;
    for (const job *other = worker->jobs; other; other = other->next)
        in_progress += other->state != JOB_FORWARDED;
    if (!worker->has_assignment || j->manifest.epoch < worker->epoch)
        return LH_ERR_STALE;
    if (j->manifest.epoch > worker->epoch || worker->state != LH_WORKER_READY)
        return LH_ERR_UNAVAILABLE;
    if (in_progress >= LH_STEPS_OPEN_MAX) {
        note_breach(worker, "too many steps");
        return LH_ERR_BUSY;
    }
    if (!lh_step_window_admit(&worker->window, j->manifest.step)) {
        worker->figures.repeated++;
        return LH_ERR_STALE;
    }
    return judge_resync(worker, j);
}

/* When the manifest comes, whatever is computed before what. The job keeps none of them. */
static lh_status take_masks(toy_worker *worker, const lh_step_masks *masks) {
    lh_status status = LH_OK;
    if (!worker->masks || worker->last_layer != TOY_LAYERS)
        return LH_OK;
    for (uint32_t i = 0; i < masks->drop_count; i++)
        lh_mask_store_drop(worker->masks, masks->drops[i]);
    for (uint32_t i = 0; i < masks->count && status == LH_OK; i++)
        status = lh_mask_store_keep(worker->masks, &masks->list[i], NULL);
    worker->figures.masks += masks->count;
    return status;
}

static void take_request(toy_worker *worker, const message *received) {
    job *j = calloc(1, sizeof *j);
    assert(j);
    j->id = worker->next_job++;
    j->from = received->from;
    j->request = received->request;
    lh_status status = read_body(received, worker->first_layer == 0 ? 0 : TOY_WIDTH, j);
    worker->figures.corrupt += status == LH_ERR_CORRUPT;
    if (status == LH_OK)
        status = judge(worker, j);
    if (status == LH_OK)
        status = take_masks(worker, &j->manifest.masks);
    drop_mask_copies(j);
    if (status != LH_OK) {
        worker->has_failed |= status != LH_ERR_STALE; /* which changes nothing */
        answer(worker, j->from, j->request, status);
        free_job(j);
        return;
    }
    j->manifest_bytes =
        FRAME_HEAD_BYTES + (received->bytes[4] | (size_t)received->bytes[5] << 8 |
                            (size_t)received->bytes[6] << 16 | (size_t)received->bytes[7] << 24);
    j->manifest_frame = copy_array(received->bytes, j->manifest_bytes, 1);
    job **end = &worker->jobs;
    while (*end)
        end = &(*end)->next;
    *end = j;
    start_job(worker);
}

static void take_answer(toy_worker *worker, const message *received) {
    for (job *j = worker->jobs; j; j = j->next) {
        if (j->state != JOB_FORWARDED || j->id != received->request)
            continue;
        answer(worker, j->from, j->request, received->status);
        remove_job(worker, j);
        return;
    }
}

static void take_reset(toy_worker *worker, int from, uint64_t request) {
    for (job *j = worker->jobs; j; j = j->next) {
        if (j->from != from || j->request != request)
            continue;
        put_soon(worker);
        if (j->state == JOB_FORWARDED)
            network_send(worker->world.net, worker->node, worker->next_node, false, MESSAGE_RESET,
                         j->id, 0, LH_OK, NULL, 0);
        remove_job(worker, j);
        start_job(worker);
        return;
    }
}

void toy_worker_on_message(toy_worker *worker, const message *received) {
    if (!worker->is_alive)
        return;
    if (received->kind == MESSAGE_REQUEST)
        take_request(worker, received);
    else if (received->kind == MESSAGE_ANSWER)
        take_answer(worker, received);
    else
        take_reset(worker, received->from, received->request);
}

void toy_worker_on_connection(toy_worker *worker, int from, int to, bool connected) {
    if (worker->is_alive && from == worker->node && to == worker->next_node)
        put_later(worker, 0);
    if (!worker->is_alive || connected)
        return;
    worker->has_failed |= to == worker->node;
    put_soon(worker);
    job *next = worker->jobs;
    while (next) {
        job *j = next;
        next = j->next;
        if (from == worker->node && to == worker->next_node && j->state == JOB_FORWARDED)
            fail_job(worker, j, LH_ERR_UNAVAILABLE);
        else if (to == worker->node && j->from == from)
            remove_job(worker, j);
    }
    start_job(worker);
}

/* ---- Control plane ---- */

static void drop_assignment(toy_worker *worker) {
    fail_all_jobs(worker, LH_ERR_STALE);
    empty_kv(worker);
    worker->kv_epoch = 0;
    worker->has_assignment = false;
    worker->loaded_first = worker->loaded_last = 0;
    worker->state = LH_WORKER_IDLE;
    if (worker->next_node >= 0)
        network_close(worker->world.net, worker->node, worker->next_node);
    worker->next_node = -1;
}

static void finish_loading(void *context, void *argument) {
    toy_worker *worker = context;
    if (!is_due(worker, argument, finish_loading) || worker->epoch != ((life_event *)argument)->id)
        return;
    worker->figures.loads++;
    worker->figures.waits++;
    worker->loaded_first = worker->first_layer;
    worker->loaded_last = worker->last_layer;
    worker->loaded_team = worker->team_epoch;
    worker->state = LH_WORKER_READY;
    put_later(worker, 0);
}

static bool is_prepared(const toy_worker *worker) {
    return worker->prepared_last > 0 && *worker->world.now_us >= worker->prepared_us;
}

/* The weights alone come in half of the time. */
static void prepare(toy_worker *worker, const lh_fleet_answer *answered) {
    uint32_t first = answered->prepare.stage.first_layer, last = answered->prepare.stage.last_layer;
    if (!answered->has_prepare) {
        worker->prepared_first = worker->prepared_last = 0;
    } else if (first != worker->prepared_first || last != worker->prepared_last ||
               answered->prepare.stage.team.epoch != worker->prepared_team ||
               answered->prepare_holds != worker->prepares_hold) {
        worker->prepared_first = first;
        worker->prepared_last = last;
        worker->prepared_team = answered->prepare.stage.team.epoch;
        worker->prepares_hold = answered->prepare_holds;
        worker->prepared_us =
            *worker->world.now_us + worker->options.load_us / (worker->prepares_hold ? 1 : 2);
    }
}

/* What a connection and a step would show, a round trip later; and later again where it fails. */
static void finish_trial(void *context, void *argument) {
    toy_worker *worker = context;
    lh_hop_trial_report *trial = &worker->trial;
    if (((life_event *)argument)->id != worker->trial_count ||
        !is_due(worker, argument, finish_trial) || trial->state == LH_HOP_TRIAL_NONE)
        return;
    bool is_proven = network_is_passable(worker->world.net, worker->node, worker->tried_node);
    trial->state = is_proven ? LH_HOP_TRIAL_PROVEN : LH_HOP_TRIAL_FAILED;
    snprintf(trial->error, sizeof trial->error, "%s", is_proven ? "" : "nothing gets through");
    if (!is_proven)
        at(worker, *worker->world.now_us + 1000000, finish_trial, worker->trial_count);
    put_later(worker, 0);
}

static void try_hop(toy_worker *worker, const lh_fleet_answer *answered) {
    lh_hop_trial_report *trial = &worker->trial;
    const char *name = answered->trial.next.worker, *address = answered->trial.next.address;
    if (!answered->has_trial) {
        trial->state = LH_HOP_TRIAL_NONE;
        return;
    }
    if (trial->state != LH_HOP_TRIAL_NONE && strcmp(trial->next, name) == 0 &&
        strcmp(trial->address, address) == 0)
        return;
    *trial = (lh_hop_trial_report){.state = LH_HOP_TRIAL_RUNNING};
    snprintf(trial->next, sizeof trial->next, "%s", name);
    snprintf(trial->address, sizeof trial->address, "%s", address);
    worker->tried_node =
        name[0] ? worker->world.node_of(worker->world.context, answered->trial.next.worker) : 0;
    at(worker,
       *worker->world.now_us +
           2 * network_delay_us(worker->world.net, worker->node, worker->tried_node),
       finish_trial, ++worker->trial_count);
}

/* What probes would have shown. */
static void finish_survey(void *context, void *argument) {
    toy_worker *worker = context;
    lh_hop_trial_report *surveyed = &worker->surveyed;
    if (((life_event *)argument)->id != worker->survey_count ||
        !is_due(worker, argument, finish_survey) || surveyed->state != LH_HOP_TRIAL_RUNNING)
        return;
    const char *to = worker->survey.to.worker;
    int node = to[0] ? worker->world.node_of(worker->world.context, to) : 0;
    bool is_proven = network_is_passable(worker->world.net, worker->node, node);
    link_options link = network_link(worker->world.net, worker->node, node);
    surveyed->state = is_proven ? LH_HOP_TRIAL_PROVEN : LH_HOP_TRIAL_FAILED;
    surveyed->hop = (lh_hop_profile){.present = true,
                                     .connected = is_proven,
                                     .round_trip_us = 2 * link.delay_us,
                                     .bytes_per_us = (double)link.bytes_per_s / 1e6,
                                     .probe_bytes_sent = worker->survey.bytes_max / 2};
    worker->figures.surveys++;
    put_later(worker, 0);
}

static void survey_link(toy_worker *worker, const lh_fleet_answer *answered) {
    lh_hop_trial_report *surveyed = &worker->surveyed;
    if (!answered->has_survey) {
        *surveyed = (lh_hop_trial_report){.state = LH_HOP_TRIAL_NONE};
        return;
    }
    if (surveyed->state != LH_HOP_TRIAL_NONE &&
        strcmp(surveyed->next, answered->survey.to.worker) == 0)
        return;
    assert(strcmp(answered->survey.from, worker->options.name) == 0);
    worker->survey = answered->survey;
    *surveyed = (lh_hop_trial_report){.state = LH_HOP_TRIAL_RUNNING};
    snprintf(surveyed->next, sizeof surveyed->next, "%s", worker->survey.to.worker);
    snprintf(surveyed->address, sizeof surveyed->address, "%s", worker->survey.to.address);
    at(worker, *worker->world.now_us + SURVEY_US, finish_survey, ++worker->survey_count);
}

/* What is of an earlier epoch stays where the gateway says so and means this very cache. */
static void keep_or_empty_kv(toy_worker *worker, const lh_assignment *assignment) {
    bool is_same = worker->first_layer == assignment->stage.first_layer &&
                   worker->last_layer == assignment->stage.last_layer &&
                   worker->team_epoch == assignment->stage.team.epoch;
    bool keeps = is_same && worker->kv_epoch != 0 && worker->kv_epoch == assignment->stage.kv_epoch;
    if (!keeps) {
        empty_kv(worker);
        worker->kv_epoch = assignment->epoch;
    }
    worker->awaits_resync = keeps;
    worker->has_begun = false;
}

/* Only the first member of a team has a hop. */
static int next_node_of(const toy_worker *worker, const lh_assignment *assignment) {
    if (assignment->member > 0)
        return -1;
    return !assignment->next.is_gateway
               ? worker->world.node_of(worker->world.context, assignment->next.worker)
               : 0;
}

static bool has_prepared(const toy_worker *worker) {
    return is_prepared(worker) && worker->prepares_hold &&
           worker->prepared_first == worker->first_layer &&
           worker->prepared_last == worker->last_layer &&
           worker->prepared_team == worker->team_epoch;
}

static void adopt(toy_worker *worker, const lh_assignment *assignment) {
    int next_node = next_node_of(worker, assignment);
    fail_all_jobs(worker, LH_ERR_STALE);
    if (worker->masks)
        lh_mask_store_reset(worker->masks);
    keep_or_empty_kv(worker, assignment);
    if (worker->next_node >= 0 && worker->next_node != next_node)
        network_close(worker->world.net, worker->node, worker->next_node);
    worker->has_assignment = true;
    worker->has_failed = false;
    worker->window = (lh_step_window){0};
    bool has_others = worker->first_layer != assignment->stage.first_layer ||
                      worker->last_layer != assignment->stage.last_layer;
    worker->epoch = assignment->epoch;
    worker->first_layer = assignment->stage.first_layer;
    worker->last_layer = assignment->stage.last_layer;
    worker->wire = assignment->stage.wire;
    worker->team_epoch = assignment->stage.team.epoch;
    if (has_others && worker->options.layer_us > 0)
        calibrate(worker);
    worker->next_node = next_node;
    if (next_node >= 0)
        network_open(worker->world.net, worker->node, next_node);
    if (has_prepared(worker)) {
        worker->loaded_team = worker->team_epoch;
        worker->loaded_first = worker->first_layer;
        worker->loaded_last = worker->last_layer;
        worker->prepared_first = worker->prepared_last = 0;
        worker->figures.loads++;
    }
    bool is_loaded = worker->loaded_first == worker->first_layer &&
                     worker->loaded_last == worker->last_layer &&
                     worker->loaded_team == worker->team_epoch;
    worker->state = is_loaded ? LH_WORKER_READY : LH_WORKER_LOADING;
    worker->loading_since_us = *worker->world.now_us;
    if (!is_loaded)
        at(worker, *worker->world.now_us + worker->options.load_us, finish_loading, worker->epoch);
}

/* A byte comes in each microsecond. */
static void fill_load(const toy_worker *worker, lh_worker_report *report) {
    int64_t passed_us = *worker->world.now_us - worker->loading_since_us;
    report->assignment.total_bytes = (uint64_t)worker->options.load_us;
    report->assignment.done_bytes =
        worker->state == LH_WORKER_LOADING ? (uint64_t)passed_us : report->assignment.total_bytes;
}

/* What a step takes, and the link to the next node, as they are. */
static void fill_measurements(const toy_worker *worker, lh_worker_report *report) {
    link_options link = network_link(worker->world.net, worker->node, worker->next_node);
    lh_stage_meter_read(&worker->meter, *worker->world.now_us, &report->compute);
    report->compute.step_us = 0;
    report->next.round_trip_us = 2 * link.delay_us;
    report->next.bytes_per_us = link.bytes_per_s ? (double)link.bytes_per_s / 1e6 : 1e6;
}

static void boast(const toy_worker *worker, lh_worker_report *report) {
    lh_compute_profile *compute = &report->compute;
    report->speed.prompt_us /= worker->options.boasts;
    report->speed.token_us /= worker->options.boasts;
    for (uint32_t i = 0; i < compute->point_count; i++)
        compute->points[i].us /= worker->options.boasts;
}

static void fill_report(const toy_worker *worker, lh_worker_report *report) {
    *report = (lh_worker_report){.instance = worker->life,
                                 .threads = worker->options.threads,
                                 .memory_bytes = worker->options.memory_bytes,
                                 .leaving = worker->is_leaving};
    snprintf(report->name, sizeof report->name, "%s", worker->options.name);
    snprintf(report->site, sizeof report->site, "%s", worker->options.site);
    snprintf(report->plain_address, sizeof report->plain_address, "%s:1", worker->options.name);
    if (worker->options.joins)
        snprintf(report->member_address, sizeof report->member_address, "%s:2",
                 worker->options.name);
    report->assignment.state = worker->state;
    if (worker->options.counts_load)
        fill_load(worker, report);
    if (worker->prepared_last > 0) {
        report->prepared.state = is_prepared(worker) ? LH_WORKER_READY : LH_WORKER_LOADING;
        report->prepared.first_layer = worker->prepared_first;
        report->prepared.last_layer = worker->prepared_last;
        report->prepared.team_epoch = worker->prepared_team;
        report->prepared.holds = worker->prepares_hold;
    }
    report->trial = worker->trial;
    report->surveyed = worker->surveyed;
    report->assignment.generation = worker->epoch;
    report->loaded.present = worker->loaded_last > 0;
    report->loaded.first_layer = worker->loaded_first;
    report->loaded.last_layer = worker->loaded_last;
    snprintf(report->loaded.model, sizeof report->loaded.model, "toy");
    report->next.present = worker->has_assignment && worker->next_node >= 0;
    report->next.connected =
        report->next.present &&
        network_is_connected(worker->world.net, worker->node, worker->next_node);
    if (worker->options.start_us > 0) {
        double mib_us = (double)worker->options.start_us * 1048576 / TOY_LAYER_BYTES;
        report->speed = (lh_machine_speed){mib_us, mib_us};
    }
    if (worker->options.measures && report->next.present)
        fill_measurements(worker, report);
    if (worker->options.boasts > 0)
        boast(worker, report);
    report->next.refused = report->next.present &&
                           network_is_refused(worker->world.net, worker->node, worker->next_node);
    report->kv.present = worker->state == LH_WORKER_READY;
    report->kv.pages_total = worker->options.pages_total;
    report->kv.page_positions = worker->options.page_positions;
    report->kv.epoch = worker->kv_epoch;
}

/* The report leaves now; gateway and answer are at the same instant, a round trip later. What
 * changes is reported at once. */
static void put(void *context, void *argument) {
    toy_worker *worker = context;
    if (((life_event *)argument)->id != worker->put_count || !is_due(worker, argument, put))
        return;
    lh_worker_report report;
    lh_fleet_answer answered;
    int64_t again_us = 200000;
    uint32_t epoch = worker->epoch;
    fill_report(worker, &report);
    if (worker->world.put(worker->world.context, &report, &answered)) {
        again_us = answered.renew_us;
        if (answered.is_planned && !answered.has_assignment && worker->has_assignment)
            drop_assignment(worker);
        else if (answered.has_assignment &&
                 (!worker->has_assignment || answered.assignment.epoch != worker->epoch))
            adopt(worker, &answered.assignment);
        if (answered.is_planned)
            prepare(worker, &answered);
        try_hop(worker, &answered);
        survey_link(worker, &answered);
        if (report.leaving && answered.may_go) {
            toy_worker_kill(worker);
            return;
        }
    }
    int64_t round_trip_us = network_delay_us(worker->world.net, worker->node, 0) * 2;
    if (worker->epoch != epoch && worker->state == LH_WORKER_READY)
        again_us = 0;
    put_later(worker, round_trip_us + again_us);
}

/* ---- Life ---- */

void toy_worker_start(toy_worker *worker) {
    assert(!worker->is_alive);
    worker->is_alive = true;
    worker->life++;
    worker->figures.loads = worker->figures.waits = 0;
    worker->state = LH_WORKER_IDLE;
    worker->epoch = 0;
    network_set_alive(worker->world.net, worker->node, true);
    put_later(worker, network_delay_us(worker->world.net, worker->node, 0));
}

static void forget_everything(toy_worker *worker) {
    while (worker->jobs)
        remove_job(worker, worker->jobs);
    empty_kv(worker);
    worker->has_assignment = worker->is_leaving = false;
    worker->loaded_first = worker->loaded_last = 0;
    worker->prepared_first = worker->prepared_last = 0;
    worker->trial = worker->surveyed = (lh_hop_trial_report){0};
    worker->kv_epoch = 0;
    worker->next_node = -1;
    if (worker->masks)
        lh_mask_store_reset(worker->masks);
}

void toy_worker_kill(toy_worker *worker) {
    if (!worker->is_alive)
        return;
    worker->is_alive = false;
    forget_everything(worker);
    network_set_alive(worker->world.net, worker->node, false);
}

void toy_worker_destroy(toy_worker *worker) {
    forget_everything(worker);
    lh_mask_store_destroy(worker->masks);
    free(worker);
}

bool toy_worker_is_alive(const toy_worker *worker) {
    return worker->is_alive;
}

void toy_worker_set_leaving(toy_worker *worker, bool leaving) {
    worker->is_leaving = leaving;
}

void toy_worker_set_slowness(toy_worker *worker, double times) {
    worker->slowness = times;
}

void toy_worker_set_forging(toy_worker *worker, uint32_t forges) {
    worker->options.forges = forges;
}

void toy_worker_set_falsifying(toy_worker *worker, uint32_t falsifies) {
    worker->options.falsifies = falsifies;
}

toy_worker_figures toy_worker_current_figures(const toy_worker *worker) {
    toy_worker_figures figures = worker->figures;
    figures.awaits_resync = worker->awaits_resync;
    figures.is_surveying = worker->surveyed.state == LH_HOP_TRIAL_RUNNING;
    return figures;
}
