/* A table of fields of every kind: what is written, what is read back, what is refused, and what
 * comes of it where there is no memory. */
#include "common/json/json_fields.h"
#include "tests/support/failing_malloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct point {
    uint32_t x;
    double y;
} point;

typedef struct thing {
    bool is_last, has_inner;
    uint32_t small, choice, count;
    uint64_t large, number;
    int64_t age;
    double rate;
    char text[8], line[8], name[LH_NAME_BYTES], address[16], digits[5], word[8];
    uint8_t key[2];
    point inner, points[3];
    char own;
} thing;

static const lh_json_field point_fields[] = {
    {.key = "x", .kind = LH_JSON_U32, .most = 9, LH_JSON_MEMBER(point, x)},
    {.key = "y",
     .kind = LH_JSON_NUMBER,
     .flags = LH_JSON_ESTIMATE,
     .most = 5,
     LH_JSON_MEMBER(point, y)},
};

static void check_point(const lh_json_reader *reader, void *object) {
    const point *p = object;
    if (p->x == 7)
        lh_json_refuse(reader, "x", "not seven");
}

static const lh_json_record point_record = {LH_JSON_RECORD(point, point_fields),
                                            .check = check_point};

static const char *color_of(unsigned value) {
    static const char *const colors[] = {"none", "red", "blue"};
    return colors[value];
}

static bool has_own(const void *own) {
    return *(const char *)own != '\0';
}

static json_t *render_own(const void *own) {
    return json_integer(*(const char *)own);
}

static void read_own(const lh_json_reader *reader, const char *key, void *own) {
    *(char *)own = (char)lh_json_read_integer(reader, key, 1, 127);
}

static const lh_json_own letter = {.is_there = has_own, .render = render_own, .read = read_own};
static const char *const words[] = {"a", "b", NULL};

static const lh_json_field more_fields[] = {
    {.key = "rate", .kind = LH_JSON_NUMBER, .least = 1, .most = 4, LH_JSON_MEMBER(thing, rate)},
    {.key = "last", .kind = LH_JSON_BOOL, .flags = LH_JSON_ENDS, LH_JSON_MEMBER(thing, is_last)},
    {.key = "own",
     .kind = LH_JSON_OWN,
     .flags = LH_JSON_OPTIONAL | LH_JSON_LEFT_OUT,
     .own = &letter,
     LH_JSON_MEMBER(thing, own)},
};
static const lh_json_record more_record = {LH_JSON_RECORD(thing, more_fields)};

#define MAY LH_JSON_OPTIONAL | LH_JSON_AS_NULL
static const lh_json_field fields[] = {
    {.key = "small",
     .kind = LH_JSON_U32,
     .flags = LH_JSON_ABSENT | LH_JSON_LEFT_OUT,
     .least = 2,
     .most = 6,
     LH_JSON_MEMBER(thing, small)},
    {.key = "large", .kind = LH_JSON_U64, .most = INT64_MAX, LH_JSON_MEMBER(thing, large)},
    {.key = "age",
     .kind = LH_JSON_I64,
     .flags = LH_JSON_ESTIMATE,
     .most = 100,
     LH_JSON_MEMBER(thing, age)},
    {.key = "text", .kind = LH_JSON_TEXT, .flags = MAY, LH_JSON_MEMBER(thing, text)},
    {.key = "line", .kind = LH_JSON_LINE, .flags = MAY, LH_JSON_MEMBER(thing, line)},
    {.key = "name", .kind = LH_JSON_NAME, .flags = MAY, LH_JSON_MEMBER(thing, name)},
    {.key = "address", .kind = LH_JSON_ADDRESS, .flags = MAY, LH_JSON_MEMBER(thing, address)},
    {.key = "digits", .kind = LH_JSON_DIGITS, .flags = MAY, LH_JSON_MEMBER(thing, digits)},
    {.key = "number", .kind = LH_JSON_HEX_U64, LH_JSON_MEMBER(thing, number)},
    {.key = "key", .kind = LH_JSON_HEX, LH_JSON_MEMBER(thing, key)},
    {.key = "word",
     .kind = LH_JSON_WORD,
     .flags = LH_JSON_OPTIONAL,
     .words = words,
     .wanted = "a or b",
     LH_JSON_MEMBER(thing, word)},
    {.key = "choice",
     .kind = LH_JSON_CHOICE,
     .least = 1,
     .most = 2,
     .name_of = color_of,
     .wanted = "red or blue",
     LH_JSON_MEMBER(thing, choice)},
    {.key = "inner",
     .kind = LH_JSON_OBJECT,
     .flags = MAY | LH_JSON_MARKED,
     .mark = offsetof(thing, has_inner),
     .inner = &point_record,
     LH_JSON_MEMBER(thing, inner)},
    {.key = "points",
     .kind = LH_JSON_LIST,
     .flags = MAY,
     .most = 3,
     .count = offsetof(thing, count),
     .inner = &point_record,
     LH_JSON_MEMBER(thing, points)},
    {.kind = LH_JSON_INLINE, .inner = &more_record},
};
static const lh_json_record record = {LH_JSON_RECORD(thing, fields)};

