/* A folder of files named by the SHA-256 of their bytes: each is complete or absent. Several
 * processes may share one folder.
 *
 * A file is written aside as "partial-XXXXXX" under a lock of the file, synced, and renamed;
 * partial files without a lock are remains of dead processes, removed when a cache is opened. A
 * file is trusted after its digest has been checked once by this process; one that is damaged is
 * removed.
 *
 * Thread: any, but a writer is for one thread at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/regular_file.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_weight_cache lh_weight_cache;
typedef struct lh_weight_writer lh_weight_writer; /* one file on its way into the cache */

/* Makes the folder (and those above it) where it is missing. LH_ERR_IO (message names the folder),
 * LH_ERR_NO_MEMORY. */
lh_status lh_weight_cache_open(const char *folder, lh_weight_cache **cache, lh_error *error);
/* NULL is allowed. */
void lh_weight_cache_close(lh_weight_cache *cache);
/* Lives as long as the cache. */
const char *lh_weight_cache_folder(const lh_weight_cache *cache);

/* What this process has checked against a digest, or written, so that the next stage does not read
 * it through once more: a name of bytes and of where they are, as random as a digest. Of whole
 * files of the cache it is their own digest. */
bool lh_weight_cache_has_checked(lh_weight_cache *cache, const uint8_t name[LH_SHA256_BYTES]);
void lh_weight_cache_note_checked(lh_weight_cache *cache, const uint8_t name[LH_SHA256_BYTES]);

/* Opens the file of these bytes, for the caller to read and close. LH_ERR_NOT_FOUND: there is none,
 * or it was damaged and has been removed; LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_weight_cache_find(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                               uint64_t bytes, lh_regular_file **file, lh_error *error);

/* Begins a file. The disk's space is reserved at once: LH_ERR_LIMIT when it is full (or over a
 * quota); LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_weight_writer_create(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                                  uint64_t bytes, lh_weight_writer **writer, lh_error *error);
/* LH_ERR_LIMIT: disk full, or more than the announced bytes; LH_ERR_IO. */
lh_status lh_weight_writer_append(lh_weight_writer *writer, const void *bytes, size_t length,
                                  lh_error *error);
/* Checks length and digest (LH_ERR_CORRUPT) and puts the file in its place. */
lh_status lh_weight_writer_commit(lh_weight_writer *writer, lh_error *error);
/* Always; removes what was not committed. NULL is allowed. */
void lh_weight_writer_destroy(lh_weight_writer *writer);

/* Makes the names of files that were committed last through a loss of power, as their bytes do
 * already. */
lh_status lh_weight_cache_sync(lh_weight_cache *cache, lh_error *error);
/* How many bytes its file system has free for this process. False: that is not known. */
bool lh_weight_cache_free_bytes(const lh_weight_cache *cache, uint64_t *bytes);
