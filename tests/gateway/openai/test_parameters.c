/* Each parameter's type, range and default, in both endpoints: a table of what is taken and what is
 * refused, and by which name. */
#include "gateway/openai/parameters.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TAKEN NULL

typedef struct table_row {
    int endpoints;
    const char *fields; /* inside the braces, ' for " */
    const char *param;  /* of the refusal; TAKEN: none */
} table_row;

#define BOTH        (LH_OPENAI_CHAT | LH_OPENAI_COMPLETIONS)
#define CHAT        LH_OPENAI_CHAT
#define COMPLETIONS LH_OPENAI_COMPLETIONS

static const table_row table[] = {
    {BOTH, "", TAKEN},
    {BOTH, "'model':'tiny'", TAKEN},
    {BOTH, "'model':null", TAKEN},
    {BOTH, "'model':'other'", "model"},
    {BOTH, "'model':1", "model"},
    {BOTH, "'temperature':0", TAKEN},
    {BOTH, "'temperature':2", TAKEN},
    {BOTH, "'temperature':2.0001", "temperature"},
    {BOTH, "'temperature':-0.1", "temperature"},
    {BOTH, "'temperature':'1'", "temperature"},
    {BOTH, "'temperature':true", "temperature"},
    {BOTH, "'temperature':null", TAKEN},
    {BOTH, "'top_p':0", "top_p"},
    {BOTH, "'top_p':1e-9", TAKEN},
    {BOTH, "'top_p':1", TAKEN},
    {BOTH, "'top_p':1.1", "top_p"},
    {BOTH, "'n':0", "n"},
    {BOTH, "'n':1", TAKEN},
    {BOTH, "'n':16", TAKEN},
    {BOTH, "'n':17", "n"},
    {BOTH, "'n':1000000", "n"},
    {BOTH, "'n':-1", "n"},
    {BOTH, "'n':2.0", TAKEN},
    {BOTH, "'n':2.5", "n"},
    {BOTH, "'n':'2'", "n"},
    {BOTH, "'n':[2]", "n"},
    {BOTH, "'stream':true", TAKEN},
    {BOTH, "'stream':1", "stream"},
    {BOTH, "'stream':'true'", "stream"},
    {BOTH, "'priority':-2147483648", TAKEN},
    {BOTH, "'priority':2147483648", "priority"},
    {BOTH, "'priority':0.5", "priority"},
    {BOTH, "'timeout':0.001", TAKEN},
    {BOTH, "'timeout':86400", TAKEN},
    {BOTH, "'timeout':null", TAKEN},
    {BOTH, "'timeout':0", "timeout"},
    {BOTH, "'timeout':-1", "timeout"},
    {BOTH, "'timeout':86400.1", "timeout"},
    {BOTH, "'timeout':'5'", "timeout"},
    {BOTH, "'longhaul':null", TAKEN},
    {BOTH, "'longhaul':{}", TAKEN},
    {BOTH, "'longhaul':{'overlap':'auto'}", TAKEN},
    {BOTH, "'longhaul':{'overlap':'rows=64,columns=4'}", TAKEN},
    {BOTH, "'longhaul':true", "longhaul"},
    {BOTH, "'longhaul':{'new':1}", TAKEN},
    {BOTH, "'longhaul':{'overlap':64}", "longhaul.overlap"},
    {BOTH, "'longhaul':{'overlap':'rows=0'}", "longhaul.overlap"},
    {BOTH, "'stream':true,'stream_options':{}", TAKEN},
    {BOTH, "'stream':true,'stream_options':null", TAKEN},
    {BOTH, "'stream':true,'stream_options':[]", "stream_options"},
    {BOTH, "'stream':true,'stream_options':{'include_usage':true,'continuous_usage_stats':false}",
     TAKEN},
    {BOTH, "'stream':true,'stream_options':{'include_obfuscation':true,'new':1}", TAKEN},
    {BOTH, "'stream':true,'stream_options':{'include_usage':1}", "stream_options.include_usage"},
    {BOTH, "'stream_options':{'include_usage':true}", "stream_options"},
    {BOTH, "'stream':false,'stream_options':{'include_usage':true}", "stream_options"},
    {BOTH, "'stream_options':{}", "stream_options"},
    {BOTH, "'stream_options':null", TAKEN},
    {BOTH, "'stop':null", TAKEN},
    {BOTH, "'stop':'a'", TAKEN},
    {BOTH, "'stop':''", "stop"},
    {BOTH, "'stop':[]", TAKEN},
    {BOTH, "'stop':['a','b']", TAKEN},
    {BOTH, "'stop':['a','']", "stop[1]"},
    {BOTH, "'stop':['a',1]", "stop[1]"},
    {BOTH, "'stop':1", "stop"},
    {BOTH, "'stop':['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16']",
     TAKEN},
    {BOTH, "'stop':['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17']",
     "stop"},
    {BOTH, "'max_tokens':1", TAKEN},
    {BOTH, "'max_tokens':0", "max_tokens"},
    {BOTH, "'max_tokens':-1", "max_tokens"},
    {BOTH, "'max_tokens':1.0", TAKEN},
    {BOTH, "'max_tokens':'1'", "max_tokens"},
    {BOTH, "'max_tokens':99999999999", "max_tokens"},
    {CHAT, "'max_completion_tokens':1", TAKEN},
    {CHAT, "'max_completion_tokens':0", "max_completion_tokens"},
    {COMPLETIONS, "'max_tokens':0,'echo':true", TAKEN},
    {BOTH, "'min_tokens':3,'max_tokens':3", TAKEN},
    {BOTH, "'min_tokens':4,'max_tokens':3", "min_tokens"},
    {BOTH, "'min_tokens':-1", "min_tokens"},
    {BOTH, "'presence_penalty':-2,'frequency_penalty':2", TAKEN},
    {BOTH, "'presence_penalty':-2.1", "presence_penalty"},
    {BOTH, "'frequency_penalty':2.1", "frequency_penalty"},
    {BOTH, "'logit_bias':{}", TAKEN},
    {BOTH, "'logit_bias':null", TAKEN},
    {BOTH, "'logit_bias':{'0':-100,'287':100.0}", TAKEN},
    {BOTH, "'logit_bias':{'288':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'-1':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'01':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'a':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'4294967296':1}", "logit_bias"},
    {BOTH, "'logit_bias':{'1':101}", "logit_bias"},
    {BOTH, "'logit_bias':{'1':-100.5}", "logit_bias"},
    {BOTH, "'logit_bias':{'1':'1'}", "logit_bias"},
    {BOTH, "'logit_bias':[1]", "logit_bias"},
    {CHAT, "'logprobs':true", TAKEN},
    {CHAT, "'logprobs':false,'top_logprobs':null", TAKEN},
    {CHAT, "'logprobs':1", "logprobs"},
    {CHAT, "'logprobs':true,'top_logprobs':0", TAKEN},
    {CHAT, "'logprobs':true,'top_logprobs':20", TAKEN},
    {CHAT, "'logprobs':true,'top_logprobs':21", "top_logprobs"},
    {CHAT, "'logprobs':true,'top_logprobs':-1", "top_logprobs"},
    {CHAT, "'top_logprobs':2", "top_logprobs"},
    {CHAT, "'logprobs':false,'top_logprobs':2", "top_logprobs"},
    {COMPLETIONS, "'logprobs':0", TAKEN},
    {COMPLETIONS, "'logprobs':20", TAKEN},
    {COMPLETIONS, "'logprobs':21", "logprobs"},
    {COMPLETIONS, "'logprobs':-1", "logprobs"},
    {COMPLETIONS, "'logprobs':true", "logprobs"},
    {BOTH, "'prompt_logprobs':0", TAKEN},
    {BOTH, "'prompt_logprobs':20", TAKEN},
    {BOTH, "'prompt_logprobs':null,'stream':true", TAKEN},
    {BOTH, "'prompt_logprobs':21", "prompt_logprobs"},
    {BOTH, "'prompt_logprobs':-1", "prompt_logprobs"},
    {BOTH, "'prompt_logprobs':true", "prompt_logprobs"},
    {BOTH, "'prompt_logprobs':0,'stream':true", "prompt_logprobs"},
    {BOTH, "'seed':9223372036854775807", TAKEN},
    {BOTH, "'seed':-9223372036854775808", TAKEN},
    {BOTH, "'seed':1e19", "seed"},
    {BOTH, "'seed':1.5", "seed"},
    {BOTH, "'seed':'1'", "seed"},
    {BOTH,
     "'user':'me','safety_identifier':'x','prompt_cache_key':'k','cache_salt':'s','priority':-3",
     TAKEN},
    {BOTH, "'user':1", "user"},
    {BOTH, "'prompt_cache_key':1", "prompt_cache_key"},
    {BOTH, "'cache_salt':''", "cache_salt"},
    {BOTH, "'cache_salt':7", "cache_salt"},
    {BOTH, "'priority':'high'", "priority"},
    {BOTH, "'service_tier':'flex'", TAKEN},
    {BOTH, "'service_tier':'gold'", "service_tier"},
    {BOTH, "'metadata':{'a':'b'}", TAKEN},
    {BOTH, "'metadata':{'a':1}", "metadata"},
    {BOTH, "'metadata':[]", "metadata"},
    {BOTH, "'top_k':-1,'min_p':0.5,'repetition_penalty':1.2", TAKEN},
    {BOTH, "'top_k':-2", "top_k"},
    {BOTH, "'min_p':1.5", "min_p"},
    {BOTH, "'repetition_penalty':0", "repetition_penalty"},
    {BOTH, "'repeat_penalty':-1", "repeat_penalty"},
    {BOTH, "'ignore_eos':true,'stop_token_ids':[0,287]", TAKEN},
    {BOTH, "'ignore_eos':1", "ignore_eos"},
    {BOTH, "'stop_token_ids':[288]", "stop_token_ids[0]"},
    {BOTH, "'stop_token_ids':[5,'1']", "stop_token_ids[1]"},
    {BOTH, "'stop_token_ids':1", "stop_token_ids"},
    /* Known, and not built. */
    {CHAT, "'audio':{'voice':'x'}", "audio"},
    {CHAT, "'audio':null", TAKEN},
    {CHAT, "'web_search_options':{}", "web_search_options"},
    {CHAT, "'functions':[{}]", "functions"},
    {CHAT, "'functions':[]", TAKEN},
    {CHAT, "'store':true", "store"},
    {CHAT, "'store':false", TAKEN},
    {CHAT, "'store':'no'", "store"},
    {COMPLETIONS, "'suffix':'x'", "suffix"},
    {COMPLETIONS, "'suffix':''", TAKEN},
    {CHAT, "'chat_template':'x'", "chat_template"},
    {CHAT, "'chat_template_kwargs':{}", TAKEN},
    {CHAT, "'chat_template_kwargs':{'a':1}", TAKEN},
    {CHAT, "'add_generation_prompt':true", TAKEN},
    {CHAT, "'add_generation_prompt':false", TAKEN},
    {CHAT, "'continue_final_message':true", TAKEN},
    {BOTH, "'guided_json':{}", TAKEN},
    {BOTH, "'grammar':'root ::= x'", TAKEN},
    {BOTH, "'return_token_ids':1", "return_token_ids"},
    {BOTH, "'return_token_ids':true,'skip_special_tokens':false,'add_special_tokens':true", TAKEN},
    {BOTH, "'skip_special_tokens':'no'", "skip_special_tokens"},
    {BOTH, "'mirostat':2", "mirostat"},
    {BOTH, "'mirostat':'2'", "mirostat"},
    {BOTH, "'mirostat':0,'mirostat_tau':5,'mirostat_eta':0.1", TAKEN},
    {BOTH, "'typical_p':0.9", "typical_p"},
    {BOTH, "'typical_p':1,'length_penalty':1.0,'top_n_sigma':-1", TAKEN},
    {BOTH, "'n_predict':20", "n_predict"},
    {BOTH, "'length_penalty':2", "length_penalty"},
    {BOTH, "'model':'gpt-tiny'", TAKEN},
    /* Hints, and what nobody knows. */
    {CHAT, "'prediction':{'type':'content'},'moderation':1,'prompt_cache_options':{}", TAKEN},
    {BOTH, "'vendor_extra':{'deep':[1]}", TAKEN},
};

