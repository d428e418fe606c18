/* Prompts as tokens, and what fits behind them; the wording of the refusal, by which clients know
 * it. */
#include "gateway/openai/prompt.h"
#include "tests/gateway/support/scripted_model.h"
#include "tests/gateway/support/small_vocabulary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONTEXT 100u

static void fits_to_the_last_token(void **state) {
    (void)state;
    static const struct {
        lh_openai_endpoint endpoint;
        size_t prompt;
        int64_t wanted; /* -1: not given */
        int64_t got;    /* -1: refused, which what is wanted never is */
    } table[] = {
        {LH_OPENAI_CHAT, 1, -1, 99},         {LH_OPENAI_CHAT, 99, -1, 1},
        {LH_OPENAI_CHAT, 100, -1, -1},       {LH_OPENAI_CHAT, 5000000000, -1, -1},
        {LH_OPENAI_CHAT, 40, 60, 60},        {LH_OPENAI_CHAT, 40, 61, 60},
        {LH_OPENAI_CHAT, 40, INT32_MAX, 60}, {LH_OPENAI_MESSAGES, 40, 32000, 60},
        {LH_OPENAI_RESPONSES, 99, 2, 1},     {LH_OPENAI_MESSAGES, 100, 32000, -1},
        {LH_OPENAI_COMPLETIONS, 90, 11, 10}, {LH_OPENAI_COMPLETIONS, 1, -1, 16},
        {LH_OPENAI_COMPLETIONS, 90, -1, 10}, {LH_OPENAI_COMPLETIONS, 100, -1, -1},
        {LH_OPENAI_COMPLETIONS, 100, 0, 0},  {LH_OPENAI_COMPLETIONS, 101, 0, -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lh_openai_parameters parameters = {
            .max_tokens_given = table[i].wanted >= 0,
            .max_tokens = (uint32_t)(table[i].wanted < 0 ? 0 : table[i].wanted)};
        uint32_t max_tokens;
        lh_openai_error error = {0};
        bool fits = lh_openai_prompt_fit(100, table[i].endpoint, table[i].prompt, &parameters,
                                         &max_tokens, &error);
        assert_int_equal(fits, table[i].got >= 0);
        if (fits)
            assert_int_equal(max_tokens, table[i].got);
        else
            assert_int_equal(error.status, 400);
    }
}

static void says_so_in_the_words_that_clients_know(void **state) {
    (void)state;
    static const char begin[] = "This model's maximum context length is 100 tokens";
    lh_openai_parameters parameters = {.max_tokens_given = true, .max_tokens = 70};
    uint32_t max_tokens;
    lh_openai_error error;
    assert_false(lh_openai_prompt_fit(100, LH_OPENAI_CHAT, 200, &parameters, &max_tokens, &error));
    assert_memory_equal(error.message, begin, sizeof begin - 1);
    assert_string_equal(error.code, "context_length_exceeded");
    assert_string_equal(error.param, "messages");
    assert_false(lh_openai_prompt_may_fit(100, LH_OPENAI_CHAT, 100000, 10, &error));
    assert_memory_equal(error.message, begin, sizeof begin - 1);
    assert_true(lh_openai_prompt_may_fit(100, LH_OPENAI_CHAT, 1000, 10, &error));
}

static void tokenizes_prompts(void **state) {
    const lh_served_model *model = scripted_model_served(*state);
    uint32_t ids[] = {3 + 'h', 3 + 0xC3, 1, 3 + 0xA9};
    lh_openai_prompt prompts[] = {{.text = "h<|im_end|>", .length = 11},
                                  {.tokens = ids, .token_count = 4}};
    lh_openai_request request = {.parameters = {.adds_special = true}, .parses_special = true};
    lh_tokens tokens = {0};
    lh_openai_error error;
    assert_true(lh_openai_prompt_from_completion(model, &request, &prompts[0], &tokens, &error));
    assert_int_equal(tokens.count, 2); /* who writes a whole prompt writes its marks, too */
    tokens.count = 0;
    request.parses_special = false;
    assert_true(lh_openai_prompt_from_completion(model, &request, &prompts[0], &tokens, &error));
    assert_int_equal(tokens.count, 11);
    tokens.count = 0;
    assert_true(lh_openai_prompt_from_completion(model, &request, &prompts[1], &tokens, &error));
    assert_memory_equal(tokens.ids, ids, sizeof ids);
    lh_text_buffer text = {0};
    assert_int_equal(lh_openai_prompt_text(model, &prompts[1], &text), LH_OK);
    assert_memory_equal(text.bytes, "h\xc3\xa9", 3);
    lh_text_buffer_reset(&text);
    free(tokens.ids);
}

/* Of a vocabulary with the marks for it, and of one without. */
static void fills_in_between_two_texts(void **state) {
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "<s>", 3);            /* 256 */
    small_vocabulary_add(&file, "<|fim_suffix|>", 3); /* 257 */
    small_vocabulary_add(&file, "<|fim_prefix|>", 4); /* 258 */
    small_vocabulary_add(&file, "<|fim_middle|>", 3); /* 259 */
    file.bos = 256;
    file.add_bos = 1;
    small_gguf opened = small_vocabulary_open(&file);
    lh_tokenizer *tokenizer;
    assert_int_equal(lh_tokenizer_create(opened.gguf, &tokenizer, NULL), LH_OK);
    const lh_served_model model = {.tokenizer = tokenizer};
    const lh_openai_prompt prompt = {.text = "<s>a", .length = 4};
    lh_openai_request request = {
        .parameters = {.adds_special = true}, .parses_special = true, .suffix = "b"};
    lh_tokens tokens = {0};
    lh_openai_error error;
    assert_true(lh_openai_prompt_from_completion(&model, &request, &prompt, &tokens, &error));
    static const uint32_t wanted[] = {256, 258, 256, 'a', 257, 'b', 259};
    assert_int_equal(tokens.count, 7);
    assert_memory_equal(tokens.ids, wanted, sizeof wanted);
    tokens.count = 0;
    request.suffix = NULL; /* the begin-of-sequence is there once */
    assert_true(lh_openai_prompt_from_completion(&model, &request, &prompt, &tokens, &error));
    assert_int_equal(tokens.count, 2);
    assert_int_equal(tokens.ids[1], 'a');
    request.suffix = "b";
    assert_false(lh_openai_prompt_from_completion(scripted_model_served(*state), &request, &prompt,
                                                  &tokens, &error));
    assert_string_equal(error.param, "suffix");
    free(tokens.ids);
    lh_tokenizer_destroy(tokenizer);
    small_gguf_close(&opened);
}

