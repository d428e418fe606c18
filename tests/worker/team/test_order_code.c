/* Each kind of order there and back, and bytes that are none. */
#include "worker/team/order_code.h"

#include "common/protocol/mask_code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In memory of exactly its length, so that a sanitizer sees what is read beyond. */
static uint8_t *bytes_of(const lh_stage_order *order, size_t *length) {
    lh_error error;
    *length = lh_order_bytes(order);
    uint8_t *bytes = aligned_alloc(64, (*length + 63) / 64 * 64);
    assert_non_null(bytes);
    if (lh_order_encode(order, bytes, &error) != LH_OK)
        fail_msg("%s", error.message);
    return bytes;
}

static lh_decoded_order decoded_of(const uint8_t *bytes, size_t length) {
    lh_decoded_order decoded;
    lh_error error;
    if (lh_order_decode(bytes, length, &decoded, &error) != LH_OK)
        fail_msg("%s", error.message);
    return decoded;
}

/* What is cut anywhere is refused, and leaves nothing to free. */
static void check_cut(const uint8_t *bytes, size_t length) {
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *copy = aligned_alloc(64, 64 + length / 64 * 64);
        lh_decoded_order decoded;
        lh_error error;
        memcpy(copy, bytes, cut);
        if (lh_order_decode(copy, cut, &decoded, &error) == LH_OK)
            fail_msg("%zu of %zu bytes are taken for an order", cut, length);
        assert_null(decoded.memory);
        free(copy);
    }
}

static const uint32_t tokens[] = {5, 9, 1};

static void begins(void **state) {
    (void)state;
    const lh_token_bias bias = {7, 0.5f};
    const lh_step_segment segments[] = {{.sequence = 3, .first_position = 64, .rows = 2},
                                        {.sequence = 4,
                                         .first_position = 64,
                                         .rows = 1,
                                         .forks = true,
                                         .source = 3,
                                         .ask.draws = true,
                                         .ask.sampling = {.temperature = 0.5f,
                                                          .top_p = 1,
                                                          .repetition_penalty = 1,
                                                          .seed = 77,
                                                          .bias_count = 1,
                                                          .biases = &bias}}};
    const lh_batch batch = {.rows = 3,
                            .tokens = tokens,
                            .segment_count = 2,
                            .segments = segments,
                            .cut = {2, {32, 64}}};
    const lh_stage_order order = {.kind = LH_ORDER_BEGIN, .step = 6, .batch = &batch};
    size_t length;
    uint8_t *bytes = bytes_of(&order, &length);
    lh_decoded_order got = decoded_of(bytes, length);
    assert_int_equal(got.order.kind, LH_ORDER_BEGIN);
    assert_int_equal(got.order.step, 6);
    assert_int_equal(got.order.batch->rows, 3);
    assert_memory_equal(got.order.batch->tokens, tokens, sizeof tokens);
    assert_int_equal(got.order.batch->segment_count, 2);
    assert_int_equal(got.order.batch->segments[1].source, 3);
    assert_int_equal(got.order.batch->segments[1].ask.sampling.seed, 77);
    assert_int_equal(got.order.batch->segments[1].ask.sampling.biases[0].token, 7);
    assert_int_equal(got.order.batch->cut.count, 2);
    assert_int_equal(got.order.batch->cut.ends[1], 64);
    assert_false(got.order.batch->ends_here);
    free(got.memory);
    check_cut(bytes, length);
    free(bytes);
}

static void begins_what_ends_here(void **state) {
    (void)state;
    const lh_step_segment segment = {.sequence = 3, .rows = 3};
    const lh_batch batch = {
        .rows = 3, .tokens = tokens, .segment_count = 1, .segments = &segment, .ends_here = true};
    const lh_stage_order order = {.kind = LH_ORDER_BEGIN, .batch = &batch};
    size_t length;
    uint8_t *bytes = bytes_of(&order, &length);
    lh_decoded_order got = decoded_of(bytes, length);
    assert_true(got.order.batch->ends_here);
    assert_int_equal(got.order.batch->cut.count, 0);
    free(got.memory);
    free(bytes);
}

