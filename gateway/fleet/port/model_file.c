/* Digests in the background. */
#include "gateway/fleet/port/model_file.h"

#include "common/base/log.h"
#include "common/gguf/gguf_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS_MAX 16u

struct lh_model_file {
    lh_gguf_file *file;
    char header_sha256[LH_SHA256_HEX_BYTES];

    uint8_t (*digests)[LH_SHA256_BYTES]; /* [tensors] */
    pthread_t threads[THREADS_MAX];
    uint32_t thread_count;
    atomic_bool is_stopping, has_failed, is_done;
    atomic_size_t next_tensor, tensors_done;
    void (*on_done)(void *);
    void *context;
};

lh_status lh_model_file_open(const char *path, lh_model_file **file, lh_error *error) {
    lh_model_file *f = calloc(1, sizeof *f);
    if (!f)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file");
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_gguf_file_open(path, &f->file, error);
    if (status == LH_OK && lh_sha256_digest(lh_gguf_file_header(f->file),
                                            lh_model_file_header_bytes(f), digest) != LH_OK)
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
    lh_gguf_file_close(file->file);
    free(file);
}

const lh_gguf *lh_model_file_gguf(const lh_model_file *file) {
    return lh_gguf_file_gguf(file->file);
}

lh_status lh_model_file_read(const lh_model_file *file, uint64_t offset, void *bytes, size_t length,
                             lh_error *error) {
    return lh_gguf_file_read(file->file, offset, bytes, length, error);
}

void lh_model_file_expect(const lh_model_file *file, uint64_t offset, uint64_t length) {
    lh_gguf_file_expect(file->file, offset, length);
}

uint64_t lh_model_file_size(const lh_model_file *file) {
    return lh_gguf_file_size(file->file);
}

uint64_t lh_model_file_header_bytes(const lh_model_file *file) {
    return lh_gguf_data_offset(lh_gguf_file_gguf(file->file));
}

const char *lh_model_file_header_sha256(const lh_model_file *file) {
    return file->header_sha256;
}

/* False: stopped, or the file cannot be read. */
static bool digest_tensor(lh_model_file *file, size_t index) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(lh_model_file_gguf(file), index);
    lh_error error;
    lh_status status = lh_gguf_file_digest_tensor(file->file, index, &file->is_stopping,
                                                  file->digests[index], &error);
    if (status != LH_OK && status != LH_ERR_CANCELLED && !atomic_exchange(&file->has_failed, true))
        lh_log(LH_LOG_ERROR, "fleet",
               "the digest of a tensor cannot be computed: no worker is given weights until the "
               "gateway is started with a whole file tensor=%.*s error=\"%s\"",
               (int)tensor->name.length, tensor->name.bytes, error.message);
    return status == LH_OK;
}

static void *run_digests(void *argument) {
    lh_model_file *file = argument;
    size_t count = lh_gguf_tensor_count(lh_model_file_gguf(file));
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
    size_t count = lh_gguf_tensor_count(lh_model_file_gguf(file));
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

bool lh_model_file_has_failed(const lh_model_file *file) {
    return atomic_load(&file->has_failed);
}

const uint8_t *lh_model_file_tensor_digest(const lh_model_file *file, size_t index) {
    return file->digests[index];
}
