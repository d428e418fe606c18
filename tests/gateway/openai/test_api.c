/* The API over a real socket and a scripted engine: statuses, headers, and the JSON of every
 * route. */
#include "common/base/clock.h"
#include "gateway/anthropic/anthropic.h"
#include "gateway/ollama/ollama.h"
#include "gateway/openai/api.h"
#include "gateway/responses/responses.h"
#include "tests/gateway/support/scripted_engine.h"
#include "tests/gateway/support/scripted_model.h"
#include "tests/support/log_capture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define JSON_TYPE "Content-Type: application/json\r\n"

typedef struct bench {
    lh_engine *engine;
    scripted_model *model;
    lh_authenticator *authenticator;
    lh_trace_store *traces;
    lh_openai_api *api;
} bench;

static bench *open_bench(const char *key_file) {
    bench *b = calloc(1, sizeof *b);
    b->engine = scripted_engine_create();
    b->model = scripted_model_create();
    const lh_key_limits limits = {0};
    lh_openai_api_config config = lh_openai_api_config_default();
    assert_int_equal(
        lh_authenticator_create(key_file, &limits, lh_clock_us(), &b->authenticator, NULL), LH_OK);
    assert_int_equal(lh_trace_store_create(8, 1 << 20, &b->traces, NULL), LH_OK);
    config.http.listen = "127.0.0.1:0";
    config.http.threads = 1;
    config.http.body_bytes_max = 3000;
    config.keep_alive_ms = 50;
    config.cors_origins = "https://chat.example,http://localhost:3000";
    config.logits_digest = true;
    config.authenticator = b->authenticator;
    config.traces = b->traces;
    config.responses = &lh_responses;
    config.messages = &lh_anthropic;
    config.ollama = &lh_ollama;
    assert_int_equal(
        lh_openai_api_open(&config, b->engine, scripted_model_served(b->model), &b->api, NULL),
        LH_OK);
    return b;
}

static void close_bench(bench *b) {
    lh_openai_api_close(b->api);
    lh_trace_store_destroy(b->traces);
    lh_authenticator_destroy(b->authenticator);
    scripted_model_destroy(b->model);
    scripted_engine_destroy(b->engine);
    free(b);
}

/* An answer as it came, and its JSON where its body is JSON. */
typedef struct answer {
    char text[16384];
    unsigned status;
    const char *body;
    json_t *json;
} answer;

/* HTTP/1.0, so that a stream comes as it is. `headers`: each with its line end; in the body '
 * stands for ". */
static answer *ask(const bench *b, const char *method, const char *path, const char *headers,
                   const char *body) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(lh_openai_api_port(b->api)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    answer *got = calloc(1, sizeof *got);
    char request[4096];
    int length = snprintf(request, sizeof request,
                          "%s %s HTTP/1.0\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s",
                          method, path, headers, strlen(body), body);
    for (char *at = strstr(request, "\r\n\r\n"); *at; at++)
        *at = *at == '\'' ? '"' : *at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(fd, request, (size_t)length), length);
    size_t used = 0;
    for (ssize_t part; (part = read(fd, got->text + used, sizeof got->text - 1 - used)) > 0;)
        used += (size_t)part;
    close(fd);
    assert_int_equal(sscanf(got->text, "HTTP/%*s %u", &got->status), 1);
    got->body = strstr(got->text, "\r\n\r\n") + 4;
    got->json = json_loads(got->body, 0, NULL);
    return got;
}

static answer *post(const bench *b, const char *path, const char *body) {
    return ask(b, "POST", path, JSON_TYPE, body);
}

static answer *get(const bench *b, const char *path) {
    return ask(b, "GET", path, "", "");
}

static void forget(answer *got) {
    json_decref(got->json);
    free(got);
}

static bool has(const answer *got, const char *text) {
    return strstr(got->text, text);
}

/* The value at a path of keys and indices: "choices.0.message.content". */
static const json_t *at(const json_t *value, const char *path) {
    char key[64];
    while (*path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
                                     : json_object_get(value, key);
        path += length + (path[length] == '.');
    }
    return value;
}

static void expect_text(const json_t *root, const char *path, const char *text) {
    const char *found = json_string_value(at(root, path));
    if (!found || strcmp(found, text) != 0)
        fail_msg("%s is \"%s\", not \"%s\"", path, found ? found : "(none)", text);
}

static void expect_error(answer *got, unsigned status, const char *code) {
    if (got->status != status)
        fail_msg("%s", got->text);
    expect_text(got->json, "error.code", code);
    forget(got);
}

/* ---- Every route. ---- */

