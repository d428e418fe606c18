/* All arrays lie in one block of memory. */
#include "worker/compute/cuda/cuda_slots.h"

#include "worker/compute/stage/aligned_array.h"

#include <stdlib.h>

lh_status lh_cuda_slots_check(const lh_model_config *config, lh_error *error) {
    if (config->experts <= LH_CUDA_EXPERTS_MAX &&
        config->experts_used <= LH_CUDA_EXPERTS_USED_MAX &&
        config->expert_groups <= LH_CUDA_EXPERT_GROUPS_MAX)
        return LH_OK;
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "the model goes through %u of %u experts, and a GPU through at most %u of %u: "
                   "start the worker with --device cpu",
                   config->experts_used, config->experts, LH_CUDA_EXPERTS_USED_MAX,
                   LH_CUDA_EXPERTS_MAX);
}

static lh_cuda_routing routing_of(const lh_model_config *config) {
    static const lh_cuda_routing_kind kinds[] = {[LH_ROUTING_SOFTMAX] = LH_CUDA_ROUTING_SOFTMAX,
                                                 [LH_ROUTING_SIGMOID] = LH_CUDA_ROUTING_SIGMOID,
                                                 [LH_ROUTING_SOFTMAX_OF_CHOSEN] =
                                                     LH_CUDA_ROUTING_SOFTMAX_OF_CHOSEN};
    return (lh_cuda_routing){.kind = kinds[config->routing],
                             .experts = config->experts,
                             .used = config->experts_used,
                             .groups = config->expert_groups,
                             .groups_used = config->expert_groups_used,
                             .is_normalized = config->experts_normalized,
                             .scale = config->experts_scale};
}

/* An array of the block; memory NULL: its place alone is taken. */
static void *take(uint8_t *memory, size_t *used, size_t count, size_t bytes) {
    void *array = memory ? memory + *used : NULL;
    *used += lh_aligned_bytes(count * bytes);
    return array;
}

/* Returns the bytes of the block. */
static size_t lay_out(lh_cuda_slots *s, uint32_t rows, uint8_t *memory) {
    const uint32_t experts = s->routing.experts, used = s->routing.used;
    const size_t slots = (size_t)rows * used;
    lh_cuda_experts *e = &s->ordered;
    size_t bytes = 0;
    e->counts = take(memory, &bytes, (1 + (size_t)used) * experts, sizeof *e->counts);
    e->chosen = take(memory, &bytes, slots, sizeof *e->chosen);
    e->slots = take(memory, &bytes, slots, sizeof *e->slots);
    e->shares = take(memory, &bytes, slots, sizeof *e->shares);
    e->rows = take(memory, &bytes, slots, sizeof *e->rows);
    e->slot_shares = take(memory, &bytes, slots, sizeof *e->slot_shares);
    e->slot_scale = take(memory, &bytes, slots, sizeof *e->slot_scale);
    e->groups =
        take(memory, &bytes, lh_cuda_expert_groups(experts, (uint32_t)slots), sizeof *e->groups);
    e->nth_rows = take(memory, &bytes, slots, sizeof *e->nth_rows);
    e->nth_slots = take(memory, &bytes, slots, sizeof *e->nth_slots);
    e->nth_shares = take(memory, &bytes, slots, sizeof *e->nth_shares);
    e->nth_groups = take(memory, &bytes, (size_t)used * lh_cuda_expert_groups(experts, rows),
                         sizeof *e->nth_groups);
    return bytes;
}

size_t lh_cuda_slots_bytes(const lh_model_config *config, uint32_t rows) {
    lh_cuda_slots slots = {.routing = routing_of(config)};
    return lay_out(&slots, rows, NULL);
}

lh_cuda_slots *lh_cuda_slots_open(const lh_cuda_plugin *plugin, const lh_model_config *config,
                                  const lh_parameters *weights, uint32_t rows) {
    lh_cuda_slots *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->routing = routing_of(config);
    for (uint32_t i = 0; i < weights->layer_count; i++)
        if (weights->layers[i].router.data &&
            lh_activation_kind_for(weights->layers[i].experts_down.first.dtype, LH_ACTIVATION_Q8) ==
                LH_ACTIVATION_F32)
            s->has_floats = true;
    if (plugin->allocate(&s->memory, lay_out(s, rows, NULL)) != 0) {
        free(s);
        return NULL;
    }
    lay_out(s, rows, s->memory);
    return s;
}

void lh_cuda_slots_close(const lh_cuda_plugin *plugin, lh_cuda_slots *slots) {
    if (!slots)
        return;
    plugin->release(slots->memory);
    free(slots);
}

lh_cuda_experts lh_cuda_slots_for(const lh_cuda_slots *slots, uint32_t rows) {
    lh_cuda_experts experts = slots->ordered;
    if (!slots->has_floats && rows <= LH_CUDA_EXPERT_SUM_ROWS) {
        experts.nth_rows = experts.nth_slots = NULL;
        experts.nth_shares = NULL;
        experts.nth_groups = NULL;
    }
    return experts;
}
