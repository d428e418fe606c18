/* Rows that are chosen for, multiplied and summed as slots. */
#include "worker/compute/stage/expert_slots.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/experts.h"
#include "worker/compute/stage/work_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Rows that a part chooses for. */
#define CHOICE_ROWS 8u
/* What goes through the experts of a layer at once. */
#define PRODUCTS_MAX 2u

static bool allocate(lh_expert_slots *s, const lh_compute *compute, uint32_t slots) {
    const lh_model_config *c = s->config;
    const size_t threads = lh_thread_pool_size(compute->pool);
    s->groups = calloc(c->experts, sizeof *s->groups);
    s->next = calloc(c->experts, sizeof *s->next);
    s->products = calloc(c->experts, PRODUCTS_MAX * sizeof *s->products);
    s->chosen = lh_aligned_array_allocate(slots, sizeof *s->chosen);
    s->rows = lh_aligned_array_allocate(slots, sizeof *s->rows);
    return s->groups && s->next && s->products && s->chosen && s->rows &&
           lh_floats_allocate(compute, &s->shares, slots, 1) &&
           lh_floats_allocate(compute, &s->slot_shares, slots, 1) &&
           lh_floats_allocate(compute, &s->scale, slots, 1) &&
           lh_floats_allocate(compute, &s->sums, threads * LH_EXPERT_SUM_ROWS,
                              lh_row_stride(c->width));
}

void *lh_expert_slots_open(const lh_compute *compute, const lh_model_config *config,
                           const lh_parameters *weights, uint32_t rows) {
    lh_expert_slots *s = calloc(1, sizeof *s);
    uint32_t slots;
    if (!s)
        return NULL;
    s->config = config;
    bool complete =
        !__builtin_mul_overflow(rows, config->experts_used, &slots) && allocate(s, compute, slots);
    for (uint32_t i = 0; i < weights->layer_count && complete; i++) {
        const lh_layer *layer = &weights->layers[i];
        if (layer->router.data)
            complete = lh_packed_add(compute, &s->x, &layer->experts_gate.first, slots) &&
                       lh_packed_add(compute, &s->x, &layer->experts_up.first, slots);
    }
    if (complete)
        return s;
    lh_expert_slots_close(compute, s);
    return NULL;
}

void lh_expert_slots_close(const lh_compute *compute, void *slots) {
    lh_expert_slots *s = slots;
    if (!s)
        return;
    lh_packed_reset(compute, &s->x);
    compute->ops->release(compute, s->sums);
    compute->ops->release(compute, s->scale);
    compute->ops->release(compute, s->slot_shares);
    compute->ops->release(compute, s->shares);
    free(s->rows);
    free(s->chosen);
    free(s->products);
    free(s->next);
    free(s->groups);
    free(s);
}

/* ---- Choosing ---- */

typedef struct lh_choice {
    const lh_expert_slots *slots;
    const lh_kernels *kernels;
    float *logits;
    const float *bias;
    uint32_t rows;
} lh_choice;

static void choose_part(void *context, uint32_t part, uint32_t thread) {
    const lh_choice *a = context;
    const lh_expert_slots *s = a->slots;
    uint32_t used = s->config->experts_used, first = part * CHOICE_ROWS,
             rows = lh_min_u32(a->rows - first, CHOICE_ROWS);
    size_t stride = lh_row_stride(s->config->experts);
    (void)thread;
    for (uint32_t row = first; row < first + rows; row++) {
        size_t at = (size_t)row * used;
        lh_experts_choose(a->kernels, s->config, a->bias, a->logits + row * stride, s->chosen + at,
                          s->shares + at);
    }
}

/* Groups of the experts that were chosen, in their order, each at its first slot. */
static void make_groups(lh_expert_slots *s) {
    const uint32_t experts = s->config->experts;
    memset(s->next, 0, experts * sizeof *s->next);
    for (uint32_t i = 0; i < s->count; i++)
        s->next[s->chosen[i]]++;
    s->group_count = 0;
    for (uint32_t i = 0, first = 0; i < experts; i++) {
        uint32_t count = s->next[i];
        if (count > 0)
            s->groups[s->group_count++] = (lh_expert_group){i, first, count};
        s->next[i] = first;
        first += count;
    }
}

static void fill_slots(lh_expert_slots *s, const float *scale) {
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t slot = s->next[s->chosen[i]]++, row = i / s->config->experts_used;
        s->rows[slot] = row;
        s->slot_shares[slot] = s->shares[i];
        s->scale[slot] = scale[row];
    }
}

const float *lh_expert_slots_route(const lh_compute *compute, void *memory, float *logits,
                                   const float *bias, const float *scale, uint32_t rows) {
    lh_expert_slots *slots = memory;
    lh_choice choice = {slots, compute->kernels, logits, bias, rows};
    lh_thread_pool_run(compute->pool, lh_units_in(rows, CHOICE_ROWS), choose_part, &choice);
    slots->count = rows * slots->config->experts_used;
    make_groups(slots);
    fill_slots(slots, scale);
    return slots->slot_shares;
}

void lh_expert_slots_sigmoid(const lh_compute *compute, float *y, const float *x, size_t stride,
                             uint32_t rows) {
    (void)compute;
    for (uint32_t row = 0; row < rows; row++)
        y[row] = lh_experts_sigmoid(x[row * stride]);
}

/* ---- Products ---- */

typedef struct lh_gather_arguments {
    const lh_expert_slots *slots;
    const lh_packed *x;
    uint32_t parts;
} lh_gather_arguments;

