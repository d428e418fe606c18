/* What stands before an answer that has a form: thoughts that a model may have, and headers. */
#include "gateway/constrain/constraint_cache.h"
#include "gateway/openai/answer_lead.h"
#include "tests/gateway/support/constraint_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Tokens behind those of the bytes. */
enum { END_OF_ALL = 256, START, CHANNEL, MESSAGE, END, THINK, OVER };

static const char *const marks[] = {"<|im_end|>", "<|start|>", "<|channel|>", "<|message|>",
                                    "<|end|>",    "<think>",   "</think>"};
static const lh_thinking_marks channels = {LH_CHANNELS_THOUGHT_OPEN, LH_CHANNELS_THOUGHT_CLOSE,
                                           true},
                               thoughts = {"<think>", "</think>", false};
static probe_vocabulary vocabulary;
static lh_constraint_cache *cache;

static int set_up(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        small_vocabulary_add(&file, marks[i], 3);
    vocabulary = probe_vocabulary_of(&file);
    return lh_constraint_cache_create(vocabulary.vocabulary, &cache, NULL) != LH_OK;
}

static int tear_down(void **state) {
    (void)state;
    lh_constraint_cache_destroy(cache);
    probe_vocabulary_reset(&vocabulary);
    return 0;
}

/* Whether the answer "yes" may be written so: bytes, and marks by their names. */
static bool may_be(const lh_answer_lead *of, const char *answer) {
    json_t *lead = lh_answer_lead_make(of), *value = json_pack("[s]", "yes");
    const lh_constraint_source source = {
        .kind = LH_CONSTRAINT_CHOICE, .value = value, .lead = json_is_null(lead) ? NULL : lead};
    lh_constraint *constraint;
    lh_constraint_state *at;
    lh_error error;
    lh_tokens tokens = {0};
    if (lh_constraint_cache_find(cache, &source, &constraint, &error))
        fail_msg("%s", error.message);
    assert_int_equal(lh_constraint_state_create(constraint, &at, NULL), LH_OK);
    assert_int_equal(
        lh_tokenizer_encode(vocabulary.tokenizer, answer, strlen(answer), true, &tokens, NULL),
        LH_OK);
    bool may = true;
    for (size_t i = 0; i < tokens.count && may; i++)
        may = lh_constraint_state_take(at, tokens.ids[i], NULL) == LH_OK;
    may = may && lh_constraint_state_may_end(at);
    free(tokens.ids);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
    json_decref(value);
    json_decref(lead);
    return may;
}

static void a_model_may_think_unless_it_has(void **state) {
    (void)state;
    uint32_t plain[] = {'a', 'b', 'c', 'd'}, over[] = {'a', THINK, OVER, '\n'};
    const lh_tokens fresh = {.ids = plain, .count = 4}, done = {.ids = over, .count = 4};
    lh_answer_lead of = {
        .marks = &thoughts, .tokenizer = vocabulary.tokenizer, .prompt = &fresh, .has_head = true};
    assert_true(may_be(&of, "yes"));
    assert_true(may_be(&of, "<think>why</think>\n\nyes"));
    assert_false(may_be(&of, "<think>why</think>no"));
    assert_false(may_be(&of, "why</think>yes"));
    of.prompt = &done;
    assert_true(may_be(&of, "yes"));
    assert_false(may_be(&of, "<think>why</think>yes"));
    of.is_thinking = true;
    assert_true(may_be(&of, "why</think>yes"));
    assert_false(may_be(&of, "yes"));
    of = (lh_answer_lead){.tokenizer = vocabulary.tokenizer, .prompt = &fresh, .has_head = true};
    assert_false(may_be(&of, "<think>why</think>yes"));
}

static void the_final_channel_has_the_form(void **state) {
    (void)state;
    uint32_t prompt[] = {END, START, 'a'};
    const lh_tokens tokens = {.ids = prompt, .count = 3};
    lh_answer_lead of = {.marks = &channels,
                         .tokenizer = vocabulary.tokenizer,
                         .prompt = &tokens,
                         .has_head = true,
                         .has_header = true};
    assert_true(may_be(&of, "<|channel|>final<|message|>yes"));
    assert_true(may_be(&of, "<|channel|>analysis<|message|>why<|end|><|start|>assistant"
                            "<|channel|>final<|message|>yes"));
    assert_false(may_be(&of, "yes"));
    assert_false(may_be(&of, "<|channel|>commentary<|message|>yes"));
    assert_false(may_be(&of, "<|channel|>analysis<|message|>yes"));
    of.has_header = false; /* a call's own */
    assert_true(may_be(&of, "<|channel|>analysis<|message|>why<|end|><|start|>assistantyes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_may_think_unless_it_has),
        cmocka_unit_test(the_final_channel_has_the_form),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
