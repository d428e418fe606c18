/* Digests in the background. */
#include "gateway/fleet/port/model_file.h"

#include "common/base/log.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/tensor_blocks.h"
#include "gateway/fleet/port/kept_digests.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 16u
/* Read at a time: what disks like, and what a core's second-level cache holds. */
#define PIECE_BYTES (1u << 20)

typedef uint8_t sha256_digest[LH_SHA256_BYTES];

struct lh_model_file {
    lh_gguf_file *file;
    char header_sha256[LH_SHA256_HEX_BYTES];

    sha256_digest *digests;       /* [tensors], and behind them what follows, in one piece */
    sha256_digest *block_digests; /* [tensors]: of the digests of each one's blocks */
    sha256_digest *blocks;        /* [blocks of all tensors] */
    uint64_t *first_blocks;       /* [tensors + 1] */
    const char *state_folder;
    lh_kept_digests_key key; /* of the files as they were before they were read */
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
    free(file->first_blocks);
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

/* ---- Digests ---- */

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a digest");
}

/* Of [offset, offset + bytes) of the file, which are of the tensor's digest, too. */
static lh_status digest_block(const lh_model_file *file, uint64_t offset, uint64_t bytes,
                              lh_sha256 *tensor, uint8_t *piece, uint8_t *digest, lh_error *error) {
    lh_sha256 *block = NULL;
    lh_status status = lh_sha256_create(&block) == LH_OK ? LH_OK : fail_memory(error);
    while (bytes > 0 && status == LH_OK) {
        const size_t length = bytes < PIECE_BYTES ? (size_t)bytes : PIECE_BYTES;
        if (atomic_load(&file->is_stopping))
            status = lh_fail(error, LH_ERR_CANCELLED, "cancelled");
        else
            status = lh_model_file_read(file, offset, piece, length, error);
        if (status == LH_OK && (lh_sha256_update(block, piece, length) != LH_OK ||
                                lh_sha256_update(tensor, piece, length) != LH_OK))
            status = fail_memory(error);
        offset += length;
        bytes -= length;
    }
    if (status == LH_OK && lh_sha256_finish(block, digest) != LH_OK)
        status = fail_memory(error);
    lh_sha256_destroy(block);
    return status;
}

static lh_status digest_blocks(lh_model_file *file, size_t index, lh_sha256 *whole, uint8_t *piece,
                               lh_error *error) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(lh_model_file_gguf(file), index);
    const lh_tensor_blocks blocks = lh_tensor_blocks_of(tensor, LH_TENSOR_BLOCK_ROWS);
    sha256_digest *digests = file->blocks + file->first_blocks[index];
    lh_status status = LH_OK;
    for (uint64_t i = 0; i < blocks.count && status == LH_OK; i++) {
        const lh_block_extent extent = lh_tensor_block_at(&blocks, i);
        status = digest_block(file, tensor->offset + extent.offset, extent.bytes, whole, piece,
                              digests[i], error);
    }
    if (status != LH_OK)
        return status;
    return lh_sha256_finish(whole, file->digests[index]) == LH_OK &&
                   lh_sha256_digest(digests, blocks.count * sizeof *digests,
                                    file->block_digests[index]) == LH_OK
               ? LH_OK
               : fail_memory(error);
}

/* False: stopped, or the file cannot be read. */
static bool digest_tensor(lh_model_file *file, size_t index) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(lh_model_file_gguf(file), index);
    lh_error error;
    lh_sha256 *whole = NULL;
    uint8_t *piece = malloc(PIECE_BYTES);
    lh_status status = piece && lh_sha256_create(&whole) == LH_OK
                           ? digest_blocks(file, index, whole, piece, &error)
                           : fail_memory(&error);
    lh_sha256_destroy(whole);
    free(piece);
    if (status != LH_OK && status != LH_ERR_CANCELLED && !atomic_exchange(&file->has_failed, true))
        lh_log(LH_LOG_ERROR, "fleet",
               "the digest of a tensor cannot be computed: no worker is given weights until the "
               "gateway is started with a whole file tensor=%.*s error=\"%s\"",
               (int)tensor->name.length, tensor->name.bytes, error.message);
    return status == LH_OK;
}

