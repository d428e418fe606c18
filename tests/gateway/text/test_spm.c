/* SentencePiece's BPE on small vocabularies: order of joining, spaces, unknown characters, hostile
 * files. */
#include "gateway/text/spm.h"
#include "tests/gateway/support/small_vocabulary.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct setup {
    lh_vocabulary *vocabulary;
    lh_spm *spm;
} setup;

static lh_status open_spm(const small_vocabulary *file, setup *made, lh_error *error) {
    small_gguf opened = small_vocabulary_open(file);
    *made = (setup){0};
    lh_status status =
        lh_vocabulary_create(opened.gguf, LH_SPELLING_SENTENCEPIECE, &made->vocabulary, error);
    if (!status)
        status = lh_spm_create(opened.gguf, made->vocabulary, &made->spm, error);
    small_gguf_close(&opened);
    return status;
}

static void close_spm(setup *made) {
    lh_spm_destroy(made->spm);
    lh_vocabulary_destroy(made->vocabulary);
}

static setup open_sound(const small_vocabulary *file) {
    setup made;
    lh_error error;
    if (open_spm(file, &made, &error))
        fail_msg("%s", error.message);
    return made;
}

/* The ids, with spaces between. */
static void expect(const setup *made, const char *text, bool begins, const char *wanted) {
    char got[512] = "";
    lh_spm_work work = {0};
    lh_tokens tokens = {0};
    assert_int_equal(lh_spm_encode(made->spm, &work, text, strlen(text), begins, &tokens, NULL),
                     LH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i ? " " : "", tokens.ids[i]);
    assert_string_equal(got, wanted);
    free(tokens.ids);
    lh_spm_work_reset(&work);
}

static small_vocabulary of_pieces(const char *const *pieces, const float *scores, size_t count) {
    small_vocabulary file = small_vocabulary_spm();
    file.add_space = 0;
    for (size_t i = 0; i < count; i++)
        small_vocabulary_piece(&file, pieces[i], scores[i]);
    return file;
}

static void the_highest_score_is_joined_first(void **state) {
    (void)state;
    static const char *const pieces[] = {"a", "b", "c", "ab", "bc", "abc"};
    static const float falling[] = {0, 0, 0, -1, -2, -9}, rising[] = {0, 0, 0, -2, -1, -9};
    small_vocabulary file = of_pieces(pieces, falling, 6);
    setup made = open_sound(&file);
    expect(&made, "abc", true, "265");
    expect(&made, "bcab", true, "264 263");
    close_spm(&made);
    file = of_pieces(pieces, rising, 5); /* without "abc" */
    made = open_sound(&file);
    expect(&made, "abc", true, "260 264");
    expect(&made, "ababc", true, "263 260 264");
    close_spm(&made);
}

static void among_equals_the_leftmost(void **state) {
    (void)state;
    static const char *const pieces[] = {"a", "b", "aa", "ab", "ba"};
    static const float scores[] = {0, 0, -0.0F, 0, 0}; /* -0 is 0 */
    small_vocabulary file = of_pieces(pieces, scores, 5);
    setup made = open_sound(&file);
    expect(&made, "aaa", true, "262 260");
    expect(&made, "aba", true, "263 260");
    expect(&made, "bab", true, "264 261");
    expect(&made, "aab", true, "262 261");
    close_spm(&made);
}

/* Two parts make a token, whatever they are: "bc" need not be one, nor the character "é". */
static void only_the_whole_must_be_a_token(void **state) {
    (void)state;
    static const char *const pieces[] = {"a", "b", "c", "\u00E9c", "ab", "abc"};
    static const float scores[] = {0, 0, 0, -1, -2, -3};
    small_vocabulary file = of_pieces(pieces, scores, 6);
    setup made = open_sound(&file);
    expect(&made, "\u00E9cabc", true, "263 265");
    expect(&made, "\u00E9a", true, "195 169 260");
    close_spm(&made);
}

