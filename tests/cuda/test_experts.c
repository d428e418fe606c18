/* Experts as kernels/cuda chooses and multiplies them, emulated: choices and shares against the
 * worker's, slots against their definition, products and sums against the reference one row at a
 * time, bit for bit. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"
#include "worker/compute/stage/experts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A step of rows through experts, and where they go. */
typedef struct step {
    lh_cuda_routing routing;
    uint32_t rows, slots;
    lh_cuda_experts experts;
    float *logits, *scale, *bias;
    size_t stride;
} step;

static void *room_for(size_t count, size_t bytes) {
    void *array = test_alloc(count * bytes + 1);
    memset(array, 0xff, count * bytes);
    return array;
}

static void make_room(step *s, bool has_nth) {
    const uint32_t experts = s->routing.experts, used = s->routing.used;
    lh_cuda_experts *e = &s->experts;
    s->slots = s->rows * used;
    *e = (lh_cuda_experts){
        .counts = room_for((1 + used) * experts, sizeof *e->counts),
        .chosen = room_for(s->slots, sizeof *e->chosen),
        .slots = room_for(s->slots, sizeof *e->slots),
        .shares = room_for(s->slots, sizeof *e->shares),
        .rows = room_for(s->slots, sizeof *e->rows),
        .slot_shares = room_for(s->slots, sizeof *e->slot_shares),
        .slot_scale = room_for(s->slots, sizeof *e->slot_scale),
        .groups = room_for(lh_cuda_expert_groups(experts, s->slots), sizeof *e->groups)};
    if (!has_nth)
        return;
    e->nth_rows = room_for(s->slots, sizeof *e->nth_rows);
    e->nth_slots = room_for(s->slots, sizeof *e->nth_slots);
    e->nth_shares = room_for(s->slots, sizeof *e->nth_shares);
    e->nth_groups = room_for(used * lh_cuda_expert_groups(experts, s->rows), sizeof *e->nth_groups);
}

static step make_step(test_random *random, lh_cuda_routing routing, uint32_t rows, bool has_bias) {
    step s = {.routing = routing, .rows = rows};
    s.stride = routing.experts + random_between(random, 0, 3);
    s.logits = random_floats(random, rows * s.stride);
    /* some of them equal */
    for (size_t i = 0; i < rows * s.stride; i++)
        s.logits[i] = random_between(random, 0, 2) ? 4 * s.logits[i]
                                                   : (float)random_between(random, 0, 4) / 2 - 1;
    s.scale = random_floats(random, rows);
    s.bias = has_bias ? random_floats(random, routing.experts) : NULL;
    s.routing.bias = s.bias;
    make_room(&s, rows > LH_CUDA_EXPERT_SUM_ROWS || random_between(random, 0, 1));
    return s;
}

static void free_step(step *s) {
    lh_cuda_experts *e = &s->experts;
    void *const arrays[] = {e->counts,      e->chosen,     e->slots,  e->shares,   e->rows,
                            e->slot_shares, e->slot_scale, e->groups, e->nth_rows, e->nth_slots,
                            e->nth_shares,  e->nth_groups, s->logits, s->scale,    s->bias};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
}

/* ---- Choices and slots ---- */

static void expect_choices(const step *s, const float *logits) {
    const lh_routing kinds[] = {LH_ROUTING_SOFTMAX, LH_ROUTING_SIGMOID,
                                LH_ROUTING_SOFTMAX_OF_CHOSEN};
    const lh_cuda_routing *r = &s->routing;
    const lh_model_config config = {.experts = r->experts,
                                    .experts_used = r->used,
                                    .expert_groups = r->groups,
                                    .expert_groups_used = r->groups_used,
                                    .routing = kinds[r->kind],
                                    .experts_normalized = r->is_normalized,
                                    .experts_scale = r->scale};
    float *own = test_alloc(r->experts * sizeof *own), *shares = test_alloc(r->used * sizeof *own);
    uint32_t *chosen = test_alloc(r->used * sizeof *chosen);
    for (uint32_t row = 0; row < s->rows; row++) {
        memcpy(own, logits + row * s->stride, r->experts * sizeof *own);
        lh_experts_choose(lh_kernels_at(0), &config, s->bias, own, chosen, shares);
        assert_memory_equal(s->experts.chosen + row * r->used, chosen, r->used * sizeof *chosen);
        assert_same_floats(s->experts.shares + row * r->used, shares, r->used, "shares");
        assert_same_floats(s->logits + row * s->stride, own, r->experts, "shares of all");
    }
    free(own);
    free(shares);
    free(chosen);
}

