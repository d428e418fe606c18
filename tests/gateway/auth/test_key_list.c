/* The file of keys: what is understood, and on which line it is not. */
#include "gateway/auth/key_list.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const lh_key_limits defaults = {60, 1000, 3, 4};

static lh_key_list parse(const char *text) {
    lh_key_list list;
    lh_error error;
    if (lh_key_list_parse(text, strlen(text), &defaults, &list, &error))
        fail_msg("%s", error.message);
    return list;
}

static void reads_names_digests_and_limits(void **state) {
    (void)state;
    lh_key_list list =
        parse("# clients\n"
              "\n"
              "alice " A "\n"
              "\tbob-2.x_Y   " B "\ttokens-per-minute=5 requests-per-minute=0 admin priority=-7 "
              "reading-ms-per-minute=9 concurrent-requests=1000000000 expires=2027-01-31 # until "
              "then\r\n");
    assert_int_equal(list.count, 2);
    assert_string_equal(list.keys[0].name, "alice");
    assert_memory_equal(&list.keys[0].limits, &defaults, sizeof defaults);
    assert_int_equal(list.keys[0].priority, 0);
    assert_false(list.keys[0].is_admin);
    assert_true(list.keys[0].expires_s == INT64_MAX);
    assert_int_equal(list.keys[0].digest[31], 0xaa);
    const lh_key *bob = &list.keys[1];
    assert_string_equal(bob->name, "bob-2.x_Y");
    assert_int_equal(bob->limits.tokens_per_minute, 5);
    assert_int_equal(bob->limits.requests_per_minute, 0);
    assert_int_equal(bob->limits.concurrent_requests, 1000000000);
    assert_int_equal(bob->limits.reading_ms_per_minute, 9);
    assert_int_equal(bob->priority, -7);
    assert_true(bob->is_admin);
    assert_int_equal(bob->expires_s, 1801353600);
    lh_key_list_reset(&list);
    list = parse("a " A " expires=2027-01-31T12:00:01Z");
    assert_int_equal(list.keys[0].expires_s, 1801353600 + 12 * 3600 + 1);
    lh_key_list_reset(&list);
    list = parse("# nothing\n\n");
    assert_int_equal(list.count, 0);
}

static void a_client_may_have_two_keys(void **state) {
    (void)state;
    lh_key_list list = parse("alice " A " expires=2027-01-31\nalice " B " admin priority=5\n");
    assert_int_equal(list.count, 2);
    lh_key_list_reset(&list);
}

static void finds_by_digest(void **state) {
    (void)state;
    uint8_t digest[LH_SHA256_BYTES];
    lh_key_list list = parse("alice " A "\nbob " B "\n");
    memset(digest, 0xaa, sizeof digest);
    assert_ptr_equal(lh_key_list_find(&list, digest), &list.keys[0]);
    memset(digest, 0xbb, sizeof digest);
    assert_ptr_equal(lh_key_list_find(&list, digest), &list.keys[1]);
    digest[31] = 0xba;
    assert_null(lh_key_list_find(&list, digest));
    digest[31] = 0xbb;
    digest[0] = 0;
    assert_null(lh_key_list_find(&list, digest));
    lh_key_list_reset(&list);
    assert_null(lh_key_list_find(&list, digest));
}

