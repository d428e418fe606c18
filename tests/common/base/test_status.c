/* Messages of errors go to terminals as they are. */
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void messages_drive_no_terminal(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(lh_fail(&error, LH_ERR_INVALID, "no model %s", "\x1b]0;a\a\x7f\nb\xc3\xa9"),
                     LH_ERR_INVALID);
    assert_int_equal(error.status, LH_ERR_INVALID);
    assert_string_equal(error.message, "no model ?]0;a??\nb\xc3\xa9");
}

static void every_status_has_a_name_and_a_text(void **state) {
    (void)state;
    assert_string_equal(lh_status_name(LH_OK), "LH_OK");
    for (lh_status status = LH_OK; status <= LH_ERR_INTERNAL; status++)
        if (strcmp(lh_status_name(status), "LH_ERR_UNKNOWN") != 0)
            assert_true(strlen(lh_status_text(status)) > 0);
    assert_string_equal(lh_status_name((lh_status)-1), "LH_ERR_UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_drive_no_terminal),
        cmocka_unit_test(every_status_has_a_name_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
