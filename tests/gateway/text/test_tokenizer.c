/* The tokenizer on small vocabularies of the test's own: its parts together, segments, what the
 * file says. Equality with the `tokenizers` library on a real one is test_tokenizer_vectors. */
#include "gateway/text/tokenizer.h"
#include "tests/gateway/support/small_vocabulary.h"
#include "tests/support/failing_malloc.h"

#include <iconv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_status create(const small_vocabulary *file, lh_tokenizer **tokenizer, lh_error *error) {
    small_gguf opened = small_vocabulary_open(file);
    *tokenizer = NULL;
    lh_status status = lh_tokenizer_create(opened.gguf, tokenizer, error);
    small_gguf_close(&opened); /* nothing of the file may be needed any more */
    return status;
}

static lh_tokenizer *create_sound(const small_vocabulary *file) {
    lh_tokenizer *tokenizer;
    lh_error error;
    if (create(file, &tokenizer, &error))
        fail_msg("%s", error.message);
    return tokenizer;
}

static void expect(const lh_tokenizer *tokenizer, const char *text, bool parse_special,
                   const char *wanted) {
    lh_tokens tokens = {0};
    char got[512] = "";
    assert_int_equal(
        lh_tokenizer_encode(tokenizer, text, strlen(text), parse_special, &tokens, NULL), LH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i ? " " : "", tokens.ids[i]);
    assert_string_equal(got, wanted);
    free(tokens.ids);
}

static void expect_refusal(const small_vocabulary *file, lh_status wanted, const char *words) {
    lh_tokenizer *tokenizer;
    lh_error error;
    lh_status status = create(file, &tokenizer, &error);
    if (status != wanted)
        fail_msg("%s, not %s (%s)", lh_status_name(status), lh_status_name(wanted), words);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(tokenizer);
}

static void merges_and_decodes(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    lh_tokenizer *tokenizer = create_sound(&file);
    assert_int_equal(lh_tokenizer_vocabulary(tokenizer), 267);
    expect(tokenizer, "hello", false, "259");
    expect(tokenizer, "hell hello", false, "258 32 259");
    expect(tokenizer, "helhello w", false, "256 108 259 260");
    expect(tokenizer, "", false, "");
    expect(tokenizer, "\xC3\xA9", false, "195 169");
    const char *bytes;
    size_t length;
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 260, &bytes, &length), LH_OK);
    assert_true(length == 2 && memcmp(bytes, " w", 2) == 0);
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 0, &bytes, &length), LH_OK);
    assert_true(length == 1 && bytes[0] == 0);
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 266, &bytes, &length), LH_OK);
    assert_true(length == 2 && memcmp(bytes, "  ", 2) == 0);
    for (uint32_t special = 261; special <= 265; special++) {
        assert_int_equal(lh_tokenizer_token_bytes(tokenizer, special, &bytes, &length), LH_OK);
        assert_int_equal(length, special == 263 ? 4 : 0);
        assert_int_equal(lh_tokenizer_token_name(tokenizer, special, &bytes, &length), LH_OK);
        assert_string_equal(bytes, file.tokens[special]);
    }
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 267, &bytes, &length), LH_ERR_LIMIT);
    assert_int_equal(lh_tokenizer_token_name(tokenizer, UINT32_MAX, &bytes, &length), LH_ERR_LIMIT);
    lh_tokenizer_destroy(tokenizer);
}

static void special_tokens_are_for_templates(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "<s>", true, "261");
    expect(tokenizer, "<s>", false, "60 115 62");
    expect(tokenizer, "<s>x<s>y<s", true, "262 261 121 60 115"); /* the longest, and not a part */
    /* an unused token is never found */
    expect(tokenizer, "<unk><x>", true, "264 60 120 62");
    expect(tokenizer, "<unk>", false, "60 117 110 107 62");
    expect(tokenizer, "a[ud]hello", false, "97 263 259"); /* user-defined tokens are text */
    expect(tokenizer, "a[ud]hello", true, "97 263 259");
    expect(tokenizer, "a   b", false, "97 266 32 98");
    lh_tokenizer_destroy(tokenizer);
}

