#include "common/base/byte_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *letters(size_t length, uint8_t *next) {
    uint8_t *bytes = malloc(length + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (*next)++;
    return bytes;
}

/* Pushes and pops of many sizes, copied and owned: what comes out is what went in. */
static void keeps_order_over_any_lengths(void **state) {
    (void)state;
    static const size_t pushes[] = {1, 4095, 1, 4096, 4097, 0, 3, 100000, 7},
                        pops[] = {1, 5000, 0, 2, 16384, 4096};
    lh_byte_queue queue = {0};
    static uint8_t target[1 << 17];
    uint8_t pushed = 0, popped = 0;
    size_t bytes = 0;
    for (int i = 0; i < 2000; i++) {
        size_t length = pushes[i % 9];
        if (bytes < 1 << 20) {
            void *piece = letters(length, &pushed);
            if (i % 3 == 0) {
                assert_int_equal(lh_byte_queue_push_owned(&queue, piece, length), LH_OK);
            } else {
                assert_int_equal(lh_byte_queue_push(&queue, piece, length), LH_OK);
                free(piece);
            }
            bytes += length;
        }
        length = pops[i % 6] < bytes ? pops[i % 6] : bytes;
        lh_byte_queue_pop(&queue, target, length);
        bytes -= length;
        for (size_t k = 0; k < length; k++)
            assert_int_equal(target[k], popped++);
        assert_int_equal(queue.bytes, bytes);
    }
    lh_byte_queue_reset(&queue);
    assert_int_equal(queue.bytes, 0);
    assert_null(queue.first);
}

static void reset_leaves_it_usable(void **state) {
    (void)state;
    lh_byte_queue queue = {0};
    uint8_t byte = 0;
    lh_byte_queue_push(&queue, "abc", 3);
    lh_byte_queue_reset(&queue);
    lh_byte_queue_push(&queue, "d", 1);
    lh_byte_queue_pop(&queue, &byte, 1);
    assert_int_equal(byte, 'd');
    assert_int_equal(queue.bytes, 0);
    lh_byte_queue_reset(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_over_any_lengths),
        cmocka_unit_test(reset_leaves_it_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
