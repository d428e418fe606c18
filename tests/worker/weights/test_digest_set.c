/* A set of digests against a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/failing_malloc.h"
#include "worker/weights/digest_set.h"

#include <string.h>

/* Many share their first bytes. */
static void make(uint32_t number, uint8_t digest[LH_SHA256_BYTES]) {
    const uint32_t first = number % 7;
    memset(digest, 0, LH_SHA256_BYTES);
    memcpy(digest, &first, sizeof first);
    memcpy(digest + 16, &number, sizeof number);
    digest[31] = 1;
}

static void what_is_added_is_there(void **state) {
    (void)state;
    lh_digest_set set = {0};
    uint8_t digest[LH_SHA256_BYTES];
    for (uint32_t i = 0; i < 3000; i++) {
        make(i, digest);
        assert_false(lh_digest_set_has(&set, digest));
        assert_true(lh_digest_set_add(&set, digest));
        assert_true(lh_digest_set_add(&set, digest));
        assert_int_equal(set.count, i + 1);
    }
    for (uint32_t i = 0; i < 6000; i++) {
        make(i, digest);
        assert_int_equal(lh_digest_set_has(&set, digest), i < 3000);
    }
    memset(digest, 0, sizeof digest);
    assert_false(lh_digest_set_has(&set, digest));
    lh_digest_set_reset(&set);
    assert_int_equal(set.count, 0);
}

static void without_memory_it_stays_as_it_was(void **state) {
    (void)state;
    lh_digest_set set = {0};
    uint8_t digest[LH_SHA256_BYTES];
    uint32_t added = 0;
    for (;;) {
        make(added, digest);
        failing_malloc_arm(1);
        const bool is_added = lh_digest_set_add(&set, digest);
        failing_malloc_disarm();
        if (is_added)
            added++;
        else if (set.capacity == 0)
            assert_true(lh_digest_set_add(&set, digest) && ++added);
        else
            break;
    }
    assert_int_equal(set.count, added);
    assert_false(lh_digest_set_has(&set, digest));
    for (uint32_t i = 0; i < added; i++) {
        make(i, digest);
        assert_true(lh_digest_set_has(&set, digest));
    }
    lh_digest_set_reset(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_is_there),
        cmocka_unit_test(without_memory_it_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
