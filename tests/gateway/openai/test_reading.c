/* Bodies to tokens, over the tiny model: a token for each byte. */
#include "gateway/openai/reading.h"

#include "tests/gateway/support/scripted_engine.h"
#include "tests/gateway/support/scripted_model.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct bench {
    scripted_model *model;
    lh_openai_service service;
} bench;

static int open_bench(void **state) {
    bench *b = calloc(1, sizeof *b);
    b->model = scripted_model_create();
    b->service = (lh_openai_service){.engine = scripted_engine_create(),
                                     .model = scripted_model_served(b->model),
                                     .longest_token_bytes = 1};
    b->service.config = lh_openai_api_config_default();
    b->service.config.limits.model = b->service.model->id;
    b->service.config.limits.vocabulary = b->service.model->vocabulary;
    b->service.config.limits.sampling = &b->service.model->sampling;
    *state = b;
    return 0;
}

static int close_bench(void **state) {
    bench *b = *state;
    scripted_engine_destroy(b->service.engine);
    scripted_model_destroy(b->model);
    free(b);
    return 0;
}

/* In the body ' stands for ". */
static bool take(const bench *b, lh_openai_reading_goal goal, const char *body,
                 lh_openai_reading *reading, lh_openai_error *error) {
    char *text = strdup(body);
    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    *error = (lh_openai_error){0};
    bool taken = lh_openai_reading_take(reading, &b->service, goal, text, strlen(text), error);
    memset(text, 'x', strlen(text)); /* nothing points into it */
    free(text);
    assert_true(taken == !error->status);
    return taken;
}

static void expect_tokens(const lh_generation_prompt *prompt, const char *text) {
    assert_int_equal(prompt->token_count, strlen(text));
    for (uint32_t i = 0; i < prompt->token_count; i++)
        assert_int_equal(prompt->tokens[i], 3 + (uint8_t)text[i]);
}

static void reads_each_prompt(void **state) {
    lh_openai_reading reading;
    lh_openai_error error;
    assert_true(take(*state, LH_READING_COMPLETIONS,
                     "{'prompt':['a longer one','b'],'max_tokens':7,'echo':true}", &reading,
                     &error));
    assert_int_equal(reading.prompt_count, 2);
    expect_tokens(&reading.prompts[0], "a longer one");
    expect_tokens(&reading.prompts[1], "b");
    assert_int_equal(reading.prompts[1].max_tokens, 7);
    assert_int_equal(reading.echoes[0].length, 12);
    assert_memory_equal(reading.echoes[1].bytes, "b", 1);
    lh_openai_reading_reset(&reading);
}

static void keeps_what_the_parameters_need(void **state) {
    lh_openai_reading reading;
    lh_openai_error error;
    assert_true(take(*state, LH_READING_CHAT,
                     "{'messages':[{'role':'user','content':'hi'}],'stop':['one','two'],"
                     "'logit_bias':{'7':5},'seed':3,'unheard_of':1}",
                     &reading, &error));
    const lh_openai_parameters *parameters = &reading.request.parameters;
    assert_int_equal(reading.prompt_count, 1);
    assert_true(reading.prompts[0].token_count > 2);
    assert_int_equal(reading.request.message_count, 0);
    assert_int_equal(parameters->stop_count, 2);
    assert_string_equal(parameters->stops[0].bytes, "one");
    assert_string_equal(parameters->stops[1].bytes, "two");
    assert_int_equal(parameters->sequence.sampling.bias_count, 1);
    assert_int_equal(parameters->unknown_fields, 1);
    lh_openai_reading_reset(&reading);
    assert_true(
        take(*state, LH_READING_COMPLETIONS, "{'prompt':[5,6],'stop':'end'}", &reading, &error));
    assert_string_equal(reading.request.parameters.stops[0].bytes, "end");
    lh_openai_reading_reset(&reading);
}

/* What a client writes in a way that nobody else would take. */
static void reads_what_is_clear(void **state) {
    static const struct {
        const char *body;
        size_t replaced;
    } bodies[] = {{"\xef\xbb\xbf{'prompt':'a','max_tokens':1}", 0},
                  {"{'prompt':'a\\u0000\\ud800','max_tokens':1}", 2},
                  {"{'prompt':'a','max_tokens':9999,'max_tokens':1}", 0},
                  {"{'prompt':'a','max_tokens':1,'unheard_of':99999999999999999999}", 0}};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        lh_openai_reading reading;
        lh_openai_error error = {0};
        if (!take(*state, LH_READING_COMPLETIONS, bodies[i].body, &reading, &error))
            fail_msg("%s: %s", bodies[i].body, error.message);
        assert_int_equal(reading.replaced_characters, bodies[i].replaced);
        assert_int_equal(reading.prompts[0].max_tokens, 1);
        lh_openai_reading_reset(&reading);
    }
}

