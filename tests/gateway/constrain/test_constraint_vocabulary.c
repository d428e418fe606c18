/* Constraints on real vocabularies: byte-level BPE (LONGHAUL_TEST_MODEL) and SentencePiece's
 * (LONGHAUL_TEST_GEMMA). What a mask allows is what can be read byte by byte; a text that the
 * grammar matches is allowed in the tokenizer's own division; what is forced is in that division.
 */
#include "gateway/constrain/gbnf.h"
#include "tests/gateway/support/constraint_probe.h"
#include "tests/gateway/support/model_vocabulary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char grammar_text[] =
    "root ::= object\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (pair (\",\" ws pair)*)? ws \"}\"\n"
    "pair ::= string \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? ws \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\nt]){0,60} \"\\\"\"\n"
    "number ::= \"-\"? [0-9]{1,9} (\".\" [0-9]+)?\n"
    "ws ::= (\" \" | \"\\n\" \" \"{0,20})?\n";

static const char *const texts[] = {
    "{\"name\": \"J\xC3\xBCrgen \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80\", \"age\": 42}",
    ("{\n  \"items\": [1, 2.50, -3, {\"a\": [[[true]], null]}],\n  \"text\": \"He said "
     "\\\"no\\\"\"\n}"),
    "{}"};

typedef struct real {
    model_vocabulary *model;
    lh_tokenizer *tokenizer;
    lh_constraint_vocabulary *vocabulary;
} real;

static void open_real(const char *variable, real *opened) {
    lh_error error;
    opened->model = model_vocabulary_open(variable);
    if (!opened->model)
        skip();
    if (lh_tokenizer_create(model_vocabulary_gguf(opened->model), &opened->tokenizer, &error) ||
        lh_constraint_vocabulary_create(opened->tokenizer, &opened->vocabulary, &error))
        fail_msg("%s", error.message);
}

static void close_real(real *opened) {
    lh_constraint_vocabulary_release(opened->vocabulary);
    lh_tokenizer_destroy(opened->tokenizer);
    model_vocabulary_close(opened->model);
}

static lh_constraint *compile(const real *opened, const char *text) {
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, text, strlen(text));
    return probe_constraint(grammar, opened->vocabulary);
}

/* Of some tokens, spread over the vocabulary: the mask against a copy that takes it. */
static void check_some(const real *opened, lh_constraint_state *state, uint32_t stride) {
    const lh_mask *mask;
    lh_error error;
    if (lh_constraint_state_mask(state, &mask, &error))
        fail_msg("%s", error.message);
    assert_int_equal(mask->vocabulary, lh_tokenizer_vocabulary(opened->tokenizer));
    for (uint32_t token = stride / 2; token < mask->vocabulary; token += stride) {
        lh_constraint_state *copy;
        assert_int_equal(lh_constraint_state_copy(state, &copy, NULL), LH_OK);
        lh_status status = lh_constraint_state_take(copy, token, &error);
        if ((status == LH_OK) != (mask->words[token / 64] >> token % 64 & 1))
            fail_msg("token %u: %s", token, lh_status_name(status));
        lh_constraint_state_destroy(copy);
    }
}

static void read_text(const real *opened, lh_constraint *constraint, const char *text) {
    lh_tokens tokens = {0};
    lh_constraint_state *state;
    assert_int_equal(
        lh_tokenizer_encode_inside(opened->tokenizer, text, strlen(text), false, &tokens, NULL),
        LH_OK);
    assert_int_equal(lh_constraint_state_create(constraint, &state, NULL), LH_OK);
    for (size_t i = 0; i < tokens.count; i++) {
        if (!probe_allows(state, tokens.ids[i]))
            fail_msg("token %u of \"%s\" is not allowed", tokens.ids[i], text);
        check_some(opened, state, 997);
        assert_int_equal(lh_constraint_state_take(state, tokens.ids[i], NULL), LH_OK);
    }
    assert_true(lh_constraint_state_is_finished(state));
    uint32_t stops;
    assert_true(probe_allows(state, lh_tokenizer_stop_tokens(opened->tokenizer, &stops)[0]));
    lh_constraint_state_destroy(state);
    free(tokens.ids);
}

