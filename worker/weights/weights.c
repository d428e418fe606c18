/* Opening, and giving out. */
#include "worker/weights/weights.h"

#include "common/base/growing_array.h"
#include "common/base/log.h"
#include "worker/weights/weight_download.h"
#include "worker/weights/weights_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vocabulary and merges of the largest models take some 20 MB. */
#define HEADER_BYTES_MAX (256u << 20)

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

void lh_weights_count_bytes(void *context, int64_t bytes) {
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
    const lh_weight_download_events events = {weights, NULL, lh_weights_count_bytes};
    status = lh_weight_download(weights->fetch, weights->weights_url, weights->cache, &part, 1,
                                &events, error);
    return status == LH_OK ? read_cached_header(weights, error) : status;
}

static void count_blocks(lh_weights *weights) {
    uint64_t count = 0;
    for (size_t i = 0; i < lh_gguf_tensor_count(weights->gguf); i++) {
        weights->first_blocks[i] = count;
        count +=
            lh_tensor_blocks_of(lh_gguf_tensor_at(weights->gguf, i), weights->blocks.rows).count;
    }
}

static lh_status read_digests(lh_weights *weights, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = lh_weight_fetch_document(
        weights->fetch, weights->tensors_url, lh_weight_digests_limit(weights->gguf), &text, error);
    if (status == LH_OK)
        status = lh_weight_digests_parse(text.bytes, text.length, weights->gguf, weights->digests,
                                         &weights->blocks, error);
    lh_text_buffer_reset(&text);
    if (status != LH_OK || weights->blocks.rows == 0)
        return status;
    count_blocks(weights);
    status = resolve_url(weights->blocks.url, weights->fleet_url, &weights->blocks_text,
                         &weights->blocks_url, error);
    return status == LH_OK ? resolve_url(weights->blocks.pieces_url, weights->fleet_url,
                                         &weights->pieces_text, &weights->pieces_url, error)
                           : status;
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
    weights->first_blocks = calloc(count + 1, sizeof *weights->first_blocks);
    if (!weights->tensors || !weights->digests || !weights->first_blocks)
        return fail_memory(error);
    return read_digests(weights, error);
}

static lh_status open_fetch(lh_weights *weights, const lh_weights_options *options,
                            lh_error *error) {
    const lh_weight_fetch_options fetch = {.certificates = options->certificates,
                                           .bytes_per_s_max = options->bytes_per_s_max,
                                           .cancelled = options->cancelled};
    weights->is_provision = options->bytes_per_s_max > 0;
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
    opened->fleet_url = strdup(options->fleet_url);
    lh_status status =
        opened->fleet_url ? check_options(options, opened, error) : fail_memory(error);
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
    for (size_t i = 0; weights->tensors && i < lh_gguf_tensor_count(weights->gguf); i++)
        lh_block_set_reset(&weights->tensors[i].set);
    free(weights->tensors);
    free(weights->first_blocks);
    free(weights->digests);
    lh_gguf_destroy(weights->parsed);
    free(weights->header);
    lh_gguf_file_close(weights->local);
    lh_weight_fetch_destroy(weights->fetch);
    free(weights->fleet_url);
    free(weights->pieces_text);
    free(weights->blocks_text);
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

size_t lh_weights_index_of(const lh_weights *weights, const lh_gguf_tensor *tensor) {
    size_t index = (size_t)(tensor - lh_gguf_tensor_at(weights->gguf, 0));
    assert(index < lh_gguf_tensor_count(weights->gguf));
    return index;
}

/* ---- Layers and their files ---- */

typedef struct listing {
    const lh_weights *weights;
    uint32_t layer; /* that is looked at */
    lh_layer_file *files;
    size_t count, capacity;
} listing;

/* lh_tensor_visitor */
static lh_status list_tensor(void *context, lh_tensor_role role, uint32_t layer,
                             const lh_gguf_tensor *tensor, lh_error *error) {
    listing *l = context;
    const lh_tensor_digest *digest = &l->weights->digests[lh_weights_index_of(l->weights, tensor)];
    (void)role;
    (void)layer;
    if (!digest->present)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weights: tensor %.*s has no digest",
                       (int)tensor->name.length, tensor->name.bytes);
    if (!lh_growing_array_reserve(&l->files, &l->capacity, l->count + 1, sizeof *l->files))
        return fail_memory(error);
    lh_layer_file *file = &l->files[l->count++];
    *file = (lh_layer_file){.layer = l->layer, .bytes = tensor->bytes};
    memcpy(file->digest, digest->sha256, sizeof file->digest);
    return LH_OK;
}

