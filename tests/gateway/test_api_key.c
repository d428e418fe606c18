/* Who is let in. */
#include "gateway/http/api_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void admits_the_key_alone(void **state) {
    (void)state;
    lh_api_key key;
    assert_int_equal(lh_api_key_init(&key, "secret"), LH_OK);
    assert_true(lh_api_key_admits(&key, "Bearer secret"));
    assert_true(lh_api_key_admits(&key, "bearer  secret"));
    static const char *const wrong[] = {NULL,
                                        "",
                                        "secret",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer secre",
                                        "Basic secret",
                                        "Bearer secret ",
                                        "Bearer Secret",
                                        "Bearer secretx"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(lh_api_key_admits(&key, wrong[i]));
}

static void admits_all_without_a_key(void **state) {
    (void)state;
    lh_api_key key;
    assert_int_equal(lh_api_key_init(&key, ""), LH_OK);
    assert_true(lh_api_key_admits(&key, NULL));
    assert_int_equal(lh_api_key_init(&key, NULL), LH_OK);
    assert_true(lh_api_key_admits(&key, "Bearer x"));
}

/* The key read from a file of these bytes and that mode; NULL: refused. */
static const char *read_from(const char *bytes, size_t length, mode_t mode) {
    static char text[LH_API_KEY_BYTES];
    char path[] = "/tmp/longhaul-key-XXXXXX";
    lh_error error;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    lh_status status = lh_api_key_read(path, text, &error);
    unlink(path);
    if (status == LH_OK)
        return text;
    assert_int_equal(status, LH_ERR_INVALID);
    assert_non_null(strstr(error.message, path));
    return NULL;
}

static void reads_one_line_of_its_owners(void **state) {
    (void)state;
    char longest[LH_API_KEY_BYTES + 1];
    memset(longest, 'k', sizeof longest);
    longest[LH_API_KEY_BYTES - 1] = '\n';
    assert_string_equal(read_from("secret\n", 7, 0600), "secret");
    assert_string_equal(read_from("se~!", 4, 0400), "se~!");
    assert_int_equal(strlen(read_from(longest, LH_API_KEY_BYTES, 0600)), LH_API_KEY_BYTES - 1);
    longest[LH_API_KEY_BYTES - 1] = 'k';
    longest[LH_API_KEY_BYTES] = '\n';
    assert_null(read_from(longest, sizeof longest, 0600));
    assert_null(read_from(longest, sizeof longest - 1, 0600));
    static const char *const wrong[] = {"", "\n", "a\nb\n", "a\n\n", "a b\n", "a\r\n", "\xc3\xa9\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_null(read_from(wrong[i], strlen(wrong[i]), 0600));
    assert_null(read_from("a\0b\n", 4, 0600));
    assert_null(read_from("secret\n", 7, 0644));
    assert_null(read_from("secret\n", 7, 0640));
    char text[LH_API_KEY_BYTES];
    lh_error error;
    assert_int_equal(lh_api_key_read("/nowhere/key", text, &error), LH_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admits_the_key_alone),
        cmocka_unit_test(admits_all_without_a_key),
        cmocka_unit_test(reads_one_line_of_its_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
