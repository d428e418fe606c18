/* The tokens of a file: what they are, the way back from bytes, files that say nonsense. */
#include "gateway/text/vocabulary.h"
#include "tests/gateway/support/small_vocabulary.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_status create(const small_vocabulary *file, lh_vocabulary **vocabulary, lh_error *error) {
    small_gguf opened = small_vocabulary_open(file);
    *vocabulary = NULL;
    lh_status status = lh_vocabulary_create(opened.gguf, LH_SPELLING_BYTE_LEVEL, vocabulary, error);
    small_gguf_close(&opened); /* it copies what it keeps */
    return status;
}

static lh_vocabulary *create_sound(const small_vocabulary *file) {
    lh_vocabulary *vocabulary;
    lh_error error;
    if (create(file, &vocabulary, &error))
        fail_msg("%s", error.message);
    return vocabulary;
}

static void expect_text(lh_text text, const char *wanted) {
    assert_int_equal(text.length, strlen(wanted));
    assert_memory_equal(text.bytes, wanted, text.length + 1); /* the NUL behind it, too */
}

static void tells_type_bytes_and_name(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<0x0A>", LH_TOKEN_BYTE);
    lh_vocabulary *vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_count(vocabulary), 268);
    static const struct {
        uint32_t token;
        lh_token_type type;
        const char *bytes, *name;
    } cases[] = {
        {'a', LH_TOKEN_NORMAL, "a", "a"},         {' ', LH_TOKEN_NORMAL, " ", " "},
        {0xE9, LH_TOKEN_NORMAL, "\xE9", "\xE9"},  {260, LH_TOKEN_NORMAL, " w", " w"},
        {261, LH_TOKEN_CONTROL, "", "<s>"},       {263, LH_TOKEN_USER_DEFINED, "[ud]", "[ud]"},
        {264, LH_TOKEN_UNKNOWN, "", "<unk>"},     {265, LH_TOKEN_UNUSED, "", "<x>"},
        {266, LH_TOKEN_USER_DEFINED, "  ", "  "}, {267, LH_TOKEN_BYTE, "\n", "\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(lh_vocabulary_type(vocabulary, cases[i].token), cases[i].type);
        expect_text(lh_vocabulary_bytes(vocabulary, cases[i].token), cases[i].bytes);
        expect_text(lh_vocabulary_name(vocabulary, cases[i].token), cases[i].name);
    }
    lh_text nul = lh_vocabulary_bytes(vocabulary, 0);
    assert_true(nul.length == 1 && nul.bytes[0] == 0);
    lh_vocabulary_destroy(vocabulary);
}

static void finds_normal_tokens_by_their_bytes(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    lh_vocabulary *vocabulary = create_sound(&file);
    for (uint32_t byte = 0; byte < 256; byte++)
        assert_int_equal(lh_vocabulary_find(vocabulary, &(char){(char)byte}, 1), byte);
    assert_int_equal(lh_vocabulary_find(vocabulary, "hello", 5), 259);
    assert_int_equal(lh_vocabulary_find(vocabulary, "hello", 4), 258);
    assert_int_equal(lh_vocabulary_find(vocabulary, " w", 2), 260);
    assert_int_equal(lh_vocabulary_find(vocabulary, "hel", 3), -1);
    /* the NUL behind it is not its */
    assert_int_equal(lh_vocabulary_find(vocabulary, "he\0", 3), -1);
    assert_int_equal(lh_vocabulary_find(vocabulary, "", 0), -1);
    /* the file's spelling of it */
    assert_int_equal(lh_vocabulary_find(vocabulary, "\u0120w", 3), -1);
    for (uint32_t special = 261; special < 267; special++)
        assert_int_equal(
            lh_vocabulary_find(vocabulary, file.tokens[special], strlen(file.tokens[special])), -1);
    lh_vocabulary_destroy(vocabulary);
}

static void without_types_all_are_normal(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.type_count = 0;
    file.tokens[266] = "\u0120\u0120";
    lh_vocabulary *vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_type(vocabulary, 261), LH_TOKEN_NORMAL);
    assert_int_equal(lh_vocabulary_find(vocabulary, "<s>", 3), 261);
    assert_int_equal(lh_vocabulary_find(vocabulary, "  ", 2), 266);
    lh_vocabulary_destroy(vocabulary);
}

static void of_sentencepiece_without_types_bytes_have_names(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_spm();
    file.type_count = 0;
    small_gguf opened = small_vocabulary_open(&file);
    lh_vocabulary *vocabulary;
    assert_int_equal(
        lh_vocabulary_create(opened.gguf, LH_SPELLING_SENTENCEPIECE, &vocabulary, NULL), LH_OK);
    assert_int_equal(lh_vocabulary_type(vocabulary, 'a'), LH_TOKEN_BYTE);
    expect_text(lh_vocabulary_bytes(vocabulary, 'a'), "a");
    assert_int_equal(lh_vocabulary_type(vocabulary, 259), LH_TOKEN_NORMAL);
    lh_vocabulary_destroy(vocabulary);
    small_gguf_close(&opened);
}