static const thing full = {.has_inner = true,
                           .small = 3,
                           .choice = 2,
                           .count = 2,
                           .large = UINT64_C(1) << 62,
                           .number = 0xabc,
                           .age = 50,
                           .rate = 1.5,
                           .text = "t",
                           .line = "l",
                           .name = "n",
                           .address = "h:1",
                           .digits = "00ff",
                           .word = "b",
                           .key = {0x01, 0xfe},
                           .inner = {1, 0.1},
                           .points = {{2, 2.5}, {3, 0}},
                           .own = 9};

#define FULL                                                                                       \
    "{\"small\":3,\"large\":4611686018427387904,\"age\":50,\"text\":\"t\",\"line\":\"l\","         \
    "\"name\":\"n\",\"address\":\"h:1\",\"digits\":\"00ff\",\"number\":\"0000000000000abc\","      \
    "\"key\":\"01fe\",\"word\":\"b\",\"choice\":\"blue\",\"inner\":{\"x\":1,\"y\":0.1},"           \
    "\"points\":[{\"x\":2,\"y\":2.5},{\"x\":3,\"y\":0.0}],\"rate\":1.5,\"last\":false,\"own\":9}"

static void assert_written(const thing *written, const char *expected) {
    char *text = lh_json_record_text(&record, written);
    assert_string_equal(text, expected);
    free(text);
}

static lh_status read(const char *text, thing *got, lh_error *error) {
    lh_json_document document = {.name = "it", .refusal = LH_ERR_INVALID};
    lh_json_reader reader;
    memset(got, 0, sizeof *got);
    lh_status status = lh_json_document_open(&document, text, strlen(text), error, &reader);
    if (status != LH_OK)
        return status;
    lh_json_record_read(&record, &reader, got);
    return lh_json_document_close(&document);
}

static void every_kind_goes_there_and_back(void **state) {
    (void)state;
    thing got;
    lh_error error;
    assert_written(&full, FULL);
    if (read(FULL, &got, &error) != LH_OK)
        fail_msg("%s", error.message);
    assert_written(&got, FULL);
    assert_memory_equal(got.key, full.key, sizeof got.key);
    assert_true(got.has_inner && got.count == 2 && got.points[1].x == 3 && got.own == 9);
}

