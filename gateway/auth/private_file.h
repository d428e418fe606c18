/* A small file that only its owner may touch: keys. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/* Reads the whole file into bytes[capacity]; no copy of it stays elsewhere. LH_ERR_INVALID: others
 * than its owner may use it; LH_ERR_LIMIT: it is longer; LH_ERR_IO. Messages name the path, never
 * what is in the file. */
lh_status lh_private_file_read(const char *path, char *bytes, size_t capacity, size_t *length,
                               lh_error *error);
