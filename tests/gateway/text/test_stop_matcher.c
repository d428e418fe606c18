/* The stop matcher against a search of the whole text, for every cut into pieces. */
#include "common/base/utf8.h"
#include "gateway/text/stop_matcher.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct found {
    size_t begin; /* of the stop string; the text's length when none */
    int which;
} found;

/* By definition: the first end, then the first begin. */
static found search(const char *text, size_t length, const lh_stop_string *stops, size_t count) {
    for (size_t end = 1; end <= length; end++) {
        found best = {length, -1};
        for (size_t i = 0; i < count; i++)
            if (stops[i].length <= end &&
                memcmp(text + end - stops[i].length, stops[i].bytes, stops[i].length) == 0 &&
                (best.which < 0 || end - stops[i].length < best.begin))
                best = (found){end - stops[i].length, (int)i};
        if (best.which >= 0)
            return best;
    }
    return (found){length, -1};
}

/* How much of text[length], which holds no stop string, must wait: its longest end that begins one.
 */
static size_t must_wait(const char *text, size_t length, const lh_stop_string *stops,
                        size_t count) {
    for (size_t wait = length; wait > 0; wait--)
        for (size_t i = 0; i < count; i++)
            if (wait < stops[i].length && memcmp(text + length - wait, stops[i].bytes, wait) == 0)
                return wait;
    return 0;
}

static lh_stop_matcher *create(const lh_stop_string *stops, size_t count) {
    lh_stop_matcher *matcher;
    assert_int_equal(lh_stop_matcher_create(stops, count, &matcher, NULL), LH_OK);
    return matcher;
}

/* Pushes the text cut at each set bit of `cuts` and checks what came out after every piece. */
static void check(const char *text, size_t length, const lh_stop_string *stops, size_t count,
                  uint64_t cuts) {
    found wanted = search(text, length, stops, count);
    lh_stop_matcher *matcher = create(stops, count);
    lh_text_buffer out = {0};
    bool stopped = false;
    size_t from = 0;
    for (size_t at = 1; at <= length; at++) {
        if (at < length && !(cuts >> (at % 64) & 1))
            continue;
        assert_int_equal(
            lh_stop_matcher_push(matcher, text + from, at - from, &out, &stopped, NULL), LH_OK);
        from = at;
        bool complete = wanted.which >= 0 && at >= wanted.begin + stops[wanted.which].length;
        assert_int_equal(stopped, complete);
        assert_int_equal(out.length,
                         complete ? wanted.begin : at - must_wait(text, at, stops, count));
    }
    assert_int_equal(lh_stop_matcher_finish(matcher, &out, NULL), LH_OK);
    assert_int_equal(out.length, wanted.begin);
    assert_int_equal(lh_stop_matcher_found(matcher), wanted.which);
    if (out.length)
        assert_memory_equal(out.bytes, text, out.length);
    lh_text_buffer_reset(&out);
    lh_stop_matcher_destroy(matcher);
}

/* Each stop string at each place of each text, cut in every way. */
static void finds_every_stop_in_every_place(void **state) {
    (void)state;
    static const char *const stops[] = {"\n\n", "###", "aab", "<|x|>", "é", "abab", "b"};
    static const char *const fillers[] = {"aabab", "\n##\n#", "\xC3\xA8\xC3", "<|<||x"};
    for (size_t s = 0; s < sizeof stops / sizeof stops[0]; s++)
        for (size_t f = 0; f < sizeof fillers / sizeof fillers[0]; f++)
            for (size_t place = 0; place <= strlen(fillers[f]); place++) {
                char text[32];
                size_t length = strlen(fillers[f]) + strlen(stops[s]);
                memcpy(text, fillers[f], place);
                memcpy(text + place, stops[s], strlen(stops[s]));
                memcpy(text + place + strlen(stops[s]), fillers[f] + place,
                       strlen(fillers[f]) - place);
                lh_stop_string stop = {stops[s], strlen(stops[s])};
                for (uint64_t cuts = 0; cuts < 1U << length; cuts++)
                    check(text, length, &stop, 1, cuts);
            }
}

static void equals_a_search_of_the_whole(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int round = 0; round < 20000; round++) {
        char text[48], bytes[LH_STOP_STRINGS_MAX][8];
        lh_stop_string stops[LH_STOP_STRINGS_MAX];
        size_t letters = 1 + (size_t)(test_random(&random) % 3),
               count = (size_t)(test_random(&random) % 17);
        size_t length = (size_t)(test_random(&random) % sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = (char)('a' + test_random(&random) % letters);
        for (size_t i = 0; i < count; i++) {
            stops[i] = (lh_stop_string){bytes[i], 1 + (size_t)(test_random(&random) % 8)};
            for (size_t k = 0; k < stops[i].length; k++)
                bytes[i][k] = (char)('a' + test_random(&random) % (letters + (k == 0)));
        }
        check(text, length, stops, count, test_random(&random));
    }
}

