/* Special tokens in text: the longest, at one position, and only where they may be. */
#include "gateway/text/special_tokens.h"
#include "tests/gateway/support/small_vocabulary.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct setup {
    lh_vocabulary *vocabulary;
    lh_special_tokens *special;
} setup;

static lh_status open_special(const small_vocabulary *file, setup *made, lh_error *error) {
    *made = (setup){0};
    small_gguf opened = small_vocabulary_open(file);
    lh_status status =
        lh_vocabulary_create(opened.gguf, LH_SPELLING_BYTE_LEVEL, &made->vocabulary, error);
    small_gguf_close(&opened);
    return status ? status : lh_special_tokens_create(made->vocabulary, &made->special, error);
}

static setup open_sound(const small_vocabulary *file) {
    setup made;
    lh_error error;
    if (open_special(file, &made, &error))
        fail_msg("%s", error.message);
    return made;
}

static void close_special(setup *made) {
    lh_special_tokens_destroy(made->special);
    lh_vocabulary_destroy(made->vocabulary);
}

/* Special tokens of which one begins, ends or lies in another. */
enum { AB = 256, ABCD, ABCE, BC, A, CDX, USER, USER_LONG };

static small_vocabulary overlapping(void) {
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "<ab", LH_TOKEN_CONTROL);
    small_vocabulary_add(&file, "<abcd>", LH_TOKEN_CONTROL);
    small_vocabulary_add(&file, "<abce>", LH_TOKEN_CONTROL);
    small_vocabulary_add(&file, "bc", LH_TOKEN_UNKNOWN);
    small_vocabulary_add(&file, "<a", LH_TOKEN_CONTROL);
    small_vocabulary_add(&file, "cdx", LH_TOKEN_CONTROL);
    small_vocabulary_add(&file, "<u", LH_TOKEN_USER_DEFINED);
    small_vocabulary_add(&file, "<user>", LH_TOKEN_CONTROL);
    return file;
}

/* At the front of `text`, with control tokens within control_length. token -1: none. */
static void expect(const setup *made, const char *text, size_t control_length, int64_t token,
                   size_t size) {
    size_t got_size = 99;
    int64_t got =
        lh_special_tokens_match(made->special, text, strlen(text), control_length, &got_size);
    if (got != token)
        fail_msg("\"%s\" within %zu: %lld, not %lld", text, control_length, (long long)got,
                 (long long)token);
    if (token >= 0)
        assert_int_equal(got_size, size);
}

static void takes_the_longest(void **state) {
    (void)state;
    small_vocabulary file = overlapping();
    setup made = open_sound(&file);
    expect(&made, "<abcd>", 6, ABCD, 6);
    expect(&made, "<abce>", 6, ABCE, 6);
    expect(&made, "<abcd>e", 7, ABCD, 6);
    expect(&made, "<abcdx", 6, AB, 3); /* most of a longer one, and back */
    expect(&made, "<abc", 4, AB, 3);
    expect(&made, "<ab", 3, AB, 3);
    expect(&made, "<ax", 3, A, 2);
    expect(&made, "<", 1, -1, 0);
    expect(&made, "", 0, -1, 0);
    close_special(&made);
}

/* Names that overlap do not hide each other: each is found where it begins, and nowhere else. */
static void looks_at_the_front_only(void **state) {
    (void)state;
    small_vocabulary file = overlapping();
    setup made = open_sound(&file);
    static const int64_t wanted[] = {AB, -1, BC, CDX, -1, -1};
    for (size_t at = 0; at < 6; at++) {
        static const char text[] = "<abcdx";
        expect(&made, text + at, 6 - at, wanted[at], at == 2 ? 2 : 3);
    }
    expect(&made, "x<abcd>", 7, -1, 0);
    close_special(&made);
}

/* A user's text has no control length: whatever it says, no control or unknown token comes of it.
 */
