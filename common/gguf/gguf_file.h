/* A model on disk as one GGUF file, be it in one file or in several (part_name.h): header parsed
 * and in memory, the rest read by position, where each tensor is in one part. A model in several
 * files is byte for byte the file that it was before it was cut (gguf_merge.h), so nobody who uses
 * this knows of parts. A file that is cut meanwhile fails the reads behind its new end, and nothing
 * else. Thread: any; open and close by one. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_gguf_file lh_gguf_file;

/* `path` names the file, or any of its parts: the others lie beside it. Errors name the file:
 * LH_ERR_NOT_FOUND (of parts: which are missing), LH_ERR_INVALID (no regular file, empty; parts
 * that do not belong together), LH_ERR_LIMIT (more than LH_GGUF_PARTS_MAX parts), LH_ERR_IO,
 * LH_ERR_NO_MEMORY, those of lh_gguf_parse. */
lh_status lh_gguf_file_open(const char *path, lh_gguf_file **file, lh_error *error);
/* The same of parts under names of their own, in their order. */
lh_status lh_gguf_file_open_parts(const char *const *paths, uint32_t count, lh_gguf_file **file,
                                  lh_error *error);
/* NULL is allowed. */
void lh_gguf_file_close(lh_gguf_file *file);

/* As are header and texts, valid until close. */
const lh_gguf *lh_gguf_file_gguf(const lh_gguf_file *file);
/* The bytes before the tensors' data: lh_gguf_data_offset of them. */
const uint8_t *lh_gguf_file_header(const lh_gguf_file *file);
uint64_t lh_gguf_file_size(const lh_gguf_file *file);
uint32_t lh_gguf_file_parts(const lh_gguf_file *file);

/* Adds to a digest what tells the files as they are now from any others (lh_regular_file_stamp),
 * without reading them. LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_gguf_file_stamp(const lh_gguf_file *file, lh_sha256 *digest, lh_error *error);

/* bytes[length] from `offset`, all of them. May wait for the disk. LH_ERR_IO, also behind the end.
 */
lh_status lh_gguf_file_read(const lh_gguf_file *file, uint64_t offset, void *bytes, size_t length,
                            lh_error *error);
/* These bytes will be read soon: the disk may begin. A hint, which does not wait. */
void lh_gguf_file_expect(const lh_gguf_file *file, uint64_t offset, uint64_t length);
/* SHA-256 of a tensor's bytes; index: as lh_gguf_tensor_at. As lh_regular_file_digest. */
lh_status lh_gguf_file_digest_tensor(const lh_gguf_file *file, size_t index,
                                     const _Atomic bool *cancelled, uint8_t digest[LH_SHA256_BYTES],
                                     lh_error *error);
