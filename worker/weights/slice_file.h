/* Some blocks of one tensor (common/gguf/tensor_blocks.h) in the cache's folder: a file of the
 * tensor's size, named by its digest and ".slices", with a hole where nothing has been fetched yet.
 * So a member of a team keeps what it needs of a tensor, and what another team, or the whole stage,
 * needs besides is added.
 *
 * Nothing on disk says which blocks are there: a block is, when its bytes have its digest, and only
 * such bytes are ever written. So what a process that ended in the middle has left behind is what
 * is missing, and processes that share a folder write the same bytes or none. What a process has
 * checked or written once, of a file that is still that very file, it believes. Thread: any. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/tensor_blocks.h"
#include "worker/weights/weight_cache.h"

#include <stdbool.h>

typedef struct lh_slice_file lh_slice_file;

/* digest, bytes: of the whole tensor. `creates`: it is made where there is none, or another size.
 * LH_ERR_NOT_FOUND (it is not), LH_ERR_LIMIT (disk full), LH_ERR_IO, LH_ERR_NO_MEMORY; messages
 * name the path. */
lh_status lh_slice_file_open(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                             uint64_t bytes, bool creates, lh_slice_file **file, lh_error *error);
/* NULL is allowed. */
void lh_slice_file_close(lh_slice_file *file);

/* Sets *has: whether the extent has this digest. buffer[extent.bytes] is scratch. LH_ERR_IO,
 * LH_ERR_NO_MEMORY. */
lh_status lh_slice_file_check(const lh_slice_file *file, lh_block_extent extent,
                              const uint8_t digest[LH_SHA256_BYTES], void *buffer, bool *has,
                              lh_error *error);
/* bytes[length] from `offset` of the tensor on. LH_ERR_IO. */
lh_status lh_slice_file_read(const lh_slice_file *file, uint64_t offset, void *bytes, size_t length,
                             lh_error *error);
/* bytes[extent.bytes], which have been found to have this digest. LH_ERR_LIMIT (disk full),
 * LH_ERR_IO. */
lh_status lh_slice_file_write(lh_slice_file *file, lh_block_extent extent,
                              const uint8_t digest[LH_SHA256_BYTES], const void *bytes,
                              lh_error *error);
/* Asks for the space now rather than failing after an hour's download. LH_ERR_LIMIT, LH_ERR_IO. */
lh_status lh_slice_file_reserve(lh_slice_file *file, lh_block_extent extent, lh_error *error);
/* What was written lasts through a loss of power; its name does by lh_weight_cache_sync. */
lh_status lh_slice_file_sync(lh_slice_file *file, lh_error *error);