static const lh_openai_limits limits = {.model = "tiny",
                                        .aliases = "gpt-tiny",
                                        .vocabulary = 288,
                                        .choices_max = 16,
                                        .prompts_max = 128,
                                        .sequences_max = 64,
                                        .is_traced = true,
                                        .sampling = &lh_sampling_api_defaults};

static json_t *body_of(const char *fields) {
    char text[1024] = "{";
    strcat(text, fields);
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    strcat(text, "}");
    json_t *body = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    return body;
}

static bool parse_body(const json_t *body, lh_openai_endpoint endpoint,
                       const lh_openai_limits *held_against, lh_openai_parameters *parameters,
                       lh_openai_error *error) {
    *error = (lh_openai_error){0};
    lh_openai_parameters_parse(&(lh_body_reader){body, "", error, NULL, NULL}, endpoint,
                               held_against, parameters);
    return !error->status;
}

static void check_row(const table_row *row, lh_openai_endpoint endpoint) {
    json_t *body = body_of(row->fields);
    lh_openai_parameters parameters;
    lh_openai_error error;
    bool taken = parse_body(body, endpoint, &limits, &parameters, &error);
    if (taken != (row->param == TAKEN))
        fail_msg("%s: %s", row->fields, taken ? "taken" : error.message);
    if (!taken) {
        assert_string_equal(error.param, row->param);
        assert_int_equal(error.status,
                         strcmp(row->param, "model") == 0 && strstr(row->fields, "other") ? 404
                                                                                          : 400);
        assert_string_equal(error.type, "invalid_request_error");
        assert_non_null(error.code);
    }
    lh_openai_parameters_reset(&parameters);
    json_decref(body);
}

