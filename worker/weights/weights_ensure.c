/* Looks for each tensor where it may be; what is nowhere is fetched. */
#include "common/base/log.h"
#include "worker/weights/missing_parts.h"
#include "worker/weights/weights_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory");
}

/* A tensor of the range. */
typedef struct wanted {
    const lh_gguf_tensor *tensor;
    size_t index;
    uint64_t bytes; /* of it that are needed */
    /* A part of it does, or a file of slices has some of it already: then its state has a set. */
    bool is_sliced;
    lh_place found;
} wanted;

typedef struct ensuring {
    lh_weights *weights;
    const lh_weight_needs *needs; /* NULL: whole tensors */
    wanted *wanted;               /* [count] */
    size_t count;
    lh_missing_parts missing;
    uint64_t done, total;
    void (*on_progress)(void *, uint64_t, uint64_t);
    void *progress_context;
} ensuring;

static void report(const ensuring *e) {
    if (e->on_progress)
        e->on_progress(e->progress_context, e->done, e->total);
}

static lh_tensor_state *state_of(const ensuring *e, const wanted *w) {
    return &e->weights->tensors[w->index];
}

/* Sets *has: whether some of the tensor may be in a file of slices. */
static lh_status look_for_slices(const lh_weights *weights, const lh_tensor_digest *digest,
                                 const lh_gguf_tensor *tensor, bool *has, lh_error *error) {
    lh_slice_file *file;
    lh_status status =
        lh_slice_file_open(weights->cache, digest->sha256, tensor->bytes, false, &file, error);
    *has = status == LH_OK;
    if (status == LH_OK)
        lh_slice_file_close(file);
    return status == LH_ERR_NOT_FOUND ? LH_OK : status;
}

/* What of the tensor is needed in this role. */
static uint32_t slices_of(const ensuring *e, lh_tensor_role role, const lh_gguf_tensor *tensor,
                          lh_tensor_slice slices[LH_TENSOR_PARTS_MAX], bool *is_part) {
    uint32_t count = 1;
    uint64_t bytes = 0;
    slices[0] = (lh_tensor_slice){0, tensor->bytes, 0, 1};
    if (e->needs)
        count = e->needs->slices(e->needs->context, role, tensor, slices);
    for (uint32_t i = 0; i < count; i++)
        bytes += slices[i].bytes * slices[i].count;
    *is_part = bytes < tensor->bytes;
    return count;
}

/* Marks the blocks, in a set that is made where there is none. */
static lh_status need_blocks(const ensuring *e, wanted *w, const lh_tensor_slice *slices,
                             uint32_t count, lh_error *error) {
    lh_block_set *set = &state_of(e, w)->set;
    lh_status status = LH_OK;
    if (!set->states)
        status = lh_block_set_init(set, w->tensor, e->weights->blocks.rows, error);
    if (status != LH_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        lh_block_set_need(set, &slices[i]);
    w->is_sliced = true;
    w->bytes = set->missing_bytes;
    return LH_OK;
}

static lh_status check_wanted(const ensuring *e, const lh_gguf_tensor *tensor,
                              const lh_tensor_digest *digest, lh_error *error) {
    if (!digest->present)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weights: %s has no digest of tensor %.*s",
                       e->weights->tensors_text, (int)tensor->name.length, tensor->name.bytes);
    if (tensor->bytes == 0)
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "weights: tensor %.*s has the type %s, which is not supported",
                       (int)tensor->name.length, tensor->name.bytes,
                       lh_dtype_ggml_name(tensor->type));
    return LH_OK;
}

/* Its place in the list, where it is added if it is new. */
static wanted *list(ensuring *e, const lh_gguf_tensor *tensor, size_t index) {
    for (size_t i = 0; i < e->count; i++)
        if (e->wanted[i].index == index)
            return &e->wanted[i];
    e->wanted[e->count] = (wanted){.tensor = tensor, .index = index, .bytes = tensor->bytes};
    return &e->wanted[e->count++];
}

/* lh_tensor_visitor: collects a tensor, once. */
static lh_status collect(void *context, lh_tensor_role role, uint32_t layer,
                         const lh_gguf_tensor *tensor, lh_error *error) {
    ensuring *e = context;
    (void)layer;
    const size_t index = lh_weights_index_of(e->weights, tensor);
    const lh_tensor_digest *digest = &e->weights->digests[index];
    lh_tensor_slice slices[LH_TENSOR_PARTS_MAX];
    bool is_part;
    lh_status status = check_wanted(e, tensor, digest, error);
    if (status != LH_OK)
        return status;
    wanted *w = list(e, tensor, index);
    const uint32_t count = slices_of(e, role, tensor, slices, &is_part);
    const lh_place now = e->weights->tensors[index].place;
    if (lh_place_is_whole(now) || !digest->has_blocks || e->weights->blocks.rows == 0)
        return LH_OK;
    bool has_slices = is_part || w->is_sliced || now == LH_IN_SLICES;
    if (!has_slices)
        status = look_for_slices(e->weights, digest, tensor, &has_slices, error);
    return status == LH_OK && has_slices ? need_blocks(e, w, slices, count, error) : status;
}