static void names_each_answer(void **state) {
    answer *got = ask(*state, "GET", "/health", "x-request-id: mine.1\r\n", "");
    assert_int_equal(got->status, 200);
    expect_text(got->json, "status", "ok");
    assert_true(has(got, "x-request-id: mine.1\r\n"));
    assert_true(has(got, "X-Content-Type-Options: nosniff\r\n"));
    assert_true(has(got, "openai-processing-ms: ") && has(got, "Server-Timing: total;dur="));
    assert_true(has(got, "Content-Type: application/json\r\n"));
    assert_false(has(got, "x-ratelimit-"));
    forget(got);
    got = ask(*state, "GET", "/health", "x-request-id: not mine\r\n", "");
    assert_true(has(got, "x-request-id: req_"));
    forget(got);
}

static void tokenizes(void **state) {
    answer *got = post(*state, "/tokenize", "{'prompt':'ab'}");
    assert_int_equal(got->status, 200);
    assert_true(has(got, "Content-Type: application/json\r\n"));
    assert_int_equal(json_integer_value(at(got->json, "tokens.1")), 101);
    forget(got);
    got = post(*state, "/detokenize", "{'tokens':[100,101]}");
    expect_text(got->json, "content", "ab");
    forget(got);
    got = get(*state, "/tokenizer_info");
    expect_text(got->json, "eos_token", "<|im_end|>");
    forget(got);
    expect_error(post(*state, "/detokenize", "{'tokens':[-1]}"), 400, "invalid_value");
}

#define ORIGIN "Access-Control-Allow-Origin: "

static void named_origins_may_read(void **state) {
    static const char preflight[] = "Origin: http://localhost:3000\r\n"
                                    "Access-Control-Request-Method: POST\r\n",
                      foreign[] = "Origin: https://chat.example.evil\r\n"
                                  "Access-Control-Request-Method: POST\r\n";
    answer *got = ask(*state, "OPTIONS", "/v1/chat/completions", preflight, "");
    assert_int_equal(got->status, 204);
    assert_true(has(got, ORIGIN "http://localhost:3000\r\n"));
    assert_true(has(got, "Access-Control-Allow-Methods: POST, OPTIONS\r\n"));
    assert_true(has(got, "Access-Control-Allow-Headers: Authorization, *\r\n"));
    assert_true(has(got, "Vary: Origin\r\n") && !has(got, "Allow-Credentials"));
    forget(got);
    got = ask(*state, "OPTIONS", "/v1/chat/completions", foreign, "");
    assert_int_equal(got->status, 204);
    assert_false(has(got, "Access-Control-"));
    forget(got);
    got = ask(*state, "GET", "/v1/models", "Origin: https://chat.example\r\n", "");
    assert_true(has(got, ORIGIN "https://chat.example\r\n"));
    assert_false(has(got, "Access-Control-Allow-Methods"));
    forget(got);
    got = ask(*state, "GET", "/nowhere", "Origin: https://chat.example\r\n", "");
    assert_true(has(got, ORIGIN "https://chat.example\r\n")); /* so that a script reads why */
    expect_error(got, 404, "unknown_url");
}

/* Bodies both ways; test_gzip.c has the bounds. */
static void speaks_gzip(void **state) {
    answer *got = ask(*state, "POST", "/v1/completions", JSON_TYPE "Content-Encoding: gzip\r\n",
                      "{'prompt':'a'}");
    assert_non_null(strstr(got->text, "not valid gzip"));
    expect_error(got, 400, "invalid_value");
    got = ask(*state, "POST", "/detokenize", JSON_TYPE "Accept-Encoding: gzip\r\n",
              "{'tokens':[100]}");
    assert_false(has(got, "Content-Encoding")); /* it is short */
    forget(got);
}

static void refuses_by_the_headers(void **state) {
    static const char chat[] = "/v1/chat/completions", body[] = "{'messages':[]}";
    expect_error(get(*state, "/v2/models"), 404, "unknown_url");
    answer *got = get(*state, chat);
    assert_true(has(got, "Allow: POST, OPTIONS\r\n"));
    expect_error(got, 405, "method_not_allowed");
    expect_error(ask(*state, "POST", chat, "Content-Type: text/plain\r\n", body), 415,
                 "unsupported_media_type");
    expect_error(ask(*state, "POST", chat, "", body), 415, "unsupported_media_type");
    expect_error(ask(*state, "POST", chat, JSON_TYPE "Content-Encoding: br\r\n", body), 415,
                 "unsupported_media_type");
    got = ask(*state, "POST", chat, JSON_TYPE "Content-Encoding: identity\r\n", body);
    assert_int_equal(got->status, 400); /* read, and refused for what it says */
    forget(got);
    got = ask(*state, "OPTIONS", "/v1/models", "", "");
    assert_int_equal(got->status, 204);
    assert_true(has(got, "Allow: GET, HEAD, OPTIONS\r\n"));
    forget(got);
}