/* What a template writes, and nobody may read as text. */
static void marks_are_control_tokens_whatever_their_type_is(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<|im_end|>", LH_TOKEN_NORMAL);
    small_vocabulary_add(&file, "[DONE]", LH_TOKEN_NORMAL);
    small_vocabulary_add(&file, "<|other|>", LH_TOKEN_NORMAL);
    file.eot = 268;
    lh_vocabulary *vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_type(vocabulary, 267), LH_TOKEN_CONTROL); /* a known name */
    assert_int_equal(lh_vocabulary_type(vocabulary, 268), LH_TOKEN_CONTROL); /* by the file's id */
    assert_int_equal(lh_vocabulary_type(vocabulary, 269), LH_TOKEN_NORMAL);
    lh_vocabulary_destroy(vocabulary);
    file.type_count = 0;
    file.tokens[266] = "\u0120\u0120";
    vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_type(vocabulary, 267), LH_TOKEN_CONTROL);
    expect_text(lh_vocabulary_name(vocabulary, 267), "<|im_end|>");
    expect_text(lh_vocabulary_bytes(vocabulary, 267), "");
    lh_vocabulary_destroy(vocabulary);
}

/* Qwen's vocabulary has "</s>" from "</s" and ">": whoever reads of HTML writes it. */
static void what_a_merge_makes_is_text(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "</s", LH_TOKEN_NORMAL);
    small_vocabulary_add(&file, "</s>", LH_TOKEN_NORMAL);
    file.merges[file.merge_count++] = "</s >";
    lh_vocabulary *vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_type(vocabulary, 268), LH_TOKEN_NORMAL);
    expect_text(lh_vocabulary_bytes(vocabulary, 268), "</s>");
    lh_vocabulary_destroy(vocabulary);
    file.merges[file.merge_count - 1] = "</ s>x"; /* of as many bytes as one that would */
    vocabulary = create_sound(&file);
    assert_int_equal(lh_vocabulary_type(vocabulary, 268), LH_TOKEN_CONTROL);
    lh_vocabulary_destroy(vocabulary);
}

static void expect_refusal(const small_vocabulary *file, const char *words) {
    lh_vocabulary *vocabulary;
    lh_error error;
    lh_status status = create(file, &vocabulary, &error);
    if (status != LH_ERR_MALFORMED)
        fail_msg("%s (%s)", lh_status_name(status), words);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(vocabulary);
}

static void refuses_lists_of_the_wrong_length(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.type_count--;
    expect_refusal(&file,
                   "tokenizer.ggml.token_type has 266 entries, tokenizer.ggml.tokens has 267");
    file.type_count += 2;
    expect_refusal(&file,
                   "tokenizer.ggml.token_type has 268 entries, tokenizer.ggml.tokens has 267");
    file.token_count = file.type_count = 0;
    expect_refusal(&file, "tokenizer.ggml.tokens is empty");
    file.without_tokens = true;
    expect_refusal(&file, "the file has no tokenizer.ggml.tokens");
}

static void refuses_types_out_of_range(void **state) {
    (void)state;
    static const struct {
        int32_t type;
        const char *words;
    } cases[] = {
        {0, "tokenizer.ggml.token_type[7] is 0"},
        {7, "tokenizer.ggml.token_type[7] is 7"},
        {-1, "tokenizer.ggml.token_type[7] is -1"},
        {INT32_MIN, "tokenizer.ggml.token_type[7] is -2147483648"},
        {257, "tokenizer.ggml.token_type[7] is 257"}, /* 1 in its lowest byte */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_vocabulary file = small_vocabulary_rich();
        file.types[7] = cases[i].type;
        expect_refusal(&file, cases[i].words);
    }
}

static void refuses_texts_that_are_no_tokens(void **state) {
    (void)state;
    static const struct {
        uint32_t token;
        const char *text, *words;
    } cases[] = {
        {258, "he", "tokenizer.ggml.tokens[258] is the same as tokens[256]"},
        {258, "a", "tokenizer.ggml.tokens[258] is the same as tokens[97]"},
        {257, "a b", "tokenizer.ggml.tokens[257] holds U+0020"},
        {257, "\u4E2D", "tokenizer.ggml.tokens[257] holds U+4E2D"},
        {257, "\xFF", "tokenizer.ggml.tokens[257] is not UTF-8"},
        {257, "l\xC4", "tokenizer.ggml.tokens[257] is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_vocabulary file = small_vocabulary_rich();
        file.tokens[cases[i].token] = cases[i].text;
        expect_refusal(&file, cases[i].words);
    }
    static const char *const bytes[] = {"A",      "<0x4>",  "<0x4g>",  "<0x4a>",
                                        "<0X4A>", "<0x4A]", "<0x4A>>", ""};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        small_vocabulary file = small_vocabulary_rich();
        small_vocabulary_add(&file, bytes[i], LH_TOKEN_BYTE);
        expect_refusal(&file, "tokenizer.ggml.tokens[267] is no name of a byte");
    }
}