lh_status lh_weights_list_layers(const lh_weights *weights, const lh_model_config *config,
                                 lh_weight_inventory *inventory, lh_error *error) {
    char model[LH_SHA256_HEX_BYTES];
    listing l = {.weights = weights};
    lh_status status =
        config->layers <= LH_CACHED_LAYERS_MAX
            ? LH_OK
            : lh_fail(error, LH_ERR_LIMIT, "weights: %u layers are not listed", config->layers);
    for (; l.layer < config->layers && status == LH_OK; l.layer++)
        status = lh_model_visit_tensors(
            weights->gguf, config, (lh_layer_range){l.layer, l.layer + 1}, list_tensor, &l, error);
    lh_sha256_render(weights->header_digest, model);
    if (status == LH_OK)
        status = lh_weight_inventory_note(inventory, model, l.files, l.count, error);
    free(l.files);
    return status;
}

/* ---- The source ---- */

static lh_status acquire(void *context, const lh_gguf_tensor *tensor, lh_error *error) {
    lh_weights *weights = context;
    size_t index = lh_weights_index_of(weights, tensor);
    lh_tensor_state *state = &weights->tensors[index];
    if (state->place == LH_NOWHERE)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weights: tensor %.*s has not been fetched",
                       (int)tensor->name.length, tensor->name.bytes);
    if (state->place == LH_IN_FILE)
        return LH_OK;
    assert(!state->file && !state->slices); /* held once at a time */
    const uint8_t *digest = weights->digests[index].sha256;
    lh_status status =
        state->place == LH_IN_SLICES
            ? lh_slice_file_open(weights->cache, digest, tensor->bytes, false, &state->slices,
                                 error)
            : lh_weight_cache_find(weights->cache, digest, tensor->bytes, &state->file, error);
    if (status != LH_ERR_NOT_FOUND)
        return status;
    /* the folder was emptied: lh_weights_ensure fetches it again */
    if (state->place == LH_IN_SLICES)
        lh_block_set_lose(&state->set);
    state->place = LH_NOWHERE;
    return status;
}

static lh_status read_tensor(void *context, const lh_gguf_tensor *tensor, uint64_t offset,
                             void *bytes, size_t length, lh_error *error) {
    const lh_weights *weights = context;
    const lh_tensor_state *state = &weights->tensors[lh_weights_index_of(weights, tensor)];
    assert(offset <= tensor->bytes && length <= tensor->bytes - offset);
    if (state->place == LH_IN_SLICES)
        return length == 0 || lh_block_set_covers(&state->set, offset, length)
                   ? lh_slice_file_read(state->slices, offset, bytes, length, error)
                   : lh_fail(error, LH_ERR_NOT_FOUND,
                             "weights: that part of tensor %.*s has not been fetched",
                             (int)tensor->name.length, tensor->name.bytes);
    return state->place == LH_IN_FILE
               ? lh_gguf_file_read(weights->local, tensor->offset + offset, bytes, length, error)
               : lh_regular_file_read(state->file, offset, bytes, length, error);
}

static void release(void *context, const lh_gguf_tensor *tensor) {
    lh_weights *weights = context;
    lh_tensor_state *state = &weights->tensors[lh_weights_index_of(weights, tensor)];
    lh_regular_file_close(state->file);
    lh_slice_file_close(state->slices);
    state->file = NULL;
    state->slices = NULL;
}

lh_weight_source lh_weights_source(lh_weights *weights) {
    return (lh_weight_source){weights, acquire, read_tensor, release};
}
