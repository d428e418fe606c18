/* Both dialects over the tiny model: a token for each byte, behind three control tokens. */
#include "gateway/openai/tokenization.h"

#include "common/json/json_text.h"
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
    b->service = (lh_openai_service){.model = scripted_model_served(b->model),
                                     .engine = scripted_engine_create()};
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

/* ' for ". */
static json_t *json_of(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    json_t *body = json_loads(copy, 0, NULL);
    assert_non_null(body);
    free(copy);
    return body;
}

typedef enum direction { TO_TOKENS, TO_TEXT } direction;

static bool ask(const bench *b, direction to, const char *text, lh_text_buffer *reply,
                lh_openai_error *error) {
    json_t *body = json_of(text);
    *error = (lh_openai_error){0};
    *reply = (lh_text_buffer){0};
    if (to == TO_TOKENS)
        return lh_openai_tokenize(&b->service, &b->service.config.limits, body, reply, error);
    bool made = lh_openai_detokenize(&b->service, &b->service.config.limits, body, reply, error);
    json_decref(body);
    return made;
}

static void expect(const bench *b, direction to, const char *text, const char *answer) {
    lh_openai_error error;
    lh_text_buffer reply;
    json_t *wanted = json_of(answer);
    if (!ask(b, to, text, &reply, &error))
        fail_msg("%s", error.message);
    json_t *got = json_loadb(reply.bytes, reply.length, 0, NULL);
    if (!json_equal(got, wanted))
        fail_msg("%.*s", (int)reply.length, reply.bytes);
    json_decref(got);
    json_decref(wanted);
    lh_text_buffer_reset(&reply);
}

static void refuse(const bench *b, direction to, const char *text, const char *param) {
    lh_openai_error error;
    lh_text_buffer reply;
    assert_false(ask(b, to, text, &reply, &error));
    assert_string_equal(error.param, param);
    assert_int_equal(error.status, strcmp(param, "model") ? 400 : 404);
    lh_text_buffer_reset(&reply);
}

static void speaks_two_dialects(void **state) {
    const bench *b = *state;
    expect(b, TO_TOKENS, "{'prompt':'ab'}", "{'count':2,'max_model_len':256,'tokens':[100,101]}");
    expect(b, TO_TOKENS, "{'prompt':'ab','return_token_strs':true,'model':'tests/tiny-llama'}",
           "{'count':2,'max_model_len':256,'tokens':[100,101],'token_strs':['a','b']}");
    expect(b, TO_TOKENS, "{'content':'ab'}", "{'tokens':[100,101]}");
    expect(b, TO_TOKENS, "{'content':'a\u00e9','with_pieces':true}",
           "{'tokens':[{'id':100,'piece':'a'},{'id':198,'piece':[195]},{'id':172,'piece':[169]}]}");
    expect(b, TO_TOKENS, "{'content':''}", "{'tokens':[]}");
    expect(b, TO_TEXT, "{'tokens':[100,198,172,2]}",
           "{'prompt':'a\u00e9<|im_end|>','content':'a\u00e9<|im_end|>'}");
    expect(b, TO_TEXT, "{'tokens':[]}", "{'prompt':'','content':''}");
}

static void knows_special_tokens_unless_told(void **state) {
    const bench *b = *state;
    expect(b, TO_TOKENS, "{'content':'<|im_end|>'}", "{'tokens':[2]}");
    expect(b, TO_TOKENS, "{'prompt':'<|im_end|>'}", "{'count':1,'max_model_len':256,'tokens':[2]}");
    expect(b, TO_TOKENS, "{'content':'<|','parse_special':false}", "{'tokens':[63,127]}");
}

static void takes_a_conversation(void **state) {
    expect(*state, TO_TOKENS,
           "{'messages':[{'role':'user','content':'x'}],'add_generation_prompt':false}",
           "{'count':9,'max_model_len':256,'tokens':[1,120,118,104,117,13,123,2,13]}");
}

static void refuses_what_is_wrong(void **state) {
    const bench *b = *state;
    refuse(b, TO_TOKENS, "{}", "prompt");
    refuse(b, TO_TOKENS, "{'prompt':1}", "prompt");
    refuse(b, TO_TOKENS, "{'content':[1]}", "content");
    refuse(b, TO_TOKENS, "{'prompt':'a','add_special_tokens':1}", "add_special_tokens");
    refuse(b, TO_TOKENS, "{'prompt':'a','model':'other'}", "model");
    refuse(b, TO_TOKENS, "{'messages':[]}", "messages");
    refuse(b, TO_TEXT, "{}", "tokens");
    refuse(b, TO_TEXT, "{'tokens':'1'}", "tokens");
    refuse(b, TO_TEXT, "{'tokens':[1,100000]}", "tokens[1]");
    lh_openai_error error = {0};
    lh_text_buffer reply = {0};
    char *long_text = malloc(LH_OPENAI_TOKENIZED_BYTES_MAX + 2);
    memset(long_text, 'a', LH_OPENAI_TOKENIZED_BYTES_MAX + 1);
    long_text[LH_OPENAI_TOKENIZED_BYTES_MAX + 1] = '\0';
    assert_false(lh_openai_tokenize(&b->service, &b->service.config.limits,
                                    json_pack("{s:s}", "prompt", long_text), &reply, &error));
    assert_string_equal(error.code, "string_above_max_length");
    free(long_text);
}

static void survives_without_memory(void **state) {
    const bench *b = *state;
    static const char *const bodies[] = {"{'content':'ab','with_pieces':true}",
                                         "{'messages':[{'role':'user','content':'x'}]}"};
    for (size_t i = 0; i < 2; i++) {
        bool made = false;
        for (size_t n = 1; !made; n++) {
            json_t *body = json_of(bodies[i]);
            lh_openai_error error = {0};
            lh_text_buffer reply = {0};
            failing_malloc_arm(n);
            made = lh_openai_tokenize(&b->service, &b->service.config.limits, body, &reply, &error);
            failing_malloc_disarm();
            assert_true(made || error.status == 500);
            lh_text_buffer_reset(&reply);
        }
    }
}

static void tells_what_it_is(void **state) {
    const bench *b = *state;
    json_t *info = lh_openai_tokenizer_json(b->service.model);
    assert_string_equal(json_string_value(json_object_get(info, "bos_token")), "<|im_start|>");
    assert_string_equal(json_string_value(json_object_get(info, "eos_token")), "<|im_end|>");
    assert_true(json_is_null(json_object_get(info, "pad_token")));
    assert_non_null(
        strstr(json_string_value(json_object_get(info, "chat_template")), "<|im_start|>"));
    json_decref(info);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speaks_two_dialects),
        cmocka_unit_test(knows_special_tokens_unless_told),
        cmocka_unit_test(takes_a_conversation),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(survives_without_memory),
        cmocka_unit_test(tells_what_it_is),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
