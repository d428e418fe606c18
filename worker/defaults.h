/* What a worker takes of its machine where no flag says. Thread: start-up only. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

#define LH_CACHE_DIR_BYTES 1024u

/* --memory-bytes: of what the machine has, container or not. */
int64_t lh_default_memory_bytes(void);
/* --cache-dir: where systemd says, else the user's. LH_ERR_INVALID: nothing says where. */
lh_status lh_default_cache_dir(char folder[LH_CACHE_DIR_BYTES], lh_error *error);