/* Nothing is there; and what follows a bool that ends the object is neither written nor read. */
static void what_is_empty_is_null_or_left_out(void **state) {
    (void)state;
    static const char expected[] =
        "{\"large\":9223372036854775807,\"age\":0,\"text\":null,\"line\":null,\"name\":null,"
        "\"address\":null,\"digits\":null,\"number\":\"0000000000000000\",\"key\":\"0000\","
        "\"word\":\"\",\"choice\":\"red\",\"inner\":null,\"points\":null,\"rate\":1.0,"
        "\"last\":true}";
    thing empty = {.large = UINT64_MAX,
                   .age = -5,
                   .choice = 1,
                   .rate = 1,
                   .is_last = true,
                   .inner = {.x = 5},
                   .own = 3},
          got;
    assert_written(&empty, expected);
    assert_int_equal(read("{\"large\":1,\"age\":1,\"number\":\"0000000000000000\",\"key\":\"0000\","
                          "\"choice\":\"red\",\"rate\":1,\"last\":true,\"own\":\"ignored\"}",
                          &got, NULL),
                     LH_OK);
    assert_false(got.has_inner || got.text[0] || got.count > 0 || got.small > 0 || got.own);
    assert_string_equal(got.word, "a");
}

/* An estimate that went wrong costs the estimate; text of no encoding is said to be that. */
static void what_nobody_would_read_is_not_written(void **state) {
    (void)state;
    const double wrong[] = {-1, NAN, 1e300};
    for (size_t i = 0; i < 3; i++) {
        char *text = lh_json_record_text(&point_record, &(point){1, wrong[i]});
        assert_string_equal(text, i == 2 ? "{\"x\":1,\"y\":5.0}" : "{\"x\":1,\"y\":0.0}");
        free(text);
    }
    thing odd = full;
    strcpy(odd.text, "\xff");
    char *text = lh_json_record_text(&record, &odd);
    assert_non_null(strstr(text, "\"text\":\"(a text that is not UTF-8)\""));
    free(text);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *said;
    } rows[] = {
        {"\"small\":3", "\"small\":7", "it: small must be an integer in 2..6"},
        {"\"small\":3", "\"small\":null", "it: small must be an integer in 2..6"},
        {"\"text\":\"t\"", "\"text\":\"12345678\"", "it: text must be a text of at most 7 bytes"},
        {"\"line\":\"l\"", "\"line\":\"\"", "it: line must be a text of 1 to 7 bytes"},
        {"\"h:1\"", "\"h:0\"", "it: address must be \"host:port\" or null"},
        {"\"00ff\"", "\"00f\"", "it: digits must be 4 lower-case hex digits"},
        {"\"01fe\"", "\"01FE\"", "it: key must be 4 lower-case hex digits"},
        {"\"b\"", "\"c\"", "it: word must be a or b"},
        {"\"blue\"", "\"none\"", "it: choice must be red or blue"},
        {"\"choice\":\"blue\",", "", "it: choice must be red or blue"},
        {"{\"x\":1,\"y\":0.1}", "3", "it: inner must be an object or null"},
        {"\"x\":1", "\"x\":7", "it: inner.x must be not seven"},
        {"[{\"x\":2", "[{},{},{},{\"x\":2", "it: points must be a list of at most 3"},
        {"\"x\":3", "\"x\":10", "it: x must be an integer in 0..9"},
        {"\"rate\":1.5", "\"rate\":5", "it: rate must be a number from 1 to 4"},
        {"\"own\":9", "\"own\":0", "it: own must be an integer in 1..127"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        thing got;
        lh_error error = {0};
        const char *at = strstr(FULL, rows[i].old);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - FULL), FULL, rows[i].new,
                 at + strlen(rows[i].old));
        assert_int_equal(read(text, &got, &error), LH_ERR_INVALID);
        assert_string_equal(error.message, rows[i].said);
        assert_true(got.inner.x != 7); /* a part of which a field is refused is as if it were not */
    }
}

static void without_memory_there_is_no_text(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        char *text = lh_json_record_text(&record, &full);
        if (!failing_malloc_disarm()) {
            assert_string_equal(text, FULL);
            free(text);
            assert_true(n > 20);
            break;
        }
        assert_null(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_goes_there_and_back),
        cmocka_unit_test(what_is_empty_is_null_or_left_out),
        cmocka_unit_test(what_nobody_would_read_is_not_written),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(without_memory_there_is_no_text),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
