/* A parser, and a writer that gathers one vector for each input.
 *
 * The sums are integers, the same on any split (PROTOCOL.md, "Pooling"); what is done with them is
 * done column by column in one order. So an embedding has one set of bits, and floats and base64
 * tell the same. A mean is the sum at another length: as the vectors have length 1, nothing need be
 * divided. */
#include "gateway/openai/embeddings.h"

#include "common/base/base64.h"
#include "common/json/json_text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As OpenAI's; and of all that an answer holds in memory. */
#define INPUTS_MAX 2048u
#define VALUES_MAX (1u << 21)

/* ---- Requests ---- */

static bool check_model(const lh_body_reader *body, const lh_openai_limits *limits) {
    return limits->pooling.kind != LH_MODEL_POOLS_OTHERWISE ||
           lh_openai_refuse(body->error, 400, "model", "unsupported_value",
                            "This model's file wants its hidden states to be read in a way that "
                            "this server does not know: it gives no embeddings.");
}

static lh_pooling pooling_of(const lh_openai_limits *limits) {
    switch (limits->pooling.kind) {
    case LH_MODEL_POOLS_FIRST:
        return LH_POOLING_FIRST;
    case LH_MODEL_POOLS_LAST:
        return LH_POOLING_LAST;
    default:
        return LH_POOLING_MEAN;
    }
}

/* A vector of fewer columns means something only to a model that was trained for it, and no file
 * says that it was. */
static void check_dimensions(const lh_body_reader *body, const lh_openai_limits *limits) {
    int64_t dimensions = lh_body_integer(body, "dimensions", 1, UINT32_MAX, limits->width);
    if (dimensions != limits->width)
        lh_body_refuse(body, "dimensions", "unsupported_value",
                       "can only be %u, which the embeddings of this model have.", limits->width);
}

bool lh_openai_embeddings_read(const lh_body_reader *body, const char *key,
                               const lh_openai_limits *limits, lh_openai_request *request) {
    lh_openai_limits of_inputs = *limits;
    of_inputs.prompts_max =
        limits->width < VALUES_MAX / INPUTS_MAX ? INPUTS_MAX : VALUES_MAX / limits->width;
    lh_openai_parameters_parse_pooled(body, request->endpoint, limits, &request->parameters);
    request->parameters.sequence.pooling = pooling_of(limits);
    request->appends_eos = limits->pooling.appends_eos && request->parameters.adds_special;
    check_dimensions(body, limits);
    lh_openai_prompts_parse(body, key, &of_inputs, request);
    return !body->error->status && check_model(body, limits);
}

static bool parse(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                  lh_openai_request *request, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    *request = (lh_openai_request){.endpoint = endpoint, .body = body};
    *error = (lh_openai_error){0};
    const char *format = lh_body_choice(&reader, "encoding_format", "float|base64");
    request->wants_base64 = format && strcmp(format, "base64") == 0;
    return lh_openai_embeddings_read(&reader, "input", limits, request);
}

/* ---- Answers ---- */

typedef struct writer {
    const lh_openai_frame *frame;
    bool wants_base64;
    uint32_t count, width;
    float *vectors; /* [count][width] */
} writer;

static void destroy(void *context) {
    writer *w = context;
    if (w)
        free(w->vectors);
    free(w);
}

static void *open_writer(const lh_openai_frame *frame, lh_openai_reading *reading,
                         lh_server_events *events) {
    (void)events; /* nothing streams */
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->wants_base64 = reading->request.wants_base64;
    w->count = (uint32_t)reading->prompt_count;
    w->width = frame->model->width;
    w->vectors = calloc((size_t)w->count * w->width, sizeof *w->vectors);
    if (w->vectors)
        return w;
    destroy(w);
    return NULL;
}

/* Of length 1; all zeros stay so. */
static void normalize(const int64_t *sums, uint32_t width, float *vector) {
    double squares = 0;
    for (uint32_t c = 0; c < width; c++)
        squares += (double)sums[c] * (double)sums[c];
    double length = sqrt(squares);
    for (uint32_t c = 0; c < width; c++)
        vector[c] = length > 0 ? (float)((double)sums[c] / length) : 0;
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    writer *w = context;
    (void)usage;
    if (!piece->finished)
        return LH_OK;
    const lh_prompt_answer *prompt = piece->prompt;
    assert(prompt && prompt->pooled_count == w->width); /* generation.c, sequence_ask.c */
    normalize(prompt->pooled, w->width, w->vectors + (size_t)piece->choice * w->width);
    return LH_OK;
}

static json_t *floats_json(const float *vector, uint32_t width) {
    json_t *list = json_array();
    for (uint32_t c = 0; c < width; c++)
        list = lh_json_append(list, json_real((double)vector[c]));
    return list;
}

/* The floats as they lie in memory, little-endian. */
static json_t *base64_json(const float *vector, uint32_t width) {
    size_t bytes = width * sizeof *vector;
    char *text = malloc(LH_BASE64_TEXT_BYTES(bytes));
    if (!text)
        return NULL;
    lh_base64_render((const uint8_t *)vector, bytes, text);
    json_t *json = json_string(text);
    free(text);
    return json;
}

json_t *lh_openai_embeddings_list(const void *writer_of) {
    const writer *w = writer_of;
    json_t *all = json_array();
    for (uint32_t i = 0; i < w->count; i++)
        all = lh_json_append(all, floats_json(w->vectors + (size_t)i * w->width, w->width));
    return all;
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    json_t *data = json_array();
    for (uint32_t i = 0; i < w->count; i++) {
        const float *vector = w->vectors + (size_t)i * w->width;
        json_t *told =
            w->wants_base64 ? base64_json(vector, w->width) : floats_json(vector, w->width);
        data = lh_json_append(data, json_pack("{s:s, s:I, s:o}", "object", "embedding", "index",
                                              (json_int_t)i, "embedding", told));
    }
    return json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model",
                     w->frame->model->id, "data", data, "usage", "prompt_tokens",
                     (json_int_t)usage->prompt_tokens, "total_tokens",
                     (json_int_t)usage->prompt_tokens);
}

const lh_openai_dialect lh_openai_embeddings = {.endpoint = LH_OPENAI_EMBEDDINGS,
                                                .id_prefix = "embd-",
                                                .parse = parse,
                                                .open = open_writer,
                                                .destroy = destroy,
                                                .put = put,
                                                .whole = whole};
