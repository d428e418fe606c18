/* Where each tensor is: nowhere yet, in the local file, or in the cache. */
#include "worker/weights/weights.h"

#include "common/base/log.h"
#include "common/gguf/gguf_file.h"
#include "worker/weights/weight_digests.h"
#include "worker/weights/weight_download.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vocabulary and merges of the largest models take some 20 MB. */
#define HEADER_BYTES_MAX (256u << 20)

typedef enum place { NOWHERE, IN_FILE, IN_CACHE } place;

typedef struct tensor_state {
    place place;
    lh_regular_file *file; /* while it is acquired, IN_CACHE */
} tensor_state;

struct lh_weights {
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    lh_weight_fetch *fetch;
    const _Atomic bool *cancelled;
    char *weights_text, *tensors_text; /* of the URLs */
    lh_weight_url weights_url, tensors_url;
    uint64_t file_bytes, header_bytes;
    uint8_t header_digest[LH_SHA256_BYTES];
    lh_gguf_file *local; /* the whole model; NULL: none */
    uint8_t *header;     /* [header_bytes], where there is no local file; `parsed` points into it */
    lh_gguf *parsed;
    const lh_gguf *gguf;       /* parsed, or the local file's */
    lh_tensor_digest *digests; /* [tensors of gguf] */
    tensor_state *tensors;     /* [tensors of gguf] */
    _Atomic uint64_t fetched_bytes;
};

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory");
}

/* ---- Opening ---- */

static lh_status check_options(const lh_weights_options *options, lh_weights *weights,
                               lh_error *error) {
    if (!lh_sha256_parse(options->header_sha256, weights->header_digest))
        return lh_fail(error, LH_ERR_INVALID,
                       "weights: header_sha256 '%.70s' is not 64 lower-case hex digits",
                       options->header_sha256);
    if (options->header_bytes == 0 || options->header_bytes > HEADER_BYTES_MAX)
        return lh_fail(error, LH_ERR_INVALID, "weights: header_bytes %" PRIu64 " is not in 1..%u",
                       options->header_bytes, HEADER_BYTES_MAX);
    if (options->file_bytes < options->header_bytes || options->file_bytes > INT64_MAX)
        return lh_fail(error, LH_ERR_INVALID,
                       "weights: file_bytes %" PRIu64 " with a header of %" PRIu64,
                       options->file_bytes, options->header_bytes);
    weights->header_bytes = options->header_bytes;
    weights->file_bytes = options->file_bytes;
    return LH_OK;
}

/* "/path" is on the fleet port, which speaks HTTP/2 alone. */
static lh_status resolve_url(const char *url, const char *fleet_url, char **text,
                             lh_weight_url *resolved, lh_error *error) {
    bool is_fleet = url[0] == '/';
    if (asprintf(text, "%s%s", is_fleet ? fleet_url : "", url) < 0) {
        *text = NULL;
        return fail_memory(error);
    }
    *resolved = (lh_weight_url){*text, is_fleet && strncmp(fleet_url, "http://", 7) == 0,
                                .is_gateway = is_fleet};
    return LH_OK;
}

static lh_status read_header(lh_weights *weights, const lh_regular_file *file, lh_error *error) {
    if (!weights->header)
        weights->header = malloc((size_t)weights->header_bytes);
    return weights->header ? lh_regular_file_read(file, 0, weights->header,
                                                  (size_t)weights->header_bytes, error)
                           : fail_memory(error);
}

/* Whether the local file is the model that is wanted; if not, why. */
static lh_status check_local(const lh_weights *weights, const char *path, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    uint64_t size = lh_gguf_file_size(weights->local);
    if (size != weights->file_bytes)
        return lh_fail(error, LH_ERR_INVALID, "%s: %" PRIu64 " bytes, the model has %" PRIu64, path,
                       size, weights->file_bytes);
    uint64_t header_bytes = lh_gguf_data_offset(lh_gguf_file_gguf(weights->local));
    if (lh_sha256_digest(lh_gguf_file_header(weights->local), (size_t)header_bytes, digest) !=
        LH_OK)
        return fail_memory(error);
    if (header_bytes != weights->header_bytes ||
        memcmp(digest, weights->header_digest, sizeof digest) != 0)
        return lh_fail(error, LH_ERR_INVALID, "%s: its header has another digest than the model's",
                       path);
    return LH_OK;
}

/* A local file that cannot be used is no failure: everything can be fetched. */
static void open_local(lh_weights *weights, const char *path) {
    lh_error problem;
    lh_status status = lh_gguf_file_open(path, &weights->local, &problem);
    if (status == LH_OK)
        status = check_local(weights, path, &problem);
    if (status == LH_OK)
        return;
    lh_log(LH_LOG_WARN, "weights",
           "the local model file is left aside and weights are fetched reason=\"%s\"",
           problem.message);
    lh_gguf_file_close(weights->local);
    weights->local = NULL;
}