static void says_what_is_wrong(void **state) {
    static const struct {
        const char *body, *param, *code;
    } wrong[] = {
        {"{'prompt':", "", "invalid_json"},
        {"[]", "", "invalid_json"},
        {"{'prompt':'a','stop':7}", "stop", "invalid_type"},
        {"{'prompt':[5,99999]}", "prompt[1]", "invalid_value"},
        {"{'prompt':'a','seed':18446744073709551616}", "seed", "invalid_value"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lh_openai_reading reading;
        lh_openai_error error;
        assert_false(take(*state, LH_READING_COMPLETIONS, wrong[i].body, &reading, &error));
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, wrong[i].param);
        assert_string_equal(error.code, wrong[i].code);
        lh_openai_reading_reset(&reading);
    }
}

static json_t *field_of(const json_t *schema, const char *name) {
    json_t *field = json_object_get(json_object_get(schema, "properties"), name);
    assert_non_null(field);
    return field;
}

/* A body is described within the limits of this server, by those who read it. */
static void draws_what_it_takes(void **state) {
    bench *b = *state;
    b->service.config.limits.choices_max = 7;
    b->service.config.limits.strict = true;
    json_t *schema = lh_openai_reading_describe(&b->service, LH_READING_COMPLETIONS);
    assert_int_equal(json_integer_value(json_object_get(field_of(schema, "n"), "maximum")), 7);
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    const json_t *required = json_object_get(schema, "required");
    assert_int_equal(json_array_size(required), 1);
    assert_string_equal(json_string_value(json_array_get(required, 0)), "prompt");
    /* What is there must not be null, which counts as absent. */
    assert_int_equal(json_array_size(json_object_get(field_of(schema, "prompt"), "type")), 2);
    assert_string_equal(
        json_string_value(json_object_get(field_of(schema, "truncate_prompt_tokens"), "type")),
        "null");
    assert_null(json_object_get(json_object_get(schema, "properties"), "messages"));
    json_decref(schema);
    b->service.config.limits.choices_max = lh_openai_api_config_default().limits.choices_max;
    b->service.config.limits.strict = false;
}

static void inputs_of_embeddings_end_as_the_file_wants(void **state) {
    bench *b = *state;
    lh_openai_reading reading;
    lh_openai_error error;
    uint32_t eos = (uint32_t)lh_tokenizer_eos(b->service.model->tokenizer);
    b->service.config.limits.pooling =
        (lh_model_pooling){.kind = LH_MODEL_POOLS_LAST, .appends_eos = true};
    assert_true(take(b, LH_READING_EMBEDDINGS, "{'input':['ab','c']}", &reading, &error));
    assert_int_equal(reading.request.parameters.sequence.pooling, LH_POOLING_LAST);
    assert_int_equal(reading.prompt_count, 2);
    assert_true(reading.prompts[0].token_count == 3 && reading.prompts[0].tokens[2] == eos);
    assert_int_equal(reading.prompts[0].max_tokens, 0);
    lh_openai_reading_reset(&reading);
    assert_true(take(b, LH_READING_EMBEDDINGS, "{'input':[5,6]}", &reading, &error));
    assert_int_equal(reading.prompts[0].token_count, 2);
    lh_openai_reading_reset(&reading);
    assert_true(take(b, LH_READING_EMBEDDINGS, "{'input':'a','add_special_tokens':false}", &reading,
                     &error));
    assert_int_equal(reading.prompts[0].token_count, 1);
    lh_openai_reading_reset(&reading);
    b->service.config.limits.pooling = (lh_model_pooling){.kind = LH_MODEL_POOLS_MEAN};
}

static void survives_without_memory(void **state) {
    static const char *const bodies[] = {
        "{'prompt':['ab','cd'],'echo':true,'logit_bias':{'7':5},'stop':['x']}",
        "{'messages':[{'role':'user','content':[{'type':'text','text':'hi'}]}]}"};
    for (int i = 0; i < 2; i++)
        for (size_t n = 2;; n++) { /* the first is the copy of the body */
            lh_openai_reading reading;
            lh_openai_error error;
            failing_malloc_arm(n);
            bool taken = take(*state, i ? LH_READING_CHAT : LH_READING_COMPLETIONS, bodies[i],
                              &reading, &error);
            bool failed = failing_malloc_disarm();
            assert_int_equal(error.status, failed ? 500 : 0);
            lh_openai_reading_reset(&reading);
            if (taken)
                break;
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_prompt),
        cmocka_unit_test(keeps_what_the_parameters_need),
        cmocka_unit_test(reads_what_is_clear),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(draws_what_it_takes),
        cmocka_unit_test(inputs_of_embeddings_end_as_the_file_wants),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
