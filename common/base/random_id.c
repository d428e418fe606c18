/* getrandom(2). */
#include "common/base/random_id.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

uint64_t lh_random_u64(void) {
    uint64_t number;
    /* whole, once the pool is up: getrandom(2) */
    ssize_t count = getrandom(&number, sizeof number, 0);
    assert(count == sizeof number);
    return number;
}

void lh_random_id(const char *prefix, char id[LH_RANDOM_ID_BYTES]) {
    snprintf(id, LH_RANDOM_ID_BYTES, "%.24s%016" PRIx64 "%016" PRIx64, prefix, lh_random_u64(),
             lh_random_u64());
}
