/* How many steps a chain of so many stages is kept filled with. One step for each stage keeps every stage
 * busy; those on top cover the hops and the answers on their way. Prefill gets more: its steps are finer than
 * its work, and one that waits at a stage costs nothing, whereas splitting decode rows over more steps reads
 * the weights more often. */
#pragma once

#include <stdint.h>

static inline uint32_t lh_decode_depth(uint32_t stages) {
    return stages + 1;
}

static inline uint32_t lh_prefill_depth(uint32_t stages) {
    return 2 * stages + 2;
}

/* Steps without rows, which only release. */
static inline uint32_t lh_release_depth(void) {
    return 2;
}

/* Steps that may be somewhere on the chain at once, and so what a worker allocates for. */
static inline uint32_t lh_steps_max(uint32_t stages) {
    return lh_decode_depth(stages) + lh_prefill_depth(stages) + lh_release_depth();
}

/* Requests open at once at most. The news that a step is through comes around the ring before its answer has
 * come back hop by hop: for that while its request is open beside that of the step which followed it. */
static inline uint32_t lh_steps_open_max(uint32_t stages) {
    return 2 * lh_steps_max(stages);
}