/* Lists of something else than they should be. */
static void refuses_lists_of_the_wrong_kind(void **state) {
    (void)state;
    static const char *const texts[] = {"a", "b"}, *const keys[] = {"tokens", "token_type"};
    static const int32_t numbers[] = {1, 1};
    for (size_t wrong = 0; wrong < 2; wrong++) {
        gguf_writer *writer = gguf_writer_create(1);
        if (wrong == 0) {
            gguf_writer_i32_array(writer, "tokenizer.ggml.tokens", numbers, 2);
        } else {
            gguf_writer_text_array(writer, "tokenizer.ggml.tokens", texts, 2);
            gguf_writer_text_array(writer, "tokenizer.ggml.token_type", texts, 2);
        }
        size_t length;
        uint8_t *bytes = gguf_writer_finish(writer, &length);
        gguf_writer_destroy(writer);
        lh_gguf *gguf;
        lh_vocabulary *vocabulary = NULL;
        lh_error error;
        assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
        assert_int_equal(lh_vocabulary_create(gguf, LH_SPELLING_BYTE_LEVEL, &vocabulary, &error),
                         LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, keys[wrong]));
        assert_null(vocabulary);
        lh_gguf_destroy(gguf);
        free(bytes);
    }
}

static void survives_no_memory(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_gguf opened = small_vocabulary_open(&file);
    size_t n = 1;
    for (;; n++) {
        lh_vocabulary *vocabulary = NULL;
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status =
            lh_vocabulary_create(opened.gguf, LH_SPELLING_BYTE_LEVEL, &vocabulary, &error);
        bool failed = failing_malloc_disarm();
        lh_vocabulary_destroy(vocabulary);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
        assert_null(vocabulary);
        assert_true(error.message[0] != '\0');
    }
    assert_true(n > 6);
    small_gguf_close(&opened);
}

static lh_status create_spm(const small_vocabulary *file, lh_vocabulary **vocabulary,
                            lh_error *error) {
    small_gguf opened = small_vocabulary_open(file);
    lh_status status =
        lh_vocabulary_create(opened.gguf, LH_SPELLING_SENTENCEPIECE, vocabulary, error);
    small_gguf_close(&opened);
    return status;
}

static void reads_the_spelling_of_sentencepiece(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_spm();
    small_vocabulary_piece(&file, "\u2581a\u2581\u2581\u00E9", 0); /* 260 */
    lh_vocabulary *vocabulary;
    assert_int_equal(create_spm(&file, &vocabulary, NULL), LH_OK);
    expect_text(lh_vocabulary_bytes(vocabulary, 260), " a  \u00E9");
    expect_text(lh_vocabulary_bytes(vocabulary, 259), "   ");
    expect_text(lh_vocabulary_bytes(vocabulary, 65), "A");
    assert_int_equal(lh_vocabulary_find(vocabulary, " a  \u00E9", 6), 260);
    /* a byte token is no normal one */
    assert_int_equal(lh_vocabulary_find(vocabulary, "A", 1), -1);
    lh_vocabulary_destroy(vocabulary);
    lh_error error;
    file.tokens[260] = "a\xE2\x96";
    assert_int_equal(create_spm(&file, &vocabulary, &error), LH_ERR_MALFORMED);
    assert_string_equal(error.message, "tokenizer.ggml.tokens[260] is not UTF-8");
    file.tokens[260] = "<0x41";
    file.types[260] = 6;
    assert_int_equal(create_spm(&file, &vocabulary, &error), LH_ERR_MALFORMED);
    assert_string_equal(error.message, "tokenizer.ggml.tokens[260] is no name of a byte");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_type_bytes_and_name),
        cmocka_unit_test(finds_normal_tokens_by_their_bytes),
        cmocka_unit_test(without_types_all_are_normal),
        cmocka_unit_test(of_sentencepiece_without_types_bytes_have_names),
        cmocka_unit_test(marks_are_control_tokens_whatever_their_type_is),
        cmocka_unit_test(what_a_merge_makes_is_text),
        cmocka_unit_test(refuses_lists_of_the_wrong_length),
        cmocka_unit_test(refuses_types_out_of_range),
        cmocka_unit_test(refuses_texts_that_are_no_tokens),
        cmocka_unit_test(refuses_lists_of_the_wrong_kind),
        cmocka_unit_test(survives_no_memory),
        cmocka_unit_test(reads_the_spelling_of_sentencepiece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
