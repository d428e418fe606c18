/* Random numbers for seeds, and names for requests and answers that nobody can guess or meet twice.
 * Thread: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LH_RANDOM_ID_BYTES 64

/* From the kernel. */
uint64_t lh_random_u64(void);
/* prefix ("chatcmpl-") and 32 hex digits. */
void lh_random_id(const char *prefix, char id[LH_RANDOM_ID_BYTES]);