static void refuses_what_it_does_not_understand(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"secret-key-in-plain-text\n", "line 1: one word alone"},
        {"\n# x\nalice\n", "line 3: one word alone"},
        {"al/ice " A, "line 1: the name"},
        {"\xc3\xa9 " A, "line 1: the name"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " A, "line 1: the name"},
        {"alice " A "a", "64 digits"},
        {"alice sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
         "64 digits"},
        {"alice sha1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "64 digits"},
        {"alice sha256:aa", "64 digits"},
        {"alice " A " requests-per-minute=", "0 (no limit) to 1000000000"},
        {"alice " A " requests-per-minute=-1", "0 (no limit) to 1000000000"},
        {"alice " A " tokens-per-minute=1000000001", "0 (no limit) to 1000000000"},
        {"alice " A " tokens-per-minute=18446744073709551617", "0 (no limit) to 1000000000"},
        {"alice " A " concurrent-requests=1x", "0 (no limit) to 1000000000"},
        {"alice " A " priority=2147483648", "32 bits"},
        {"alice " A " priority=--1", "32 bits"},
        {"alice " A " expires=2027-02-30", "a date of UTC"},
        {"alice " A " expires=2027-13-01", "a date of UTC"},
        {"alice " A " expires=2027-1-1", "a date of UTC"},
        {"alice " A " expires=2027-01-01T25:00:00Z", "a date of UTC"},
        {"alice " A " expires=2027-01-01T00:00:00", "a date of UTC"},
        {"alice " A " administrator", "\"administrator\" is none of"},
        {"alice " A " request-per-minute=5", "is none of"},
        {"alice " A "\nbob " A, "line 2: the same key as that of alice"},

        {"alice " A "\nalice " B " tokens-per-minute=1", "line 2: alice has other limits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_key_list list;
        lh_error error;
        assert_int_equal(
            lh_key_list_parse(cases[i].text, strlen(cases[i].text), &defaults, &list, &error),
            LH_ERR_INVALID);
        if (!strstr(error.message, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", error.message, cases[i].says);
        assert_null(strstr(error.message, "secret"));
        assert_null(list.keys);
        assert_int_equal(list.count, 0);
    }
    lh_key_list list;
    static const char with_nul[] = "alice\0 " A;
    assert_int_equal(lh_key_list_parse(with_nul, sizeof with_nul - 1, &defaults, &list, NULL),
                     LH_ERR_INVALID);
}

static void holds_so_many_keys(void **state) {
    (void)state;
    size_t used = 0, room = (LH_KEY_LIST_MAX + 1) * 100;
    char *text = malloc(room);
    assert_non_null(text);
    lh_key_list list;
    lh_error error;
    for (int i = 0; i < LH_KEY_LIST_MAX; i++)
        used += (size_t)snprintf(text + used, room - used, "k%d sha256:%064x\n", i, i);
    assert_int_equal(lh_key_list_parse(text, used, &defaults, &list, &error), LH_OK);
    assert_int_equal(list.count, LH_KEY_LIST_MAX);
    lh_key_list_reset(&list);
    used += (size_t)snprintf(text + used, room - used, "one-more " A "\n");
    assert_int_equal(lh_key_list_parse(text, used, &defaults, &list, &error), LH_ERR_INVALID);
    assert_string_equal(error.message, "line 4097: more than 4096 keys");
    free(text);
}

static lh_status read_from(const char *text, mode_t mode, lh_error *error) {
    char path[] = "/tmp/longhaul-keys-XXXXXX";
    lh_key_list list;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    lh_status status = lh_key_list_read(path, &defaults, &list, error);
    unlink(path);
    if (status == LH_OK)
        assert_int_equal(list.count, 1);
    else
        assert_non_null(strstr(error->message, path));
    lh_key_list_reset(&list);
    return status;
}

static void reads_a_file_of_its_owners(void **state) {
    (void)state;
    lh_error error;
    lh_key_list list;
    assert_int_equal(read_from("alice " A "\n", 0600, &error), LH_OK);
    assert_int_equal(read_from("alice " A "\n", 0644, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "chmod 600"));
    assert_int_equal(read_from("# none\n", 0600, &error), LH_ERR_INVALID);
    assert_int_equal(read_from("\nsecret\n", 0600, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "line 2: one word alone"));
    assert_null(strstr(error.message, "secret"));
    assert_int_equal(lh_key_list_read("/nowhere/keys", &defaults, &list, &error), LH_ERR_IO);
}

static void says_so_without_memory(void **state) {
    (void)state;
    static const char text[] = "alice " A "\nbob " B "\n";
    for (unsigned nth = 1;; nth++) {
        lh_key_list list;
        failing_malloc_arm(nth);
        lh_status status = lh_key_list_parse(text, strlen(text), &defaults, &list, NULL);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_key_list_reset(&list);
        if (!failed)
            return;
    }
}

/* ---- Time. ---- */

static size_t compared;

/* The linker puts it before OpenSSL's comparison, whose time is the same wherever two digests
 * differ. */
int __real_CRYPTO_memcmp(const void *a, const void *b, size_t length);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t length);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t length) {
    assert_int_equal(length, LH_SHA256_BYTES);
    compared++;
    return __real_CRYPTO_memcmp(a, b, length);
}

/* Each key is compared, and in whole, whichever of them it is or comes near. */
static void time_tells_nothing(void **state) {
    (void)state;
    enum { KEYS = 32 };
    lh_key keys[KEYS] = {0};
    const lh_key_list list = {keys, KEYS, KEYS};
    for (size_t i = 0; i < KEYS; i++)
        memset(keys[i].digest, 0x40 + (int)i, sizeof keys[i].digest);
    for (size_t i = 0; i < KEYS; i++)
        for (int changed = -1; changed < LH_SHA256_BYTES; changed++) {
            uint8_t shown[LH_SHA256_BYTES];
            memcpy(shown, keys[i].digest, sizeof shown);
            if (changed >= 0)
                shown[changed] ^= 0x80;
            compared = 0;
            assert_ptr_equal(lh_key_list_find(&list, shown), changed < 0 ? &keys[i] : NULL);
            assert_int_equal(compared, KEYS);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names_digests_and_limits),
        cmocka_unit_test(a_client_may_have_two_keys),
        cmocka_unit_test(finds_by_digest),
        cmocka_unit_test(refuses_what_it_does_not_understand),
        cmocka_unit_test(holds_so_many_keys),
        cmocka_unit_test(reads_a_file_of_its_owners),
        cmocka_unit_test(says_so_without_memory),
        cmocka_unit_test(time_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