/* The row of a slot goes to the slot. */
static void gather_part(void *context, uint32_t part, uint32_t thread) {
    const lh_gather_arguments *a = context;
    const lh_packed *y = &a->slots->x;
    lh_span slots = lh_part_of(a->slots->count, 1, part, a->parts);
    (void)thread;
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++) {
        if (!y->data[kind])
            continue;
        size_t bytes = lh_activations_bytes((lh_activation_kind)kind, 1, y->width);
        for (uint32_t slot = slots.begin; slot < slots.end; slot++)
            memcpy((char *)y->data[kind] + slot * bytes,
                   (const char *)a->x->data[kind] + a->slots->rows[slot] * bytes, bytes);
    }
}

static void gather(const lh_compute *compute, const lh_expert_slots *slots, const lh_packed *x) {
    lh_gather_arguments arguments = {
        slots, x, lh_parts_of_small(compute, slots->count, (uint64_t)slots->count * x->width)};
    lh_thread_pool_run(compute->pool, arguments.parts, gather_part, &arguments);
}

static lh_product product_of(const lh_expert_product *all, const lh_expert_group *group) {
    const lh_matrix matrix = lh_expert_matrix(all->matrices, group->expert);
    return (lh_product){matrix,
                        all->y,
                        all->stride,
                        {0, matrix.outputs},
                        {group->first, group->first + group->count},
                        all->biases ? all->biases + (size_t)group->expert * matrix.outputs : NULL};
}

void lh_expert_slots_products(const lh_compute *compute, void *memory,
                              const lh_expert_product *products, uint32_t count,
                              const lh_packed *x) {
    lh_expert_slots *slots = memory;
    uint32_t made = 0;
    assert(count <= PRODUCTS_MAX);
    gather(compute, slots, x);
    for (uint32_t i = 0; i < slots->group_count; i++)
        for (uint32_t j = 0; j < count; j++)
            slots->products[made++] = product_of(&products[j], &slots->groups[i]);
    compute->ops->products(compute, slots->products, made, &slots->x, (lh_span){0, x->width}, false,
                           slots->scale);
}

/* ---- Sums ---- */

typedef struct lh_expert_sum_arguments {
    const lh_compute *compute;
    const lh_expert_slots *slots;
    const lh_expert_product *product;
    const lh_packed *x;
    uint32_t parts;
    lh_span out;
} lh_expert_sum_arguments;

/* Some slots of one expert. Rows that are neighbours are summed where they are, others beside each
 * other. */
static void sum_some(const lh_expert_sum_arguments *a, uint32_t expert, lh_span slots, lh_span out,
                     float *beside) {
    const lh_kernels *kernels = a->compute->kernels;
    const lh_matrix matrix = lh_expert_matrix(a->product->matrices, expert);
    const uint32_t *rows = a->slots->rows + slots.begin;
    const float *biases = a->product->biases;
    uint32_t count = slots.end - slots.begin;
    const lh_activations x =
        lh_packed_rows(a->x, lh_activation_kind_for(matrix.dtype, a->compute->activations), slots);
    bool are_neighbours = rows[count - 1] - rows[0] + 1 == count;
    size_t width = a->product->stride, stride = are_neighbours ? width : lh_row_stride(width),
           bytes = (out.end - out.begin) * sizeof(float);
    float *h = a->product->y, *y = are_neighbours ? h + rows[0] * width : beside;
    for (uint32_t i = 0; i < count && !are_neighbours; i++)
        memcpy(y + i * stride + out.begin, h + rows[i] * width + out.begin, bytes);
    kernels->matmul(y, stride, &x, &matrix, (lh_span){0, matrix.inputs}, out, true);
    if (biases)
        kernels->add_rows(y, stride, count, out, a->slots->slot_shares + slots.begin,
                          biases + (size_t)expert * matrix.outputs);
    for (uint32_t i = 0; i < count && !are_neighbours; i++)
        memcpy(h + rows[i] * width + out.begin, y + i * stride + out.begin, bytes);
}

static void sum_part(void *context, uint32_t part, uint32_t thread) {
    const lh_expert_sum_arguments *a = context;
    const lh_expert_slots *s = a->slots;
    lh_span out = lh_part_of(a->out.end - a->out.begin, LH_SPAN_COLUMNS, part, a->parts);
    float *beside = s->sums + thread * LH_EXPERT_SUM_ROWS * lh_row_stride(s->config->width);
    out.begin += a->out.begin;
    out.end += a->out.begin;
    for (uint32_t i = 0; i < s->group_count; i++) {
        const lh_expert_group *group = &s->groups[i];
        for (uint32_t done = 0; done < group->count; done += LH_EXPERT_SUM_ROWS) {
            uint32_t rows = lh_min_u32(group->count - done, LH_EXPERT_SUM_ROWS);
            lh_span slots = {group->first + done, group->first + done + rows};
            sum_some(a, group->expert, slots, out, beside);
        }
    }
}

void lh_expert_slots_sum(const lh_compute *compute, void *slots, const lh_expert_product *product,
                         const lh_packed *x, lh_span out) {
    lh_expert_sum_arguments arguments = {
        .compute = compute,
        .slots = slots,
        .product = product,
        .x = x,
        .parts = lh_parts_for(compute, lh_units_in(out.end - out.begin, LH_SPAN_COLUMNS)),
        .out = out};
    lh_thread_pool_run(compute->pool, arguments.parts, sum_part, &arguments);
}
