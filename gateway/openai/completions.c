/* A writer that streams chunks, or gathers each choice. */
#include "gateway/openai/completions.h"

#include "gateway/openai/stream.h"

#include <stdlib.h>

typedef struct writer {
    const lh_openai_frame *frame;
    uint32_t choices;
    lh_text_buffer *echoes; /* [echo_count], or NULL */
    uint32_t echo_count;
    lh_openai_stream stream;      /* of what streams */
    lh_openai_gathered *gathered; /* [choices], of what does not */
} writer;

static void destroy(void *context) {
    writer *w = context;
    if (!w)
        return;
    for (uint32_t i = 0; w->gathered && i < w->choices; i++)
        lh_openai_gathered_reset(&w->gathered[i]);
    for (uint32_t i = 0; i < w->echo_count; i++)
        lh_text_buffer_reset(&w->echoes[i]);
    for (uint32_t i = 0; w->stream.custom_calls && i < w->choices; i++)
        lh_text_buffer_reset(&w->stream.custom_calls[i].arguments);
    free(w->stream.custom_calls);
    free(w->gathered);
    free(w->echoes);
    free(w);
}

/* A choice's text begins with what is echoed. */
static bool prepare_gathered(writer *w) {
    w->gathered = calloc(w->choices, sizeof *w->gathered);
    bool prepared = w->gathered;
    for (uint32_t i = 0; w->echoes && prepared && i < w->choices; i++) {
        const lh_text_buffer *echo = &w->echoes[i / w->frame->choices_per_prompt];
        prepared = !lh_text_buffer_append(&w->gathered[i].text, echo->bytes, echo->length, NULL);
    }
    return prepared;
}

static bool prepare_stream(writer *w) {
    if (json_object_size(w->frame->tool_kinds) == 0)
        return true;
    w->stream.custom_calls = calloc(w->choices, sizeof *w->stream.custom_calls);
    return w->stream.custom_calls;
}

static void *open_writer(const lh_openai_frame *frame, lh_openai_reading *reading,
                         lh_server_events *events) {
    const lh_openai_parameters *parameters = &reading->request.parameters;
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->choices = (uint32_t)reading->prompt_count * parameters->choices;
    w->echoes = reading->echoes;
    w->echo_count = reading->echoes ? (uint32_t)reading->prompt_count : 0;
    reading->echoes = NULL;
    w->stream = (lh_openai_stream){.frame = frame,
                                   .events = events,
                                   .echoes = w->echoes,
                                   .choices = w->choices,
                                   .choices_per_prompt = parameters->choices,
                                   .include_usage = parameters->include_usage,
                                   .continuous_usage =
                                       parameters->include_usage && parameters->continuous_usage};
    if (events ? prepare_stream(w) : prepare_gathered(w))
        return w;
    destroy(w);
    return NULL;
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    writer *w = context;
    return w->gathered ? lh_openai_gather(w->frame, piece, &w->gathered[piece->choice])
                       : lh_openai_stream_put(&w->stream, piece, usage);
}

static lh_status end(void *context, const lh_token_usage *usage) {
    return lh_openai_stream_close(&((writer *)context)->stream, usage);
}

static lh_status fail(void *context, const lh_openai_error *error) {
    return lh_openai_stream_fail(&((writer *)context)->stream, error);
}

static lh_status keep_alive(void *context, const char *waiting) {
    return lh_server_events_keep_alive(((writer *)context)->stream.events, waiting);
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    return lh_openai_answer_json(w->frame, w->gathered, w->choices, usage);
}

#define DIALECT(of, prefix)                                                                        \
    {.endpoint = of,                                                                               \
     .id_prefix = prefix,                                                                          \
     .parse = lh_openai_request_parse,                                                             \
     .open = open_writer,                                                                          \
     .destroy = destroy,                                                                           \
     .put = put,                                                                                   \
     .end = end,                                                                                   \
     .fail = fail,                                                                                 \
     .keep_alive = keep_alive,                                                                     \
     .whole = whole}

const lh_openai_dialect lh_openai_chat = DIALECT(LH_OPENAI_CHAT, "chatcmpl-");
const lh_openai_dialect lh_openai_completions = DIALECT(LH_OPENAI_COMPLETIONS, "cmpl-");
