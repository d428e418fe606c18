/* Inputs are read and vectors gathered as OpenAI's are (gateway/openai/embeddings.h). */
#include "gateway/ollama/ollama_embeddings.h"

#include "common/base/clock.h"
#include "common/json/json_text.h"
#include "gateway/ollama/ollama_json.h"
#include "gateway/openai/embeddings.h"

#include <stdlib.h>

/* ---- Requests ---- */

/* Where nothing is to be embedded, nothing is. */
static bool is_empty(const json_t *input) {
    return (json_is_string(input) && json_string_length(input) == 0) ||
           (json_is_array(input) && json_array_size(input) == 0);
}

static bool answer_at_once(lh_openai_request *request, const lh_openai_limits *limits,
                           json_t *answer, lh_openai_error *error) {
    request->reply = lh_json_set(answer, "model", json_string(limits->model));
    return request->reply || lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
}

static bool parse(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                  lh_openai_request *request, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    bool is_elder = endpoint == LH_OPENAI_OLLAMA_EMBEDDINGS;
    const char *key = is_elder ? "prompt" : "input";
    *request = (lh_openai_request){.endpoint = endpoint, .body = body};
    *error = (lh_openai_error){0};
    if (!is_empty(lh_body_field(&reader, key)))
        return lh_openai_embeddings_read(&reader, key, limits, request);
    lh_openai_parameters_parse_pooled(&reader, endpoint, limits, &request->parameters);
    return !error->status &&
           answer_at_once(request, limits,
                          json_pack("{s:[]}", is_elder ? "embedding" : "embeddings"), error);
}

/* ---- Answers ---- */

typedef struct writer {
    const lh_openai_frame *frame;
    void *vectors; /* the writer of lh_openai_embeddings */
} writer;

static void destroy(void *context) {
    writer *w = context;
    if (w)
        lh_openai_embeddings.destroy(w->vectors);
    free(w);
}

static void *open_writer(const lh_openai_frame *frame, lh_openai_reading *reading,
                         lh_server_events *events) {
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->vectors = lh_openai_embeddings.open(frame, reading, events);
    if (w->vectors)
        return w;
    destroy(w);
    return NULL;
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    const writer *w = context;
    return lh_openai_embeddings.put(w->vectors, piece, usage);
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    int64_t elapsed_us = lh_clock_us() - w->frame->received_us;
    return json_pack("{s:s, s:o, s:I, s:i, s:I}", "model", w->frame->model->id, "embeddings",
                     lh_openai_embeddings_list(w->vectors), "total_duration",
                     (json_int_t)elapsed_us * 1000, "load_duration", 0, "prompt_eval_count",
                     (json_int_t)usage->prompt_tokens);
}

/* Of one prompt. */
static json_t *whole_elder(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    (void)usage;
    json_t *list = lh_openai_embeddings_list(w->vectors);
    json_t *answer = json_pack("{s:O?}", "embedding", json_array_get(list, 0));
    json_decref(list);
    return answer;
}

#define DIALECT(endpoint_, whole_)                                                                 \
    {.endpoint = endpoint_,                                                                        \
     .id_prefix = "embd-",                                                                         \
     .parse = parse,                                                                               \
     .open = open_writer,                                                                          \
     .destroy = destroy,                                                                           \
     .put = put,                                                                                   \
     .whole = whole_,                                                                              \
     .error_json = lh_ollama_error}

const lh_openai_dialect lh_ollama_embed = DIALECT(LH_OPENAI_OLLAMA_EMBED, whole);
const lh_openai_dialect lh_ollama_embeddings = DIALECT(LH_OPENAI_OLLAMA_EMBEDDINGS, whole_elder);
