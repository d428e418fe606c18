/* Each getter takes what is in its range and refuses the rest by name; the first refusal stays. */
#include "common/json/json_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TEXT                                                                                       \
    "{\"five\":5,\"minus\":-5,\"half\":0.5,\"yes\":true,\"no\":false,\"none\":null,\"text\":"      \
    "\"abc\","                                                                                     \
    "\"bell\":\"a\\u0007b\",\"empty\":\"\",\"spaced\":\"a "                                        \
    "b\",\"hex\":\"00ff\",\"list\":[{\"x\":1},{}],"                                                \
    "\"inner\":{\"five\":5,\"deep\":{\"x\":true}}}"

static lh_json_document document;
static lh_json_reader root;
static lh_error error;

static void open_text(void) {
    document = (lh_json_document){.name = "it", .refusal = LH_ERR_INVALID};
    assert_int_equal(lh_json_document_open(&document, TEXT, strlen(TEXT), &error, &root), LH_OK);
}

/* The first failure since open_text is this one. */
static void close_refused(const char *message) {
    assert_int_equal(lh_json_document_close(&document), LH_ERR_INVALID);
    assert_string_equal(error.message, message);
}

static void what_is_in_range_is_taken(void **state) {
    (void)state;
    char text[8];
    lh_json_reader inner, deep;
    open_text();
    assert_int_equal(lh_json_read_integer(&root, "five", 5, 5), 5);
    assert_int_equal(lh_json_read_integer(&root, "minus", -5, 0), -5);
    assert_true(lh_json_read_number(&root, "half", 0.5, 0.5) == 0.5);
    assert_true(lh_json_read_number(&root, "five", 0, 10) == 5);
    assert_true(lh_json_read_bool(&root, "yes") && !lh_json_read_bool(&root, "no"));
    lh_json_read_text(&root, "bell", text, 4);
    assert_string_equal(text, "a?b");
    lh_json_read_text(&root, "empty", text, 1);
    assert_string_equal(text, "");
    lh_json_read_line(&root, "spaced", text, 4);
    assert_string_equal(text, "a b");
    lh_json_read_hex(&root, "hex", text, 4);
    assert_string_equal(text, "00ff");
    assert_string_equal(lh_json_peek_string(&root, "text"), "abc");
    assert_null(lh_json_peek_string(&root, "five"));
    assert_true(lh_json_is_present(&root, "none") && !lh_json_is_there(&root, "none"));
    assert_false(lh_json_is_present(&root, "nothing") || lh_json_is_there(&root, "nothing"));
    assert_true(lh_json_read_object(&root, "inner", false, &inner));
    assert_true(lh_json_read_object(&inner, "deep", true, &deep));
    assert_true(lh_json_read_bool(&deep, "x"));
    assert_false(lh_json_read_object(&root, "none", true, &inner));
    assert_int_equal(lh_json_read_array(&root, "list", 2), 2);
    inner = lh_json_element(&root, "list", 0);
    assert_int_equal(lh_json_read_integer(&inner, "x", 1, 1), 1);
    assert_true(lh_json_is_good(&root));
    assert_int_equal(lh_json_document_close(&document), LH_OK);
}

#define REFUSED(read, message)                                                                     \
    do {                                                                                           \
        open_text();                                                                               \
        read;                                                                                      \
        assert_false(lh_json_is_good(&root));                                                      \
        close_refused("it: " message);                                                             \
    } while (0)

static void a_list_of_names_is_read_one_by_one(void **state) {
    (void)state;
    const char *const text = "{\"names\": [\"a\", \"b.c\", \"d e\", 4]}";
    char name[LH_NAME_BYTES];
    for (size_t i = 0; i < 5; i++) {
        document = (lh_json_document){.name = "it", .refusal = LH_ERR_INVALID};
        assert_int_equal(lh_json_document_open(&document, text, strlen(text), &error, &root),
                         LH_OK);
        lh_json_element_name(&root, "names", i, name);
        if (i < 2)
            assert_string_equal(name, i == 0 ? "a" : "b.c");
        else
            assert_string_equal(name, "");
        assert_int_equal(lh_json_document_close(&document), i < 2 ? LH_OK : LH_ERR_INVALID);
    }
}