/* Of a tensor in the local file as that is now, for what has been checked. */
static lh_status name_local_tensor(const lh_weights *weights, const wanted *w,
                                   uint8_t name[LH_SHA256_BYTES], lh_error *error) {
    const uint64_t index = w->index;
    lh_sha256 *sha256;
    if (lh_sha256_create(&sha256) != LH_OK)
        return fail_memory(error);
    lh_status status = lh_gguf_file_stamp(weights->local, sha256, error);
    if (status == LH_OK &&
        (lh_sha256_update(sha256, &index, sizeof index) != LH_OK ||
         lh_sha256_update(sha256, weights->digests[index].sha256, LH_SHA256_BYTES) != LH_OK ||
         lh_sha256_finish(sha256, name) != LH_OK))
        status = fail_memory(error);
    lh_sha256_destroy(sha256);
    return status;
}

static lh_status check_local_tensor(const lh_weights *weights, const wanted *w, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES], name[LH_SHA256_BYTES];
    lh_status status = name_local_tensor(weights, w, name, error);
    if (status != LH_OK || lh_weight_cache_has_checked(weights->cache, name))
        return status;
    status =
        lh_gguf_file_digest_tensor(weights->local, w->index, weights->cancelled, digest, error);
    if (status == LH_OK && memcmp(digest, weights->digests[w->index].sha256, sizeof digest) != 0)
        status = lh_fail(error, LH_ERR_CORRUPT, "it differs from the model");
    if (status == LH_OK)
        lh_weight_cache_note_checked(weights->cache, name);
    return status;
}

static bool is_in_local_file(const lh_weights *weights, const wanted *w) {
    lh_error problem;
    lh_status status = weights->local ? check_local_tensor(weights, w, &problem) : LH_ERR_NOT_FOUND;
    if (status != LH_OK && status != LH_ERR_NOT_FOUND && status != LH_ERR_CANCELLED)
        lh_log(LH_LOG_WARN, "weights",
               "a tensor is fetched, since the local model file does not have it tensor=%.*s "
               "reason=\"%s\"",
               (int)w->tensor->name.length, w->tensor->name.bytes, problem.message);
    return status == LH_OK;
}

/* A whole tensor that is here. */
static lh_status find_whole(ensuring *e, wanted *w, uint64_t *here_bytes, lh_error *error) {
    lh_weights *weights = e->weights;
    lh_regular_file *file;
    w->found = state_of(e, w)->place;
    if (w->found == LH_NOWHERE && is_in_local_file(weights, w))
        w->found = LH_IN_FILE;
    lh_status status = LH_ERR_NOT_FOUND;
    if (w->found == LH_NOWHERE)
        status = lh_weight_cache_find(weights->cache, weights->digests[w->index].sha256,
                                      w->tensor->bytes, &file, error);
    if (status == LH_OK) {
        lh_regular_file_close(file);
        w->found = LH_IN_CACHE;
    }
    if (lh_place_is_whole(w->found))
        *here_bytes = w->bytes;
    return status == LH_ERR_NOT_FOUND ? LH_OK : status;
}

/* Blocks of a file of slices that are here. */
static lh_status check_blocks(ensuring *e, wanted *w, lh_slice_file *file, uint64_t *here_bytes,
                              lh_error *error) {
    lh_block_set *set = &state_of(e, w)->set;
    uint8_t *buffer = malloc((size_t)lh_tensor_block_at(&set->blocks, 0).bytes);
    lh_status status = buffer ? LH_OK : fail_memory(error);
    for (uint64_t i = lh_block_set_next_missing(set, 0); status == LH_OK && i < set->blocks.count;
         i = lh_block_set_next_missing(set, i + 1)) {
        const lh_block_extent extent = lh_tensor_block_at(&set->blocks, i);
        bool has;
        status = lh_slice_file_check(file, extent, set->digests[i], buffer, &has, error);
        if (status == LH_OK && has) {
            lh_block_set_found(set, i);
            *here_bytes += extent.bytes;
        }
    }
    free(buffer);
    return status;
}

