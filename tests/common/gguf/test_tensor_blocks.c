/* Blocks of rows: one after the other they fill the tensor, and never go over a matrix's end. */
#include "common/gguf/tensor_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static lh_gguf_tensor tensor_of(uint64_t columns, uint64_t rows, uint64_t matrices) {
    return (lh_gguf_tensor){.dimensions = 3,
                            .shape = {columns, rows, matrices, 1},
                            .bytes = 4 * columns * rows * matrices};
}

static void blocks_fill_a_tensor(void **state) {
    (void)state;
    static const uint64_t shapes[][3] = {{64, 128, 1}, {64, 100, 1}, {8, 1, 1},
                                         {32, 96, 5},  {32, 70, 3},  {16, 5, 4}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const lh_gguf_tensor tensor = tensor_of(shapes[s][0], shapes[s][1], shapes[s][2]);
        const lh_tensor_blocks blocks = lh_tensor_blocks_of(&tensor, 32);
        const uint64_t matrix = tensor.bytes / shapes[s][2];
        uint64_t at = 0;
        assert_int_equal(blocks.count, (shapes[s][1] + 31) / 32 * shapes[s][2]);
        for (uint64_t i = 0; i < blocks.count; i++) {
            const lh_block_extent extent = lh_tensor_block_at(&blocks, i);
            assert_int_equal(extent.offset, at);
            assert_true(extent.bytes > 0 && extent.bytes <= 32 * blocks.row_bytes);
            assert_int_equal(extent.offset / matrix, (extent.offset + extent.bytes - 1) / matrix);
            at += extent.bytes;
        }
        assert_int_equal(at, tensor.bytes);
    }
}

static void check_run(const lh_tensor_blocks *blocks, uint64_t offset, uint64_t bytes) {
    const lh_block_run run = lh_tensor_blocks_with(blocks, offset, bytes);
    assert_true(run.first < run.last);
    for (uint64_t i = 0; i < blocks->count; i++) {
        const lh_block_extent extent = lh_tensor_block_at(blocks, i);
        const bool has = extent.offset < offset + bytes && offset < extent.offset + extent.bytes;
        assert_int_equal(has, i >= run.first && i < run.last);
    }
}

static void bytes_are_in_their_blocks(void **state) {
    (void)state;
    const lh_gguf_tensor tensor = tensor_of(2, 70, 3);
    const lh_tensor_blocks blocks = lh_tensor_blocks_of(&tensor, 32);
    for (uint64_t offset = 0; offset < tensor.bytes; offset++)
        for (uint64_t bytes = 1; bytes <= tensor.bytes - offset; bytes += 7)
            check_run(&blocks, offset, bytes);
}

static void what_has_no_bytes_has_no_blocks(void **state) {
    (void)state;
    lh_gguf_tensor tensor = tensor_of(64, 64, 1);
    tensor.bytes = 0; /* of a type that we do not know */
    assert_int_equal(lh_tensor_blocks_of(&tensor, 32).count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_fill_a_tensor),
        cmocka_unit_test(bytes_are_in_their_blocks),
        cmocka_unit_test(what_has_no_bytes_has_no_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