static void takes_and_refuses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int endpoint = 1; endpoint <= 2; endpoint++)
            if (table[i].endpoints & endpoint)
                check_row(&table[i], (lh_openai_endpoint)endpoint);
}

static lh_openai_parameters parse(const char *fields, lh_openai_endpoint endpoint, json_t **body) {
    lh_openai_parameters parameters;
    lh_openai_error error;
    *body = body_of(fields);
    assert_true(parse_body(*body, endpoint, &limits, &parameters, &error));
    return parameters;
}

static void has_defaults(void **state) {
    (void)state;
    json_t *body;
    lh_openai_parameters got = parse("", LH_OPENAI_CHAT, &body);
    assert_int_equal(got.choices, 1);
    assert_float_equal(got.sequence.sampling.temperature, 1, 0);
    assert_float_equal(got.sequence.sampling.top_p, 1, 0);
    assert_float_equal(got.sequence.sampling.min_p, 0, 0);
    assert_float_equal(got.sequence.sampling.repetition_penalty, 1, 0);
    assert_int_equal(got.sequence.sampling.top_k, 0);
    assert_false(got.stream || got.seed_given || got.max_tokens_given || got.ignore_eos ||
                 got.sequence.sampling.want_logprob);
    json_decref(body);
}

/* The server's own, where a request does not say; what it says wins, null says nothing. */
static void the_server_has_defaults_of_its_own(void **state) {
    (void)state;
    const lh_sampling_defaults defaults = {.values = {0.25, 0.5, 40, 0.125, 1.5}};
    lh_openai_limits held_against = limits;
    held_against.sampling = &defaults;
    for (int endpoint = 1; endpoint <= 2; endpoint++) {
        lh_openai_parameters got;
        lh_openai_error error;
        json_t *body = body_of("'top_p':null");
        assert_true(parse_body(body, (lh_openai_endpoint)endpoint, &held_against, &got, &error));
        assert_float_equal(got.sequence.sampling.temperature, 0.25, 0);
        assert_float_equal(got.sequence.sampling.top_p, 0.5, 0);
        assert_float_equal(got.sequence.sampling.min_p, 0.125, 0);
        assert_float_equal(got.sequence.sampling.repetition_penalty, 1.5, 0);
        assert_int_equal(got.sequence.sampling.top_k, 40);
        json_decref(body);
        body = body_of("'temperature':0,'top_p':1,'min_p':0,'repeat_penalty':1,'top_k':-1");
        assert_true(parse_body(body, (lh_openai_endpoint)endpoint, &held_against, &got, &error));
        assert_float_equal(got.sequence.sampling.temperature, 0, 0);
        assert_float_equal(got.sequence.sampling.top_p, 1, 0);
        assert_float_equal(got.sequence.sampling.min_p, 0, 0);
        assert_float_equal(got.sequence.sampling.repetition_penalty, 1, 0);
        assert_int_equal(got.sequence.sampling.top_k, 0);
        json_decref(body);
    }
}