static void be_done(lh_model_file *file) {
    atomic_store(&file->is_done, true);
    if (file->on_done)
        file->on_done(file->context);
}

/* ---- Kept from one start to the next ---- */

static size_t digests_bytes(const lh_model_file *file) {
    const size_t count = lh_gguf_tensor_count(lh_model_file_gguf(file));
    return (2 * count + (size_t)file->first_blocks[count]) * sizeof *file->digests;
}

/* What was kept of these files as they are; else they are to be read. */
static bool take_kept(lh_model_file *file) {
    lh_error error;
    lh_status status = lh_kept_digests_key_of(file->file, file->header_sha256, file->key, &error);
    if (status == LH_OK)
        status = lh_kept_digests_read(file->state_folder, file->key, file->digests,
                                      digests_bytes(file), &error);
    if (status == LH_OK)
        lh_log(LH_LOG_INFO, "fleet", "the model's digests are here from an earlier start");
    else if (status != LH_ERR_NOT_FOUND)
        lh_log(LH_LOG_WARN, "fleet", "the model's digests are computed anew cause=\"%s\"",
               error.message);
    return status == LH_OK;
}

/* Where nobody has written to the files meanwhile. */
static void keep(const lh_model_file *file) {
    lh_kept_digests_key now;
    lh_error error;
    lh_status status = lh_kept_digests_key_of(file->file, file->header_sha256, now, &error);
    if (status == LH_OK && memcmp(now, file->key, sizeof now) != 0)
        status = lh_fail(&error, LH_ERR_INVALID, "the file was written to");
    if (status == LH_OK)
        status = lh_kept_digests_write(file->state_folder, file->key, file->digests,
                                       digests_bytes(file), &error);
    if (status != LH_OK)
        lh_log(LH_LOG_WARN, "fleet",
               "the model's digests are not kept, the next start computes them again cause=\"%s\"",
               error.message);
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
        be_done(file);
        if (file->state_folder[0])
            keep(file);
        return NULL;
    }
}

static bool make_digests(lh_model_file *file) {
    const lh_gguf *gguf = lh_model_file_gguf(file);
    const size_t count = lh_gguf_tensor_count(gguf);
    file->first_blocks = calloc(count + 1, sizeof *file->first_blocks);
    if (!file->first_blocks)
        return false;
    for (size_t i = 0; i < count; i++)
        file->first_blocks[i + 1] =
            file->first_blocks[i] +
            lh_tensor_blocks_of(lh_gguf_tensor_at(gguf, i), LH_TENSOR_BLOCK_ROWS).count;
    file->digests = malloc(digests_bytes(file) + 1);
    if (!file->digests)
        return false;
    file->block_digests = file->digests + count;
    file->blocks = file->block_digests + count;
    return true;
}

lh_status lh_model_file_start_digests(lh_model_file *file, uint32_t threads,
                                      const char *state_folder, void (*on_done)(void *),
                                      void *context, lh_error *error) {
    if (!make_digests(file)) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the digests of %zu tensors",
                       lh_gguf_tensor_count(lh_model_file_gguf(file)));
    }
    file->on_done = on_done;
    file->context = context;
    file->state_folder = state_folder ? state_folder : "";
    if (file->state_folder[0] && take_kept(file)) {
        be_done(file);
        return LH_OK;
    }
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

uint64_t lh_model_file_blocks_size(const lh_model_file *file) {
    return file->first_blocks[lh_gguf_tensor_count(lh_model_file_gguf(file))] *
           sizeof *file->blocks;
}

lh_status lh_model_file_read_blocks(const lh_model_file *file, uint64_t offset, void *bytes,
                                    size_t length, lh_error *error) {
    const uint64_t size = lh_model_file_blocks_size(file);
    (void)error;
    assert(offset <= size && length <= size - offset);
    memcpy(bytes, (const uint8_t *)file->blocks + offset, length);
    return LH_OK;
}

const uint8_t *lh_model_file_blocks_digest(const lh_model_file *file, size_t index) {
    return file->block_digests[index];
}
