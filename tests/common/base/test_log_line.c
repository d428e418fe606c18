#include "common/base/log_line.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_log_head head = {"2026-11-23T14:00:00.000Z", "info", "api"};

/* Of the last line. */
static char line[LH_LOG_LINE_BYTES + 1];

__attribute__((format(printf, 2, 3))) static const char *render(lh_log_format form,
                                                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t length = lh_log_line_render(form, &head, format, args, line);
    va_end(args);
    assert_true(length > 0 && length <= LH_LOG_LINE_BYTES);
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
    assert_int_equal(strlen(line), length - 1);
    return line;
}

#define TEXT(...) render(LH_LOG_TEXT, __VA_ARGS__)
#define JSON(...) render(LH_LOG_JSON, __VA_ARGS__)

#define AT "2026-11-23T14:00:00.000Z info  api: "
#define OBJECT                                                                                     \
    "{\"time\":\"2026-11-23T14:00:00.000Z\",\"level\":\"info\",\"module\":\"api\",\"message\":"

/* The line is one object of JSON; the caller decrefs. */
static json_t *parse(const char *text) {
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s in %s", error.text, text);
    return object;
}

static void both_formats_have_the_same_fields(void **state) {
    (void)state;
#define CALL                                                                                       \
    "chain is ready chain=%s epoch=%u layers=%u-%u ms=%.1f reason=\"%s\"", "main", 7u, 0u, 14u,    \
        2.25, "it is"
    assert_string_equal(TEXT(CALL),
                        AT "chain is ready chain=main epoch=7 layers=0-14 ms=2.2 reason=\"it is\"");
    assert_string_equal(JSON(CALL), OBJECT "\"chain is ready\",\"chain\":\"main\",\"epoch\":7,"
                                           "\"layers\":\"0-14\",\"ms\":2.2,\"reason\":\"it is\"}");
#undef CALL
}

static void a_line_may_be_a_message_alone(void **state) {
    (void)state;
    assert_string_equal(TEXT("stopped"), AT "stopped");
    assert_string_equal(JSON("stopped"), OBJECT "\"stopped\"}");
    assert_string_equal(TEXT("net.ipv4.x=1: %d %% of it", 3), AT "net.ipv4.x=1: 3 % of it");
}

static void a_value_can_forge_neither_line_nor_field(void **state) {
    (void)state;
    const char *evil = "a\" level=error\n2026 error: \\ \x1b[31m";
    assert_string_equal(
        TEXT("is refused peer=%s id=%s", evil, "x"),
        AT "is refused peer=\"a\\\" level=error\\n2026 error: \\\\ \\u001b[31m\" id=x");
    assert_string_equal(TEXT("is refused %s", "x=1\ny"), AT "is refused x=1\\ny");
    json_t *object = parse(JSON("is refused %s peer=%s id=%s", evil, evil, "x"));
    assert_int_equal(json_object_size(object), 6);
    assert_string_equal(json_string_value(json_object_get(object, "peer")), evil);
    assert_string_equal(json_string_value(json_object_get(object, "id")), "x");
    json_decref(object);
}

static void what_is_not_utf_8_is_replaced(void **state) {
    (void)state;
    assert_string_equal(TEXT("refused name=%s", "\xc3\xa9\xff!"),
                        AT "refused name=\"\xc3\xa9\xef\xbf\xbd!\"");
    assert_string_equal(TEXT("refused name=%s", "\xc2\x9b"
                                                "1m"),
                        AT "refused name=\\u009b1m");
    json_decref(parse(JSON("re\xe2\x82"
                           "fused name=%.2s",
                           "\xe2\x82\xac")));
}

