/* Every field may be missing or of another type: the gateway may be of another version. */
#include "gateway/cli/fleet_document_json.h"

#include "common/base/arithmetic.h"
#include "common/json/json_object.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 64 workers of each of 8 chains, and as much again for versions to come. */
#define WORKERS_MAX 1024u
#define CHAINS_MAX  64u
#define STAGES_MAX  128u
#define WAYS_MAX    8192u

static void copy_printable(char *text, size_t bytes, const char *from) {
    size_t used = 0;
    for (; from && *from && used + 1 < bytes; from++)
        text[used++] = *from >= ' ' && *from <= '~' ? *from : '?';
    text[used] = '\0';
}

/* Into an array of char. */
#define COPY(text, object, key)                                                                    \
    copy_printable(text, sizeof(text), json_string_value(json_object_get(object, key)))

static double number_of(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return isfinite(value) && fabs(value) < 1e15 ? value : 0;
}

static int64_t integer_of(const json_t *object, const char *key) {
    return (int64_t)number_of(object, key);
}

static uint32_t count_of(const json_t *object, const char *key) {
    double value = number_of(object, key);
    return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0;
}

static bool is_true(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static void read_host(const json_t *object, lh_host_facts *host) {
    for (lh_host_fact fact = 0; fact < LH_HOST_FACT_COUNT; fact++) {
        const json_t *value = json_object_get(object, lh_host_fact_name(fact));
        if (json_is_integer(value))
            lh_host_facts_set(host, fact, json_integer_value(value));
    }
}

/* ---- Workers ---- */

/* What is said of the machine goes beyond what is said of steps. */
static double read_overclaims(const json_t *object) {
    return number_of(object, "steps") *
           fmax(number_of(object, "machine_token"), number_of(object, "machine_prompt"));
}

static void read_worker(const json_t *object, lh_document_worker *worker) {
    const json_t *assignment = json_object_get(object, "assignment"),
                 *trial = json_object_get(object, "trial"),
                 *misconduct = json_object_get(object, "misconduct");
    COPY(worker->name, object, "name");
    COPY(worker->site, object, "site");
    COPY(worker->version, object, "version");
    COPY(worker->isa, object, "isa");
    COPY(worker->role, object, "role");
    COPY(worker->reason, object, "reason");
    worker->threads = count_of(object, "threads");
    worker->slowdown = number_of(object, "slowdown");
    worker->memory_bytes = integer_of(object, "memory_bytes");
    worker->kv_bytes = integer_of(object, "kv_bytes");
    worker->report_age_ms = integer_of(object, "report_age_ms");
    worker->is_leaving = is_true(object, "leaving");
    worker->has_assignment = json_is_object(assignment);
    COPY(worker->state, assignment, "state");
    COPY(worker->error, assignment, "error");
    worker->done_bytes = integer_of(assignment, "done_bytes");
    worker->total_bytes = integer_of(assignment, "total_bytes");
    COPY(worker->trial.to, trial, "to");
    COPY(worker->trial.address, trial, "address");
    COPY(worker->trial.state, trial, "state");
    COPY(worker->trial.error, trial, "error");
    char standing[16];
    COPY(standing, misconduct, "standing");
    worker->is_suspended = strcmp(standing, "suspended") == 0;
    worker->is_needed = is_true(misconduct, "is_needed");
    char fault[16];
    COPY(fault, misconduct, "fault");
    worker->gave_wrong_answer = strcmp(fault, "wrong_answer") == 0;
    COPY(worker->misconduct, misconduct, "reason");
    worker->overclaims = read_overclaims(json_object_get(object, "overclaims"));
    worker->has_clock = json_is_integer(json_object_get(object, "clock_offset_ms"));
    worker->clock_offset_ms = integer_of(object, "clock_offset_ms");
    read_host(json_object_get(object, "host"), &worker->host);
}

/* ---- Chains ---- */

static void read_members(const json_t *members, lh_document_stage *stage) {
    size_t most = sizeof stage->members / sizeof stage->members[0];
    for (size_t i = 0; i < json_array_size(members) && i < most; i++) {
        const char *name = json_string_value(json_array_get(members, i));
        snprintf(stage->members[stage->member_count++], LH_NAME_BYTES, "%s", name ? name : "?");
    }
}

static void read_stage(const json_t *object, const json_t *cost, const json_t *kv,
                       lh_document_stage *stage) {
    COPY(stage->worker, object, "worker");
    COPY(stage->site, object, "site");
    COPY(stage->state, object, "state");
    COPY(stage->via, object, "via");
    stage->first_layer = count_of(object, "first_layer");
    stage->last_layer = count_of(object, "last_layer");
    read_members(json_object_get(object, "members"), stage);
    stage->row_ms = number_of(cost, "row_ms");
    stage->rows_64_ms = number_of(cost, "rows_64_ms");
    stage->draw_ms = number_of(cost, "draw_ms");
    stage->calibrated_times = number_of(cost, "calibrated_times");
    stage->pages_total = integer_of(kv, "pages_total");
    stage->pages_used = integer_of(kv, "pages_used");
}

static void read_link(const json_t *object, const json_t *cost, lh_document_link *link) {
    COPY(link->from, object, "from");
    COPY(link->to, object, "to");
    COPY(link->wire, object, "wire");
    COPY(link->error, object, "error");
    link->is_connected = is_true(object, "connected");
    link->rate_is_bound = is_true(object, "bytes_per_us_is_bound");
    link->bytes_per_us = number_of(object, "bytes_per_us");
    link->round_trip_us = integer_of(object, "round_trip_us");
    link->age_us = integer_of(object, "age_us");
    link->bytes_sent = integer_of(object, "bytes_sent");
    link->row_bytes = number_of(cost, "row_bytes");
    link->delay_ms = number_of(cost, "delay_ms");
    link->rate = number_of(cost, "bytes_per_us");
}

static void read_way(const json_t *object, lh_document_way *way) {
    COPY(way->from, object, "from");
    COPY(way->to, object, "to");
    COPY(way->source, object, "source");
    way->rate_is_bound = is_true(object, "bytes_per_us_is_bound");
    way->bytes_per_us = number_of(object, "bytes_per_us");
    way->round_trip_us = integer_of(object, "round_trip_us");
    way->age_us = integer_of(object, "age_us");
}

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for what the gateway says of its fleet");
}