static void count_bytes(void *context, int64_t bytes) {
    lh_weights *weights = context;
    if (bytes > 0)
        atomic_fetch_add(&weights->fetched_bytes, (uint64_t)bytes);
}

static lh_status read_cached_header(lh_weights *weights, lh_error *error) {
    lh_regular_file *file;
    lh_status status = lh_weight_cache_find(weights->cache, weights->header_digest,
                                            weights->header_bytes, &file, error);
    if (status != LH_OK)
        return status;
    status = read_header(weights, file, error);
    lh_regular_file_close(file);
    return status;
}

static lh_status open_header(lh_weights *weights, lh_error *error) {
    static const char name[] = "GGUF header";
    lh_status status = read_cached_header(weights, error);
    if (status != LH_ERR_NOT_FOUND)
        return status;
    lh_weight_part part = {.name = {name, sizeof name - 1}, .bytes = weights->header_bytes};
    memcpy(part.digest, weights->header_digest, sizeof part.digest);
    const lh_weight_download_events events = {weights, NULL, count_bytes};
    status = lh_weight_download(weights->fetch, weights->weights_url, weights->cache, &part, 1,
                                &events, error);
    return status == LH_OK ? read_cached_header(weights, error) : status;
}

static lh_status read_digests(lh_weights *weights, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = lh_weight_fetch_document(
        weights->fetch, weights->tensors_url, lh_weight_digests_limit(weights->gguf), &text, error);
    if (status == LH_OK)
        status = lh_weight_digests_parse(text.bytes, text.length, weights->gguf, weights->digests,
                                         error);
    lh_text_buffer_reset(&text);
    return status;
}

static lh_status parse_header(lh_weights *weights, lh_error *error) {
    lh_status status = lh_gguf_parse(weights->header, (size_t)weights->header_bytes,
                                     weights->file_bytes, &weights->parsed, error);
    weights->gguf = weights->parsed;
    return status;
}

static lh_status read_model(lh_weights *weights, lh_error *error) {
    lh_status status = LH_OK;
    if (weights->local)
        weights->gguf = lh_gguf_file_gguf(weights->local);
    else
        status = parse_header(weights, error);
    if (status != LH_OK)
        return status;
    size_t count = lh_gguf_tensor_count(weights->gguf);
    weights->tensors = calloc(count + 1, sizeof *weights->tensors);
    weights->digests = calloc(count + 1, sizeof *weights->digests);
    if (!weights->tensors || !weights->digests)
        return fail_memory(error);
    return read_digests(weights, error);
}

static lh_status open_fetch(lh_weights *weights, const lh_weights_options *options,
                            lh_error *error) {
    const lh_weight_fetch_options fetch = {.certificates = options->certificates,
                                           .cancelled = options->cancelled};
    lh_status status = resolve_url(options->weights_url, options->fleet_url, &weights->weights_text,
                                   &weights->weights_url, error);
    if (status == LH_OK)
        status = resolve_url(options->tensors_url, options->fleet_url, &weights->tensors_text,
                             &weights->tensors_url, error);
    return status == LH_OK ? lh_weight_fetch_create(&fetch, &weights->fetch, error) : status;
}

lh_status lh_weights_open(const lh_weights_options *options, lh_weights **weights,
                          lh_error *error) {
    lh_weights *opened = calloc(1, sizeof *opened);
    if (!opened)
        return fail_memory(error);
    opened->cache = options->cache;
    opened->pool = options->pool;
    opened->cancelled = options->cancelled;
    lh_status status = check_options(options, opened, error);
    if (status == LH_OK)
        status = open_fetch(opened, options, error);
    if (status == LH_OK && options->model_path && *options->model_path)
        open_local(opened, options->model_path);
    if (status == LH_OK && !opened->local)
        status = open_header(opened, error);
    if (status == LH_OK)
        status = read_model(opened, error);
    if (status == LH_OK)
        *weights = opened;
    else
        lh_weights_close(opened);
    return status;
}

void lh_weights_close(lh_weights *weights) {
    if (!weights)
        return;
    free(weights->tensors);
    free(weights->digests);
    lh_gguf_destroy(weights->parsed);
    free(weights->header);
    lh_gguf_file_close(weights->local);
    lh_weight_fetch_destroy(weights->fetch);
    free(weights->tensors_text);
    free(weights->weights_text);
    free(weights);
}

const lh_gguf *lh_weights_gguf(const lh_weights *weights) {
    return weights->gguf;
}

uint64_t lh_weights_fetched_bytes(const lh_weights *weights) {
    return atomic_load(&weights->fetched_bytes);
}

