/* Which steps are admitted, and when a KV cache may stay. */
#include "worker/serve/chain_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void enter(lh_chain_place *place, uint32_t epoch, uint32_t kv_epoch) {
    const lh_chain_route route = {.chain = "c",
                                  .epoch = epoch,
                                  .kv_epoch = kv_epoch,
                                  .next = {.worker = "w2", .address = "127.0.0.1:1"}};
    lh_chain_place_enter(place, &route, lh_chain_place_keeps_kv(place, &route));
}

static void expect(lh_chain_place *place, uint32_t epoch, uint64_t step, bool resyncs,
                   lh_status expected, const char *message) {
    const lh_step_manifest manifest = {.epoch = epoch, .step = step, .resyncs = resyncs};
    lh_error error = {.message = ""};
    bool is_awaited;
    lh_status status = lh_chain_place_admit(place, step, &manifest, &is_awaited, &error);
    assert_int_equal(status, expected);
    if (!strstr(error.message, message))
        fail_msg("'%s' is not in '%s'", message, error.message);
    assert_int_equal(is_awaited, status == LH_OK && place->awaits_resync);
}

static void test_steps_of_the_epoch_each_once(void **state) {
    (void)state;
    static lh_chain_place place;
    enter(&place, 5, 0);
    expect(&place, 4, 1, false, LH_ERR_STALE, "of epoch 4; the chain is at 5");
    expect(&place, 6, 1, false, LH_ERR_UNAVAILABLE, "of epoch 6; this worker is still at 5");
    expect(&place, 5, 1, false, LH_OK, "");
    expect(&place, 5, 1, false, LH_ERR_STALE, "has come before");
    expect(&place, 5, UINT64_C(1) << 63, false, LH_ERR_INVALID, "is far ahead of all that have");
    const lh_step_manifest manifest = {.epoch = 5, .step = 3};
    lh_error error;
    bool resyncs;
    assert_int_equal(lh_chain_place_admit(&place, 2, &manifest, &resyncs, &error),
                     LH_ERR_MALFORMED);
    enter(&place, 6, 0);
    expect(&place, 6, 1, false, LH_OK, "");
    lh_chain_place_leave(&place);
}

static void test_a_cache_is_kept_of_its_epoch_alone(void **state) {
    (void)state;
    static lh_chain_place place;
    const lh_chain_route none = {.kv_epoch = 0}, five = {.kv_epoch = 5};
    assert_false(lh_chain_place_keeps_kv(&place, &none)); /* nothing was ever emptied */
    enter(&place, 5, 0);
    assert_int_equal(place.kv_epoch, 5);
    assert_false(lh_chain_place_keeps_kv(&place, &none));
    assert_true(lh_chain_place_keeps_kv(&place, &five));
    enter(&place, 6, 5);
    assert_int_equal(place.kv_epoch, 5); /* not emptied since */
    enter(&place, 7, 6);
    assert_int_equal(place.kv_epoch, 7);
    lh_chain_place_leave(&place);
    assert_int_equal(place.kv_epoch, 0);
    assert_false(place.is_set);
}

static void test_a_kept_cache_wants_a_resync_first(void **state) {
    (void)state;
    static lh_chain_place place;
    enter(&place, 1, 0);
    enter(&place, 2, 1);
    expect(&place, 2, 1, false, LH_ERR_INVALID, "without a KV resync before it");
    expect(&place, 2, 2, true, LH_ERR_INVALID, "is not the first of its epoch");
    enter(&place, 3, 1);
    expect(&place, 3, 1, true, LH_OK, "");
    expect(&place, 3, 2, false, LH_ERR_INVALID, "without a KV resync"); /* it was not begun */
    enter(&place, 4, 1);
    expect(&place, 4, 1, true, LH_OK, "");
    lh_chain_place_note_resync(&place);
    expect(&place, 4, 2, false, LH_OK, "");
    expect(&place, 4, 3, true, LH_ERR_INVALID, "is not the first of its epoch");
    enter(&place, 5, 0); /* emptied: one that comes first only passes by */
    expect(&place, 5, 1, true, LH_OK, "");
    expect(&place, 5, 2, false, LH_OK, "");
    lh_chain_place_leave(&place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_the_epoch_each_once),
        cmocka_unit_test(test_a_cache_is_kept_of_its_epoch_alone),
        cmocka_unit_test(test_a_kept_cache_wants_a_resync_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