/* Whole characters in, whole characters out, whatever is held back. */
static void keeps_characters_whole(void **state) {
    (void)state;
    static const char *const letters[] = {"é", "è", "中", "丮", "😀", "😁", "a"};
    uint64_t random = 5;
    for (int round = 0; round < 5000; round++) {
        char bytes[16] = "";
        for (uint64_t n = 1 + test_random(&random) % 3; n > 0; n--)
            strcat(bytes, letters[test_random(&random) % 7]);
        lh_stop_string stop = {bytes, strlen(bytes)};
        lh_stop_matcher *matcher = create(&stop, 1);
        lh_text_buffer out = {0};
        bool stopped = false;
        for (int i = 0; i < 40; i++) {
            const char *letter = letters[test_random(&random) % 7];
            size_t before = out.length;
            assert_int_equal(
                lh_stop_matcher_push(matcher, letter, strlen(letter), &out, &stopped, NULL), LH_OK);
            assert_int_equal(lh_utf8_valid_prefix(out.bytes + before, out.length - before),
                             out.length - before);
        }
        lh_text_buffer_reset(&out);
        lh_stop_matcher_destroy(matcher);
    }
}

static void nothing_follows_a_stop(void **state) {
    (void)state;
    lh_stop_string stops[] = {{"END", 3}, {"a\0b", 3}};
    lh_stop_matcher *matcher = create(stops, 2);
    lh_text_buffer out = {0};
    bool stopped;
    lh_stop_matcher_push(matcher, "text a\0", 7, &out, &stopped, NULL);
    assert_false(stopped);
    lh_stop_matcher_push(matcher, "b more", 6, &out, &stopped, NULL);
    assert_true(stopped);
    lh_stop_matcher_push(matcher, "END", 3, &out, &stopped, NULL);
    assert_true(stopped);
    lh_stop_matcher_finish(matcher, &out, NULL);
    assert_int_equal(out.length, 5);
    assert_int_equal(lh_stop_matcher_found(matcher), 1);
    lh_text_buffer_reset(&out);
    lh_stop_matcher_destroy(matcher);
}

static void refuses_what_cannot_be_a_stop(void **state) {
    (void)state;
    lh_stop_string stops[LH_STOP_STRINGS_MAX + 1];
    for (size_t i = 0; i <= LH_STOP_STRINGS_MAX; i++)
        stops[i] = (lh_stop_string){"x", 1};
    lh_stop_matcher *matcher;
    assert_int_equal(lh_stop_matcher_create(stops, LH_STOP_STRINGS_MAX + 1, &matcher, NULL),
                     LH_ERR_LIMIT);
    stops[3].length = 0;
    assert_int_equal(lh_stop_matcher_create(stops, 4, &matcher, NULL), LH_ERR_INVALID);
}

/* The worst case for a naive search: long stop strings that almost match, everywhere. */
static void almost_match(void *context, size_t stop) {
    (void)context;
    size_t length = 16 * stop;
    char *bytes = malloc(stop), *text = malloc(length);
    memset(bytes, 'a', stop);
    bytes[stop - 1] = 'b';
    memset(text, 'a', length);
    lh_stop_string stops[LH_STOP_STRINGS_MAX];
    for (size_t i = 0; i < LH_STOP_STRINGS_MAX; i++)
        stops[i] = (lh_stop_string){bytes + i, stop - i};
    lh_stop_matcher *matcher = create(stops, LH_STOP_STRINGS_MAX);
    lh_text_buffer out = {0};
    bool stopped;
    for (size_t at = 0; at < length; at += 4096)
        assert_int_equal(lh_stop_matcher_push(matcher, text + at, 4096, &out, &stopped, NULL),
                         LH_OK);
    assert_true(!stopped && out.length == length - (stop - 1));
    lh_text_buffer_reset(&out);
    lh_stop_matcher_destroy(matcher);
    free(text);
    free(bytes);
}

static void takes_linear_time(void **state) {
    (void)state;
    assert_true(growth_of("bytes of a stop string", almost_match, NULL, 1 << 12) <
                GROWTH_LINEAR_MAX);
}

static void survives_no_memory(void **state) {
    (void)state;
    lh_stop_string stops[] = {{"stop", 4}, {"halt", 4}};
    for (size_t n = 1;; n++) {
        lh_stop_matcher *matcher = NULL;
        lh_text_buffer out = {0};
        bool stopped;
        failing_malloc_arm(n);
        lh_status status = lh_stop_matcher_create(stops, 2, &matcher, NULL);
        if (!status)
            status = lh_stop_matcher_push(matcher, "some text and st", 16, &out, &stopped, NULL);
        if (!status)
            status = lh_stop_matcher_finish(matcher, &out, NULL);
        bool failed = failing_malloc_disarm();
        lh_text_buffer_reset(&out);
        lh_stop_matcher_destroy(matcher);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_stop_in_every_place),
        cmocka_unit_test(equals_a_search_of_the_whole),
        cmocka_unit_test(keeps_characters_whole),
        cmocka_unit_test(nothing_follows_a_stop),
        cmocka_unit_test(refuses_what_cannot_be_a_stop),
        cmocka_unit_test(takes_linear_time),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