/* Whatever is allowed leads on, and what was written is a text of the grammar's. */
static void wander(const real *opened, lh_constraint *constraint, uint32_t seed) {
    lh_constraint_state *state;
    assert_int_equal(lh_constraint_state_create(constraint, &state, NULL), LH_OK);
    for (size_t i = 0; i < 60 && !lh_constraint_state_is_finished(state); i++) {
        const lh_mask *mask;
        lh_error error;
        if (lh_constraint_state_mask(state, &mask, &error))
            fail_msg("%s", error.message);
        seed = seed * 1664525u + 1013904223u;
        uint32_t token = (seed >> 4) % mask->vocabulary;
        while (!(mask->words[token / 64] >> token % 64 & 1))
            token = (token + 1) % mask->vocabulary;
        if (lh_constraint_state_take(state, token, &error))
            fail_msg("%s", error.message);
        if (i % 16 == 0 && !lh_constraint_state_is_finished(state))
            check_some(opened, state, 1499);
    }
    lh_constraint_state_destroy(state);
}

static void masks_agree(const char *variable) {
    real opened;
    open_real(variable, &opened);
    lh_constraint *constraint = compile(&opened, grammar_text);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        read_text(&opened, constraint, texts[i]);
    for (uint32_t seed = 1; seed <= 5; seed++)
        wander(&opened, constraint, seed);
    lh_constraint_release(constraint);
    close_real(&opened);
}

static void byte_level_masks_agree(void **state) {
    (void)state;
    masks_agree("LONGHAUL_TEST_MODEL");
}

static void sentencepiece_masks_agree(void **state) {
    (void)state;
    masks_agree("LONGHAUL_TEST_GEMMA");
}

/* What is forced begins the tokenizer's division of every text that may come of it. */
static void forced_tokens_begin(const char *variable) {
    static const char forcing[] = "root ::= \"{\\\"first_name\\\": \\\"\" [a-zA-Z !\\\"]+ \"}\"";
    static const char *const tails[] = {"J", "a\"", " x", "\"", "!!", "  \"", "ohn Smith\""};
    real opened;
    uint32_t forced[32], count;
    open_real(variable, &opened);
    lh_constraint *constraint = compile(&opened, forcing);
    lh_constraint_state *state;
    assert_int_equal(lh_constraint_state_create(constraint, &state, NULL), LH_OK);
    assert_int_equal(lh_constraint_state_forced(state, forced, 32, &count, NULL), LH_OK);
    assert_true(count >= 2);
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char text[64];
        lh_tokens tokens = {0};
        snprintf(text, sizeof text, "{\"first_name\": \"%s}", tails[i]);
        assert_int_equal(
            lh_tokenizer_encode_inside(opened.tokenizer, text, strlen(text), false, &tokens, NULL),
            LH_OK);
        assert_true(tokens.count >= count);
        assert_memory_equal(tokens.ids, forced, count * sizeof *forced);
        free(tokens.ids);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(lh_constraint_state_take(state, forced[i], NULL), LH_OK);
    lh_constraint_state_destroy(state);
    lh_constraint_release(constraint);
    close_real(&opened);
}

static void byte_level_tokens_are_forced(void **state) {
    (void)state;
    forced_tokens_begin("LONGHAUL_TEST_MODEL");
}

static void sentencepiece_tokens_are_forced(void **state) {
    (void)state;
    forced_tokens_begin("LONGHAUL_TEST_GEMMA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_masks_agree),
        cmocka_unit_test(sentencepiece_masks_agree),
        cmocka_unit_test(byte_level_tokens_are_forced),
        cmocka_unit_test(sentencepiece_tokens_are_forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