/* curl -d calls JSON a form. A page could send the same, but not without the headers that its
 * browser adds. */
static void takes_json_that_curl_calls_a_form(void **state) {
    static const char path[] = "/v1/completions", body[] = "{'prompt':'@@text=ok'}";
#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
    answer *got = ask(*state, "POST", path, FORM "User-Agent: curl/8.5.0\r\n", body);
    assert_int_equal(got->status, 200);
    forget(got);
    got = ask(*state, "POST", path, FORM, "\r\n {'prompt':'@@text=ok'}");
    assert_int_equal(got->status, 200);
    forget(got);
    static const char *const of_pages[] = {
        "Origin: null\r\n",
        "Origin: https://chat.example\r\n",
        "Referer: http://evil.example/\r\n",
        "Cookie: a=b\r\n",
        "Sec-Fetch-Mode: no-cors\r\n",
        "sec-fetch-site: cross-site\r\n",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n",
        "Content-Encoding: gzip\r\n",
    };
    for (size_t i = 0; i < sizeof of_pages / sizeof of_pages[0]; i++) {
        char headers[200];
        snprintf(headers, sizeof headers, FORM "%s", of_pages[i]);
        expect_error(ask(*state, "POST", path, headers, body), 415, "unsupported_media_type");
    }
    static const char *const others[] = {"", " ", "prompt=a", "['a']"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_error(ask(*state, "POST", path, FORM, others[i]), 415, "unsupported_media_type");
#undef FORM
}

static void tells_what_it_serves(void **state) {
    const bench *b = *state;
    answer *got = get(b, "/v1/models");
    assert_int_equal(json_array_size(at(got->json, "data")), 3);
    expect_text(got->json, "data.0.id", "tests/tiny-llama");
    expect_text(got->json, "data.1.id", "gpt-tiny");
    expect_text(got->json, "data.2.root", "tests/tiny-llama");
    forget(got);
    got = get(b, "/v1/models/team/chat");
    expect_text(got->json, "id", "team/chat");
    expect_text(got->json, "aliases.0", "gpt-tiny");
    assert_int_equal(json_integer_value(at(got->json, "max_model_len")), 256);
    assert_int_equal(json_integer_value(at(got->json, "meta.n_ctx")), 256);
    assert_int_equal(json_integer_value(at(got->json, "meta.n_ctx_train")), 512);
    scripted_engine_set_positions(b->engine, 192);
    forget(got);
    got = get(b, "/v1/models/team/chat");
    assert_int_equal(json_integer_value(at(got->json, "max_model_len")), 192);
    assert_int_equal(json_integer_value(at(got->json, "meta.n_ctx")), 192);
    forget(got);
    got = post(b, "/tokenize", "{'prompt':'ab'}");
    assert_int_equal(json_integer_value(at(got->json, "max_model_len")), 192);
    scripted_engine_set_positions(b->engine, UINT64_MAX);
    forget(got);
    got = get(b, "/models/tests%2Ftiny-llama");
    expect_text(got->json, "object", "model");
    assert_int_equal(json_integer_value(at(got->json, "max_model_len")), 256);
    const json_t *sampling = at(got->json, "longhaul.default_sampling");
    assert_true(json_real_value(at(sampling, "temperature")) == 1);
    assert_true(json_real_value(at(sampling, "top_p")) == 1);
    assert_true(json_real_value(at(sampling, "min_p")) == 0);
    assert_true(json_real_value(at(sampling, "repetition_penalty")) == 1);
    assert_true(json_is_integer(at(sampling, "top_k")));
    forget(got);
    expect_error(get(b, "/v1/models/other"), 404, "model_not_found");
    expect_error(get(b, "/v1/models/%zz"), 404, "model_not_found");
    got = get(b, "/version");
    assert_true(json_is_string(at(got->json, "version")));
    forget(got);
    got = get(b, "/fleet");
    assert_int_equal(got->status, 200);
    assert_true(json_is_object(got->json));
    forget(got);
}

static void tells_why_it_is_not_ready(void **state) {
    const bench *b = *state;
    static const struct {
        lh_engine_state state;
        const char *name;
    } states[] = {{LH_ENGINE_LOADING, "loading"}, {LH_ENGINE_NO_CHAIN, "no_chain"}};
    for (size_t i = 0; i < 2; i++) {
        scripted_engine_set_state(b->engine, states[i].state);
        answer *got = get(b, "/readyz");
        expect_text(got->json, "status", states[i].name);
        assert_true(has(got, "Retry-After: 2\r\n"));
        expect_error(got, 503, "model_unavailable");
        got = get(b, "/v1/models");
        assert_int_equal(got->status, 200);
        assert_int_equal(json_array_size(at(got->json, "data")), 0);
        forget(got);
        expect_error(get(b, "/v1/models/tests%2Ftiny-llama"), 503, "model_unavailable");
        got = get(b, "/livez");
        expect_text(got->json, "status", "ok");
        forget(got);
    }
    scripted_engine_set_state(b->engine, LH_ENGINE_READY);
}

/* Workers of an earlier version: whoever asks learns what they lack. */
static void says_what_the_workers_cannot_compute(void **state) {
    const bench *b = *state;
    static const char words[] = "general.architecture \"x\" is not supported";
    scripted_engine_set_state(b->engine, LH_ENGINE_LOADING);
    scripted_engine_set_refusal(b->engine, words);
    answer *got = get(b, "/health");
    expect_text(got->json, "status", "loading");
    assert_non_null(strstr(json_string_value(at(got->json, "error.message")), words));
    expect_error(got, 503, "model_unavailable");
    got = post(b, "/v1/completions", "{'prompt':'@@text=no'}");
    assert_non_null(strstr(json_string_value(at(got->json, "error.message")), words));
    expect_error(got, 503, "model_unavailable");
    scripted_engine_set_refusal(b->engine, NULL);
    scripted_engine_set_state(b->engine, LH_ENGINE_READY);
}

static void takes_nothing_new_while_it_drains(void **state) {
    const bench *b = *state;
    lh_openai_api_drain(b->api, 0);
    answer *got = get(b, "/health");
    expect_text(got->json, "status", "draining");
    forget(got);
    got = post(b, "/v1/completions", "{'prompt':'@@text=no'}");
    assert_true(strstr(json_string_value(at(got->json, "error.message")), "draining"));
    expect_error(got, 503, "model_unavailable");
}

/* ---- Answers. ---- */

/* Ids of prompt and answer, and what of the request's own stops has ended it. */
static void tells_ids_and_stops(void **state) {
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':'@@text=a.b','stop':'.','return_token_ids':true}");
    assert_int_equal(json_array_size(at(got->json, "choices.0.prompt_token_ids")), 10);
    assert_int_equal(json_integer_value(at(got->json, "choices.0.prompt_token_ids.0")), 3 + '@');
    assert_int_equal(json_array_size(at(got->json, "choices.0.token_ids")), 1);
    assert_int_equal(json_integer_value(at(got->json, "choices.0.token_ids.0")), 3 + 'a');
    expect_text(got->json, "choices.0.stop_reason", ".");
    forget(got);
    got = post(*state, "/v1/chat/completions",
               "{'messages':[{'role':'user','content':'@@text=ab'}],'return_token_ids':true,"
               "'stop_token_ids':[2],'ignore_eos':true}");
    assert_int_equal(json_array_size(at(got->json, "choices.0.token_ids")), 2);
    assert_true(json_array_size(at(got->json, "prompt_token_ids")) > 9);
    assert_int_equal(json_integer_value(at(got->json, "choices.0.stop_reason")), 2);
    forget(got);
    got = post(*state, "/v1/completions", "{'prompt':'@@text=ab'}");
    assert_true(json_is_null(at(got->json, "choices.0.stop_reason")));
    assert_null(at(got->json, "choices.0.token_ids"));
    forget(got);
}

static void answers_a_chat(void **state) {
    answer *got = post(*state, "/v1/chat/completions",
                       "{'messages':[{'role':'user','content':'@@text=hello'}],'n':2,"
                       "'temperature':0,'logprobs':true,'top_logprobs':2,'service_tier':'auto'}");
    assert_int_equal(got->status, 200);
    assert_memory_equal(json_string_value(at(got->json, "id")), "chatcmpl-", 9);
    expect_text(got->json, "object", "chat.completion");
    expect_text(got->json, "model", "tests/tiny-llama");
    expect_text(got->json, "system_fingerprint", "fp_0123456789abcdef");
    expect_text(got->json, "service_tier", "default");
    assert_int_equal(json_array_size(at(got->json, "choices")), 2);
    expect_text(got->json, "choices.1.message.role", "assistant");
    expect_text(got->json, "choices.1.message.content", "hello");
    expect_text(got->json, "choices.1.finish_reason", "stop");
    assert_int_equal(json_integer_value(at(got->json, "choices.1.index")), 1);
    const json_t *tokens = at(got->json, "choices.1.logprobs.content");
    assert_int_equal(json_array_size(tokens), 5);
    expect_text(tokens, "4.token", "o");
    assert_int_equal(json_integer_value(at(tokens, "4.bytes.0")), 'o');
    assert_true(json_real_value(at(tokens, "4.logprob")) == -0.25);
    assert_int_equal(json_array_size(at(tokens, "4.top_logprobs")), 2);
    assert_int_equal(json_array_size(at(got->json, "choices.1.logits_digests")), 5);
    expect_text(got->json, "choices.0.logits_digests.1", "0000000000001001");
    assert_int_equal(json_integer_value(at(got->json, "usage.completion_tokens")), 10);
    assert_int_equal(json_integer_value(at(got->json, "usage.total_tokens")),
                     json_integer_value(at(got->json, "usage.prompt_tokens")) + 10);
    assert_true(has(got, "x-ratelimit-limit-requests: ") && has(got, "x-ratelimit-reset-requests"));
    forget(got);
}

static void answers_completions(void **state) {
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':['@@text=ab','@@text=cd'],'echo':true,'temperature':0}");
    assert_int_equal(got->status, 200);
    assert_memory_equal(json_string_value(at(got->json, "id")), "cmpl-", 5);
    expect_text(got->json, "object", "text_completion");
    expect_text(got->json, "choices.0.text", "@@text=abab");
    expect_text(got->json, "choices.1.text", "@@text=cdcd");
    forget(got);
    got = post(*state, "/v1/completions",
               "{'prompt':'@@text=abc\\\\xff','logprobs':1,'max_tokens':4,'temperature':0}");
    expect_text(got->json, "choices.0.finish_reason", "length");
    expect_text(got->json, "choices.0.logprobs.tokens.2", "c");
    expect_text(got->json, "choices.0.logprobs.tokens.3", "bytes:\\xff");
    assert_int_equal(json_integer_value(at(got->json, "choices.0.logprobs.text_offset.2")), 2);
    assert_true(json_is_real(at(got->json, "choices.0.logprobs.top_logprobs.0.a")));
    assert_true(json_real_value(at(got->json, "choices.0.logprobs.token_logprobs.3")) == -0.25);
    forget(got);
}

/* The scripted engine gives token i of a prompt -i / 8 and rank i; the best ones are "0", "1". */
static void tells_what_a_prompt_was_worth(void **state) {
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':'@@text=ab','echo':true,'logprobs':2,'temperature':0,"
                       "'prompt_logprobs':1}");
    assert_int_equal(got->status, 200);
    const json_t *choice = at(got->json, "choices.0"), *logprobs = at(choice, "logprobs");
    expect_text(choice, "text", "@@text=abab");
    assert_int_equal(json_array_size(at(logprobs, "tokens")), 11);
    expect_text(logprobs, "tokens.8", "b");
    assert_true(json_is_null(at(logprobs, "token_logprobs.0")));
    assert_true(json_is_null(at(logprobs, "top_logprobs.0")));
    assert_true(json_real_value(at(logprobs, "token_logprobs.8")) == -1);
    assert_true(json_real_value(at(logprobs, "token_logprobs.9")) == -0.25);
    assert_int_equal(json_object_size(at(logprobs, "top_logprobs.8")), 3);
    assert_int_equal(json_integer_value(at(logprobs, "text_offset.8")), 8);
    assert_int_equal(json_integer_value(at(logprobs, "text_offset.9")), 9);
    assert_int_equal(json_array_size(at(choice, "prompt_logprobs")), 9);
    assert_int_equal(json_object_size(at(choice, "prompt_logprobs.8")), 2);
    assert_int_equal(json_integer_value(at(choice, "prompt_logprobs.8.101.rank")), 8);
    expect_text(choice, "prompt_logprobs.8.101.decoded_token", "b");
    assert_int_equal(json_integer_value(at(choice, "prompt_logprobs.8.51.rank")), 1);
    forget(got);
    got =
        post(*state, "/v1/completions", "{'prompt':'xyz','echo':true,'logprobs':0,'max_tokens':0}");
    expect_text(got->json, "choices.0.text", "xyz");
    assert_int_equal(json_array_size(at(got->json, "choices.0.logprobs.tokens")), 3);
    assert_int_equal(json_integer_value(at(got->json, "usage.completion_tokens")), 0);
    forget(got);
    got = post(*state, "/v1/chat/completions",
               "{'messages':[{'role':'user','content':'@@text=a'}],'prompt_logprobs':0}");
    assert_int_equal(json_array_size(at(got->json, "prompt_logprobs")),
                     (size_t)json_integer_value(at(got->json, "usage.prompt_tokens")));
    forget(got);
}