static size_t index_of(const lh_weights *weights, const lh_gguf_tensor *tensor) {
    size_t index = (size_t)(tensor - lh_gguf_tensor_at(weights->gguf, 0));
    assert(index < lh_gguf_tensor_count(weights->gguf));
    return index;
}

/* ---- Ensuring ---- */

typedef struct ensuring {
    lh_weights *weights;
    lh_weight_part *parts; /* what the range needs, then what of it is missing */
    size_t count;
    uint64_t done, total;
    void (*on_progress)(void *, uint64_t, uint64_t);
    void *progress_context;
} ensuring;

static void report(const ensuring *e) {
    if (e->on_progress)
        e->on_progress(e->progress_context, e->done, e->total);
}

/* lh_tensor_visitor: collects a tensor as a part, once. */
static lh_status collect(void *context, lh_tensor_role role, uint32_t layer,
                         const lh_gguf_tensor *tensor, lh_error *error) {
    ensuring *e = context;
    (void)role;
    (void)layer;
    size_t index = index_of(e->weights, tensor);
    const lh_tensor_digest *digest = &e->weights->digests[index];
    for (size_t i = 0; i < e->count; i++)
        if (e->parts[i].index == index)
            return LH_OK;
    if (!digest->present)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weights: %s has no digest of tensor %.*s",
                       e->weights->tensors_text, (int)tensor->name.length, tensor->name.bytes);
    if (tensor->bytes == 0)
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "weights: tensor %.*s has the type %s, which is not supported",
                       (int)tensor->name.length, tensor->name.bytes,
                       lh_dtype_ggml_name(tensor->type));
    lh_weight_part *part = &e->parts[e->count++];
    *part = (lh_weight_part){
        .name = tensor->name, .offset = tensor->offset, .bytes = tensor->bytes, .index = index};
    memcpy(part->digest, digest->sha256, sizeof part->digest);
    e->total += part->bytes;
    return LH_OK;
}

static lh_status check_local_part(const lh_weights *weights, const lh_weight_part *part,
                                  lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status =
        lh_gguf_file_digest_tensor(weights->local, part->index, weights->cancelled, digest, error);
    if (status == LH_OK && memcmp(digest, part->digest, sizeof digest) != 0)
        status = lh_fail(error, LH_ERR_CORRUPT, "it differs from the model");
    return status;
}

static bool is_in_local_file(const lh_weights *weights, const lh_weight_part *part) {
    lh_error problem;
    lh_status status =
        weights->local ? check_local_part(weights, part, &problem) : LH_ERR_NOT_FOUND;
    if (status != LH_OK && status != LH_ERR_NOT_FOUND && status != LH_ERR_CANCELLED)
        lh_log(LH_LOG_WARN, "weights",
               "a tensor is fetched, since the local model file does not have it tensor=%.*s "
               "reason=\"%s\"",
               (int)part->name.length, part->name.bytes, problem.message);
    return status == LH_OK;
}

/* Where a part is now. */
static lh_status find_part(lh_weights *weights, const lh_weight_part *part, place *found,
                           lh_error *error) {
    lh_regular_file *file;
    *found = weights->tensors[part->index].place;
    if (*found != NOWHERE)
        return LH_OK;
    if (is_in_local_file(weights, part)) {
        *found = IN_FILE;
        return LH_OK;
    }
    lh_status status =
        lh_weight_cache_find(weights->cache, part->digest, part->bytes, &file, error);
    if (status == LH_OK) {
        lh_regular_file_close(file);
        *found = IN_CACHE;
    }
    return status == LH_ERR_NOT_FOUND ? LH_OK : status;
}

/* Where the parts are, looked for by all threads of the pool: to check a gigabyte takes longer than
 * to read it. */
typedef struct finding {
    ensuring *e;
    place *found; /* of each part */
    _Atomic uint64_t done;
    _Atomic lh_status status; /* the first that is not LH_OK */
    lh_error error;
} finding;

static void find_one(void *context, uint32_t part, uint32_t thread) {
    finding *f = context;
    lh_weights *weights = f->e->weights;
    lh_error problem;
    lh_status status = LH_OK, none = LH_OK;
    if (atomic_load(&f->status) != LH_OK)
        return;
    if (weights->cancelled && atomic_load(weights->cancelled))
        status = lh_fail(&problem, LH_ERR_CANCELLED, "weights: cancelled");
    else
        status = find_part(weights, &f->e->parts[part], &f->found[part], &problem);
    if (status != LH_OK && atomic_compare_exchange_strong(&f->status, &none, status))
        f->error = problem;
    if (f->found[part] != NOWHERE)
        atomic_fetch_add(&f->done, f->e->parts[part].bytes);
    if (thread == 0) {
        f->e->done = atomic_load(&f->done);
        report(f->e);
    }
}