static void spaces(void **state) {
    (void)state;
    static const char *const pieces[] = {"\u2581", "a", "\u2581a", "\u2581\u2581"};
    static const float scores[] = {0, 0, -1, -2};
    small_vocabulary file = of_pieces(pieces, scores, 4);
    setup made = open_sound(&file);
    expect(&made, "a a", true, "261 262");
    expect(&made, "a\u2581a", true, "261 262");
    expect(&made, "a   a ", true, "261 263 262 260");
    expect(&made, "\u2581", true, "260");
    expect(&made, "\xE2\x96\x82", true, "226 150 130");
    close_spm(&made);
    /* where it is absent, too */
    for (file.add_space = -1; file.add_space <= 1; file.add_space += 2) {
        made = open_sound(&file);
        expect(&made, "", true, "");
        expect(&made, "a a", true, "262 262");
        expect(&made, " a", true, "260 262");
        expect(&made, "  a", true, "263 262");
        expect(&made, "a a", false, "261 262");
        expect(&made, "\u2581a", false, "262");
        close_spm(&made);
    }
}

static void characters_without_a_token(void **state) {
    (void)state;
    static const char *const pieces[] = {"a", "\u4E2D"};
    static const float scores[] = {0, 0};
    small_vocabulary file = of_pieces(pieces, scores, 2);
    setup made = open_sound(&file);
    expect(&made, "a\n\u4E2D\u6587", true, "260 10 261 230 150 135");
    expect(&made, "\U0001F600", true, "240 159 152 128");
    close_spm(&made);
    for (size_t byte = 0; byte < 256; byte++)
        file.types[byte] = 5;
    made = open_sound(&file); /* one unknown token for a row */
    expect(&made, "a\u6587\n\U0001F600 a\u6587", true, "260 256 260 256");
    close_spm(&made);
    file.unknown = 258;
    made = open_sound(&file);
    expect(&made, "\u6587\u4E2D", false, "258 261");
    close_spm(&made);
}

/* A vocabulary over the letters a, b, c and the space, with pieces of up to 6. */
#define PIECES_MAX 60

static void fill_random(small_vocabulary *file, char (*pieces)[8], uint64_t *random) {
    static const char letters[] = "abc ";
    *file = small_vocabulary_spm();
    file->add_space = 0;
    for (size_t i = 0; i < 4; i++)
        snprintf(pieces[i], sizeof pieces[i], "%c", letters[i]);
    size_t count = 4;
    for (int tries = 0; tries < 200 && count < PIECES_MAX; tries++) {
        char piece[8] = "";
        size_t length = 2 + test_random(random) % 5;
        for (size_t i = 0; i < length; i++) /* few spaces inside, so that texts are cut */
            piece[i] = i == 0 || test_random(random) % 16 == 0 ? letters[test_random(random) % 4]
                                                               : letters[test_random(random) % 3];
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || strcmp(pieces[i], piece) == 0;
        if (!known)
            memcpy(pieces[count++], piece, sizeof piece);
    }
    for (size_t i = 0; i < count; i++)
        /* with equal ones */
        small_vocabulary_piece(file, pieces[i], -(float)(test_random(random) % 20));
}

/* By definition: as long as two neighbours together are a piece, those of the highest score are
 * joined, the leftmost first. */
static size_t join_slowly(const small_vocabulary *file, char (*symbols)[64], size_t count) {
    for (;;) {
        size_t best = count;
        float best_score = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t left = strlen(symbols[i]);
            for (size_t token = 260; token < file->token_count; token++)
                if (strncmp(file->tokens[token], symbols[i], left) == 0 &&
                    strcmp(file->tokens[token] + left, symbols[i + 1]) == 0 &&
                    (best == count || file->scores[token] > best_score)) {
                    best = i;
                    best_score = file->scores[token];
                }
        }
        if (best == count)
            return count;
        char right[64];
        memcpy(right, symbols[best + 1], sizeof right);
        strcat(symbols[best], right);
        memmove(symbols[best + 1], symbols[best + 2], (count - best - 2) * sizeof *symbols);
        count--;
    }
}

static void joins_in_the_defined_order(void **state) {
    (void)state;
    uint64_t random = 6;
    static char pieces[PIECES_MAX][8], symbols[48][64];
    for (int round = 0; round < 150; round++) {
        small_vocabulary file;
        fill_random(&file, pieces, &random);
        setup made = open_sound(&file);
        lh_spm_work work = {0};
        for (int text = 0; text < 40; text++) {
            char bytes[48] = "";
            size_t length = 1 + test_random(&random) % 40;
            for (size_t i = 0; i < length; i++) {
                bytes[i] = "abc "[test_random(&random) % 4];
                snprintf(symbols[i], sizeof symbols[i], "%c", bytes[i]);
            }
            size_t count = join_slowly(&file, symbols, length);
            lh_tokens tokens = {0};
            assert_int_equal(lh_spm_encode(made.spm, &work, bytes, length, true, &tokens, NULL),
                             LH_OK);
            assert_int_equal(tokens.count, count);
            for (size_t i = 0; i < count; i++)
                assert_string_equal(file.tokens[tokens.ids[i]], symbols[i]);
            free(tokens.ids);
        }
        lh_spm_work_reset(&work);
        close_spm(&made);
    }
}

