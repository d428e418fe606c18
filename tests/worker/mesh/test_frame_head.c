/* The bytes of a head, and every way in which one may not be what comes next. */
#include "worker/mesh/frame_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const lh_mesh_frame_head gather = {LH_MESH_FRAME_GATHER, 7, UINT64_C(5) << 32 | 3, 1000};
static const lh_mesh_frame_head order = {LH_MESH_FRAME_ORDER, 7, 12, 4096};

static void lies_in_twenty_bytes(void **state) {
    (void)state;
    static const uint8_t wanted[LH_MESH_HEAD_BYTES] = {1, 0, 0, 0, 7, 0, 0,    0,    3, 0,
                                                       0, 0, 5, 0, 0, 0, 0xe8, 0x03, 0, 0};
    uint8_t bytes[LH_MESH_HEAD_BYTES];
    lh_mesh_frame_head read;
    lh_mesh_frame_head_encode(&gather, bytes);
    assert_memory_equal(bytes, wanted, sizeof bytes);
    lh_mesh_frame_head_decode(bytes, &read);
    assert_int_equal(read.kind, gather.kind);
    assert_int_equal(read.epoch, gather.epoch);
    assert_true(read.number == gather.number);
    assert_int_equal(read.payload_bytes, gather.payload_bytes);
}

static void takes_what_comes_next_and_nothing_else(void **state) {
    (void)state;
    const struct {
        lh_mesh_frame_head came, wanted;
        lh_status status;
        const char *says;
    } cases[] = {
        {gather, gather, LH_OK, ""},
        {order, order, LH_OK, ""},
        {{order.kind, order.epoch, order.number, 0}, order, LH_OK, ""},
        {{order.kind, order.epoch, order.number, 4097}, order, LH_ERR_MALFORMED, "up to 4096"},
        {{gather.kind, 7, gather.number, 999}, gather, LH_ERR_MALFORMED, "999 bytes"},
        {{gather.kind, 7, gather.number, 1001}, gather, LH_ERR_MALFORMED, "1001 bytes"},
        {{gather.kind, 8, gather.number, 1000}, gather, LH_ERR_STALE, "epoch 8"},
        {{gather.kind, 7, gather.number + 1, 1000}, gather, LH_ERR_PROTOCOL, "21474836484"},
        {{LH_MESH_FRAME_ORDER, 7, gather.number, 1000}, gather, LH_ERR_PROTOCOL, "kind order"},
        {{0, 7, gather.number, 1000}, gather, LH_ERR_PROTOCOL, "unknown (0)"},
        {gather, order, LH_ERR_PROTOCOL, "kind gather"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_error error = {0};
        lh_status status = lh_mesh_frame_head_check(&cases[i].came, &cases[i].wanted, &error);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(error.message, cases[i].says));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_in_twenty_bytes),
        cmocka_unit_test(takes_what_comes_next_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
