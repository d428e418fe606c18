/* The last word of each worker. */
#include "gateway/membership/certificates_in_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void the_last_word_counts(void **state) {
    (void)state;
    lh_certificates_in_use *in_use = calloc(1, sizeof *in_use);
    assert_int_equal(lh_certificates_in_use_find(in_use, "attic"), -1);
    lh_certificates_in_use_note(in_use, "attic", 10);
    lh_certificates_in_use_note(in_use, "cellar", 20);
    lh_certificates_in_use_note(in_use, "attic", 30);
    assert_int_equal(in_use->count, 2);
    assert_int_equal(lh_certificates_in_use_find(in_use, "attic"), 30);
    assert_int_equal(lh_certificates_in_use_find(in_use, "cellar"), 20);
    free(in_use);
}

static void whoever_finds_no_place_is_not_known(void **state) {
    (void)state;
    lh_certificates_in_use *in_use = calloc(1, sizeof *in_use);
    for (unsigned i = 0; i <= LH_CERTIFICATES_IN_USE_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        lh_certificates_in_use_note(in_use, name, i);
        assert_int_equal(lh_certificates_in_use_find(in_use, name),
                         i < LH_CERTIFICATES_IN_USE_MAX ? (int)i : -1);
    }
    free(in_use);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_word_counts),
        cmocka_unit_test(whoever_finds_no_place_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
