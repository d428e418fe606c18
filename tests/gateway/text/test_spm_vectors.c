/* SentencePiece's tokenizer, equal to its library on the texts of tests/vectors/spm.json; decoding
 * gives the text back; linear time. LONGHAUL_TEST_SPM_MODEL and LONGHAUL_TEST_SPM_VECTORS take
 * another model's, see tests/vectors/make_spm_vectors.py. */
#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "gateway/text/tokenizer.h"
#include "tests/gateway/support/model_vocabulary.h"
#include "tests/gateway/support/random_text.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/growth.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_BYTES (1U << 16)

#define MODELS_MAX 4

static json_t *vectors;
static lh_tokenizer *tokenizers[MODELS_MAX];

static const char *name_of(size_t k) {
    return json_string_value(
        json_object_get(json_array_get(json_object_get(vectors, "models"), k), "name"));
}

static void check_case(size_t k, size_t number, json_t *text, json_t *ids) {
    lh_tokens tokens = {0};
    lh_error error;
    if (lh_tokenizer_encode(tokenizers[k], json_string_value(text), json_string_length(text), false,
                            &tokens, &error))
        fail_msg("%s, case %zu: %s", name_of(k), number, error.message);
    bool same = tokens.count == json_array_size(ids);
    for (size_t i = 0; i < tokens.count && same; i++)
        same = tokens.ids[i] == json_integer_value(json_array_get(ids, i));
    if (!same) {
        char *wanted = json_dumps(ids, JSON_COMPACT),
             *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        print_error("%s, case %zu: %s\n  wanted %s\n  got    [", name_of(k), number, quoted,
                    wanted);
        for (size_t i = 0; i < tokens.count; i++)
            print_error("%u,", tokens.ids[i]);
        fail_msg("]");
    }
    free(tokens.ids);
}

static void equals_the_library(void **state) {
    (void)state;
    json_t *cases = json_object_get(vectors, "cases");
    assert_true(json_array_size(cases) >= 300);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *pair = json_array_get(cases, i), *all = json_array_get(pair, 1);
        for (size_t k = 0; k < json_array_size(all); k++)
            check_case(k, i, json_array_get(pair, 0), json_array_get(all, k));
    }
}

static void check_round_trip(const lh_tokenizer *tokenizer, bool space, const char *text,
                             size_t length) {
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode(tokenizer, text, length, false, &tokens, NULL), LH_OK);
    char again[256];
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const char *bytes;
        size_t count;
        assert_int_equal(lh_tokenizer_token_bytes(tokenizer, tokens.ids[i], &bytes, &count), LH_OK);
        assert_true(at + count <= sizeof again);
        memcpy(again + at, bytes, count);
        at += count;
    }
    size_t skip = space && length ? 1 : 0;
    assert_int_equal(at, length + skip);
    assert_true(skip == 0 || again[0] == ' ');
    assert_memory_equal(again + skip, text, length);
    free(tokens.ids);
}

static void decoding_gives_the_text_back(void **state) {
    (void)state;
    size_t rounds = random_texts_wanted();
    json_t *models = json_object_get(vectors, "models");
    uint64_t random = 15;
    for (size_t k = 0; k < json_array_size(models); k++) {
        json_t *one = json_array_get(models, k);
        if (!json_object_get(one, "space") || strcmp(name_of(k), "no bytes") == 0)
            continue; /* another model: what it adds is not known; or characters are lost */
        for (size_t round = 0; round < rounds; round++) {
            char text[RANDOM_TEXT_BYTES];
            size_t length = random_text(&random, text);
            assert_int_equal(lh_utf8_valid_prefix(text, length), length);
            check_round_trip(tokenizers[k], json_is_true(json_object_get(one, "space")), text,
                             length);
        }
    }
}

/* Any tokens, one after the other through the streaming decoder: whole characters each time, and
 * together what decoding the bytes at once gives. Most byte tokens begin or break a character. */
static void tokens_stream_as_whole_characters(void **state) {
    (void)state;
    uint64_t random = 54;
    for (int round = 0; round < 10000; round++) {
        lh_text_decoder piecewise, whole;
        lh_text_buffer streamed = {0}, bytes = {0}, at_once = {0};
        lh_text_decoder_init(&piecewise);
        lh_text_decoder_init(&whole);
        for (size_t i = 0, count = test_random(&random) % 12; i < count; i++) {
            uint32_t all = lh_tokenizer_vocabulary(tokenizers[0]);
            /* the first are bytes */
            uint32_t token = (uint32_t)(test_random(&random) % (i % 3 ? 300 : all));
            const char *text;
            size_t length, before = streamed.length;
            assert_int_equal(lh_tokenizer_token_bytes(tokenizers[0], token % all, &text, &length),
                             LH_OK);
            assert_int_equal(lh_text_buffer_append(&bytes, text, length, NULL), LH_OK);
            assert_int_equal(lh_text_decoder_push(&piecewise, text, length, &streamed, NULL),
                             LH_OK);
            size_t fresh = streamed.length - before;
            assert_true(fresh == 0 ||
                        lh_utf8_valid_prefix(streamed.bytes + before, fresh) == fresh);
        }
        assert_int_equal(lh_text_decoder_finish(&piecewise, &streamed, NULL), LH_OK);
        if (bytes.length > 0)
            assert_int_equal(
                lh_text_decoder_push(&whole, bytes.bytes, bytes.length, &at_once, NULL), LH_OK);
        assert_int_equal(lh_text_decoder_finish(&whole, &at_once, NULL), LH_OK);
        assert_int_equal(streamed.length, at_once.length);
        if (streamed.length > 0)
            assert_memory_equal(streamed.bytes, at_once.bytes, streamed.length);
        lh_text_buffer_reset(&streamed);
        lh_text_buffer_reset(&at_once);
        lh_text_buffer_reset(&bytes);
    }
}

