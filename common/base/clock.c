/* CLOCK_MONOTONIC in microseconds. */
#include "common/base/clock.h"

#include <time.h>

int64_t lh_clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