/* An array of so many elements as the list has; NULL with LH_OK: of none. */
static lh_status make_room(const json_t *list, size_t most, size_t element_bytes, void **array,
                           size_t *count, lh_error *error) {
    size_t size = json_array_size(list);
    *array = NULL;
    *count = 0;
    if (size > most)
        return lh_fail(error, LH_ERR_LIMIT, "the gateway tells of %zu parts where %zu are the most",
                       size, most);
    *array = size ? calloc(size, element_bytes) : NULL;
    if (size && !*array)
        return no_memory(error);
    *count = size;
    return LH_OK;
}

/* NULL while the chain is formed anew: they are of the one before. */
static const json_t *costs_of(const json_t *chain) {
    const char *state = json_string_value(json_object_get(chain, "state"));
    return state && strcmp(state, "ready") == 0 ? json_object_get(chain, "overlap") : NULL;
}

/* What would be the best chain, where it is looked for. */
static void read_better(const json_t *better, lh_document_chain *chain) {
    const json_t *stages = json_object_get(better, "stages");
    COPY(chain->better.objective, better, "objective");
    COPY(chain->better.unit, better, "unit");
    chain->better.present = number_of(better, "present");
    chain->better.best = number_of(better, "best");
    size_t used = 0, bytes = sizeof chain->better.stages;
    for (size_t i = 0; i < json_array_size(stages) && used < bytes; i++) {
        char worker[LH_NAME_BYTES], layers[16];
        COPY(worker, json_array_get(stages, i), "worker");
        COPY(layers, json_array_get(stages, i), "layers");
        used += (size_t)snprintf(chain->better.stages + used, bytes - used, "%s%s %s",
                                 i ? " > " : "", worker, layers);
    }
}

/* Keeps the one that costs most: nothing serves without it, or most is to be fetched. */
static void read_loss(const json_t *loss, lh_document_chain *chain) {
    const json_t *stages = json_object_get(loss, "stages");
    const bool is_possible = json_is_true(json_object_get(loss, "possible"));
    int64_t layers = 0;
    for (size_t i = 0; i < json_array_size(stages); i++)
        layers = lh_max_i64(layers, integer_of(json_array_get(stages, i), "layers_to_fetch"));
    const bool has_worse = chain->worst_loss.worker[0] &&
                           (!chain->worst_loss.is_possible ||
                            (is_possible && chain->worst_loss.layers_to_fetch >= layers));
    if ((is_possible && layers == 0) || has_worse)
        return;
    COPY(chain->worst_loss.worker, loss, "lost");
    chain->worst_loss.is_possible = is_possible;
    chain->worst_loss.layers_to_fetch = layers;
}

static void read_losses(const json_t *losses, lh_document_chain *chain) {
    chain->losses = (int64_t)json_array_size(losses);
    for (size_t i = 0; i < json_array_size(losses); i++)
        read_loss(json_array_get(losses, i), chain);
}