static void reads_values(void **state) {
    (void)state;
    json_t *body;
    lh_openai_parameters got = parse(
        "'seed':-2,'max_tokens':9,'max_completion_tokens':7,'top_k':-1,'repeat_penalty':1.5,'n':3."
        "0,'logit_bias':{'7':-100,'8':0.5},'stop':['x','yz'],'stop_token_ids':[5],'logprobs':true,'"
        "top_logprobs':4,'other':1,'priority':-3,'timeout':0.25,'longhaul':{'overlap':'rows=7'}",
        LH_OPENAI_CHAT, &body);
    assert_true(got.seed_given);
    assert_true(got.sequence.sampling.seed == (uint64_t)-2);
    assert_true(got.sequence.has_overlap && got.sequence.overlap.mode == LH_OVERLAP_MANUAL &&
                got.sequence.overlap.rows == 7);
    assert_int_equal(got.max_tokens, 7);
    assert_int_equal(got.sequence.priority, -3);
    assert_int_equal(got.timeout_us, 250000);
    assert_int_equal(got.sequence.sampling.top_k, 0);
    assert_float_equal(got.sequence.sampling.repetition_penalty, 1.5, 0);
    assert_int_equal(got.choices, 3);
    assert_int_equal(got.sequence.sampling.bias_count, 2);
    assert_int_equal(got.sequence.sampling.biases[0].token, 7);
    assert_float_equal(got.sequence.sampling.biases[1].bias, 0.5, 0);
    assert_int_equal(got.stop_count, 2);
    assert_int_equal(got.stops[1].length, 2);
    assert_int_equal(got.stop_tokens[0], 5);
    assert_int_equal(got.sequence.sampling.top_logprobs, 4);
    assert_int_equal(got.unknown_fields, 1);
    lh_openai_parameters_reset(&got);
    json_decref(body);
}

