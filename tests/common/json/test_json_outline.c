/* What jansson really takes, block by block as malloc gives it, is never more than what was
 * expected. */
#include "common/json/json_outline.h"

#include "common/json/json_object.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MALLOC_OWN_BYTES sizeof(size_t)

static size_t held, most;

static void *counted_malloc(size_t size) {
    void *block = malloc(size);
    held += block ? malloc_usable_size(block) + MALLOC_OWN_BYTES : 0;
    most = held > most ? held : most;
    return block;
}

static void counted_free(void *block) {
    held -= block ? malloc_usable_size(block) + MALLOC_OWN_BYTES : 0;
    free(block);
}

static size_t memory_taken(const char *text, size_t length) {
    held = most = 0;
    json_decref(json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL));
    assert_int_equal(held, 0);
    return most;
}

static void expect_bound(const char *text, size_t length) {
    size_t taken = memory_taken(text, length),
           bound = lh_json_outline_of(text, length).memory_bytes;
    if (taken > bound)
        fail_msg("%.200s: %zu bytes of JSON took %zu bytes, expected were at most %zu", text,
                 length, taken, bound);
}

/* The text with its middle `count` times; the caller frees it. */
static char *repeat(const char *head, const char *middle, const char *tail, size_t count) {
    size_t size = strlen(middle);
    char *text = malloc(strlen(head) + size * count + strlen(tail) + 1);
    strcpy(text, head);
    for (size_t i = 0; i < count; i++)
        memcpy(text + strlen(head) + i * size, middle, size);
    strcpy(text + strlen(head) + size * count, tail);
    return text;
}

static const char *const shapes[][3] = {
    {"{\"a\":[", "{},", "{}]}"},
    {"{\"a\":[", "[],", "[]]}"},
    {"{\"a\":[", "1,", "1]}"},
    {"{\"a\":[", "0.5,", "1]}"},
    {"{\"a\":[", "\"\",", "\"\"]}"},
    {"{\"a\":[", "\"abcdefg\",", "\"\"]}"},
    {"{\"a\":[", "{\"b\":{}},", "1]}"},
    {"{\"a\":[", "[[[[]]]],", "1]}"},
    {"{\"a\":[", "null,", "null]}"},
    {"{\"a\":\"", "x", "\"}"},
    {"{\"a\":\"", "\\u00e9", "\"}"},
    {"{\"a\":0.", "3", "}"},
    {"{\"", "x", "\":1}"},
    {"{\"a\":[", "1,", "1"},
    {"{\"a\":[", "{\"b\":1},", "{\"a\""},
};

static void a_bound_holds_for_every_shape(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t count = 1; count <= 1 << 16; count *= 2)
            for (size_t more = 0; more < 2; more++) { /* tables double between the two */
                char *text = repeat(shapes[i][0], shapes[i][1], shapes[i][2], count + more);
                expect_bound(text, strlen(text));
                free(text);
            }
}

/* An object of so many members, none of which is twice there. */
static void a_bound_holds_for_members(void **state) {
    (void)state;
    static const char *const values[] = {"1", "{}", "[]", "\"x\"", "null"};
    char *text = malloc(1 << 20);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        for (unsigned count = 1; count <= 1 << 14; count = count * 3 / 2 + 1) {
            size_t length = 1;
            text[0] = '{';
            for (unsigned k = 0; k < count; k++)
                length += (size_t)sprintf(text + length, "%s\"%x\":%s", k ? "," : "", k, values[i]);
            text[length++] = '}';
            expect_bound(text, length);
        }
    free(text);
}

static uint32_t dice(uint32_t *seed, uint32_t sides) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % sides;
}

/* Mostly broken ones: the bound holds up to where the parser stops. */
static void a_bound_holds_for_any_text(void **state) {
    (void)state;
    static const char *const pieces[] = {"{",   "}",  "[",    "]",    ",",       ":",    "\"a\"",
                                         "\"",  "1",  "-0.5", "null", "true",    " ",    "\\\"",
                                         "\\u", "{}", "[],",  "1,",   "{\"b\":", "\xff", "1e5"};
    char text[512];
    uint32_t seed = 7;
    for (int round = 0; round < 100000; round++) {
        size_t length = 0;
        for (uint32_t left = 1 + dice(&seed, 40); left > 0; left--) {
            const char *piece = pieces[dice(&seed, sizeof pieces / sizeof pieces[0])];
            memcpy(text + length, piece, strlen(piece));
            length += strlen(piece);
        }
        text[length] = '\0';
        expect_bound(text, length);
    }
}

/* So that what people send is not refused: two fifths of the expected are taken at least. */
static void a_bound_is_near(void **state) {
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        char *text = repeat(shapes[i][0], shapes[i][1], shapes[i][2], 100000);
        size_t length = strlen(text);
        double share = (double)memory_taken(text, length) /
                       (double)lh_json_outline_of(text, length).memory_bytes;
        printf("%s: %.0f %% of what was expected\n", shapes[i][1], share * 100);
        free(text);
        assert_true(share > 0.4);
    }
}

static void depth_is_counted_outside_of_strings(void **state) {
    (void)state;
    assert_int_equal(lh_json_outline_of("", 0).depth, 0);
    assert_int_equal(lh_json_outline_of("{}", 2).depth, 1);
    assert_int_equal(lh_json_outline_of("]]}[[{}", 7).depth, 3);
    assert_int_equal(lh_json_outline_of("[\"[[[\\\"[[\"]", 11).depth, 1);
    assert_int_equal(lh_json_outline_of("[\"\\", 3).depth, 1);
}

static int count_allocations(void **state) {
    (void)state;
    json_set_alloc_funcs(counted_malloc, counted_free);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_holds_for_every_shape),
        cmocka_unit_test(a_bound_holds_for_members),
        cmocka_unit_test(a_bound_holds_for_any_text),
        cmocka_unit_test(a_bound_is_near),
        cmocka_unit_test(depth_is_counted_outside_of_strings),
    };
    return cmocka_run_group_tests(tests, count_allocations, NULL);
}