static lh_status read_chain(const json_t *object, lh_document_chain *chain, lh_error *error) {
    const json_t *overlap = costs_of(object), *queue = json_object_get(object, "queue"),
                 *stages = json_object_get(object, "stages"),
                 *links = json_object_get(object, "links");
    COPY(chain->name, object, "name");
    COPY(chain->state, object, "state");
    COPY(chain->reason, object, "reason");
    COPY(chain->lacks, overlap, "lacks");
    COPY(chain->next_cause, json_object_get(object, "next"), "cause");
    read_better(json_object_get(object, "better"), chain);
    read_losses(json_object_get(object, "losses"), chain);
    chain->epoch = integer_of(object, "epoch");
    chain->is_measured = json_array_size(json_object_get(overlap, "stages")) > 0;
    chain->token_ms = number_of(overlap, "token_ms");
    chain->running = integer_of(queue, "running");
    chain->waiting = integer_of(queue, "waiting");
    void *array;
    lh_status status =
        make_room(stages, STAGES_MAX, sizeof *chain->stages, &array, &chain->stage_count, error);
    chain->stages = array;
    if (status != LH_OK)
        return status;
    for (size_t i = 0; i < chain->stage_count; i++)
        read_stage(json_array_get(stages, i), json_array_get(json_object_get(overlap, "stages"), i),
                   json_array_get(json_object_get(queue, "kv"), i), &chain->stages[i]);
    status = make_room(links, STAGES_MAX, sizeof *chain->links, &array, &chain->link_count, error);
    chain->links = array;
    for (size_t i = 0; i < chain->link_count; i++)
        read_link(json_array_get(links, i), json_array_get(json_object_get(overlap, "hops"), i),
                  &chain->links[i]);
    return status;
}

/* ---- The whole ---- */

static void read_gateway(const json_t *object, lh_fleet_document *document) {
    const json_t *files = json_object_get(object, "files");
    COPY(document->gateway.version, object, "version");
    COPY(document->gateway.state_dir, files, "state_dir");
    COPY(document->gateway.api_key_file, files, "api_key_file");
    COPY(document->gateway.tls_key, files, "tls_key");
    document->gateway.connections_max = integer_of(object, "connections_max");
    read_host(json_object_get(object, "host"), &document->gateway.host);
}

static void read_queue(const json_t *queue, lh_fleet_document *document) {
    const json_t *totals = json_object_get(queue, "totals");
    document->running = integer_of(queue, "running");
    document->waiting = integer_of(queue, "waiting");
    document->stalled = integer_of(queue, "stalled");
    document->tokens = integer_of(totals, "tokens");
    document->finished = integer_of(totals, "finished");
    document->failed = integer_of(totals, "failed");
}

static lh_status read_lists(const json_t *root, lh_fleet_document *document, lh_error *error) {
    const json_t *workers = json_object_get(root, "workers"),
                 *chains = json_object_get(root, "chains"),
                 *matrix = json_object_get(root, "matrix");
    void *array;
    lh_status status = make_room(workers, WORKERS_MAX, sizeof *document->workers, &array,
                                 &document->worker_count, error);
    document->workers = array;
    for (size_t i = 0; i < document->worker_count; i++)
        read_worker(json_array_get(workers, i), &document->workers[i]);
    if (status != LH_OK)
        return status;
    status = make_room(chains, CHAINS_MAX, sizeof *document->chains, &array, &document->chain_count,
                       error);
    document->chains = array;
    for (size_t i = 0; status == LH_OK && i < document->chain_count; i++)
        status = read_chain(json_array_get(chains, i), &document->chains[i], error);
    if (status != LH_OK)
        return status;
    status =
        make_room(matrix, WAYS_MAX, sizeof *document->matrix, &array, &document->way_count, error);
    document->matrix = array;
    for (size_t i = 0; i < document->way_count; i++)
        read_way(json_array_get(matrix, i), &document->matrix[i]);
    return status;
}

lh_status lh_fleet_document_parse(const char *bytes, size_t length, lh_fleet_document *document,
                                  lh_error *error) {
    lh_error cause;
    *document = (lh_fleet_document){0};
    json_t *root = lh_json_object_parse(bytes, length, &cause);
    if (!root)
        return lh_fail(error, cause.status, "GET /fleet cannot be read: %s", cause.message);
    lh_status status = LH_OK;
    COPY(document->state, root, "state");
    if (!document->state[0])
        status = lh_fail(error, LH_ERR_MALFORMED,
                         "GET /fleet has no \"state\": is this the gateway's API?");
    COPY(document->reason, root, "reason");
    COPY(document->model, json_object_get(root, "model"), "name");
    document->model_bytes = integer_of(json_object_get(root, "model"), "file_bytes");
    document->context = integer_of(json_object_get(root, "model"), "context");
    document->context_served = integer_of(json_object_get(root, "model"), "context_served");
    COPY(document->kv_type, json_object_get(root, "numbers"), "kv_type");
    read_gateway(json_object_get(root, "gateway"), document);
    read_queue(json_object_get(root, "queue"), document);
    if (status == LH_OK)
        status = read_lists(root, document, error);
    json_decref(root);
    if (status != LH_OK)
        lh_fleet_document_reset(document);
    return status;
}
