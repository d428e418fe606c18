/* auto, off, rows=N[,columns=K], and what is not. */
#include "gateway/cost/overlap_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void what_is_meant_is_read(void **state) {
    (void)state;
    lh_overlap_spec spec;
    assert_int_equal(lh_overlap_spec_parse("auto", &spec, NULL), LH_OK);
    assert_int_equal(spec.mode, LH_OVERLAP_AUTO);
    assert_int_equal(lh_overlap_spec_parse("off", &spec, NULL), LH_OK);
    assert_int_equal(spec.mode, LH_OVERLAP_OFF);
    assert_int_equal(lh_overlap_spec_parse("rows=64", &spec, NULL), LH_OK);
    assert_true(spec.mode == LH_OVERLAP_MANUAL && spec.rows == 64 && spec.columns == 1);
    assert_int_equal(lh_overlap_spec_parse("rows=90,columns=9", &spec, NULL), LH_OK);
    assert_int_equal(spec.rows, 90);
    assert_int_equal(spec.columns, 9);
    assert_int_equal(lh_overlap_spec_parse("rows=8192,columns=16", &spec, NULL), LH_OK);
    assert_true(spec.mode == LH_OVERLAP_MANUAL && spec.rows == 8192 && spec.columns == 16);
}

static void anything_else_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "on",
                                        "AUTO",
                                        "auto ",
                                        "off,",
                                        "rows",
                                        "rows=",
                                        "rows=0",
                                        "rows=-1",
                                        "rows=+1",
                                        "rows=01",
                                        "rows= 1",
                                        "rows=8193",
                                        "rows=99999999999999999999",
                                        "rows=4294967297",
                                        "rows=64,",
                                        "rows=64,columns",
                                        "rows=64,columns=0",
                                        "rows=64,columns=17",
                                        "rows=64,columns=4,",
                                        "rows=64 columns=4",
                                        "columns=4",
                                        "columns=4,rows=64"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lh_overlap_spec spec = {LH_OVERLAP_OFF, 7, 7};
        lh_error error;
        assert_int_equal(lh_overlap_spec_parse(wrong[i], &spec, &error), LH_ERR_INVALID);
        assert_true(spec.mode == LH_OVERLAP_OFF && spec.rows == 7 && spec.columns == 7);
        assert_non_null(strstr(error.message, "rows=N"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_meant_is_read),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