static void expect_refusal(const small_vocabulary *file, lh_status wanted, const char *words) {
    setup made;
    lh_error error;
    lh_status status = open_spm(file, &made, &error);
    if (status != wanted || !strstr(error.message, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", lh_status_name(status), error.message, words);
    assert_null(made.spm);
    close_spm(&made);
}

static small_vocabulary sound(void) {
    static const char *const pieces[] = {"a", "b"};
    static const float scores[] = {0, -1};
    return of_pieces(pieces, scores, 2);
}

static void refuses_hostile_files(void **state) {
    (void)state;
    static char long_piece[LH_SPM_TOKEN_BYTES_MAX + 2];
    memset(long_piece, 'x', sizeof long_piece - 1);
    small_vocabulary file = sound();
    file.tokens[261] = "a";
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.tokens[261] is the same as tokens[260]");
    file = sound();
    file.tokens[261] = long_piece;
    expect_refusal(&file, LH_ERR_LIMIT, "tokenizer.ggml.tokens[261] has 513 bytes, more than 512");
    static const float no_numbers[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        file = sound();
        file.scores[3] = no_numbers[i];
        expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.scores[3] is no finite number");
    }
    file = sound();
    file.score_count = 0;
    expect_refusal(&file, LH_ERR_MALFORMED, "the file has no tokenizer.ggml.scores");
    file.score_count = 261;
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.scores has 261 entries, tokenizer.ggml.tokens has 262");
    file = sound();
    file.types[0xAB] = 5;
    expect_refusal(&file, LH_ERR_MALFORMED, "has 255 of the 256 byte tokens; <0xAB> is not there");
    file = sound();
    file.tokens[260] = "<0x41>";
    file.types[260] = 6;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[260] is the same as tokens[65]");
    file = sound();
    file.unknown = 262;
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.unknown_token_id is 262, the vocabulary has 262 tokens");
    file = sound();
    for (size_t i = 0; i <= 256; i++)
        file.types[i] = 5;
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "has neither byte tokens (<0x00> to <0xFF>) nor an unknown token");
}

static void survives_no_memory(void **state) {
    (void)state;
    small_vocabulary file = sound();
    file.add_space = 1;
    small_gguf opened = small_vocabulary_open(&file);
    lh_vocabulary *vocabulary;
    assert_int_equal(
        lh_vocabulary_create(opened.gguf, LH_SPELLING_SENTENCEPIECE, &vocabulary, NULL), LH_OK);
    size_t n = 1;
    for (;; n++) {
        lh_spm *spm = NULL;
        lh_spm_work work = {0};
        lh_tokens tokens = {0};
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = lh_spm_create(opened.gguf, vocabulary, &spm, &error);
        if (!status)
            status = lh_spm_encode(spm, &work, "ab", 2, true, &tokens, &error);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        assert_true(!failed || error.message[0] != '\0');
        if (failed && spm) {
            assert_int_equal(lh_spm_encode(spm, &work, "ab", 2, true, &tokens, NULL), LH_OK);
            assert_int_equal(tokens.ids[tokens.count - 1], 261);
        }
        free(tokens.ids);
        lh_spm_work_reset(&work);
        lh_spm_destroy(spm);
        if (!failed)
            break;
    }
    assert_true(n > 5);
    lh_vocabulary_destroy(vocabulary);
    small_gguf_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_score_is_joined_first),
        cmocka_unit_test(among_equals_the_leftmost),
        cmocka_unit_test(only_the_whole_must_be_a_token),
        cmocka_unit_test(spaces),
        cmocka_unit_test(characters_without_a_token),
        cmocka_unit_test(joins_in_the_defined_order),
        cmocka_unit_test(refuses_hostile_files),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
