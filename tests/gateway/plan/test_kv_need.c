/* Pages that are wanted, and what they leave of layers. */
#include "gateway/plan/kv_need.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Of a layer a page is 64 KiB. */
static const lh_kv_need two_pages = {.position_bytes = 1024, .heads = 4, .pages = 2};

static void pages_are_whole_and_one_for_each_other_sequence(void **state) {
    (void)state;
    assert_int_equal(lh_kv_need_pages(64, 1), 1);
    assert_int_equal(lh_kv_need_pages(65, 1), 2);
    assert_int_equal(lh_kv_need_pages(4096, 32), 64 + 31);
    assert_int_equal(lh_kv_need_pages(0, 0), 0);
    assert_int_equal(lh_kv_need_pages(UINT32_MAX, UINT32_MAX), LH_KV_NEED_PAGES_MAX);
}

/* One byte less is a layer less, and n layers have as many pages as are wanted. */
static void what_is_offered_bounds_layers(void **state) {
    (void)state;
    assert_int_equal(lh_kv_need_layer_bytes(&two_pages), 2 << 16);
    for (uint32_t layers = 1; layers < 100; layers++) {
        uint64_t bytes = (uint64_t)layers * 2 << 16;
        assert_int_equal(lh_kv_need_layers_max(&two_pages, bytes), layers);
        assert_int_equal(lh_kv_need_layers_max(&two_pages, bytes - 1), layers - 1);
        assert_int_equal(lh_kv_need_room(&two_pages, bytes, layers), 2);
        assert_int_equal(lh_kv_need_room(&two_pages, bytes - 1, layers), 1);
    }
}

static void what_nobody_knows_bounds_nothing(void **state) {
    (void)state;
    const lh_kv_need unknown = {.pages = 7};
    assert_int_equal(lh_kv_need_layers_max(&unknown, 1), UINT32_MAX);
    assert_int_equal(lh_kv_need_layers_max(&two_pages, 0), UINT32_MAX);
    assert_int_equal(lh_kv_need_room(&unknown, 1, 1), UINT32_MAX);
    assert_int_equal(lh_kv_need_room(&two_pages, 0, 1), UINT32_MAX);
    assert_false(lh_kv_need_lower(&(lh_kv_need){.pages = 7}));
    /* and without a wish it is one page */
    const lh_kv_need none = {.position_bytes = 1024};
    assert_int_equal(lh_kv_need_layers_max(&none, 3 << 16), 3);
}

static void it_is_lowered_to_one_page(void **state) {
    (void)state;
    lh_kv_need need = {.position_bytes = 1, .pages = 95};
    static const uint32_t lower[] = {47, 23, 11, 5, 2, 1};
    for (uint32_t i = 0; i < sizeof lower / sizeof *lower; i++) {
        assert_true(lh_kv_need_lower(&need));
        assert_int_equal(need.pages, lower[i]);
    }
    assert_false(lh_kv_need_lower(&need));
    assert_int_equal(need.pages, 1);
}

/* The most there may be is no more than numbers hold. */
static void the_greatest_do_not_overflow(void **state) {
    (void)state;
    const lh_kv_need most = {UINT64_C(1) << 32, 1, LH_KV_NEED_PAGES_MAX};
    assert_int_equal(lh_kv_need_layer_bytes(&most), UINT64_C(1) << 62);
    assert_int_equal(lh_kv_need_layers_max(&most, UINT64_C(1) << 50), 0);
    assert_int_equal(lh_kv_need_room(&(lh_kv_need){1, 1, 1}, UINT64_MAX, 1), UINT32_MAX);
}

static void a_head_that_two_need_is_kept_twice(void **state) {
    (void)state;
    static const uint64_t offered[] = {900, 600, 1200};
    static const double even[] = {1, 1, 1}, first_most[] = {2, 1, 1};
    /* 4/3 heads each: two, two of which are borders, two */
    assert_int_equal(lh_kv_need_together(&two_pages, offered, even, 3), 1200);
    /* two heads, one, one */
    assert_int_equal(lh_kv_need_together(&two_pages, offered, first_most, 3), 1800);
    const lh_kv_need shared = {.position_bytes = 1024};
    assert_int_equal(lh_kv_need_together(&shared, offered, even, 3), 600);
    const lh_kv_need one = {.position_bytes = 1024, .heads = 1};
    assert_int_equal(lh_kv_need_together(&one, offered, even, 3), 600);
    static const uint64_t unknown[] = {900, 0};
    assert_int_equal(lh_kv_need_together(&two_pages, unknown, even, 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_whole_and_one_for_each_other_sequence),
        cmocka_unit_test(what_is_offered_bounds_layers),
        cmocka_unit_test(what_nobody_knows_bounds_nothing),
        cmocka_unit_test(it_is_lowered_to_one_page),
        cmocka_unit_test(the_greatest_do_not_overflow),
        cmocka_unit_test(a_head_that_two_need_is_kept_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