/* The JSON of the next event, and *text behind it; NULL: [DONE], and nothing follows. */
static json_t *next_event(const char **text) {
    assert_memory_equal(*text, "data: ", 6);
    const char *end = strstr(*text, "\n\n");
    assert_non_null(end);
    json_t *event = json_loadb(*text + 6, (size_t)(end - *text) - 6, 0, NULL);
    if (!event)
        assert_string_equal(*text, "data: [DONE]\n\n");
    *text = end + 2;
    return event;
}

static void streams_a_chat(void **state) {
    answer *got = post(*state, "/v1/chat/completions",
                       "{'messages':[{'role':'user','content':'@@text=hey'}],'temperature':0,"
                       "'logprobs':true,'stream':true,'stream_options':{'include_usage':true}}");
    assert_int_equal(got->status, 200);
    assert_true(has(got, "Content-Type: text/event-stream; charset=utf-8\r\n"));
    const char *text = got->body;
    json_t *event = next_event(&text);
    expect_text(event, "object", "chat.completion.chunk");
    expect_text(event, "choices.0.delta.role", "assistant");
    char content[8] = "";
    bool ended = false;
    size_t digests = 0;
    for (json_decref(event); !ended; json_decref(event)) {
        event = next_event(&text);
        ended = json_is_string(at(event, "choices.0.finish_reason"));
        digests += json_array_size(at(event, "choices.0.logits_digests"));
        if (ended)
            assert_int_equal(json_object_size(at(event, "choices.0.delta")), 0);
        else
            strcat(content, json_string_value(at(event, "choices.0.delta.content")));
        assert_int_equal(json_array_size(at(event, "choices.0.logprobs.content")), !ended);
        assert_null(at(event, "usage"));
    }
    assert_string_equal(content, "hey");
    assert_int_equal(digests, 3);
    event = next_event(&text);
    assert_int_equal(json_array_size(at(event, "choices")), 0);
    assert_int_equal(json_integer_value(at(event, "usage.completion_tokens")), 3);
    json_decref(event);
    assert_null(next_event(&text));
    assert_string_equal(text, "");
    forget(got);
}