/* Groups cover [first, first + slots), in pieces of at most 16, and then nothing. */
static void expect_groups(const lh_cuda_expert_group *groups, uint32_t most, uint32_t first,
                          uint32_t slots, const uint32_t *experts) {
    uint32_t next = first;
    for (uint32_t i = 0; i < most; i++) {
        const lh_cuda_expert_group *group = &groups[i];
        assert_true(group->count <= LH_CUDA_EXPERT_ROWS);
        if (next == first + slots)
            assert_int_equal(group->count, 0);
        if (group->count == 0)
            continue;
        assert_int_equal(group->first, next);
        for (; next < group->first + group->count; next++)
            assert_int_equal(group->expert, experts[next - first]);
    }
    assert_int_equal(next, first + slots);
}

/* Those places of `chosen` that are `apart`, in the order of experts and rows. */
static void expect_order(const step *s, uint32_t begin, uint32_t apart, uint32_t count,
                         bool is_nth) {
    const lh_cuda_experts *e = &s->experts;
    const uint32_t used = s->routing.used, first = is_nth ? begin * s->rows : 0;
    uint32_t *experts = test_alloc(count * sizeof *experts), done = 0;
    for (uint32_t expert = 0; expert < s->routing.experts; expert++)
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t at = begin + i * apart, slot = first + done;
            if (e->chosen[at] != expert)
                continue;
            assert_int_equal((is_nth ? e->nth_rows : e->rows)[slot], at / used);
            assert_int_equal(bits_of_float((is_nth ? e->nth_shares : e->slot_shares)[slot]),
                             bits_of_float(e->shares[at]));
            if (is_nth)
                assert_int_equal(e->nth_slots[slot], e->slots[at]);
            else
                assert_int_equal(e->slots[at], slot);
            if (!is_nth)
                assert_int_equal(bits_of_float(e->slot_scale[slot]),
                                 bits_of_float(s->scale[at / used]));
            experts[done++] = expert;
        }
    const uint32_t most = lh_cuda_expert_groups(s->routing.experts, count);
    expect_groups(is_nth ? e->nth_groups + begin * most : e->groups, most, first, count, experts);
    free(experts);
}

static void route(step *s) {
    assert_int_equal(
        lh_cuda_route(NULL, &s->experts, &s->routing, s->logits, s->stride, s->scale, s->rows), 0);
}

static void check_routing(step *s) {
    const size_t bytes = s->rows * s->stride * sizeof(float);
    float *logits = test_alloc(bytes);
    memcpy(logits, s->logits, bytes);
    route(s);
    expect_choices(s, logits);
    expect_order(s, 0, 1, s->slots, false);
    for (uint32_t n = 0; n < s->routing.used && s->experts.nth_groups; n++)
        expect_order(s, n, s->routing.used, s->rows, true);
    free(logits);
}

static lh_cuda_routing random_routing(test_random *random) {
    lh_cuda_routing r = {.kind = (lh_cuda_routing_kind)random_between(random, 0, 2),
                         .groups = 1,
                         .groups_used = 1,
                         .is_normalized = random_between(random, 0, 1),
                         .scale = random_between(random, 0, 1) ? 1 : 2.5f};
    r.experts = random_between(random, 1, random_between(random, 0, 1) ? 12 : 140);
    if (random_between(random, 0, 2) == 0) {
        const uint32_t each = random_between(random, 1, 5);
        r.groups = random_between(random, 2, 40);
        r.groups_used = random_between(random, 1, r.groups);
        r.experts = r.groups * each;
        r.used = random_between(random, 1, r.groups_used * each);
    } else {
        r.used = random_between(random, 1, r.experts);
    }
    r.used = r.used < 32 ? r.used : 32;
    return r;
}

static void test_routes_are_the_workers(void **state) {
    (void)state;
    test_random random = {101};
    for (uint32_t i = 0; i < 40; i += test_stride(3)) {
        step s = make_step(&random, random_routing(&random),
                           random_between(&random, 1, i % 4 ? 9 : 90), i % 2);
        check_routing(&s);
        free_step(&s);
    }
}