static void segments_are_one_text(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    lh_tokenizer *tokenizer = create_sound(&file);
    const struct {
        lh_text_segment segments[4];
        size_t count;
        const char *wanted;
    } cases[] = {
        {{{"he", 2, true}, {"ll", 2, false}, {"o", 1, true}}, 3, "259"},
        {{{"<s>", 3, true}, {"<s>", 3, false}, {"<s>", 3, true}}, 3, "261 60 115 62 261"},
        {{{"<s", 2, true}, {">", 1, false}}, 2, "60 115 62"},
        {{{"<s", 2, false}, {">", 1, true}}, 2, "60 115 62"},
        {{{"<s", 2, true}, {">x", 2, true}}, 2, "262"},
        /* the longer one is not all of the template's */
        {{{"<s>", 3, true}, {"x", 1, false}}, 2, "261 120"},
        {{{"[u", 2, false}, {"d]", 2, true}}, 2, "263"},
        {{{"", 0, true}, {"<s>", 3, true}, {"", 0, false}, {"", 0, true}}, 4, "261"},
        {{{"a", 1, false}, {"", 0, true}, {"<s>", 3, false}, {"<s>", 3, true}},
         4,
         "97 60 115 62 261"},
        {{{NULL, 0, false}}, 1, ""},
        {{{NULL, 0, false}}, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_tokens tokens = {0};
        char got[256] = "";
        assert_int_equal(lh_tokenizer_encode_segments(tokenizer, cases[i].segments, cases[i].count,
                                                      &tokens, NULL),
                         LH_OK);
        for (size_t t = 0; t < tokens.count; t++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", t ? " " : "",
                     tokens.ids[t]);
        assert_string_equal(got, cases[i].wanted);
        free(tokens.ids);
    }
    lh_tokenizer_destroy(tokenizer);
}

/* "ignore_merges": llama-bpe takes a word that is a token as it is, though no merge leads there. */
static void whole_words_first(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "abc", 1);
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "abc", false, "97 98 99");
    lh_tokenizer_destroy(tokenizer);
    file.pre = "llama-bpe";
    tokenizer = create_sound(&file);
    expect(tokenizer, "abc abcd", false, "256 32 97 98 99 100");
    lh_tokenizer_destroy(tokenizer);
}

static void refusals_of_the_parts_come_through(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.tokens[258] = "he";
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.tokens[258] is the same as tokens[256]");
    file = small_vocabulary_rich();
    file.merges[2] = "zz a";
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "merges[2] has a left symbol that is not in the vocabulary");
    file = small_vocabulary_rich();
    file.tokens[262] = "<s>";
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.tokens[262] is the same as tokens[261]");
}

static void sentencepiece_works_between_special_tokens(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_spm();
    small_vocabulary_piece(&file, "\u2581", 0);
    small_vocabulary_piece(&file, "\u2581a", -1); /* 261 */
    small_vocabulary_piece(&file, "a", -2);
    file.bos = 257;
    lh_tokenizer *tokenizer = create_sound(&file);
    assert_true(lh_tokenizer_adds_bos(tokenizer));
    expect(tokenizer, "", true, "");
    expect(tokenizer, "a", false, "261");
    expect(tokenizer, "a<s>a", true, "261 257 261");
    expect(tokenizer, "<s><s>", true, "257 257");
    /* as llama.cpp and the `tokenizers` library have it */
    expect(tokenizer, "[ud]a", false, "258 261");
    expect(tokenizer, "aa[ud] a", false, "261 262 258 260 261");
    expect(tokenizer, "a   a", false, "261 259 261"); /* three spaces are user-defined */
    expect(tokenizer, "a<s>", false, "261 60 115 62");
    lh_text_segment segments[] = {{"<s>", 3, true}, {"a", 1, false}, {"a", 1, true}};
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode_segments(tokenizer, segments, 3, &tokens, NULL), LH_OK);
    assert_int_equal(tokens.count, 3);
    assert_int_equal(tokens.ids[2], 262);
    free(tokens.ids);
    lh_tokenizer_destroy(tokenizer);
    file.add_bos = 0;
    tokenizer = create_sound(&file);
    assert_false(lh_tokenizer_adds_bos(tokenizer));
    lh_tokenizer_destroy(tokenizer);
}