static lh_status find_blocks(ensuring *e, wanted *w, uint64_t *here_bytes, lh_error *error) {
    lh_tensor_state *state = state_of(e, w);
    lh_slice_file *file;
    if (!w->is_sliced || lh_place_is_whole(w->found))
        return LH_OK;
    lh_status status = lh_slice_file_open(e->weights->cache, e->weights->digests[w->index].sha256,
                                          w->tensor->bytes, false, &file, error);
    if (status == LH_OK) {
        status = check_blocks(e, w, file, here_bytes, error);
        lh_slice_file_close(file);
    }
    w->found = state->set.missing == 0 ? LH_IN_SLICES : LH_NOWHERE;
    return status == LH_ERR_NOT_FOUND ? LH_OK : status;
}

typedef lh_status find_function(ensuring *e, wanted *w, uint64_t *here_bytes, lh_error *error);

/* Where the tensors are, looked for by all threads of the pool: to check a gigabyte takes longer
 * than to read it. */
typedef struct finding {
    ensuring *e;
    find_function *find;
    _Atomic uint64_t done;
    _Atomic lh_status status; /* the first that is not LH_OK */
    lh_error error;
} finding;

static void find_one(void *context, uint32_t number, uint32_t thread) {
    finding *f = context;
    const lh_weights *weights = f->e->weights;
    lh_error problem;
    lh_status status = LH_OK, none = LH_OK;
    uint64_t here_bytes = 0;
    if (atomic_load(&f->status) != LH_OK)
        return;
    if (weights->cancelled && atomic_load(weights->cancelled))
        status = lh_fail(&problem, LH_ERR_CANCELLED, "weights: cancelled");
    else
        status = f->find(f->e, &f->e->wanted[number], &here_bytes, &problem);
    if (status != LH_OK && atomic_compare_exchange_strong(&f->status, &none, status))
        f->error = problem;
    atomic_fetch_add(&f->done, here_bytes);
    if (thread == 0) {
        f->e->done = atomic_load(&f->done);
        report(f->e);
    }
}

static lh_status find_all(ensuring *e, find_function *find, lh_error *error) {
    finding f = {.e = e, .find = find, .done = e->done};
    if (e->weights->pool)
        lh_thread_pool_run(e->weights->pool, (uint32_t)e->count, find_one, &f);
    for (uint32_t i = 0; !e->weights->pool && i < e->count; i++)
        find_one(&f, i, 0);
    e->done = atomic_load(&f.done);
    report(e);
    if (atomic_load(&f.status) != LH_OK)
        return lh_fail(error, atomic_load(&f.status), "%s", f.error.message);
    return LH_OK;
}

/* ---- Digests of blocks ---- */

/* The list of one tensor, which is a part of the file of all lists, and a file of its own in the
 * cache. */
static lh_weight_part list_part(const ensuring *e, const wanted *w) {
    const lh_weights *weights = e->weights;
    lh_weight_part part = {.name = w->tensor->name,
                           .offset = weights->first_blocks[w->index] * LH_SHA256_BYTES,
                           .bytes = state_of(e, w)->set.blocks.count * LH_SHA256_BYTES,
                           .index = w->index};
    memcpy(part.digest, weights->digests[w->index].blocks_sha256, sizeof part.digest);
    return part;
}

static lh_status read_list(const ensuring *e, const wanted *w, lh_error *error) {
    const lh_weight_part part = list_part(e, w);
    lh_regular_file *file;
    lh_status status =
        lh_weight_cache_find(e->weights->cache, part.digest, part.bytes, &file, error);
    if (status != LH_OK)
        return status;
    status = lh_regular_file_read(file, 0, state_of(e, w)->set.digests, (size_t)part.bytes, error);
    lh_regular_file_close(file);
    return status;
}

static int compare_offsets(const void *a, const void *b) {
    const lh_weight_part *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Of tensors that are not here whole. */
static lh_status fetch_lists(const ensuring *e, lh_error *error) {
    lh_weights *weights = e->weights;
    const lh_weight_download_events events = {weights, NULL, lh_weights_count_bytes};
    lh_weight_part *parts = calloc(e->count + 1, sizeof *parts);
    size_t count = 0;
    lh_status status = parts ? LH_OK : fail_memory(error);
    for (size_t i = 0; i < e->count && status == LH_OK; i++) {
        const wanted *w = &e->wanted[i];
        if (!w->is_sliced || lh_place_is_whole(w->found))
            continue;
        status = read_list(e, w, error);
        if (status == LH_ERR_NOT_FOUND) {
            parts[count++] = list_part(e, w);
            status = LH_OK;
        }
    }
    if (status == LH_OK && count > 0) {
        qsort(parts, count, sizeof *parts, compare_offsets);
        status = lh_weight_download(weights->fetch, weights->blocks_url, weights->cache, parts,
                                    count, &events, error);
    }
    for (size_t i = 0; i < e->count && status == LH_OK && count > 0; i++)
        if (e->wanted[i].is_sliced && !lh_place_is_whole(e->wanted[i].found))
            status = read_list(e, &e->wanted[i], error);
    free(parts);
    return status;
}

/* ---- What is missing ---- */

static lh_status add_blocks(ensuring *e, const wanted *w, lh_error *error) {
    lh_tensor_state *state = state_of(e, w);
    assert(!state->slices);
    lh_status status = lh_slice_file_open(e->weights->cache, e->weights->digests[w->index].sha256,
                                          w->tensor->bytes, true, &state->slices, error);
    return status == LH_OK ? lh_missing_parts_add_blocks(&e->missing, w->tensor, w->index,
                                                         &state->set, state->slices, error)
                           : status;
}

/* Notes where tensors are, and lists what is nowhere. */
static lh_status list_missing(ensuring *e, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < e->count && status == LH_OK; i++) {
        const wanted *w = &e->wanted[i];
        state_of(e, w)->place = w->found;
        if (w->found != LH_NOWHERE)
            continue;
        status = w->is_sliced ? add_blocks(e, w, error)
                              : lh_missing_parts_add(&e->missing, w->tensor, w->index,
                                                     e->weights->digests[w->index].sha256, error);
    }
    return status;
}

