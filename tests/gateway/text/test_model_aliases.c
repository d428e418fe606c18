/* Lists of names, and what they answer to. */
#include "gateway/text/model_aliases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_list_is_checked(void **state) {
    (void)state;
    static const char *const good[] = {"", "a", "a,b/c:d", "*", "a,*"};
    static const char *const bad[] = {",", "a,", ",a", "a,,b", "a b", "a\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(lh_model_aliases_check(good[i], NULL), LH_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lh_model_aliases_check(bad[i], NULL), LH_ERR_INVALID);
    char many[2 * LH_MODEL_ALIASES_MAX + 2] = "";
    for (size_t i = 0; i < LH_MODEL_ALIASES_MAX; i++)
        strcat(many, i ? ",a" : "a");
    assert_int_equal(lh_model_aliases_check(many, NULL), LH_OK);
    strcat(many, ",a");
    assert_int_equal(lh_model_aliases_check(many, NULL), LH_ERR_LIMIT);
    char long_name[257];
    memset(long_name, 'a', 256);
    long_name[256] = '\0';
    assert_int_equal(lh_model_aliases_check(long_name, NULL), LH_ERR_INVALID);
}

static void names_are_whole(void **state) {
    (void)state;
    assert_true(lh_model_aliases_have("gpt-4o,chat", "chat"));
    assert_true(lh_model_aliases_have("gpt-4o,chat", "gpt-4o"));
    assert_false(lh_model_aliases_have("gpt-4o,chat", "gpt"));
    assert_false(lh_model_aliases_have("gpt-4o,chat", "gpt-4o,chat"));
    assert_false(lh_model_aliases_have("", ""));
    assert_false(lh_model_aliases_have(NULL, "chat"));
    assert_true(lh_model_aliases_have("a,*", "whatever"));
}

static void any_is_not_listed(void **state) {
    (void)state;
    const char *rest = "a,*,bc";
    size_t length;
    const char *name = lh_model_aliases_next(&rest, &length);
    assert_int_equal(length, 1);
    assert_memory_equal(name, "a", 1);
    name = lh_model_aliases_next(&rest, &length);
    assert_int_equal(length, 2);
    assert_memory_equal(name, "bc", 2);
    assert_null(lh_model_aliases_next(&rest, &length));
    rest = "";
    assert_null(lh_model_aliases_next(&rest, &length));
    rest = NULL;
    assert_null(lh_model_aliases_next(&rest, &length));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_checked),
        cmocka_unit_test(names_are_whole),
        cmocka_unit_test(any_is_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