static uint64_t salt_of(const char *fields) {
    json_t *body;
    lh_openai_parameters got = parse(fields, LH_OPENAI_COMPLETIONS, &body);
    lh_openai_parameters_reset(&got);
    json_decref(body);
    return got.sequence.cache_salt;
}

static void equal_salts_are_equal(void **state) {
    (void)state;
    assert_true(salt_of("") == 0 && salt_of("'cache_salt':null") == 0);
    assert_true(salt_of("'cache_salt':'team a'") != 0);
    assert_true(salt_of("'cache_salt':'team a'") == salt_of("'cache_salt':'team a','seed':7"));
    assert_true(salt_of("'cache_salt':'team a'") != salt_of("'cache_salt':'team b'"));
}

static void bounds_what_is_long(void **state) {
    (void)state;
    lh_openai_parameters got;
    lh_openai_error error;
    json_t *body = json_object(), *map = json_object();
    json_object_set_new(body, "logit_bias", map);
    for (int i = 0; i < 1100; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        json_object_set_new(map, key, json_integer(1));
    }
    const lh_openai_limits large = {.model = "tiny",
                                    .vocabulary = 5000,
                                    .choices_max = 16,
                                    .prompts_max = 128,
                                    .sequences_max = 64,
                                    .is_traced = true,
                                    .sampling = &lh_sampling_api_defaults};
    assert_false(parse_body(body, LH_OPENAI_CHAT, &large, &got, &error));
    assert_string_equal(error.param, "logit_bias");
    lh_openai_parameters_reset(&got);
    json_decref(body);

    static const struct {
        const char *field;
        size_t characters;
    } texts[] = {{"safety_identifier", 128}};
    for (size_t extra = 0; extra < 2; extra++) {
        json_t *text = json_string("");
        for (size_t i = 0; i < texts[0].characters + extra; i++) {
            json_t *longer = json_sprintf("%s\xc3\xa9", json_string_value(text));
            json_decref(text);
            text = longer;
        }
        body = json_pack("{s:o}", texts[0].field, text);
        assert_int_equal(parse_body(body, LH_OPENAI_CHAT, &limits, &got, &error), extra == 0);
        lh_openai_parameters_reset(&got);
        json_decref(body);
    }
}