static void refuses_what_it_does_not_know(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.model = "t5";
    expect_refusal(&file, LH_ERR_UNSUPPORTED, "tokenizer.ggml.model \"t5\"");
    file.model = NULL;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.model");
    file = small_vocabulary_rich();
    file.pre = "martian";
    expect_refusal(&file, LH_ERR_UNSUPPORTED, "tokenizer.ggml.pre \"martian\" is not supported");
    static const char *const ids[] = {"bos", "eos", "eot", "eom"};
    for (size_t i = 0; i < 4; i++) {
        char words[64];
        file = small_vocabulary_rich();
        *(int64_t *[]){&file.bos, &file.eos, &file.eot, &file.eom}[i] = 267;
        snprintf(words, sizeof words,
                 "tokenizer.ggml.%s_token_id is 267, the vocabulary has 267 tokens", ids[i]);
        expect_refusal(&file, LH_ERR_MALFORMED, words);
    }
}

static void a_file_may_do_without(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.pre = NULL; /* taken as default */
    file.type_count = 0;
    file.tokens[266] = "\u0120\u0120"; /* without types, all are normal */
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "hello<s>", true, "259 60 115 62");
    uint32_t count;
    lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_int_equal(count, 0);
    assert_int_equal(lh_tokenizer_bos(tokenizer), -1);
    assert_int_equal(lh_tokenizer_eos(tokenizer), -1);
    lh_tokenizer_destroy(tokenizer);
}

/* A byte token is text; a byte that the vocabulary lacks is dropped, and its neighbours meet. */
static void bytes_may_be_named_or_missing(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.tokens['q'] = "qqq";
    small_vocabulary_add(&file, "<0x0A>", 6);
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "qhqeqllqo", false, "259");
    expect(tokenizer, "qq", false, "");
    const char *bytes;
    size_t length;
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 267, &bytes, &length), LH_OK);
    assert_true(length == 1 && bytes[0] == '\n');
    lh_tokenizer_destroy(tokenizer);
}

static void knows_the_ends(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<|im_end|>", 3);    /* 267: by name */
    small_vocabulary_add(&file, "<|endoftext|>", 1); /* 268: by name, whatever the file says */
    small_vocabulary_add(&file, "<|eot_id|>", 3);    /* 269 */
    file.eos = 261;
    file.eot = 269;
    file.eom = 261; /* the same again */
    lh_tokenizer *tokenizer = create_sound(&file);
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_int_equal(count, 4);
    assert_true(stops[0] == 261 && stops[1] == 269 && stops[2] == 267 && stops[3] == 268);
    assert_int_equal(lh_tokenizer_eos(tokenizer), 261);
    lh_tokenizer_destroy(tokenizer);
}

/* An answer of several messages goes on behind <|end|>; elsewhere that ends it. */
static void messages_of_one_answer_stay_together(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<|end|>", 3); /* 267 */
    small_vocabulary_add(&file, "<|return|>", 3);
    lh_tokenizer *tokenizer = create_sound(&file);
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_true(count == 2 && stops[0] == 267 && stops[1] == 268);
    lh_tokenizer_destroy(tokenizer);
    file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<|end|>", 3);
    small_vocabulary_add(&file, "<|return|>", 3);
    small_vocabulary_add(&file, "<|call|>", 3);
    tokenizer = create_sound(&file);
    stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_true(count == 2 && stops[0] + stops[1] == 268 + 269);
    lh_tokenizer_destroy(tokenizer);
}

