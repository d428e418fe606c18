/* How far the workers of a forming chain are with fetching and loading what it needs, when bytes
 * last came, and how long the rest is likely to take. Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

/* All zero: nothing has been observed. */
typedef struct lh_load_progress {
    uint32_t epoch;   /* of the chain that was observed; 0: none */
    bool is_loading;  /* at the latest observation */
    int64_t grown_us; /* when the workers last had more bytes than before; 0: never */
    uint32_t stage_count;
    struct {
        int64_t since_us;     /* when its first bytes were seen */
        uint64_t since_bytes; /* those */
        uint64_t done_bytes, total_bytes;
        int64_t grown_us; /* when done_bytes last grew */
    } stages[LH_LAYOUT_STAGES_MAX];
} lh_load_progress;

typedef struct lh_load_estimate {
    bool is_loading;
    uint32_t percent; /* 0..100, of the bytes of all stages that load */
    int64_t ready_us; /* when the slowest stage ends at its own pace; INT64_MAX: not known yet */
} lh_load_estimate;

/* Takes what the registry's latest reports say of the chain's stages. To be called after each
 * report. */
void lh_load_progress_observe(lh_load_progress *progress, const lh_chain *chain,
                              const lh_registry *registry, int64_t now_us);
lh_load_estimate lh_load_progress_estimate(const lh_load_progress *progress, int64_t now_us);
