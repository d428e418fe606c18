/* Choosing is by rows, on all threads; the slots are a counting sort by expert. */
#include "worker/compute/stage/experts.h"

#include "worker/compute/stage/aligned_array.h"

#include <math.h>
#include <stdlib.h>

/* The least that shares are divided by. */
#define SUM_MIN 0x1p-14f
/* Rows that a part chooses for. */
#define CHOICE_ROWS 8u

static bool allocate_numbers(uint32_t **numbers, size_t count) {
    *numbers = lh_aligned_array_allocate(count, sizeof **numbers);
    return *numbers;
}

static bool allocate_shared(const lh_compute *compute, lh_experts *e, const lh_model_config *c,
                            uint32_t rows) {
    size_t wide = lh_row_stride(c->shared_expert_width);
    return lh_floats_allocate(compute, &e->shared_gate, rows, wide) &&
           lh_floats_allocate(compute, &e->shared_up, rows, wide) &&
           lh_floats_allocate(compute, &e->shared_logit, rows, lh_row_stride(1)) &&
           lh_floats_allocate(compute, &e->shared_share, rows, 1);
}

static bool allocate(const lh_compute *compute, lh_experts *e, const lh_model_config *c,
                     uint32_t rows, uint32_t slots, uint32_t threads) {
    size_t wide = lh_row_stride(c->expert_width);
    e->groups = calloc(c->experts, sizeof *e->groups);
    e->products = calloc(c->experts, 2 * sizeof *e->products);
    return e->groups && e->products &&
           lh_floats_allocate(compute, &e->logits, rows, lh_row_stride(c->experts)) &&
           allocate_numbers(&e->chosen, slots) &&
           lh_floats_allocate(compute, &e->shares, slots, 1) && allocate_numbers(&e->rows, slots) &&
           lh_floats_allocate(compute, &e->slot_shares, slots, 1) &&
           lh_floats_allocate(compute, &e->slot_scale, slots, 1) &&
           lh_floats_allocate(compute, &e->gate, slots, wide) &&
           lh_floats_allocate(compute, &e->up, slots, wide) &&
           lh_floats_allocate(compute, &e->sums, (size_t)threads * LH_EXPERT_SUM_ROWS,
                              lh_row_stride(c->width)) &&
           allocate_numbers(&e->slots_of, c->experts) && allocate_shared(compute, e, c, rows);
}

lh_status lh_experts_init(lh_experts *experts, const lh_model_config *config,
                          const lh_parameters *weights, const lh_compute *compute, uint32_t rows,
                          uint32_t threads, lh_error *error) {
    uint32_t slots;
    *experts = (lh_experts){0};
    bool complete = !__builtin_mul_overflow(rows, config->experts_used, &slots) &&
                    allocate(compute, experts, config, rows, slots, threads);
    for (uint32_t i = 0; i < weights->layer_count && complete; i++) {
        const lh_layer *layer = &weights->layers[i];
        if (!layer->router.data)
            continue;
        complete =
            lh_packed_add(compute, &experts->x, &layer->experts_gate.first, slots) &&
            lh_packed_add(compute, &experts->x, &layer->experts_up.first, slots) &&
            lh_packed_add(compute, &experts->gated_packed, &layer->experts_down.first, slots);
        if (complete && config->shared_expert_width > 0)
            complete = lh_packed_add(compute, &experts->gated_shared, &layer->shared_down, rows);
    }
    if (complete)
        return LH_OK;
    lh_experts_reset(experts, compute);
    return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u rows at %u experts each", rows,
                   config->experts_used);
}

void lh_experts_reset(lh_experts *experts, const lh_compute *compute) {
    compute->ops->release(compute, experts->shared_share);
    compute->ops->release(compute, experts->shared_logit);
    compute->ops->release(compute, experts->shared_up);
    compute->ops->release(compute, experts->shared_gate);
    lh_packed_reset(compute, &experts->gated_shared);
    free(experts->products);
    free(experts->slots_of);
    free(experts->groups);
    compute->ops->release(compute, experts->sums);
    compute->ops->release(compute, experts->up);
    compute->ops->release(compute, experts->gate);
    lh_packed_reset(compute, &experts->gated_packed);
    lh_packed_reset(compute, &experts->x);
    compute->ops->release(compute, experts->slot_scale);
    compute->ops->release(compute, experts->slot_shares);
    free(experts->rows);
    compute->ops->release(compute, experts->shares);
    free(experts->chosen);
    compute->ops->release(compute, experts->logits);
    *experts = (lh_experts){0};
}

/* ---- Choosing ---- */

static float sigmoid(float x) {
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
        logits[i] = sigmoid(logits[i]);
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

typedef struct lh_choice {
    lh_experts *experts;
    const lh_kernels *kernels;
    const lh_model_config *config;
    const float *bias;
    uint32_t rows;
} lh_choice;

static void choose_part(void *context, uint32_t part, uint32_t thread) {
    const lh_choice *a = context;
    const lh_experts *e = a->experts;
    uint32_t used = a->config->experts_used, first = part * CHOICE_ROWS, left = a->rows - first,
             rows = left < CHOICE_ROWS ? left : CHOICE_ROWS;
    size_t stride = lh_row_stride(a->config->experts);
    (void)thread;
    for (uint32_t row = first; row < first + rows; row++) {
        size_t at = (size_t)row * used;
        lh_experts_choose(a->kernels, a->config, a->bias, e->logits + row * stride, e->chosen + at,
                          e->shares + at);
    }
}

/* ---- Slots ---- */

/* Groups of the experts that were chosen, in their order, each at its first slot. */
static void make_groups(lh_experts *e, uint32_t experts, uint32_t slots) {
    for (uint32_t i = 0; i < experts; i++)
        e->slots_of[i] = 0;
    for (uint32_t i = 0; i < slots; i++)
        e->slots_of[e->chosen[i]]++;
    e->group_count = 0;
    for (uint32_t i = 0, first = 0; i < experts; i++) {
        uint32_t count = e->slots_of[i];
        if (count > 0)
            e->groups[e->group_count++] = (lh_expert_group){i, first, count};
        e->slots_of[i] = first; /* where the next one goes */
        first += count;
    }
}

static void fill_slots(lh_experts *e, uint32_t used, const float *scale, uint32_t rows) {
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = row * used; i < (row + 1) * used; i++) {
            uint32_t slot = e->slots_of[e->chosen[i]]++;
            e->rows[slot] = row;
            e->slot_shares[slot] = e->shares[i];
            e->slot_scale[slot] = scale[row];
        }
    }
}

void lh_experts_route(lh_experts *experts, const lh_compute *compute, const lh_model_config *config,
                      const float *bias, const float *scale, uint32_t rows) {
    lh_choice choice = {experts, compute->kernels, config, bias, rows};
    lh_thread_pool_run(compute->pool, (rows + CHOICE_ROWS - 1) / CHOICE_ROWS, choose_part, &choice);
    experts->slots = rows * config->experts_used;
    make_groups(experts, config->experts, experts->slots);
    fill_slots(experts, config->experts_used, scale, rows);
}

void lh_experts_share(lh_experts *experts, uint32_t rows) {
    for (uint32_t row = 0; row < rows; row++)
        experts->shared_share[row] = sigmoid(experts->shared_logit[row * lh_row_stride(1)]);
}
