/* Mapping, and digests in the background. */
#include "gateway/fleet/port/model_file.h"

#include "common/gguf/mapped_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS_MAX 16u
/* What a thread digests between two looks at whether to stop. */
#define PIECE_BYTES (4u << 20)

struct lh_model_file {
    lh_mapped_file *mapped;
    lh_gguf *gguf;
    char header_sha256[LH_SHA256_HEX_BYTES];

    uint8_t (*digests)[LH_SHA256_BYTES]; /* [tensors] */
    pthread_t threads[THREADS_MAX];
    uint32_t thread_count;
    atomic_bool is_stopping, is_done;
    atomic_size_t next_tensor, tensors_done;
    void (*on_done)(void *);
    void *context;
};

static lh_status parse(lh_model_file *file, const char *path, lh_error *error) {
    lh_error problem;
    lh_status status = lh_gguf_parse(lh_model_file_bytes(file), lh_mapped_file_size(file->mapped),
                                     lh_model_file_size(file), &file->gguf, &problem);
    return status == LH_OK ? LH_OK
                           : lh_fail(error, status, "%.100s: %.200s", path, problem.message);
}

lh_status lh_model_file_open(const char *path, lh_model_file **file, lh_error *error) {
    lh_model_file *f = calloc(1, sizeof *f);
    if (!f)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file");
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_mapped_file_open(path, &f->mapped, error);
    if (status == LH_OK)
        status = parse(f, path, error);
    if (status == LH_OK &&
        lh_sha256_digest(lh_model_file_bytes(f), lh_model_file_header_bytes(f), digest) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a digest");
    if (status != LH_OK) {
        lh_model_file_close(f);
        return status;
    }
    lh_sha256_render(digest, f->header_sha256);
    *file = f;
    return LH_OK;
}

void lh_model_file_close(lh_model_file *file) {
    if (!file)
        return;
    lh_model_file_stop_digests(file);
    free(file->digests);
    lh_gguf_destroy(file->gguf);
    lh_mapped_file_close(file->mapped);
    free(file);
}

const lh_gguf *lh_model_file_gguf(const lh_model_file *file) {
    return file->gguf;
}

const uint8_t *lh_model_file_bytes(const lh_model_file *file) {
    return lh_mapped_file_bytes(file->mapped);
}

uint64_t lh_model_file_size(const lh_model_file *file) {
    return lh_mapped_file_size(file->mapped);
}

uint64_t lh_model_file_header_bytes(const lh_model_file *file) {
    return lh_gguf_data_offset(file->gguf);
}

const char *lh_model_file_header_sha256(const lh_model_file *file) {
    return file->header_sha256;
}

/* False: stopped, or out of memory. */
static bool digest_tensor(lh_model_file *file, size_t index) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(file->gguf, index);
    const uint8_t *bytes = lh_model_file_bytes(file) + tensor->offset;
    lh_sha256 *sha256;
    if (lh_sha256_create(&sha256) != LH_OK)
        return false;
    bool is_whole = true;
    for (uint64_t at = 0; is_whole && at < tensor->bytes; at += PIECE_BYTES) {
        uint64_t left = tensor->bytes - at;
        size_t piece = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        is_whole = !atomic_load(&file->is_stopping) &&
                   lh_sha256_update(sha256, bytes + at, piece) == LH_OK;
    }
    is_whole = is_whole && lh_sha256_finish(sha256, file->digests[index]) == LH_OK;
    lh_sha256_destroy(sha256);
    return is_whole;
}

static void *run_digests(void *argument) {
    lh_model_file *file = argument;
    size_t count = lh_gguf_tensor_count(file->gguf);
    for (;;) {
        size_t index = atomic_fetch_add(&file->next_tensor, 1);
        if (index >= count || !digest_tensor(file, index))
            return NULL;
        if (atomic_fetch_add(&file->tensors_done, 1) + 1 < count)
            continue;
        atomic_store(&file->is_done, true);
        if (file->on_done)
            file->on_done(file->context);
        return NULL;
    }
}

lh_status lh_model_file_start_digests(lh_model_file *file, uint32_t threads,
                                      void (*on_done)(void *), void *context, lh_error *error) {
    size_t count = lh_gguf_tensor_count(file->gguf);
    file->digests = calloc(count + 1, sizeof *file->digests);
    if (!file->digests)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu digests", count);
    file->on_done = on_done;
    file->context = context;
    for (uint32_t i = 0; i < threads && i < THREADS_MAX; i++) {
        if (pthread_create(&file->threads[i], NULL, run_digests, file) != 0)
            break;
        file->thread_count++;
    }
    if (file->thread_count == 0)
        return lh_fail(error, LH_ERR_IO, "a thread for the tensors' digests could not be started");
    return LH_OK;
}

void lh_model_file_stop_digests(lh_model_file *file) {
    atomic_store(&file->is_stopping, true);
    for (uint32_t i = 0; i < file->thread_count; i++)
        pthread_join(file->threads[i], NULL);
    file->thread_count = 0;
}

bool lh_model_file_has_digests(const lh_model_file *file) {
    return atomic_load(&file->is_done);
}

const uint8_t *lh_model_file_tensor_digest(const lh_model_file *file, size_t index) {
    return file->digests[index];
}