static void on_part(void *context, const lh_weight_part *part) {
    const ensuring *e = context;
    lh_tensor_state *state = &e->weights->tensors[part->index];
    assert(state->place == LH_NOWHERE && !state->file);
    if (part->slices)
        lh_block_set_found(&state->set, part->block);
    if (!part->slices || state->set.missing == 0)
        state->place = part->slices ? LH_IN_SLICES : LH_IN_CACHE;
}

static void on_bytes(void *context, int64_t bytes) {
    ensuring *e = context;
    lh_weights_count_bytes(e->weights, bytes);
    e->done += (uint64_t)bytes; /* wraps back where it is negative */
    assert(e->done <= e->total);
    report(e);
}

/* A disk that is full of what may never be needed would keep out what is. */
static lh_status check_room(const ensuring *e, lh_error *error) {
    uint64_t missing = e->total - e->done, free_bytes;
    if (!e->weights->is_provision || !lh_weight_cache_free_bytes(e->weights->cache, &free_bytes) ||
        missing <= free_bytes / 2)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "what would be needed after a loss takes %" PRIu64 " MB more, and of the "
                   "%" PRIu64 " MB that are free for the cache folder at most half may be taken "
                   "for that",
                   missing / 1000000, free_bytes / 1000000);
}

static lh_status fetch_missing(ensuring *e, lh_error *error) {
    lh_weights *weights = e->weights;
    const lh_weight_download_events events = {e, on_part, on_bytes};
    if (e->missing.count + e->missing.piece_count == 0)
        return LH_OK;
    lh_status status =
        lh_missing_parts_download(&e->missing, weights->fetch, weights->weights_url,
                                  weights->pieces_url, weights->cache, &events, error);
    for (size_t i = 0; i < e->count; i++) {
        lh_tensor_state *state = state_of(e, &e->wanted[i]);
        if (state->slices && status == LH_OK)
            status = lh_slice_file_sync(state->slices, error);
    }
    return status == LH_OK ? lh_weight_cache_sync(weights->cache, error) : status;
}

static void reset_ensuring(ensuring *e) {
    for (size_t i = 0; i < e->count; i++) {
        lh_tensor_state *state = state_of(e, &e->wanted[i]);
        lh_slice_file_close(state->slices);
        state->slices = NULL;
    }
    lh_missing_parts_reset(&e->missing);
    free(e->wanted);
}

lh_status lh_weights_ensure(lh_weights *weights, const lh_model_config *config,
                            lh_layer_range range, const lh_weight_needs *needs,
                            void (*on_progress)(void *, uint64_t, uint64_t), void *progress_context,
                            lh_error *error) {
    ensuring e = {.weights = weights,
                  .needs = needs,
                  .missing.has_pieces = weights->blocks.pieces_url[0],
                  .on_progress = on_progress,
                  .progress_context = progress_context};
    e.wanted = calloc(lh_gguf_tensor_count(weights->gguf) + 1, sizeof *e.wanted);
    if (!e.wanted)
        return fail_memory(error);
    lh_status status = lh_model_visit_tensors(weights->gguf, config, range, collect, &e, error);
    for (size_t i = 0; i < e.count; i++)
        e.total += e.wanted[i].bytes;
    if (status == LH_OK)
        status = find_all(&e, find_whole, error);
    if (status == LH_OK)
        status = fetch_lists(&e, error);
    if (status == LH_OK)
        status = find_all(&e, find_blocks, error);
    if (status == LH_OK)
        status = list_missing(&e, error);
    if (status == LH_OK)
        status = check_room(&e, error);
    if (status == LH_OK)
        status = fetch_missing(&e, error);
    reset_ensuring(&e);
    return status;
}