static void bos_is_as_the_file_says(void **state) {
    (void)state;
    static const struct {
        const char *pre;
        int64_t bos;
        int add_bos;
        bool wanted;
    } cases[] = {
        {"gpt-2", 261, -1, false},    {"gpt-2", 261, 1, true}, {"llama-bpe", 261, -1, true},
        {"llama-bpe", 261, 0, false}, {"gpt-2", -1, 1, false}, {"tekken", 261, -1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_vocabulary file = small_vocabulary_rich();
        file.pre = cases[i].pre;
        file.bos = cases[i].bos;
        file.add_bos = cases[i].add_bos;
        lh_tokenizer *tokenizer = create_sound(&file);
        assert_int_equal(lh_tokenizer_adds_bos(tokenizer), cases[i].wanted);
        assert_int_equal(lh_tokenizer_bos(tokenizer), cases[i].bos);
        lh_tokenizer_destroy(tokenizer);
    }
}

/* By the C library's judgment. */
static bool is_utf8(iconv_t judge, const char *text, size_t length) {
    char out[256], *to = out, *from = (char *)text;
    size_t room = sizeof out;
    iconv(judge, NULL, NULL, NULL, NULL);
    return iconv(judge, &from, &length, &to, &room) != (size_t)-1;
}

static void random_bytes_are_taken_if_they_are_utf8(void **state) {
    (void)state;
    static const uint8_t likely[] = {'a',  ' ',  0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                     0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED,
                                     0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 0};
    small_vocabulary file = small_vocabulary_rich();
    lh_tokenizer *tokenizer = create_sound(&file);
    iconv_t judge = iconv_open("UTF-32LE", "UTF-8");
    size_t sound = 0;
    uint32_t random = 1;
    for (size_t i = 0; i < 200000; i++) {
        char text[8];
        size_t length = 1 + i % sizeof text;
        for (size_t k = 0; k < length; k++) {
            random = random * 1664525u + 1013904223u;
            uint32_t high = random >> 16;
            text[k] = (char)(i % 2 ? high : likely[high % sizeof likely]);
        }
        lh_tokens tokens = {0};
        bool is_sound = is_utf8(judge, text, length);
        assert_int_equal(lh_tokenizer_encode(tokenizer, text, length, true, &tokens, NULL),
                         is_sound ? LH_OK : LH_ERR_MALFORMED);
        sound += is_sound;
        free(tokens.ids);
    }
    assert_true(sound > 10000 && sound < 100000);
    iconv_close(judge);
    lh_tokenizer_destroy(tokenizer);
}

static void takes_utf8_only(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    lh_tokenizer *tokenizer = create_sound(&file);
    static const char *const texts[] = {"a\xFF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                        "\xC0\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lh_tokens tokens = {0};
        lh_error error;
        assert_int_equal(
            lh_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), true, &tokens, &error),
            LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, i ? "byte 0" : "byte 1"));
        assert_int_equal(tokens.count, 0);
    }
    lh_text_segment halves[] = {{"\xC3", 1, false}, {"\xA9", 1, false}}; /* the whole counts */
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode_segments(tokenizer, halves, 2, &tokens, NULL), LH_OK);
    assert_int_equal(tokens.count, 2);
    free(tokens.ids);
    lh_tokenizer_destroy(tokenizer);
}

static void survives_no_memory(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_gguf opened = small_vocabulary_open(&file);
    for (size_t n = 1;; n++) {
        lh_tokenizer *tokenizer = NULL;
        lh_tokens tokens = {0};
        lh_text_segment segments[] = {{"<s>he", 5, true}, {"llo w", 5, false}};
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = lh_tokenizer_create(opened.gguf, &tokenizer, &error);
        if (!status)
            status = lh_tokenizer_encode_segments(tokenizer, segments, 2, &tokens, &error);
        bool failed = failing_malloc_disarm();
        free(tokens.ids);
        lh_tokenizer_destroy(tokenizer);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
        assert_true(error.message[0] != '\0');
    }
    small_gguf_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_and_decodes),
        cmocka_unit_test(special_tokens_are_for_templates),
        cmocka_unit_test(segments_are_one_text),
        cmocka_unit_test(whole_words_first),
        cmocka_unit_test(refusals_of_the_parts_come_through),
        cmocka_unit_test(sentencepiece_works_between_special_tokens),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(a_file_may_do_without),
        cmocka_unit_test(bytes_may_be_named_or_missing),
        cmocka_unit_test(knows_the_ends),
        cmocka_unit_test(messages_of_one_answer_stay_together),
        cmocka_unit_test(bos_is_as_the_file_says),
        cmocka_unit_test(takes_utf8_only),
        cmocka_unit_test(random_bytes_are_taken_if_they_are_utf8),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