static lh_status find_all(finding *f, lh_error *error) {
    ensuring *e = f->e;
    if (e->weights->pool)
        lh_thread_pool_run(e->weights->pool, (uint32_t)e->count, find_one, f);
    for (uint32_t i = 0; !e->weights->pool && i < e->count; i++)
        find_one(f, i, 0);
    e->done = atomic_load(&f->done);
    report(e);
    if (atomic_load(&f->status) != LH_OK)
        return lh_fail(error, atomic_load(&f->status), "%s", f->error.message);
    return LH_OK;
}

/* Marks the parts that are here and keeps the others in e->parts. */
static lh_status keep_missing(ensuring *e, lh_error *error) {
    finding f = {.e = e, .found = calloc(e->count + 1, sizeof *f.found)};
    size_t missing = 0;
    if (!f.found)
        return fail_memory(error);
    lh_status status = find_all(&f, error);
    for (size_t i = 0; status == LH_OK && i < e->count; i++) {
        e->weights->tensors[e->parts[i].index].place = f.found[i];
        if (f.found[i] == NOWHERE)
            e->parts[missing++] = e->parts[i];
    }
    free(f.found);
    e->count = missing;
    return status;
}

static void on_part(void *context, const lh_weight_part *part) {
    ensuring *e = context;
    tensor_state *state = &e->weights->tensors[part->index];
    assert(state->place == NOWHERE && !state->file);
    state->place = IN_CACHE;
}

static void on_bytes(void *context, int64_t bytes) {
    ensuring *e = context;
    count_bytes(e->weights, bytes);
    e->done += (uint64_t)bytes; /* wraps back where it is negative */
    assert(e->done <= e->total);
    report(e);
}

static int compare_offsets(const void *a, const void *b) {
    const lh_weight_part *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static lh_status fetch_missing(ensuring *e, lh_error *error) {
    lh_weights *weights = e->weights;
    const lh_weight_download_events events = {e, on_part, on_bytes};
    if (e->count == 0)
        return LH_OK;
    qsort(e->parts, e->count, sizeof *e->parts, compare_offsets);
    lh_status status = lh_weight_download(weights->fetch, weights->weights_url, weights->cache,
                                          e->parts, e->count, &events, error);
    return status == LH_OK ? lh_weight_cache_sync(weights->cache, error) : status;
}

lh_status lh_weights_ensure(lh_weights *weights, const lh_model_config *config,
                            lh_layer_range range, void (*on_progress)(void *, uint64_t, uint64_t),
                            void *progress_context, lh_error *error) {
    ensuring e = {
        .weights = weights, .on_progress = on_progress, .progress_context = progress_context};
    e.parts = calloc(lh_gguf_tensor_count(weights->gguf) + 1, sizeof *e.parts);
    if (!e.parts)
        return fail_memory(error);
    lh_status status = lh_model_visit_tensors(weights->gguf, config, range, collect, &e, error);
    if (status == LH_OK)
        status = keep_missing(&e, error);
    if (status == LH_OK)
        status = fetch_missing(&e, error);
    free(e.parts);
    return status;
}

/* ---- The source ---- */

static lh_status acquire(void *context, const lh_gguf_tensor *tensor, lh_error *error) {
    lh_weights *weights = context;
    size_t index = index_of(weights, tensor);
    tensor_state *state = &weights->tensors[index];
    if (state->place == NOWHERE)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weights: tensor %.*s has not been fetched",
                       (int)tensor->name.length, tensor->name.bytes);
    if (state->place == IN_FILE)
        return LH_OK;
    assert(!state->file); /* held once at a time */
    lh_status status = lh_weight_cache_find(weights->cache, weights->digests[index].sha256,
                                            tensor->bytes, &state->file, error);
    if (status == LH_ERR_NOT_FOUND)
        state->place = NOWHERE; /* the folder was emptied: lh_weights_ensure fetches it again */
    return status;
}

static lh_status read_tensor(void *context, const lh_gguf_tensor *tensor, uint64_t offset,
                             void *bytes, size_t length, lh_error *error) {
    const lh_weights *weights = context;
    const tensor_state *state = &weights->tensors[index_of(weights, tensor)];
    assert(offset <= tensor->bytes && length <= tensor->bytes - offset);
    return state->place == IN_FILE
               ? lh_gguf_file_read(weights->local, tensor->offset + offset, bytes, length, error)
               : lh_regular_file_read(state->file, offset, bytes, length, error);
}

static void release(void *context, const lh_gguf_tensor *tensor) {
    lh_weights *weights = context;
    tensor_state *state = &weights->tensors[index_of(weights, tensor)];
    lh_regular_file_close(state->file);
    state->file = NULL;
}

lh_weight_source lh_weights_source(lh_weights *weights) {
    return (lh_weight_source){weights, acquire, read_tensor, release};
}
