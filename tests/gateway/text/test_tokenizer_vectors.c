/* The tokenizer on a real vocabulary: equal to the `tokenizers` library on the texts of
 * tests/vectors/tokenizer.json, for every pre-tokenizer; linear time; decoding gives the text back.
 */
#include "gateway/text/tokenizer.h"
#include "tests/gateway/support/model_vocabulary.h"
#include "tests/gateway/support/random_text.h"
#include "tests/support/growth.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_BYTES (1U << 16)

static model_vocabulary *model;
static json_t *vectors;

static void check_case(const lh_tokenizer *tokenizer, const char *pre, size_t number, json_t *text,
                       json_t *ids) {
    lh_tokens tokens = {0};
    lh_error error;
    lh_status status = lh_tokenizer_encode(tokenizer, json_string_value(text),
                                           json_string_length(text), false, &tokens, &error);
    if (status)
        fail_msg("%s, case %zu: %s", pre, number, error.message);
    bool same = tokens.count == json_array_size(ids);
    for (size_t i = 0; i < tokens.count && same; i++)
        same = tokens.ids[i] == json_integer_value(json_array_get(ids, i));
    if (!same) {
        char *wanted = json_dumps(ids, JSON_COMPACT),
             *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        print_error("%s, case %zu: %s\n  wanted %s\n  got    [", pre, number, quoted, wanted);
        for (size_t i = 0; i < tokens.count; i++)
            print_error("%u,", tokens.ids[i]);
        fail_msg("]");
    }
    free(tokens.ids);
}

static void equals_the_library(void **state) {
    (void)state;
    json_t *names = json_object_get(vectors, "pre"), *cases = json_object_get(vectors, "cases");
    assert_true(json_array_size(cases) >= 1000);
    for (size_t k = 0; k < json_array_size(names); k++) {
        const char *pre = json_string_value(json_array_get(names, k));
        lh_tokenizer *tokenizer =
            model_vocabulary_tokenizer(model, (model_vocabulary_options){.pre = pre});
        for (size_t i = 0; i < json_array_size(cases); i++) {
            json_t *pair = json_array_get(cases, i), *all = json_array_get(pair, 1);
            size_t at = k; /* null: as before */
            while (json_is_null(json_array_get(all, at)))
                at--;
            check_case(tokenizer, pre, i, json_array_get(pair, 0), json_array_get(all, at));
        }
        lh_tokenizer_destroy(tokenizer);
    }
}

static char *decode(const lh_tokenizer *tokenizer, const lh_tokens *tokens, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes;
        size_t count;
        assert_int_equal(lh_tokenizer_token_bytes(tokenizer, tokens->ids[i], &bytes, &count),
                         LH_OK);
        fwrite(bytes, 1, count, out);
    }
    fclose(out);
    return text;
}

/* The model's vocabulary lacks 21 bytes; the texts that hold none of them come back as they were.
 */
static void decoding_gives_the_text_back(void **state) {
    (void)state;
    lh_tokenizer *tokenizer =
        model_vocabulary_tokenizer(model, (model_vocabulary_options){.pre = "smollm"});
    json_t *cases = json_object_get(vectors, "cases");
    size_t same = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *text = json_array_get(json_array_get(cases, i), 0);
        lh_tokens tokens = {0};
        size_t length;
        assert_int_equal(lh_tokenizer_encode(tokenizer, json_string_value(text),
                                             json_string_length(text), false, &tokens, NULL),
                         LH_OK);
        char *again = decode(tokenizer, &tokens, &length);
        assert_true(length <= json_string_length(text));
        if (length == json_string_length(text)) {
            assert_memory_equal(again, json_string_value(text), length);
            same++;
        }
        free(again);
        free(tokens.ids);
    }
    assert_true(same * 10 > json_array_size(cases) * 8);
    lh_tokenizer_destroy(tokenizer);
}

/* has[byte]: some token is this byte alone. */
static void find_bytes(const lh_tokenizer *tokenizer, bool has[256]) {
    for (uint32_t token = 0; token < lh_tokenizer_vocabulary(tokenizer); token++) {
        const char *bytes;
        size_t length;
        if (lh_tokenizer_token_bytes(tokenizer, token, &bytes, &length) == LH_OK && length == 1)
            has[(uint8_t)bytes[0]] = true;
    }
}

static bool has_all(const bool has[256], const char *text, size_t length) {
    size_t at = 0;
    while (at < length && has[(uint8_t)text[at]])
        at++;
    return at == length;
}

static void check_round_trip(const lh_tokenizer *tokenizer, const char *text, size_t length) {
    lh_tokens tokens = {0};
    size_t at = 0;
    assert_int_equal(lh_tokenizer_encode_inside(tokenizer, text, length, false, &tokens, NULL),
                     LH_OK);
    for (size_t i = 0; i < tokens.count; i++) {
        const char *bytes;
        size_t count;
        assert_int_equal(lh_tokenizer_token_bytes(tokenizer, tokens.ids[i], &bytes, &count), LH_OK);
        assert_true(count <= length - at);
        assert_memory_equal(bytes, text + at, count);
        at += count;
    }
    assert_int_equal(at, length);
    free(tokens.ids);
}

/* In words of every kind, of characters whose bytes the vocabulary has. As a part of an answer
 * nothing is composed or put in front. */