static void says_why_a_model_cannot_chat(void **state) {
    lh_served_model model = *scripted_model_served(*state);
    model.chat_template = NULL;
    model.chat_refusal = "its template is of no family known here";
    lh_openai_request request = {0};
    lh_tokens tokens = {0};
    lh_openai_error error;
    bool is_thinking;
    assert_false(lh_openai_prompt_from_chat(&model, &request, &tokens, &is_thinking, &error));
    assert_int_equal(error.status, 400);
    assert_non_null(strstr(error.message, model.chat_refusal));
}

static void refuses_what_the_template_does(void **state) {
    const lh_served_model *model = scripted_model_served(*state);
    lh_chat_message message = {.role = "user", .content = "\xff", .content_length = 1};
    lh_openai_request request = {.messages = &message, .message_count = 1};
    lh_tokens tokens = {0};
    lh_openai_error error;
    bool is_thinking;
    assert_false(lh_openai_prompt_from_chat(model, &request, &tokens, &is_thinking, &error));
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, "messages");
    free(tokens.ids);
}

static void knows_the_longest_token(void **state) {
    assert_true(lh_openai_prompt_longest_token(scripted_model_served(*state)) >= 1);
}

static int start(void **state) {
    *state = scripted_model_create_with(CONTEXT);
    return 0;
}

static int stop(void **state) {
    scripted_model_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_to_the_last_token),
        cmocka_unit_test(says_so_in_the_words_that_clients_know),
        cmocka_unit_test(tokenizes_prompts),
        cmocka_unit_test(fills_in_between_two_texts),
        cmocka_unit_test(says_why_a_model_cannot_chat),
        cmocka_unit_test(refuses_what_the_template_does),
        cmocka_unit_test(knows_the_longest_token),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
