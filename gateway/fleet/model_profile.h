/* A model's profile is read from its file: how many bytes each layer holds, and how many of them a
 * row meets, from the tensors that a stage of it would load (common/model): so a model that workers
 * cannot compute has no profile. Thread: read-only after reading, any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "gateway/plan/fleet_map.h"

#include <stdint.h>

/* Of a sequence, where nobody says more: models' contexts are far longer than most of what is asked
 * of them, and room for all of it would keep layers from the fastest machines. */
#define LH_KV_USUAL_POSITIONS 4096u

/* Errors are those of lh_model_config_read, which refuses by name what workers cannot compute. */
lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error);
/* Sets what is wanted of stages: keys and values of this type ("f32", "f16", "q8"), of one sequence
 * of so many positions (0: LH_KV_USUAL_POSITIONS, or the model's context where that is less), and a
 * page for each other one of so many that run at once. */
void lh_model_profile_want_kv(lh_model_profile *profile, const char *kv_type, uint32_t positions,
                              uint32_t sequences);