static void random_texts_come_back(void **state) {
    (void)state;
    json_t *names = json_object_get(vectors, "pre");
    size_t kinds = json_array_size(names), wanted = random_texts_wanted() / kinds;
    uint64_t random = 16;
    for (size_t k = 0; k < kinds; k++) {
        bool has[256] = {false};
        lh_tokenizer *tokenizer = model_vocabulary_tokenizer(
            model, (model_vocabulary_options){.pre = json_string_value(json_array_get(names, k))});
        find_bytes(tokenizer, has);
        for (size_t checked = 0; checked < wanted;) {
            char text[RANDOM_TEXT_BYTES];
            size_t length = random_text(&random, text);
            if (!has_all(has, text, length))
                continue;
            check_round_trip(tokenizer, text, length);
            checked++;
        }
        lh_tokenizer_destroy(tokenizer);
    }
}

static void creation_reads_the_special_tokens(void **state) {
    (void)state;
    lh_tokenizer *tokenizer;
    assert_int_equal(lh_tokenizer_create(model_vocabulary_gguf(model), &tokenizer, NULL), LH_OK);
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_int_equal(count, 2);
    assert_int_equal(stops[0], 2); /* <|im_end|> */
    assert_int_equal(stops[1], 0); /* <|endoftext|> */
    assert_int_equal(lh_tokenizer_bos(tokenizer), 1);
    assert_false(lh_tokenizer_adds_bos(tokenizer));
    lh_tokenizer_destroy(tokenizer);
}

typedef struct run {
    const char *name, *unit;
} run;

static void fill(char *text, size_t size, const run *how) {
    if (strcmp(how->name, "CJK") == 0) {
        uint32_t seed = 1;
        for (size_t i = 0; i + 3 <= size; i += 3) {
            seed = seed * 1664525U + 1013904223U;
            uint32_t code = 0x4E00 + (seed >> 16) % 0x51A5;
            text[i] = (char)(0xE0 | code >> 12);
            text[i + 1] = (char)(0x80 | (code >> 6 & 63));
            text[i + 2] = (char)(0x80 | (code & 63));
        }
        text[size - 1] = '.';
        return;
    }
    size_t length = strlen(how->unit);
    for (size_t i = 0; i < size; i++)
        text[i] = i < size - size % length ? how->unit[i % length] : '.';
}

typedef struct encoding {
    const lh_tokenizer *tokenizer;
    const run *how;
} encoding;

static void encode(void *context, size_t size) {
    const encoding *e = context;
    char *text = malloc(size);
    fill(text, size, e->how);
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode(e->tokenizer, text, size, true, &tokens, NULL), LH_OK);
    assert_true(tokens.count > 0);
    free(tokens.ids);
    free(text);
}

static void takes_linear_time(void **state) {
    (void)state;
    static const run runs[] = {
        {"one letter", "a"},
        {"capitals", "A"},
        {"spaces", " "},
        {"emoji", "😀"},
        {"digits", "7"},
        {"newlines", "\n"},
        {"'s", "'s"},
        {"CJK", ""},
        {"one CJK", "中"},
        {"punctuation", "="},
        {"spaces, newlines", " \n"},
        {"combining", "\u0301"},
        {"apostrophes", "'"},
        {"ZWJ family", "👨‍👩‍👧"},
        {"letters", "ab"},
        {"spaces, then a letter", "                               x"},
        {"English", "the quick brown fox, isn't it? "},
        {"bytes that are never joined", "\xF3\xBF\xBF\xBD\xF0\x90\x8C\x80\xEA\x99\xAE"},
        {"carriage returns", "\r"},
        {"spaces, line ends, a letter", "        \r\n        \n\r        x"},
        {"ideographic spaces", "\u3000"},
        {"capitals and CJK", "AAAAAAAA中"},
        {"half of a special token", "<|im_"},
        {"special tokens", "<|im_end|>"},
        {"marks out of order", "\u0327\u0301\u0323"},
        {"jamo", "\u1112\u1161\u11ab"},
    };
    static const char *const pres[] = {"smollm",     "llama-bpe",      "tekken",  "qwen2",
                                       "seed-coder", "deepseek-coder", "kimi-k2", "exaone-moe"};
    for (size_t k = 0; k < sizeof pres / sizeof pres[0]; k++) {
        lh_tokenizer *tokenizer =
            model_vocabulary_tokenizer(model, (model_vocabulary_options){.pre = pres[k]});
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            encoding e = {tokenizer, &runs[i]};
            assert_true(growth_of(runs[i].name, encode, &e, LONG_BYTES) < GROWTH_LINEAR_MAX);
        }
        lh_tokenizer_destroy(tokenizer);
    }
}

int main(void) {
    model = model_vocabulary_open("LONGHAUL_TEST_MODEL");
    if (!model)
        return 77;
    json_error_t error;
    vectors = json_load_file(TEST_SOURCE_DIR "/vectors/tokenizer.json", JSON_ALLOW_NUL, &error);
    if (!vectors) {
        fprintf(stderr, "vectors/tokenizer.json: %s\n", error.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_library),
        cmocka_unit_test(decoding_gives_the_text_back),
        cmocka_unit_test(random_texts_come_back),
        cmocka_unit_test(creation_reads_the_special_tokens),
        cmocka_unit_test(takes_linear_time),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(vectors);
    model_vocabulary_close(model);
    return failed;
}