static void streams_completions_with_their_prompts(void **state) {
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':['@@text=a','@@text=b'],'echo':true,'temperature':0,"
                       "'stream':true}");
    const char *text = got->body;
    char whole[2][32] = {"", ""};
    int ends = 0;
    for (json_t *event; (event = next_event(&text)); json_decref(event)) {
        json_int_t index = json_integer_value(at(event, "choices.0.index"));
        strcat(whole[index], json_string_value(at(event, "choices.0.text")));
        ends += json_is_string(at(event, "choices.0.finish_reason"));
    }
    assert_string_equal(whole[0], "@@text=aa");
    assert_string_equal(whole[1], "@@text=bb");
    assert_int_equal(ends, 2);
    forget(got);
}

static void keeps_a_silent_stream_alive(void **state) {
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':'@@first_ms=150 text=a','temperature':0,'stream':true}");
    assert_int_equal(got->status, 200);
    assert_memory_equal(got->body, ": keep-alive\n\n", 14);
    assert_true(has(got, "data: [DONE]\n\n"));
    forget(got);
}

static const lh_engine_outage nothing_is_out = {.reason = "worker-7 has not loaded its stage"};

static lh_engine_outage loading(int64_t ready_us) {
    return (lh_engine_outage){
        .is_out = true, .is_loading = true, .loaded_percent = 41, .ready_us = ready_us};
}

