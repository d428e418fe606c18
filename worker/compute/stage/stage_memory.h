/* What a stage will take of the machine's memory, or of that of the device it computes on, known
 * before any of it is taken. Thread: any. */
#pragma once

#include "worker/compute/stage/stage.h"

/* What it will ask of a device. */
lh_device_work lh_stage_device_work(const lh_model_config *config, const lh_stage_options *options);
/* What a layer keeps of a position. */
lh_kv_shape lh_stage_kv_shape(const lh_model_config *config, lh_kv_type type);

typedef struct lh_stage_memory {
    uint64_t weights_bytes; /* as they will be packed, to the byte */
    uint64_t kv_bytes;      /* of the whole pages of the budget */
    uint64_t steps_bytes;   /* what steps are computed in: within a fifth */
} lh_stage_memory;

/* Of a stage that lh_stage_create would make with these options, on so many threads instead of its
 * pool's. LH_ERR_LIMIT: a tensor is too large; LH_ERR_INVALID: a range that the model has not;
 * those of lh_division_make. */
lh_status lh_stage_memory_count(const lh_gguf *gguf, const lh_model_config *config,
                                const lh_stage_options *options, uint32_t threads,
                                lh_stage_memory *memory, lh_error *error);
uint64_t lh_stage_memory_sum(const lh_stage_memory *memory);
/* LH_ERR_LIMIT, with the arithmetic: what is needed for which part, and what is free. */
lh_status lh_stage_memory_refuse(const lh_stage_memory *memory, lh_layer_range range,
                                 int64_t free_bytes, lh_error *error);
/* LH_ERR_LIMIT: the sum is more than what is free; the message has the arithmetic and says what can
 * be done. free_bytes below 0: nobody knows. */
lh_status lh_stage_memory_check(const lh_stage_memory *memory, lh_layer_range range,
                                int64_t free_bytes, lh_error *error);