static void all_conversions_are_known(void **state) {
    (void)state;
    assert_string_equal(
        TEXT("m a=%d b=%lld c=%zu d=%016llx e=%.*s f=%.3s g=%c h=%g i=%03ld j=%5u", -1, -2ll,
             (size_t)3, 0xabcull, 2, "xyz", "abcdef", 'q', 0.5, 7l, 9u),
        AT "m a=-1 b=-2 c=3 d=0000000000000abc e=xy f=abc g=q h=0.5 i=007 j=\"    9\"");
    json_t *object = parse(JSON("m a=%d b=%llu d=%08x i=%03ld j=%5u k=%ums", INT32_MIN,
                                (unsigned long long)INT64_MAX, 255u, 7l, 9u, 4u));
    assert_int_equal(json_integer_value(json_object_get(object, "a")), INT32_MIN);
    assert_int_equal(json_integer_value(json_object_get(object, "b")), INT64_MAX);
    for (const char *const *key = (const char *const[]){"d", "i", "j", "k", NULL}; *key; key++)
        assert_true(json_is_string(json_object_get(object, *key)));
    json_decref(object);
}

static void an_absent_value_is_a_dash_or_null(void **state) {
    (void)state;
    assert_string_equal(TEXT("done first_ms=%.1f answer=%s why=\"%s\"", (double)NAN, "", ""),
                        AT "done first_ms=- answer=- why=-");
    assert_string_equal(JSON("done first_ms=%.1f answer=%s why=\"%s\"", (double)NAN, "", ""),
                        OBJECT "\"done\",\"first_ms\":null,\"answer\":null,\"why\":null}");
    json_t *object = parse(JSON("done x=%f", (double)INFINITY));
    assert_string_equal(json_string_value(json_object_get(object, "x")), "inf");
    json_decref(object);
}

static void a_long_line_is_cut_and_still_whole_json(void **state) {
    (void)state;
    char many[3000];
    for (size_t used = 0; used < 2; used++) {
        memset(many, used ? '\x01' : 'x', sizeof many - 1);
        many[sizeof many - 1] = '\0';
        json_t *object =
            parse(JSON("m a=%s b=%s c=%s d=%s e=%s f=%u", many, many, many, many, many, 1u));
        assert_true(json_object_size(object) >= 5);
        json_decref(object);
        TEXT("m a=%s b=%s c=%s d=%s e=%s f=%u", many, many, many, many, many, 1u);
    }
}

/* Whatever is put in, a line is one line, of as many fields as its format has. */
static void any_bytes_make_one_line_of_the_same_fields(void **state) {
    (void)state;
    static const char likely[] = "\"\\= \n\r\t\x1b\x7f\xc2\x85\xe2\x80\xa8\xf0\x9f\x98{}%s";
    uint64_t random = 1;
    for (int turn = 0; turn < 20000; turn++) {
        char bytes[40];
        size_t length = (size_t)turn % (sizeof bytes - 1);
        for (size_t i = 0; i < length; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint8_t draw = (uint8_t)(random >> 56);
            bytes[i] = draw < 128 ? likely[draw % (sizeof likely - 1)] : (char)(draw * 2 + 1);
        }
        bytes[length] = '\0';
        json_t *object = parse(JSON("m %s a=%s b=\"%s\" c=%d", bytes, bytes, bytes, turn));
        assert_int_equal(json_object_size(object), 7);
        assert_int_equal(json_integer_value(json_object_get(object, "c")), turn);
        json_decref(object);
        const char *text = TEXT("m %s a=%s b=\"%s\" c=%d", bytes, bytes, bytes, turn);
        for (; *text; text++)
            assert_true((unsigned char)*text >= ' ' && *text != 0x7f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_formats_have_the_same_fields),
        cmocka_unit_test(a_line_may_be_a_message_alone),
        cmocka_unit_test(a_value_can_forge_neither_line_nor_field),
        cmocka_unit_test(what_is_not_utf_8_is_replaced),
        cmocka_unit_test(all_conversions_are_known),
        cmocka_unit_test(an_absent_value_is_a_dash_or_null),
        cmocka_unit_test(a_long_line_is_cut_and_still_whole_json),
        cmocka_unit_test(any_bytes_make_one_line_of_the_same_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