/* Numbers that are none choose some experts, within their number. */
static void test_what_is_no_number_does_no_harm(void **state) {
    (void)state;
    test_random random = {102};
    for (int i = 0; i < 6; i++) {
        const lh_cuda_routing routing = {.kind = (lh_cuda_routing_kind)(i % 3),
                                         .experts = 12,
                                         .used = 5,
                                         .groups = i < 3 ? 1 : 4,
                                         .groups_used = i < 3 ? 1 : 2,
                                         .scale = 1};
        step s = make_step(&random, routing, 3, false);
        for (uint32_t e = 0; e < s.stride * s.rows; e += 2)
            s.logits[e] = float_of_bits(0x7fc00000);
        route(&s);
        for (uint32_t slot = 0; slot < s.slots; slot++)
            assert_true(s.experts.chosen[slot] < 12);
        expect_order(&s, 0, 1, s.slots, false);
        free_step(&s);
    }
}

static void test_more_than_it_can_do_is_refused(void **state) {
    (void)state;
    const lh_cuda_routing good = {.experts = 1024, .used = 32, .groups = 64, .groups_used = 1};
    lh_cuda_routing bad[] = {good, good, good, good};
    bad[0].experts = 1025;
    bad[1].used = 33;
    bad[2].groups = 65;
    bad[3].used = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lh_cuda_route(NULL, &(lh_cuda_experts){0}, &bad[i], NULL, 0, NULL, 1),
                         LH_CUDA_INVALID_VALUE);
}

/* ---- Products ---- */

/* A matrix for each expert. */
static lh_cuda_expert_matrices make_matrices(test_random *random, lh_dtype dtype, uint32_t experts,
                                             uint32_t outputs, uint32_t inputs, bool has_biases) {
    const size_t bytes = lh_matrix_bytes(dtype, outputs, inputs);
    lh_cuda_expert_matrices w = {{dtype, outputs, inputs, test_alloc(experts * bytes)},
                                 bytes,
                                 has_biases ? random_floats(random, (size_t)experts * outputs)
                                            : NULL};
    for (uint32_t e = 0; e < experts; e++) {
        uint8_t *source = random_weights(random, dtype, outputs, inputs);
        lh_matrix one = w.first;
        one.data = (uint8_t *)one.data + e * bytes;
        lh_matrix_pack(&one, source, (lh_span){0, outputs});
        free(source);
    }
    return w;
}

static void free_matrices(lh_cuda_expert_matrices *w) {
    free(w->first.data);
    free((void *)(uintptr_t)w->biases);
}

/* y[out] (+)= row `row` of x times the expert's matrix. */
static void multiply_row(const lh_cuda_expert_matrices *w, uint32_t expert, const lh_activations *x,
                         uint32_t row, lh_span out, float *y, bool continues) {
    lh_matrix matrix = w->first;
    lh_activations one = *x;
    matrix.data = (uint8_t *)matrix.data + expert * w->bytes;
    one.rows = 1;
    one.data = (uint8_t *)x->data + lh_activations_bytes(x->kind, row, x->width);
    lh_kernels_at(0)->matmul(y, 0, &one, &matrix, (lh_span){0, matrix.inputs}, out, continues);
}

static const float *bias_of(const lh_cuda_expert_matrices *w, uint32_t expert) {
    return w->biases ? w->biases + (size_t)expert * w->first.outputs : NULL;
}

static void check_products(const step *s, const lh_cuda_expert_matrices *w,
                           const lh_activations *x) {
    const lh_kernels *reference = lh_kernels_at(0);
    const lh_cuda_experts *e = &s->experts;
    const uint32_t outputs = w->first.outputs;
    const size_t stride = outputs + 2;
    const lh_span all = {0, outputs};
    float *y = room_for(s->slots * stride, sizeof *y), *one = test_alloc(outputs * sizeof *one);
    assert_int_equal(lh_cuda_expert_products(NULL, y, stride, x, w, e, &s->routing, s->rows), 0);
    for (uint32_t at = 0; at < s->slots; at++) {
        const uint32_t slot = e->slots[at];
        const float *bias = bias_of(w, e->chosen[at]);
        multiply_row(w, e->chosen[at], x, e->rows[slot], all, one, false);
        if (bias)
            reference->scale_add_rows(one, 0, 1, all, &e->slot_scale[slot], bias);
        else
            reference->scale_rows(one, 0, 1, all, &e->slot_scale[slot]);
        assert_same_floats(y + slot * stride, one, outputs, "products of experts");
    }
    free(y);
    free(one);
}

