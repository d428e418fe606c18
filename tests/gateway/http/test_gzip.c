/* There and back, and what a peer may try. */
#include "gateway/http/gzip.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG 100000u

/* Digits that repeat now and then; the caller frees it. */
static char *some_text(void) {
    char *text = malloc(LONG);
    for (size_t i = 0; i < LONG; i++)
        text[i] = (char)('0' + (i * i / 7) % 10);
    return text;
}

static void bodies_come_back(void **state) {
    (void)state;
    char *text = some_text(), *packed, *back;
    size_t packed_bytes, back_bytes;
    assert_int_equal(lh_gzip_compress(text, LONG, &packed, &packed_bytes), LH_OK);
    assert_true(packed_bytes < LONG);
    assert_int_equal(lh_gzip_expand(packed, packed_bytes, LONG, &back, &back_bytes, NULL), LH_OK);
    assert_int_equal(back_bytes, LONG);
    assert_memory_equal(back, text, LONG);
    free(back);
    free(packed);
    free(text);
}

static void bounds_hold(void **state) {
    (void)state;
    static const size_t most[] = {0, 1, 16383, 16384, 16385, LONG / 2, LONG - 1};
    char *text = some_text(), *packed, *back;
    size_t packed_bytes, back_bytes;
    assert_int_equal(lh_gzip_compress(text, LONG, &packed, &packed_bytes), LH_OK);
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        lh_error error;
        assert_int_equal(lh_gzip_expand(packed, packed_bytes, most[i], &back, &back_bytes, &error),
                         LH_ERR_LIMIT);
        assert_null(back);
    }
    assert_int_equal(lh_gzip_compress("abc", 3, &back, &back_bytes), LH_ERR_LIMIT);
    free(packed);
    free(text);
}

/* A fuzzer's find: in gzip these are 29 bytes again. */
static void what_would_be_as_long_is_not_compressed(void **state) {
    (void)state;
    unsigned char bytes[29] = {0x60, 0x2c, 0x2b, 0x2c};
    char *packed;
    size_t packed_bytes;
    memset(bytes + 4, 0xff, sizeof bytes - 4);
    bytes[20] = 0xfd;
    assert_int_equal(lh_gzip_compress((const char *)bytes, sizeof bytes, &packed, &packed_bytes),
                     LH_ERR_LIMIT);
}

static void what_is_no_gzip_is_refused(void **state) {
    (void)state;
    char *text = some_text(), *packed, *back;
    size_t packed_bytes, back_bytes;
    assert_int_equal(lh_gzip_compress(text, LONG, &packed, &packed_bytes), LH_OK);
    char *longer = malloc(packed_bytes + 1);
    memcpy(longer, packed, packed_bytes);
    longer[packed_bytes] = 'x';
    assert_int_equal(lh_gzip_expand(longer, packed_bytes + 1, LONG, &back, &back_bytes, NULL),
                     LH_ERR_MALFORMED);
    for (size_t cut = 0; cut < packed_bytes; cut += cut < 30 ? 1 : 997)
        assert_int_equal(lh_gzip_expand(packed, cut, LONG, &back, &back_bytes, NULL),
                         LH_ERR_MALFORMED);
    packed[packed_bytes - 6] ^= 1; /* of the checksum */
    assert_int_equal(lh_gzip_expand(packed, packed_bytes, LONG, &back, &back_bytes, NULL),
                     LH_ERR_MALFORMED);
    assert_int_equal(lh_gzip_expand("{\"a\":1}", 7, LONG, &back, &back_bytes, NULL),
                     LH_ERR_MALFORMED);
    free(longer);
    free(packed);
    free(text);
}

static void memory_may_run_out(void **state) {
    (void)state;
    char *text = some_text(), *packed, *back = NULL;
    size_t packed_bytes, back_bytes;
    assert_int_equal(lh_gzip_compress(text, LONG, &packed, &packed_bytes), LH_OK);
    lh_status status = LH_ERR_NO_MEMORY;
    for (size_t n = 1; status; n++) {
        failing_malloc_arm(n);
        status = lh_gzip_expand(packed, packed_bytes, LONG, &back, &back_bytes, NULL);
        bool has_failed = failing_malloc_disarm();
        assert_true(status == (has_failed ? LH_ERR_NO_MEMORY : LH_OK));
    }
    free(back);
    free(packed);
    free(text);
}

static void clients_say_what_they_take(void **state) {
    (void)state;
    static const char *const yes[] = {"gzip", "GZIP", "deflate, gzip;q=0.5", "br,gzip", " gzip "};
    static const char *const no[] = {
        "", "identity", "br", "gzip;q=0", "deflate, gzip; q=0.000", "gzipped", "x-gzip"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!lh_gzip_is_accepted(yes[i]))
            fail_msg("%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (lh_gzip_is_accepted(no[i]))
            fail_msg("%s", no[i]);
    assert_false(lh_gzip_is_accepted(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_back),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(what_would_be_as_long_is_not_compressed),
        cmocka_unit_test(what_is_no_gzip_is_refused),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(clients_say_what_they_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
