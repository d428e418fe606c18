/* What a step through experts is computed in, and how one row chooses. */
#include "worker/compute/stage/experts.h"

#include "worker/compute/stage/aligned_array.h"

#include <math.h>

/* The least that shares are divided by. */
#define SUM_MIN 0x1p-14f

static bool allocate_shared(const lh_compute *compute, lh_experts *e, const lh_model_config *c,
                            lh_span own, uint32_t rows) {
    size_t wide = lh_row_stride(c->shared_expert_width);
    return lh_own_columns_allocate(compute, &e->shared_gate, rows, wide, own) &&
           lh_floats_allocate(compute, &e->shared_up, rows, wide) &&
           lh_floats_allocate(compute, &e->shared_logit, rows, lh_row_stride(1)) &&
           lh_floats_allocate(compute, &e->shared_share, rows, 1);
}

static bool allocate(const lh_compute *compute, lh_experts *e, const lh_model_config *c,
                     const lh_division *division, uint32_t rows, uint32_t slots) {
    size_t wide = lh_row_stride(c->expert_width);
    const lh_span mixed = lh_division_own(division, &division->mixed),
                  shared = lh_division_own(division, &division->shared);
    return lh_floats_allocate(compute, &e->logits, rows, lh_row_stride(c->experts)) &&
           lh_own_columns_allocate(compute, &e->gate, slots, wide, mixed) &&
           lh_floats_allocate(compute, &e->up, slots, wide) &&
           allocate_shared(compute, e, c, shared, rows);
}

lh_status lh_experts_init(lh_experts *experts, const lh_model_config *config,
                          const lh_division *division, const lh_parameters *weights,
                          const lh_compute *compute, uint32_t rows, lh_error *error) {
    uint32_t slots;
    *experts = (lh_experts){0};
    bool complete = !__builtin_mul_overflow(rows, config->experts_used, &slots) &&
                    allocate(compute, experts, config, division, rows, slots);
    for (uint32_t i = 0; i < weights->layer_count && complete; i++) {
        const lh_layer *layer = &weights->layers[i];
        if (!layer->router.data)
            continue;
        complete =
            lh_packed_add(compute, &experts->gated_packed, &layer->experts_down.first, slots);
        if (complete && config->shared_expert_width > 0)
            complete = lh_packed_add(compute, &experts->gated_shared, &layer->shared_down, rows);
    }
    if (complete)
        experts->slots = compute->ops->open_slots(compute, config, weights, rows);
    if (experts->slots && division->members > 1)
        experts->later_slots = compute->ops->open_slots(compute, config, weights, (rows + 1) / 2);
    if (experts->slots && (division->members < 2 || experts->later_slots))
        return LH_OK;
    lh_experts_reset(experts, compute);
    return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u rows at %u experts each", rows,
                   config->experts_used);
}

void lh_experts_reset(lh_experts *experts, const lh_compute *compute) {
    compute->ops->close_slots(compute, experts->later_slots);
    compute->ops->close_slots(compute, experts->slots);
    compute->ops->release(compute, experts->shared_share);
    compute->ops->release(compute, experts->shared_logit);
    compute->ops->release(compute, experts->shared_up);
    compute->ops->release(compute, experts->shared_gate);
    lh_packed_reset(compute, &experts->gated_shared);
    compute->ops->release(compute, experts->up);
    compute->ops->release(compute, experts->gate);
    lh_packed_reset(compute, &experts->gated_packed);
    compute->ops->release(compute, experts->logits);
    *experts = (lh_experts){0};
}

/* ---- Choosing ---- */

float lh_experts_sigmoid(float x) {
    return 1 / (1 + lh_exp_f32(-x));
}

static void softmax(const lh_kernels *kernels, float *logits, uint32_t count) {
    float sum = kernels->exp_sum(logits, logits, kernels->max(logits, count), count);
    for (uint32_t i = 0; i < count; i++)
        logits[i] /= sum;
}

