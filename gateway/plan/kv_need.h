/* The room that each stage of a plan is to have for keys and values.
 *
 * A layer keeps so many bytes of every position of a sequence, also of those that a window no
 * longer sees; where attention is latent, one row for all heads. A worker makes whole pages of
 * its --kv-bytes, each with LH_KV_NEED_PAGE positions in all layers of its stage
 * (worker/compute/stage/kv_cache.h): so of n layers it has room for
 *
 *     offered / (n x position_bytes x LH_KV_NEED_PAGE)
 *
 * pages, and the pages that are wanted bound its layers. All stages hold every position, and the
 * one with the fewest pages says how many a chain has.
 *
 * What is wanted may be more than any layout has room for. Then it is lowered, by halves, down to
 * the one page without which a worker loads no stage. Pure; thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_KV_NEED_PAGE      64u
#define LH_KV_NEED_PAGES_MAX (1u << 24)

typedef struct lh_kv_need {
    uint64_t position_bytes; /* of one layer; 0: it is not known, and nothing bounds layers */
    uint32_t heads; /* of which these are, which members divide; 0: each member keeps all of them */
    uint32_t pages; /* that are wanted; 0: the one that a stage must have */
} lh_kv_need;

/* Pages for one sequence of so many positions, and one more for each other of so many that run at
 * once. */
uint32_t lh_kv_need_pages(uint32_t positions, uint32_t sequences);
/* Half of it. False: it is one page already, or nothing is known. */
bool lh_kv_need_lower(lh_kv_need *need);
/* What a worker with so many bytes for keys and values may have at most; UINT32_MAX: any number,
 * since they are 0, which is to say not known, or the need is not. */
uint32_t lh_kv_need_layers_max(const lh_kv_need *need, uint64_t offered_bytes);
/* Pages that a stage of so many layers has room for; UINT32_MAX: nobody knows. */
uint32_t lh_kv_need_room(const lh_kv_need *need, uint64_t offered_bytes, uint32_t layers);
/* Bytes of the pages that are wanted, or of the one, in each layer. */
uint64_t lh_kv_need_layer_bytes(const lh_kv_need *need);

/* Members that compute each layer together, as one worker: offered[count] bytes, and parts[count]
 * of the heads, above 0, as they follow each other. A head that two of them need both keep. 0:
 * that of one is not known. */
uint64_t lh_kv_need_together(const lh_kv_need *need, const uint64_t *offered, const double *parts,
                             uint32_t count);
