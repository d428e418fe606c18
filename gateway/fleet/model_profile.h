/* What the planner and the fleet need to know of a model: how many bytes each layer holds, and how
 * many of them a row meets, taken from the tensors that a stage of it would load (common/model): so
 * a model that workers cannot compute has no profile. Thread: read-only after reading, any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "gateway/plan/kv_need.h"

#include <stdint.h>

/* Of a sequence, where nobody says more: models' contexts are far longer than most of what is asked
 * of them, and room for all of it would keep layers from the fastest machines. */
#define LH_KV_USUAL_POSITIONS 4096u

/* What a layer keeps of a position for keys and values: rows of so many numbers. */
typedef struct lh_model_kv_rows {
    uint32_t heads, key_dim, value_dim; /* a row of each for every head */
    bool is_shared; /* heads are one latent row, which every member of a team keeps */
} lh_model_kv_rows;

typedef struct lh_model_profile {
    uint32_t layers, context, width, vocabulary;
    uint64_t *layer_bytes; /* [layers], owned */
    /* [layers], owned: of them, what one row is multiplied with, which is less where it goes to
     * some of many experts; NULL: all */
    uint64_t *row_bytes;
    uint64_t embedding_bytes; /* the first stage holds them too */
    /* the last stage holds them too; a tied head counts the embedding again */
    uint64_t head_bytes;
    /* of one row, in each layer: what machines that compute it together give each other, all of
     * them (worker/compute/stage/division.h) */
    uint64_t gather_row_bytes;
    uint32_t layer_gathers; /* how often they do so in a layer */
    lh_model_kv_rows kv_rows;
    /* What stages are to have room for: lh_model_profile_want_kv; nothing at first */
    lh_kv_need kv;
} lh_model_profile;

/* Errors are those of lh_model_config_read, which refuses by name what workers cannot compute. */
lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error);
/* Sets what is wanted of stages: keys and values of this type ("f32", "f16", "q8"), of one sequence
 * of so many positions (0: LH_KV_USUAL_POSITIONS, or the model's context where that is less), and a
 * page for each other one of so many that run at once. */
void lh_model_profile_want_kv(lh_model_profile *profile, const char *kv_type, uint32_t positions,
                              uint32_t sequences);
void lh_model_profile_reset(lh_model_profile *profile);
/* [layers]: of each layer's bytes, what one row is multiplied with. */
static inline const uint64_t *lh_model_profile_row_bytes(const lh_model_profile *profile) {
    return profile->row_bytes ? profile->row_bytes : profile->layer_bytes;
}