static void what_is_not_is_refused_by_name(void **state) {
    (void)state;
    char text[LH_NAME_BYTES];
    lh_json_reader inner;
    REFUSED(lh_json_read_integer(&root, "five", 6, 9), "five must be an integer in 6..9");
    REFUSED(lh_json_read_integer(&root, "five", 1, 4), "five must be an integer in 1..4");
    REFUSED(lh_json_read_integer(&root, "half", 0, 9), "half must be an integer in 0..9");
    REFUSED(lh_json_read_integer(&root, "nothing", 0, 9), "nothing must be an integer in 0..9");
    REFUSED(lh_json_read_integer(&root, "none", 0, 9), "none must be an integer in 0..9");
    REFUSED(lh_json_read_number(&root, "half", 0.6, 9), "half must be a number from 0.6 to 9");
    REFUSED(lh_json_read_number(&root, "half", 0, 0.4), "half must be a number from 0 to 0.4");
    REFUSED(lh_json_read_number(&root, "text", 0, 1), "text must be a number from 0 to 1");
    REFUSED(lh_json_read_bool(&root, "five"), "five must be true or false");
    REFUSED(lh_json_read_bool(&root, "none"), "none must be true or false");
    REFUSED(lh_json_read_text(&root, "text", text, 3), "text must be a text of at most 2 bytes");
    REFUSED(lh_json_read_text(&root, "yes", text, 9), "yes must be a text of at most 8 bytes");
    REFUSED(lh_json_read_line(&root, "empty", text, 9), "empty must be a text of 1 to 8 bytes");
    REFUSED(lh_json_read_line(&root, "text", text, 3), "text must be a text of 1 to 2 bytes");
    REFUSED(lh_json_read_line(&root, "bell", text, 9),
            "bell must be a text without control characters");
    REFUSED(lh_json_read_name(&root, "spaced", text), "spaced must be 1 to 63 of [A-Za-z0-9._-]");
    REFUSED(lh_json_read_hex(&root, "hex", text, 5), "hex must be 5 lower-case hex digits");
    REFUSED(lh_json_read_hex(&root, "text", text, 4), "text must be 4 lower-case hex digits");
    REFUSED(lh_json_read_hex(&root, "five", text, 4), "five must be 4 lower-case hex digits");
    REFUSED(lh_json_read_object(&root, "none", false, &inner), "none must be an object");
    REFUSED(lh_json_read_object(&root, "five", true, &inner), "five must be an object or null");
    REFUSED(lh_json_read_object(&root, "nothing", true, &inner),
            "nothing must be an object or null");
    REFUSED(lh_json_read_array(&root, "list", 1), "list must be a list of at most 1");
    REFUSED(lh_json_read_array(&root, "inner", 1), "inner must be a list of at most 1");
}

static void the_path_of_the_first_failure_is_told(void **state) {
    (void)state;
    lh_json_reader inner, deep, element;
    open_text();
    lh_json_read_object(&root, "inner", false, &inner);
    lh_json_read_object(&inner, "deep", false, &deep);
    assert_int_equal(lh_json_read_integer(&deep, "x", 3, 4), 0);
    assert_false(lh_json_read_bool(&root, "text"));
    assert_int_equal(lh_json_read_integer(&root, "five", 5, 5), 5); /* still read */
    close_refused("it: inner.deep.x must be an integer in 3..4");
    open_text();
    lh_json_read_array(&root, "list", 2);
    element = lh_json_element(&root, "list", 1);
    lh_json_read_bool(&element, "x");
    close_refused("it: x must be true or false");
}

static void what_is_no_object_is_not_read(void **state) {
    (void)state;
    const char *texts[] = {"", "[]", "{", "null", "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        document = (lh_json_document){.name = "it", .refusal = LH_ERR_INVALID};
        assert_int_equal(
            lh_json_document_open(&document, texts[i], strlen(texts[i]), &error, &root),
            LH_ERR_MALFORMED);
        assert_memory_equal(error.message, "it: ", 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_range_is_taken),
        cmocka_unit_test(a_list_of_names_is_read_one_by_one),
        cmocka_unit_test(what_is_not_is_refused_by_name),
        cmocka_unit_test(the_path_of_the_first_failure_is_told),
        cmocka_unit_test(what_is_no_object_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
