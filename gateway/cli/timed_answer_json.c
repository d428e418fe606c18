/* One POST, and a few numbers out of what comes. */
#include "gateway/cli/timed_answer_json.h"

#include "common/base/random_id.h"
#include "common/json/json_object.h"
#include "gateway/cli/api_fetch.h"

#include <stdlib.h>

/* Tokens that every vocabulary has. */
#define TOKENS 200u

static json_t *random_prompt(uint32_t tokens) {
    json_t *prompt = json_array();
    for (uint32_t i = 0; i < tokens; i++)
        json_array_append_new(prompt, json_integer((json_int_t)(lh_random_u64() % TOKENS)));
    return prompt;
}

static char *render(const lh_timed_request *request) {
    json_t *json =
        json_pack("{s:o, s:i, s:i, s:b, s:{s:b}}", "prompt", random_prompt(request->prompt_tokens),
                  "max_tokens", (int)request->answer_tokens, "temperature", 0, "ignore_eos", 1,
                  "longhaul", "timing", 1);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static lh_status refuse(const json_t *root, long http_status, lh_error *error) {
    const char *message =
        json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    return lh_fail(error, LH_ERR_INVALID, "the gateway refuses a request (HTTP %ld): %.200s",
                   http_status, message ? message : "without a word");
}

static lh_status read(const lh_text_buffer *body, long http_status, lh_timed_answer *answer,
                      lh_error *error) {
    json_t *root = lh_json_object_parse(body->bytes, body->length, error);
    lh_status status = LH_OK;
    if (!root)
        return error->status;
    const json_t *timing = json_object_get(json_object_get(root, "longhaul"), "timing");
    const json_t *decode = json_object_get(timing, "decode");
    *answer = (lh_timed_answer){json_number_value(json_object_get(timing, "prefill_ms")),
                                json_number_value(json_object_get(decode, "token_ms"))};
    if (http_status != 200)
        status = refuse(root, http_status, error);
    else if (!(answer->prefill_ms > 0) || !(answer->token_ms > 0))
        status = lh_fail(error, LH_ERR_MALFORMED, "the gateway's answer has no timing");
    json_decref(root);
    return status;
}

lh_status lh_timed_answer_ask(const lh_timed_request *request, lh_timed_answer *answer,
                              lh_error *error) {
    lh_text_buffer body = {0};
    long http_status = 0;
    char *text = render(request);
    if (!text)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    lh_status status = lh_api_post(request->url, "/v1/completions", text, request->key,
                                   &http_status, &body, error);
    if (status == LH_OK)
        status = read(&body, http_status, answer, error);
    lh_text_buffer_reset(&body);
    free(text);
    return status;
}