static void check_sum(test_random *random, const step *s, const lh_cuda_expert_matrices *w,
                      const lh_activations *x, lh_span out) {
    const lh_cuda_experts *e = &s->experts;
    const uint32_t used = s->routing.used;
    const size_t stride = w->first.outputs + 1, bytes = s->rows * stride * sizeof(float);
    float *h = random_floats(random, s->rows * stride), *expected = test_alloc(bytes);
    memcpy(expected, h, bytes);
    for (uint32_t at = 0; at < s->slots; at++) {
        float *y = expected + at / used * stride;
        multiply_row(w, e->chosen[at], x, e->slots[at], out, y, true);
        if (w->biases)
            lh_kernels_at(0)->add_rows(y, 0, 1, out, &e->shares[at], bias_of(w, e->chosen[at]));
    }
    assert_int_equal(lh_cuda_expert_sum(NULL, h, stride, x, w, out, e, &s->routing, s->rows), 0);
    assert_same_floats(h, expected, s->rows * stride, "sums of experts");
    free(h);
    free(expected);
}

static lh_activations random_rows(test_random *random, lh_activation_kind kind, uint32_t rows,
                                  uint32_t width) {
    float *values = random_floats(random, (size_t)rows * width);
    const lh_activations x = pack_rows(lh_kernels_at(0), kind, rows, width, values);
    free(values);
    return x;
}

static void check_layer(test_random *random, lh_dtype dtype, lh_activation_kind quantized,
                        uint32_t rows) {
    const lh_cuda_routing routing = {.experts = random_between(random, 3, 6),
                                     .used = random_between(random, 1, 3),
                                     .groups = 1,
                                     .groups_used = 1,
                                     .scale = 1};
    const lh_activation_kind kind = lh_activation_kind_for(dtype, quantized);
    const bool has_biases = random_between(random, 0, 1);
    const uint32_t unit = test_dtype_unit(dtype), outputs = random_between(random, 33, 70),
                   inputs = unit < 32 ? 96 : (320 + unit - 1) / unit * unit;
    step s = make_step(random, routing, rows, false);
    if (kind == LH_ACTIVATION_F32 && !s.experts.nth_groups) {
        free_step(&s);
        s = make_step(random, routing, LH_CUDA_EXPERT_SUM_ROWS + 1, false);
    }
    route(&s);
    lh_cuda_expert_matrices w =
        make_matrices(random, dtype, routing.experts, outputs, inputs, has_biases);
    const lh_activations x = random_rows(random, kind, s.rows, inputs),
                         gated = random_rows(random, kind, s.slots, inputs);
    check_products(&s, &w, &x);
    check_sum(random, &s, &w, &gated, (lh_span){0, outputs});
    check_sum(random, &s, &w, &gated, (lh_span){32, outputs});
    free(x.data);
    free(gated.data);
    free_matrices(&w);
    free_step(&s);
}

static void test_products_and_sums(void **state) {
    (void)state;
    static const lh_dtype dtypes[] = {LH_DTYPE_Q4_K, LH_DTYPE_F16,  LH_DTYPE_Q4_0,
                                      LH_DTYPE_Q6_K, LH_DTYPE_F32,  LH_DTYPE_MXFP4,
                                      LH_DTYPE_Q8_0, LH_DTYPE_BF16, LH_DTYPE_Q2_K};
    static const uint32_t rows[] = {1, 5, 8, 9, 70};
    const size_t count = sizeof rows / sizeof rows[0];
    test_random random = {103};
    for (size_t n = 0; n < sizeof dtypes / sizeof dtypes[0] * count; n += test_stride(11))
        check_layer(&random, dtypes[n / count],
                    n % count % 2 ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8, rows[n % count]);
}

static void test_any_order(void **state) {
    (void)state;
    test_random random = {104};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        emulated_order(seed);
        step s = make_step(&random, random_routing(&random), 20, false);
        check_routing(&s);
        free_step(&s);
        check_layer(&random, LH_DTYPE_Q4_K, LH_ACTIVATION_Q8, seed % 2 ? 6 : 20);
    }
}

static void test_shares_of_the_shared_expert(void **state) {
    (void)state;
    static const float x[] = {0, -3, 9, 1, -120, 2, 120, 5};
    float y[4];
    assert_int_equal(lh_cuda_sigmoid(NULL, y, x, 2, 4), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bits_of_float(y[i]), bits_of_float(1 / (1 + lh_exp_f32(-x[2 * i]))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_are_the_workers),
        cmocka_unit_test(test_what_is_no_number_does_no_harm),
        cmocka_unit_test(test_more_than_it_can_do_is_refused),
        cmocka_unit_test(test_products_and_sums),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_shares_of_the_shared_expert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
