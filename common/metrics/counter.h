/* A number that grows while others read it. Adding takes no lock and orders nothing else. Zeroed it
 * is 0. Thread: any. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

typedef struct lh_counter {
    _Atomic uint64_t value;
} lh_counter;

static inline void lh_counter_add(lh_counter *counter, uint64_t by) {
    atomic_fetch_add_explicit(&counter->value, by, memory_order_relaxed);
}

static inline uint64_t lh_counter_read(const lh_counter *counter) {
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}
