/* A regular file, mapped read-only into memory. Thread: any; close is for the last one.
 *
 * The size is that at the time of opening. A file that grows or is replaced by rename is no matter;
 * one that is *cut* while it is mapped gives SIGBUS to whoever reads behind its new end: the
 * folders of models and weights belong to the operator, and programs that change a file in place
 * there break this promise. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_mapped_file lh_mapped_file;

/* Errors name the path: LH_ERR_NOT_FOUND (there is none), LH_ERR_INVALID (not a regular file, or
 * empty), LH_ERR_IO (permission, mapping), LH_ERR_NO_MEMORY. */
lh_status lh_mapped_file_open(const char *path, lh_mapped_file **file, lh_error *error);
/* The bytes live until close. */
const uint8_t *lh_mapped_file_bytes(const lh_mapped_file *file);
size_t lh_mapped_file_size(const lh_mapped_file *file);
/* The pages of this range will not be needed soon: the kernel may drop them from memory. A hint;
 * the bytes stay readable. */
void lh_mapped_file_drop(const lh_mapped_file *file, size_t offset, size_t length);
/* NULL is allowed. */
void lh_mapped_file_close(lh_mapped_file *file);
