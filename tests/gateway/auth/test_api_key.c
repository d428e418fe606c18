/* Keys as their holders have them. */
#include "gateway/auth/api_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void digests_what_is_shown(void **state) {
    (void)state;
    uint8_t wanted[LH_SHA256_BYTES], got[LH_SHA256_BYTES];
    assert_int_equal(lh_sha256_digest("secret", 6, wanted), LH_OK);
    static const char *const right[] = {"Bearer secret", "bearer  secret", "BEARER secret"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(lh_api_key_digest_shown(right[i], got));
        assert_true(lh_sha256_equal(wanted, got));
    }
    static const char *const wrong[] = {"Bearer ",       "Bearer secre",   "Bearer secret ",
                                        "Bearer Secret", "Bearer secretx", "Bearer  secret x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(lh_api_key_digest_shown(wrong[i], got));
        assert_false(lh_sha256_equal(wanted, got));
    }
    static const char *const none[] = {NULL,          "", "secret", "Bearer", "Basic secret",
                                       "Bearersecret"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(lh_api_key_digest_shown(none[i], got));
}

static void makes_keys_that_nobody_guesses(void **state) {
    (void)state;
    char one[LH_API_KEY_BYTES], other[LH_API_KEY_BYTES];
    lh_api_key_make(one);
    lh_api_key_make(other);
    assert_int_equal(strlen(one), 3 + 64);
    assert_int_equal(strncmp(one, "lh-", 3), 0);
    assert_int_equal(strspn(one + 3, "0123456789abcdef"), 64);
    assert_string_not_equal(one, other);
    assert_memory_not_equal(one + 3, other + 3, 32);
    assert_memory_not_equal(one + 35, other + 35, 32);
    assert_memory_not_equal(one + 3, one + 35, 32);
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
    static const char *const wrong[] = {"",      "\n",    "a\nb\n",    "a\n\n",
                                        "a b\n", "a\r\n", "\xc3\xa9\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_null(read_from(wrong[i], strlen(wrong[i]), 0600));
    assert_null(read_from("a\0b\n", 4, 0600));
    assert_null(read_from("secret\n", 7, 0644));
    assert_null(read_from("secret\n", 7, 0660));
    char text[LH_API_KEY_BYTES];
    lh_error error;
    assert_int_equal(lh_api_key_read("/nowhere/key", text, &error), LH_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_what_is_shown),
        cmocka_unit_test(makes_keys_that_nobody_guesses),
        cmocka_unit_test(reads_one_line_of_its_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