typedef struct encoding {
    const lh_tokenizer *tokenizer;
    const char *unit;
} encoding;

static void encode(void *context, size_t size) {
    const encoding *e = context;
    size_t length = strlen(e->unit);
    char *text = malloc(size);
    for (size_t at = 0; at < size; at++)
        text[at] = at < size - size % length ? e->unit[at % length] : '.';
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode(e->tokenizer, text, size, true, &tokens, NULL), LH_OK);
    assert_true(tokens.count > 0);
    free(tokens.ids);
    free(text);
}

static void takes_linear_time(void **state) {
    (void)state;
    static const char *const units[] = {"a",
                                        "A",
                                        " ",
                                        "\n",
                                        "7",
                                        "=",
                                        "the",
                                        "中",
                                        "😀",
                                        "\u0301",
                                        "▁",
                                        " \n",
                                        "e the quick brown fox, isn't it? 1234 ",
                                        "\xF3\xBF\xBF\xBD\xF0\x90\x8C\x80\xEA\x99\xAE",
                                        "\r",
                                        "\t",
                                        "<start_of_",
                                        "<unused",
                                        "<end_of_turn>",
                                        "                               x"};
    for (size_t k = 0; tokenizers[k]; k++)
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            encoding e = {tokenizers[k], units[i]};
            const char *name = units[i][0] == '\n' ? "newline" : units[i];
            assert_true(growth_of(name, encode, &e, LONG_BYTES) < GROWTH_LINEAR_MAX);
        }
}

static const char **texts_of(json_t *list) {
    const char **texts = calloc(json_array_size(list), sizeof *texts);
    for (size_t i = 0; i < json_array_size(list); i++)
        texts[i] = json_string_value(json_array_get(list, i));
    return texts;
}

static void create_small(size_t k, json_t *one) {
    json_t *tokens = json_object_get(one, "tokens");
    size_t count = json_array_size(tokens), length;
    float *scores = calloc(count, sizeof *scores);
    int32_t *types = calloc(count, sizeof *types);
    for (size_t i = 0; i < count; i++) {
        scores[i] = (float)json_number_value(json_array_get(json_object_get(one, "scores"), i));
        types[i] = (int32_t)json_integer_value(json_array_get(json_object_get(one, "types"), i));
    }
    const char **texts = texts_of(tokens);
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "tokenizer.ggml.model", "llama");
    gguf_writer_text_array(writer, "tokenizer.ggml.tokens", texts, count);
    gguf_writer_f32_array(writer, "tokenizer.ggml.scores", scores, count);
    gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", types, count);
    gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix",
                     json_is_true(json_object_get(one, "space")));
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    lh_gguf *gguf;
    lh_error error;
    if (lh_gguf_parse(bytes, length, length, &gguf, &error) ||
        lh_tokenizer_create(gguf, &tokenizers[k], &error))
        fprintf(stderr, "%s: %s\n", name_of(k), error.message), abort();
    lh_gguf_destroy(gguf);
    free(bytes);
    free((void *)texts);
    free(types);
    free(scores);
}

static int create_tokenizers(void **state) {
    (void)state;
    json_t *models = json_object_get(vectors, "models");
    lh_error error;
    for (size_t k = 0; k < json_array_size(models); k++) {
        if (json_object_get(json_array_get(models, k), "tokens")) {
            create_small(k, json_array_get(models, k));
            continue;
        }
        model_vocabulary *model = model_vocabulary_open("LONGHAUL_TEST_SPM_MODEL");
        if (!model || lh_tokenizer_create(model_vocabulary_gguf(model), &tokenizers[k], &error))
            return 1;
        model_vocabulary_close(model);
    }
    return 0;
}

static int destroy_tokenizers(void **state) {
    (void)state;
    for (size_t k = 0; k < MODELS_MAX; k++)
        lh_tokenizer_destroy(tokenizers[k]);
    return 0;
}

int main(void) {
    const char *path = getenv("LONGHAUL_TEST_SPM_VECTORS");
    json_error_t error;
    vectors =
        json_load_file(path ? path : TEST_SOURCE_DIR "/vectors/spm.json", JSON_ALLOW_NUL, &error);
    if (!vectors) {
        fprintf(stderr, "%s: %s\n", path ? path : "vectors/spm.json", error.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_library),
        cmocka_unit_test(decoding_gives_the_text_back),
        cmocka_unit_test(tokens_stream_as_whole_characters),
        cmocka_unit_test(takes_linear_time),
    };
    int failed = cmocka_run_group_tests(tests, create_tokenizers, destroy_tokenizers);
    json_decref(vectors);
    return failed;
}