static void make_shares(const lh_kernels *kernels, lh_routing routing, float *logits,
                        uint32_t count) {
    if (routing == LH_ROUTING_SOFTMAX)
        softmax(kernels, logits, count);
    for (uint32_t i = 0; i < count && routing == LH_ROUTING_SIGMOID; i++)
        logits[i] = lh_experts_sigmoid(logits[i]);
}

/* Those of some groups, which are neighbours of equal number. */
typedef struct lh_group_choice {
    uint32_t each;
    uint64_t groups; /* a bit for each that counts */
} lh_group_choice;

static bool counts(const lh_group_choice *choice, uint32_t i) {
    return !choice || (choice->groups >> i / choice->each & 1) != 0;
}

/* The `used` greatest of values + bias, the greatest first, into `chosen`; `greatest` is for their
 * values. What is no number is never greater than another. choice NULL: all count. */
static void find_greatest(const float *values, const float *bias, uint32_t count,
                          const lh_group_choice *choice, uint32_t used, uint32_t *chosen,
                          float *greatest) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!counts(choice, i))
            continue;
        float value = bias ? values[i] + bias[i] : values[i];
        if (found == used && !(value > greatest[used - 1]))
            continue;
        uint32_t at = found < used ? found++ : used - 1;
        for (; at > 0 && value > greatest[at - 1]; at--) {
            greatest[at] = greatest[at - 1];
            chosen[at] = chosen[at - 1];
        }
        greatest[at] = value;
        chosen[at] = i;
    }
}

static lh_group_choice choose_groups(const lh_model_config *config, const float *values,
                                     const float *bias) {
    uint32_t groups = config->expert_groups, used = config->expert_groups_used,
             chosen[LH_EXPERT_GROUPS_MAX], best[2];
    float ratings[LH_EXPERT_GROUPS_MAX], sorted[LH_EXPERT_GROUPS_MAX];
    lh_group_choice choice = {.each = config->experts / groups};
    uint32_t rated = config->routing == LH_ROUTING_SIGMOID && choice.each > 1 ? 2 : 1;
    for (uint32_t i = 0; i < groups; i++) {
        size_t first = (size_t)i * choice.each;
        find_greatest(values + first, bias ? bias + first : NULL, choice.each, NULL, rated, best,
                      sorted);
        ratings[i] = rated == 2 ? sorted[0] + sorted[1] : sorted[0];
    }
    find_greatest(ratings, NULL, groups, NULL, used, chosen, sorted);
    for (uint32_t i = 0; i < used; i++)
        choice.groups |= UINT64_C(1) << chosen[i];
    return choice;
}

static void sort(uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t number = numbers[i], at = i;
        for (; at > 0 && numbers[at - 1] > number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

void lh_experts_choose(const lh_kernels *kernels, const lh_model_config *config, const float *bias,
                       float *logits, uint32_t *chosen, float *shares) {
    uint32_t used = config->experts_used;
    float sum = 0;
    make_shares(kernels, config->routing, logits, config->experts);
    const lh_group_choice choice =
        config->expert_groups > 1 ? choose_groups(config, logits, bias) : (lh_group_choice){0};
    find_greatest(logits, bias, config->experts, config->expert_groups > 1 ? &choice : NULL, used,
                  chosen, shares);
    sort(chosen, used);
    for (uint32_t i = 0; i < used; i++)
        shares[i] = logits[chosen[i]];
    if (config->routing == LH_ROUTING_SOFTMAX_OF_CHOSEN)
        softmax(kernels, shares, used);
    for (uint32_t i = 0; i < used; i++)
        sum += shares[i];
    for (uint32_t i = 0; i < used && config->experts_normalized; i++)
        shares[i] /= fmaxf(sum, SUM_MIN);
    for (uint32_t i = 0; i < used && config->experts_scale != 1; i++)
        shares[i] *= config->experts_scale;
}
