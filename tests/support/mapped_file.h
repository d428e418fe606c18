/* A whole file in memory, for tools and tests that want a model's bytes: mapped read-only. The
 * programs read by position instead (common/gguf/regular_file.h). Thread: any; close is for the
 * last one. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_mapped_file lh_mapped_file;

/* LH_ERR_IO with the path and the reason, whatever it is. */
lh_status lh_mapped_file_open(const char *path, lh_mapped_file **file, lh_error *error);
/* The bytes live until close. */
const uint8_t *lh_mapped_file_bytes(const lh_mapped_file *file);
size_t lh_mapped_file_size(const lh_mapped_file *file);
/* NULL is allowed. */
void lh_mapped_file_close(lh_mapped_file *file);
