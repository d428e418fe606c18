/* What a worker takes of its machine where no flag says. Thread: start-up only. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

#define LH_CACHE_DIR_BYTES 1024u

/* --memory-bytes beside so much for the KV cache: of what the machine, or the container, has and of
 * what is free of it. */
int64_t lh_default_memory_bytes(int64_t kv_bytes);
/* The same of these figures, below 0 where they are not known. */
int64_t lh_default_memory_of(int64_t all_bytes, int64_t free_bytes, int64_t kv_bytes);
/* --cache-dir: where systemd says, else the user's. LH_ERR_INVALID: nothing says where. */
lh_status lh_default_cache_dir(char folder[LH_CACHE_DIR_BYTES], lh_error *error);
