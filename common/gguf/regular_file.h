/* A regular file that is read by position, not mapped: a file that somebody cuts while it is in use
 * is an error of the read behind its new end, where a map would end the process by SIGBUS. Thread:
 * any; close is for the last one. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_regular_file lh_regular_file;

/* Errors name the path: LH_ERR_NOT_FOUND (there is none), LH_ERR_INVALID (not a regular file, or
 * empty), LH_ERR_IO (permission), LH_ERR_NO_MEMORY. */
lh_status lh_regular_file_open(const char *path, lh_regular_file **file, lh_error *error);
/* That of the time of opening. A file that is replaced by rename is no matter. */
uint64_t lh_regular_file_size(const lh_regular_file *file);
/* bytes[length] from `offset`, all of them. May wait for the disk. LH_ERR_IO: the disk, or the file
 * has been cut; the message names path and offset. */
lh_status lh_regular_file_read(const lh_regular_file *file, uint64_t offset, void *bytes,
                               size_t length, lh_error *error);
/* What tells this file as it is now from any other, and from what it was before somebody wrote into
 * it: inode, size, times of its last write and change, as numbers in that order. LH_ERR_IO. */
#define LH_FILE_STAMP_NUMBERS 6
lh_status lh_regular_file_stamp(const lh_regular_file *file, uint64_t stamp[LH_FILE_STAMP_NUMBERS],
                                lh_error *error);
/* These bytes will be read soon: the disk may begin. A hint, which does not wait. */
void lh_regular_file_expect(const lh_regular_file *file, uint64_t offset, uint64_t length);
/* SHA-256 of `length` bytes from `offset`. `cancelled` (may be NULL) is looked at between pieces.
 * LH_ERR_CANCELLED, LH_ERR_NO_MEMORY, errors of _read. */
lh_status lh_regular_file_digest(const lh_regular_file *file, uint64_t offset, uint64_t length,
                                 const _Atomic bool *cancelled, uint8_t digest[LH_SHA256_BYTES],
                                 lh_error *error);
/* NULL is allowed. */
void lh_regular_file_close(lh_regular_file *file);
