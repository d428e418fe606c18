/* Places of texts, whole and broken ones. */
#include "common/json/json_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The place is that of the first '^', which is not part of the text. */
static void expect(const char *marked, const char *wanted, size_t capacity) {
    size_t position = strcspn(marked, "^"), length = strlen(marked) - 1;
    char *text = malloc(length), path[96];
    memcpy(text, marked, position);
    memcpy(text + position, marked + position + 1, length - position);
    lh_json_path_at(text, length, position, path, capacity);
    assert_string_equal(path, wanted);
    free(text);
}

static void a_place_has_a_path(void **state) {
    (void)state;
    expect("{\"a\":^1}", "a", 96);
    expect("{\"a\":1,\"b\":{\"c\":[0,[1,^2]]}}", "b.c[1][1]", 96);
    expect("{\"a\":{\"b\":1},\"c\":^1}", "c", 96);
    expect("{\"a\":[{\"b\":[1,2,3]},{}],\"c\":[^1]}", "c[0]", 96);
    expect("{\"a\":\"x,[{:\\\"\",\"b\":^1}", "b", 96);
    expect("^{}", "", 96);
    expect("{\"a\"^", "", 96);
    expect("]]}}:,\"a\":^", "", 96);
    expect("{\"a\tb\":^1}", "a?b", 96);
}

static void a_path_keeps_to_its_room(void **state) {
    (void)state;
    expect("{\"abc\":[^1]}", "abc[0]", 8);
    expect("{\"abc\":[^1]}", "abc", 6);
    expect("{\"abc\":[^1]}", "[0]", 4);
    char deep[300];
    memset(deep, '[', sizeof deep - 2);
    memcpy(deep + sizeof deep - 2, "^", 2);
    char path[96];
    lh_json_path_at(deep, sizeof deep - 2, sizeof deep - 3, path, sizeof path);
    assert_true(strlen(path) < sizeof path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_has_a_path),
        cmocka_unit_test(a_path_keeps_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