static void bounds_choices_by_what_is_admitted(void **state) {
    (void)state;
    const lh_openai_limits few = {.model = "tiny",
                                  .vocabulary = 288,
                                  .choices_max = 16,
                                  .prompts_max = 128,
                                  .sequences_max = 2,
                                  .is_traced = true,
                                  .sampling = &lh_sampling_api_defaults};
    for (int n = 2; n <= 3; n++) {
        lh_openai_parameters got;
        lh_openai_error error;
        json_t *body = json_pack("{s:i}", "n", n);
        assert_int_equal(parse_body(body, LH_OPENAI_CHAT, &few, &got, &error), n == 2);
        lh_openai_parameters_reset(&got);
        json_decref(body);
    }
}

static void counts_characters_of_metadata(void **state) {
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        char key[2 * 65 + 1] = "";
        for (int i = 0; i < 64 + extra; i++)
            strcat(key, "\xc3\xa9");
        lh_openai_parameters got;
        lh_openai_error error;
        json_t *body = json_pack("{s:{s:s}}", "metadata", key, "");
        assert_int_equal(parse_body(body, LH_OPENAI_CHAT, &limits, &got, &error), extra == 0);
        lh_openai_parameters_reset(&got);
        json_decref(body);
    }
}

static void strict_refuses_unknown_fields(void **state) {
    (void)state;
    const lh_openai_limits strict = {.model = "tiny",
                                     .vocabulary = 288,
                                     .choices_max = 16,
                                     .prompts_max = 128,
                                     .sequences_max = 64,
                                     .strict = true,
                                     .is_traced = true,
                                     .sampling = &lh_sampling_api_defaults};
    json_t *body = body_of("'temperature':1,'vendor_extra':1");
    lh_openai_parameters got;
    lh_openai_error error;
    assert_false(parse_body(body, LH_OPENAI_CHAT, &strict, &got, &error));
    assert_string_equal(error.param, "vendor_extra");
    assert_string_equal(error.code, "unknown_parameter");
    lh_openai_parameters_reset(&got);
    json_decref(body);
}

static void survives_without_memory(void **state) {
    (void)state;
    json_t *body = body_of("'logit_bias':{'1':1}");
    lh_openai_parameters got;
    lh_openai_error error;
    failing_malloc_arm(1);
    bool parsed = parse_body(body, LH_OPENAI_CHAT, &limits, &got, &error);
    assert_true(failing_malloc_disarm());
    assert_false(parsed);
    assert_int_equal(error.status, 500);
    lh_openai_parameters_reset(&got);
    json_decref(body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_and_refuses),
        cmocka_unit_test(has_defaults),
        cmocka_unit_test(the_server_has_defaults_of_its_own),
        cmocka_unit_test(reads_values),
        cmocka_unit_test(equal_salts_are_equal),
        cmocka_unit_test(bounds_what_is_long),
        cmocka_unit_test(bounds_choices_by_what_is_admitted),
        cmocka_unit_test(counts_characters_of_metadata),
        cmocka_unit_test(strict_refuses_unknown_fields),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
