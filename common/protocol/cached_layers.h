/* Which layers of a model a worker has on its disk, as its report says it: runs of layers, and as
 * text "0-9,20-31". Plain values. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_MODEL_DIGEST_BYTES 65u

/* Of one worker's report. */
#define LH_CACHED_MODELS_MAX 4u
/* A cache is filled stage by stage, so that there are few; of more the longest ones are told. */
#define LH_CACHED_RUNS_MAX   16u
#define LH_CACHED_LAYERS_MAX 4096u
#define LH_CACHED_TEXT_BYTES (LH_CACHED_RUNS_MAX * 10u + 1u)

/* Layers [first, last). */
typedef struct lh_cached_run {
    uint32_t first, last;
} lh_cached_run;

typedef struct lh_cached_layers {
    char model[LH_MODEL_DIGEST_BYTES]; /* SHA-256 of its header, in hex digits */
    uint32_t run_count;
    lh_cached_run runs[LH_CACHED_RUNS_MAX]; /* ascending, with others between them */
} lh_cached_layers;

/* One more layer, behind all that are there; below LH_CACHED_LAYERS_MAX. Where there is no room for
 * another run, the shortest one goes. */
void lh_cached_layers_add(lh_cached_layers *cached, uint32_t layer);
void lh_cached_layers_render(const lh_cached_layers *cached, char text[LH_CACHED_TEXT_BYTES]);
/* Sets the runs. False: it is no such text, its runs do not ascend or touch, or there are too many.
 */
bool lh_cached_layers_parse(const char *text, lh_cached_layers *cached);
