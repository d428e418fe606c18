/* The header in memory, the rest read by position, and digests in the background. */
#include "gateway/fleet/port/model_file.h"

#include "common/base/log.h"
#include "common/gguf/regular_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS_MAX 16u
/* The header's length stands nowhere in it: what is read is doubled until the header is whole.
 * Vocabulary and merges of the largest models take some 20 MB. */
#define HEADER_BYTES_FIRST (4u << 20)
#define HEADER_BYTES_MAX   (256u << 20)

struct lh_model_file {
    lh_regular_file *file;
    uint8_t *header; /* the gguf points into it */
    lh_gguf *gguf;
    char header_sha256[LH_SHA256_HEX_BYTES];

    uint8_t (*digests)[LH_SHA256_BYTES]; /* [tensors] */
    pthread_t threads[THREADS_MAX];
    uint32_t thread_count;
    atomic_bool is_stopping, has_failed, is_done;
    atomic_size_t next_tensor, tensors_done;
    void (*on_done)(void *);
    void *context;
};

/* The first `length` bytes of the file become its header in memory. */
static lh_status parse(lh_model_file *f, const char *path, size_t length, lh_error *error) {
    lh_error problem;
    lh_gguf_destroy(f->gguf);
    f->gguf = NULL;
    free(f->header);
    f->header = malloc(length);
    if (!f->header)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file's header");
    lh_status status = lh_regular_file_read(f->file, 0, f->header, length, error);
    if (status != LH_OK)
        return status;
    status = lh_gguf_parse(f->header, length, lh_model_file_size(f), &f->gguf, &problem);
    return status == LH_OK ? LH_OK
                           : lh_fail(error, status, "%.100s: %.200s", path, problem.message);
}

static lh_status read_header(lh_model_file *f, const char *path, lh_error *error) {
    uint64_t size = lh_model_file_size(f);
    uint64_t most = size < HEADER_BYTES_MAX ? size : HEADER_BYTES_MAX;
    uint64_t length = most < HEADER_BYTES_FIRST ? most : HEADER_BYTES_FIRST;
    lh_status status = parse(f, path, (size_t)length, error);
    while (status == LH_ERR_MALFORMED && length < most) {
        length = 2 * length < most ? 2 * length : most;
        status = parse(f, path, (size_t)length, error);
    }
    if (status == LH_OK) /* and no more of it than that */
        status = parse(f, path, (size_t)lh_model_file_header_bytes(f), error);
    return status;
}

lh_status lh_model_file_open(const char *path, lh_model_file **file, lh_error *error) {
    lh_model_file *f = calloc(1, sizeof *f);
    if (!f)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file");
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_regular_file_open(path, &f->file, error);
    if (status == LH_OK)
        status = read_header(f, path, error);
    if (status == LH_OK &&
        lh_sha256_digest(f->header, lh_model_file_header_bytes(f), digest) != LH_OK)
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
    free(file->header);
    lh_regular_file_close(file->file);
    free(file);
}

const lh_gguf *lh_model_file_gguf(const lh_model_file *file) {
    return file->gguf;
}

lh_status lh_model_file_read(const lh_model_file *file, uint64_t offset, void *bytes, size_t length,
                             lh_error *error) {
    return lh_regular_file_read(file->file, offset, bytes, length, error);
}

void lh_model_file_expect(const lh_model_file *file, uint64_t offset, uint64_t length) {
    lh_regular_file_expect(file->file, offset, length);
}

uint64_t lh_model_file_size(const lh_model_file *file) {
    return lh_regular_file_size(file->file);
}

uint64_t lh_model_file_header_bytes(const lh_model_file *file) {
    return lh_gguf_data_offset(file->gguf);
}

const char *lh_model_file_header_sha256(const lh_model_file *file) {
    return file->header_sha256;
}

/* False: stopped, or the file cannot be read. */
static bool digest_tensor(lh_model_file *file, size_t index) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(file->gguf, index);
    lh_error error;
    lh_status status = lh_regular_file_digest(file->file, tensor->offset, tensor->bytes,
                                              &file->is_stopping, file->digests[index], &error);
    if (status != LH_OK && status != LH_ERR_CANCELLED && !atomic_exchange(&file->has_failed, true))
        lh_log(LH_LOG_ERROR, "fleet",
               "the digest of a tensor cannot be computed: no worker is given weights until the "
               "gateway is started with a whole file tensor=%.*s error=\"%s\"",
               (int)tensor->name.length, tensor->name.bytes, error.message);
    return status == LH_OK;
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

bool lh_model_file_has_failed(const lh_model_file *file) {
    return atomic_load(&file->has_failed);
}

const uint8_t *lh_model_file_tensor_digest(const lh_model_file *file, size_t index) {
    return file->digests[index];
}