/* Whoever looks into a stream that stands still reads why. */
static void a_silent_stream_says_what_it_waits_for(void **state) {
    const bench *b = *state;
    const struct {
        const char *path, *body, *comment;
        lh_engine_outage outage;
    } cases[] = {
        {"/v1/completions", "'prompt':'@@first_ms=150 text=a'",
         ": waiting for weights, 41 %, about ", loading(lh_clock_us() + 90000000)},
        {"/v1/completions", "'prompt':'@@first_ms=150 text=a'", ": waiting for weights, 41 %\n\n",
         loading(INT64_MAX)},
        {"/v1/responses",
         "'input':'@@first_ms=150 text=a'",
         ": waiting for workers\n\n",
         {.is_out = true}},
        {"/v1/messages",
         "'messages':[{'role':'user','content':'@@first_ms=150 text=a'}],'max_tokens':9",
         ": waiting for workers\n\n",
         {.is_out = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[200];
        snprintf(body, sizeof body, "{'model':'tests/tiny-llama',%s,'stream':true}", cases[i].body);
        scripted_engine_set_outage(b->engine, &cases[i].outage);
        answer *got = post(b, cases[i].path, body);
        assert_int_equal(got->status, 200);
        assert_true(has(got, cases[i].comment));
        forget(got);
    }
    scripted_engine_set_outage(b->engine, &nothing_is_out);
}

/* ---- Failures. ---- */

#define TEN     "xxxxxxxxxx"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void says_what_is_wrong_with_a_body(void **state) {
    expect_error(post(*state, "/v1/completions", "{"), 400, "invalid_json");
    answer *got = post(*state, "/v1/completions", "{'prompt':'x','temperature':3}");
    expect_text(got->json, "error.param", "temperature");
    expect_text(got->json, "error.type", "invalid_request_error");
    expect_error(got, 400, "invalid_value");
    expect_error(post(*state, "/v1/completions", "{'prompt':'x','model':'y'}"), 404,
                 "model_not_found");
    expect_error(post(*state, "/v1/completions", "{'prompt':'" HUNDRED HUNDRED HUNDRED "'}"), 400,
                 "context_length_exceeded");
}

static void bounds_the_headers(void **state) {
    char headers[1000] = "";
    for (int i = 0; i < 100; i++)
        strcat(headers, "x: y\r\n");
    answer *got = ask(*state, "GET", "/health", headers, "");
    assert_int_equal(got->status, 431);
    expect_text(got->json, "error.message",
                "The headers are more than 100, or longer than 32 KiB.");
    forget(got);
}

static void bounds_the_body(void **state) {
    char body[3100];
    memset(body, ' ', sizeof body);
    body[sizeof body - 1] = '\0';
    expect_error(post(*state, "/v1/completions", body), 413, "request_too_large");
}

static void says_when_to_come_again(void **state) {
    answer *got = post(*state, "/v1/completions", "{'prompt':'@@refuse=busy','temperature':0}");
    assert_true(has(got, "Retry-After: ") && has(got, "retry-after-ms: "));
    expect_error(got, 429, "queue_full");
    got = post(*state, "/v1/completions", "{'prompt':'@@refuse=unavailable','temperature':0}");
    assert_true(has(got, "retry-after-ms: 2000\r\n"));
    expect_error(got, 503, "model_unavailable");
}

/* The time that is left, and not a guess. */
static void says_when_the_weights_are_there(void **state) {
    const bench *b = *state;
    lh_engine_outage outage = loading(lh_clock_us() + 599500000);
    scripted_engine_set_outage(b->engine, &outage);
    answer *got = post(b, "/v1/completions", "{'prompt':'@@refuse=unavailable'}");
    assert_true(has(got, "Retry-After: 600\r\n"));
    assert_non_null(strstr(json_string_value(at(got->json, "error.message")),
                           "its workers load their weights, 41 %, about 600 s"));
    expect_error(got, 503, "model_unavailable");
    scripted_engine_set_outage(b->engine, &nothing_is_out);
}

static void a_failure_is_an_error_or_an_event(void **state) {
    expect_error(post(*state, "/v1/completions",
                      "{'prompt':'@@fail_after=2 internal=1 text=abcd','temperature':0}"),
                 500, "internal_error");
    answer *got = post(*state, "/v1/completions",
                       "{'prompt':'@@fail_after=2 text=abcd','temperature':0,'stream':true}");
    assert_int_equal(got->status, 200);
    const char *text = got->body;
    const char *code = NULL;
    for (json_t *event; !code; json_decref(event)) {
        event = next_event(&text);
        assert_non_null(event);
        code = json_string_value(at(event, "error.code"));
        if (code)
            assert_string_equal(code, "model_unavailable");
    }
    assert_null(next_event(&text));
    forget(got);
}

static void says_that_the_time_is_over(void **state) {
    expect_error(post(*state, "/v1/completions",
                      "{'prompt':'@@first_ms=60000 text=a','temperature':0,'timeout':0.05}"),
                 408, "request_timeout");
    expect_error(post(*state, "/v1/completions",
                      "{'prompt':'@@interval_ms=30000 text=abc','temperature':0,'timeout':0.2}"),
                 504, "request_timeout");
}

/* ---- Traces. ---- */

static void tells_where_the_time_went(void **state) {
    answer *got = ask(*state, "POST", "/v1/completions", JSON_TYPE "x-request-id: traced\r\n",
                      "{'prompt':'@@text=ab','temperature':0,'longhaul':{'timing':true}}");
    assert_true(json_is_object(at(got->json, "longhaul.timing")));
    forget(got);
    got = get(*state, "/trace/traced");
    assert_int_equal(got->status, 200);
    expect_text(got->json, "otherData.request_id", "traced");
    assert_true(json_is_true(at(got->json, "otherData.over")));
    assert_int_equal(json_integer_value(at(got->json, "otherData.prompt_tokens")), 9);
    forget(got);
    expect_error(get(*state, "/trace/other"), 404, "trace_not_found");
}

/* ---- Keys. ---- */

/* echo -n one | sha256sum, and so on */
#define ONE "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
#define TWO "sha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"

static void a_key_says_what_a_client_may(void **state) {
    (void)state;
    static const char as_one[] = JSON_TYPE "Authorization: Bearer one\r\n",
                      body[] = "{'prompt':'@@text=hi','temperature':0}";
    char path[] = "/tmp/longhaul-api-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fputs("slow " ONE " requests-per-minute=2 tokens-per-minute=20\nboss " TWO " admin\n", file);
    fclose(file);
    bench *b = open_bench(path);
    unlink(path);
    answer *got = get(b, "/v1/models");
    assert_true(has(got, "WWW-Authenticate: Bearer\r\n"));
    expect_error(got, 401, "invalid_api_key");
    expect_error(ask(b, "GET", "/fleet", as_one, ""), 403, "insufficient_scope");
    got = ask(b, "GET", "/fleet", "Authorization: Bearer two\r\n", "");
    assert_int_equal(got->status, 200);
    forget(got);
    got = get(b, "/health"); /* needs none */
    assert_int_equal(got->status, 200);
    forget(got);

    got = ask(b, "POST", "/v1/completions", as_one, body);
    assert_int_equal(got->status, 200);
    assert_true(has(got, "x-ratelimit-limit-requests: 2\r\n") &&
                has(got, "x-ratelimit-remaining-requests: 1\r\n") &&
                has(got, "x-ratelimit-limit-tokens: 20\r\n"));
    unsigned left;
    assert_int_equal(sscanf(strstr(got->text, "x-ratelimit-remaining-tokens"), "%*s %u", &left), 1);
    assert_true(left <= 10); /* 9 of the prompt, 2 of the answer */
    forget(got);
    forget(ask(b, "POST", "/v1/completions", as_one, body));
    got = ask(b, "POST", "/v1/completions", as_one, body);
    assert_true(has(got, "retry-after-ms: "));
    assert_non_null(strstr(json_string_value(at(got->json, "error.message")), "slow: "));
    expect_error(got, 429, "rate_limit_exceeded");
    close_bench(b);
}

/* The line that the log has of a request ends with its id and how many are missing before it. */
static void expect_logged(const char *log, const char *id, const char *first, const char *second) {
    char end[64];
    snprintf(end, sizeof end, " id=%s left_out=0\n", id);
    const char *at_end = strstr(log, end), *from = at_end;
    assert_non_null(at_end);
    while (from > log && from[-1] != '\n')
        from--;
    char *line = strndup(from, (size_t)(at_end - from));
    if (!strstr(line, first) || !strstr(line, second) || !strstr(line, " peer=127.0.0.1:"))
        fail_msg("%s", line);
    free(line);
}

static void the_log_has_a_line_for_each_request(void **state) {
    (void)state;
    bench *b = open_bench(NULL);
    char answered[64];
    log_capture_begin();
    answer *got = ask(b, "POST", "/v1/completions", JSON_TYPE "x-request-id: good\r\n",
                      "{'prompt':'@@text=ab'}");
    snprintf(answered, sizeof answered, " answer=%s ", json_string_value(at(got->json, "id")));
    forget(got);
    forget(ask(b, "POST", "/v1/completions", JSON_TYPE "x-request-id: bad\r\n", "{}"));
    forget(ask(b, "GET", "/version", "x-request-id: other\r\n", ""));
    close_bench(b);
    char *log = log_capture_end();
    expect_logged(log, "good", answered, " chain=scripted epoch=7 client=- ");
    expect_logged(log, "bad", " answer=- ", " chain=- epoch=0 ");
    expect_logged(log, "other", " answer=- ", " route=/version ");
    free(log);
}

static int start(void **state) {
    *state = open_bench(NULL);
    return 0;
}

static int stop(void **state) {
    close_bench(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_each_answer),
        cmocka_unit_test(tokenizes),
        cmocka_unit_test(speaks_gzip),
        cmocka_unit_test(named_origins_may_read),
        cmocka_unit_test(refuses_by_the_headers),
        cmocka_unit_test(takes_json_that_curl_calls_a_form),
        cmocka_unit_test(tells_what_it_serves),
        cmocka_unit_test(tells_why_it_is_not_ready),
        cmocka_unit_test(tells_ids_and_stops),
        cmocka_unit_test(answers_a_chat),
        cmocka_unit_test(answers_completions),
        cmocka_unit_test(tells_what_a_prompt_was_worth),
        cmocka_unit_test(streams_a_chat),
        cmocka_unit_test(streams_completions_with_their_prompts),
        cmocka_unit_test(keeps_a_silent_stream_alive),
        cmocka_unit_test(a_silent_stream_says_what_it_waits_for),
        cmocka_unit_test(says_what_is_wrong_with_a_body),
        cmocka_unit_test(bounds_the_headers),
        cmocka_unit_test(bounds_the_body),
        cmocka_unit_test(says_when_to_come_again),
        cmocka_unit_test(says_when_the_weights_are_there),
        cmocka_unit_test(a_failure_is_an_error_or_an_event),
        cmocka_unit_test(says_that_the_time_is_over),
        cmocka_unit_test(tells_where_the_time_went),
        cmocka_unit_test(a_key_says_what_a_client_may),
        cmocka_unit_test(the_log_has_a_line_for_each_request),
        cmocka_unit_test(says_what_the_workers_cannot_compute),
        cmocka_unit_test(takes_nothing_new_while_it_drains),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
