/* The GGUF file that the gateway serves to its workers, with the digests by which they know it. The
 * header's is computed at once; those of the tensors take a while and are computed by threads of
 * its own. A model in several files is served as the one that it was before it was cut.
 *
 * Thread: _open, _start_digests, _stop_digests and _close by one thread; the rest by any. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_model_file lh_model_file;

/* `path`: as of lh_gguf_file_open, and so its errors. */
lh_status lh_model_file_open(const char *path, lh_model_file **file, lh_error *error);
/* Stops the threads first. NULL is allowed. */
void lh_model_file_close(lh_model_file *file);

const lh_gguf *lh_model_file_gguf(const lh_model_file *file);
/* As lh_gguf_file_read and lh_gguf_file_expect. */
lh_status lh_model_file_read(const lh_model_file *file, uint64_t offset, void *bytes, size_t length,
                             lh_error *error);
void lh_model_file_expect(const lh_model_file *file, uint64_t offset, uint64_t length);
uint64_t lh_model_file_size(const lh_model_file *file);
/* Metadata and tensor list: the bytes before the tensors' data. */
uint64_t lh_model_file_header_bytes(const lh_model_file *file);
/* Their SHA-256: the model's identity. Lower-case hex. */
const char *lh_model_file_header_sha256(const lh_model_file *file);

/* Starts the threads; or takes what an earlier start of the gateway has kept in the state folder of
 * the very files that these are, without reading them. state_folder: NULL, "": nothing is kept;
 * valid until _stop_digests. on_done (may be NULL) is called once when all digests are there, by
 * one of the threads or in this call; not when the file is closed before, or has failed.
 * LH_ERR_NO_MEMORY, LH_ERR_IO (no thread could be started). */
lh_status lh_model_file_start_digests(lh_model_file *file, uint32_t threads,
                                      const char *state_folder, void (*on_done)(void *),
                                      void *context, lh_error *error);
/* Waits for the threads, which give up where they are: no call of on_done comes after it. */
void lh_model_file_stop_digests(lh_model_file *file);
bool lh_model_file_has_digests(const lh_model_file *file);
/* A digest could not be computed, which was logged: there will be none. */
bool lh_model_file_has_failed(const lh_model_file *file);
/* Precondition: lh_model_file_has_digests. index: as lh_gguf_tensor_at. */
const uint8_t *lh_model_file_tensor_digest(const lh_model_file *file, size_t index);

/* The digests of all blocks (common/gguf/tensor_blocks.h), LH_SHA256_BYTES each, tensor by tensor:
 * a file of its own, by whose parts a worker checks parts of tensors. */
uint64_t lh_model_file_blocks_size(const lh_model_file *file);
/* Preconditions: lh_model_file_has_digests; [offset, offset + length) lies within it. LH_OK. */
lh_status lh_model_file_read_blocks(const lh_model_file *file, uint64_t offset, void *bytes,
                                    size_t length, lh_error *error);
/* The digest of what that file has of one tensor. Precondition as above. */
const uint8_t *lh_model_file_blocks_digest(const lh_model_file *file, size_t index);