static void accepts(void **state) {
    (void)state;
    float values[2 * 32];
    for (size_t i = 0; i < 64; i++)
        values[i] = (float)i;
    const lh_stage_shard shard = {1, 2, 64, 32, values, NULL};
    const lh_stage_order order = {.kind = LH_ORDER_ACCEPT, .step = 1, .shard = &shard};
    size_t length;
    uint8_t *bytes = bytes_of(&order, &length);
    lh_decoded_order got = decoded_of(bytes, length);
    assert_int_equal(got.order.kind, LH_ORDER_ACCEPT);
    assert_int_equal(got.order.shard->first_row, 1);
    assert_int_equal(got.order.shard->rows, 2);
    assert_int_equal(got.order.shard->first_column, 64);
    assert_int_equal(got.order.shard->columns, 32);
    assert_int_equal((uintptr_t)got.order.shard->values % 64, 0);
    assert_memory_equal(got.order.shard->values, values, sizeof values);
    assert_null(got.memory);
    check_cut(bytes, length);
    /* rows * columns that is the right number of bytes only by overflow */
    memcpy(bytes + 12, &(uint32_t){1u << 31}, 4);
    memcpy(bytes + 20, &(uint32_t){1u << 31}, 4);
    assert_int_equal(lh_order_decode(bytes, 64, &got, NULL), LH_ERR_MALFORMED);
    free(bytes);
}

static void changes_sequences(void **state) {
    (void)state;
    const lh_step_truncation list[] = {{1ull << 40, 64}, {2, 0}, {3, 7}};
    lh_stage_order order = {.kind = LH_ORDER_RESYNC_KV, .sequences = list, .sequence_count = 3};
    size_t length;
    uint8_t *bytes = bytes_of(&order, &length);
    lh_decoded_order got = decoded_of(bytes, length);
    assert_int_equal(got.order.sequence_count, 3);
    assert_int_equal(got.order.sequences[0].sequence, 1ull << 40);
    assert_int_equal(got.order.sequences[2].length, 7);
    free(got.memory);
    memcpy(bytes, &(uint32_t){LH_ORDER_TRUNCATE}, 4); /* which is of one sequence */
    assert_int_equal(lh_order_decode(bytes, length, &got, NULL), LH_ERR_MALFORMED);
    free(bytes);
    order.sequence_count = 0;
    bytes = bytes_of(&order, &length);
    got = decoded_of(bytes, length);
    assert_int_equal(got.order.sequence_count, 0);
    free(got.memory);
    free(bytes);
}

static void brings_masks(void **state) {
    (void)state;
    const uint64_t words[] = {0x5555}, drops[] = {8, 9};
    uint8_t code[64];
    size_t code_bytes = lh_mask_encode(words, 64, code);
    const lh_step_mask mask = {11, 64, (uint32_t)code_bytes, code};
    const lh_step_masks masks = {2, 1, drops, &mask};
    const lh_stage_order order = {.kind = LH_ORDER_TAKE_MASKS, .masks = &masks};
    size_t length;
    uint8_t *bytes = bytes_of(&order, &length);
    lh_decoded_order got = decoded_of(bytes, length);
    assert_int_equal(got.order.masks->drop_count, 2);
    assert_int_equal(got.order.masks->drops[1], 9);
    assert_int_equal(got.order.masks->list[0].number, 11);
    assert_memory_equal(got.order.masks->list[0].code, code, code_bytes);
    free(got.memory);
    check_cut(bytes, length);
    free(bytes);
}

static void says_plain_things(void **state) {
    (void)state;
    static const lh_stage_order_kind kinds[] = {LH_ORDER_FINISH, LH_ORDER_END, LH_ORDER_DROP_MASKS,
                                                LH_ORDER_RESET};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const lh_stage_order order = {.kind = kinds[i], .step = 2};
        size_t length;
        uint8_t *bytes = bytes_of(&order, &length);
        const lh_decoded_order got = decoded_of(bytes, length);
        assert_int_equal(got.order.kind, kinds[i]);
        assert_int_equal(got.order.step, 2);
        lh_decoded_order none;
        assert_int_equal(lh_order_decode(bytes, length + 4, &none, NULL), LH_ERR_MALFORMED);
        free(bytes);
    }
}

static void other_kinds_are_refused(void **state) {
    (void)state;
    static const uint32_t kinds[] = {0, LH_ORDER_RESYNC_KV + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        _Alignas(64) uint8_t bytes[64] = {0};
        lh_decoded_order none;
        lh_error error;
        memcpy(bytes, &kinds[i], 4);
        assert_int_equal(lh_order_decode(bytes, sizeof bytes, &none, &error), LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, "of kind"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins),
        cmocka_unit_test(begins_what_ends_here),
        cmocka_unit_test(accepts),
        cmocka_unit_test(changes_sequences),
        cmocka_unit_test(brings_masks),
        cmocka_unit_test(says_plain_things),
        cmocka_unit_test(other_kinds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