static void user_text_never_yields_a_control_token(void **state) {
    (void)state;
    small_vocabulary file = overlapping();
    setup made = open_sound(&file);
    static const char text[] = "<ab<abcd><abce>bc<acdx<user><us<<ab";
    size_t user_defined = 0;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        size_t size;
        int64_t token =
            lh_special_tokens_match(made.special, text + at, sizeof text - 1 - at, 0, &size);
        assert_true(token == -1 || token == USER);
        user_defined += token == USER;
    }
    assert_int_equal(user_defined, 2); /* that one is text, and is found in either */
    close_special(&made);
}

/* A control token must end where control tokens may be; the user-defined part of it may not care.
 */
static void ends_within_the_templates_part(void **state) {
    (void)state;
    small_vocabulary file = overlapping();
    setup made = open_sound(&file);
    expect(&made, "<abcd>", 5, AB, 3);
    expect(&made, "<abcd>", 3, AB, 3);
    expect(&made, "<abcd>", 2, A, 2);
    expect(&made, "<abcd>", 1, -1, 0);
    expect(&made, "<user>", 6, USER_LONG, 6);
    expect(&made, "<user>", 5, USER, 2);
    expect(&made, "<user>", 0, USER, 2);
    close_special(&made);
}

static void only_special_tokens_are_collected(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<0x41>", LH_TOKEN_BYTE);
    small_vocabulary_add(&file, "", LH_TOKEN_CONTROL); /* without text: left out, however many */
    small_vocabulary_add(&file, "", LH_TOKEN_CONTROL);
    setup made = open_sound(&file);
    expect(&made, "<s>x", 4, 262, 4);
    expect(&made, "<unk>", 5, 264, 5);
    expect(&made, "[ud]", 0, 263, 4);
    expect(&made, "<x>", 3, -1, 0); /* unused */
    expect(&made, "hello", 5, -1, 0);
    expect(&made, "A", 1, -1, 0);
    close_special(&made);
}

static void bytes_of_any_value(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "\uFF5Cend\uFF5C", LH_TOKEN_CONTROL);
    setup made = open_sound(&file);
    expect(&made, "\uFF5Cend\uFF5C", 9, 256, 9);
    expect(&made, "\uFF5Cend\uFF5B", 9, -1, 0);
    close_special(&made);
}

static void refuses_hostile_names(void **state) {
    (void)state;
    char name[LH_SPECIAL_TOKEN_BYTES_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    small_vocabulary file = small_vocabulary_rich();
    setup made;
    lh_error error;
    file.tokens[261] = name;
    assert_int_equal(open_special(&file, &made, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "tokenizer.ggml.tokens[261] has 257 bytes"));
    assert_null(made.special);
    close_special(&made);
    name[LH_SPECIAL_TOKEN_BYTES_MAX] = '\0'; /* the longest that may be */
    made = open_sound(&file);
    expect(&made, name, strlen(name), 261, LH_SPECIAL_TOKEN_BYTES_MAX);
    close_special(&made);
    file = small_vocabulary_rich();
    file.tokens[264] = "<s>"; /* twice, though of another type */
    assert_int_equal(open_special(&file, &made, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "tokenizer.ggml.tokens[264] is the same as tokens[261]"));
    assert_null(made.special);
    close_special(&made);
    file = small_vocabulary_rich();
    file.tokens[0] = "<s>"; /* the first token is one like any other */
    file.types[0] = LH_TOKEN_CONTROL;
    assert_int_equal(open_special(&file, &made, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "tokenizer.ggml.tokens[261] is the same as tokens[0]"));
    close_special(&made);
}

static void survives_no_memory(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    setup made = open_sound(&file);
    size_t n = 1;
    for (;; n++) {
        lh_special_tokens *special = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_special_tokens_create(made.vocabulary, &special, NULL);
        bool failed = failing_malloc_disarm();
        lh_special_tokens_destroy(special);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
    assert_true(n > 1);
    close_special(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_longest),
        cmocka_unit_test(looks_at_the_front_only),
        cmocka_unit_test(user_text_never_yields_a_control_token),
        cmocka_unit_test(ends_within_the_templates_part),
        cmocka_unit_test(only_special_tokens_are_collected),
        cmocka_unit_test(bytes_of_any_value),
        cmocka_unit_test(refuses_hostile_names),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
