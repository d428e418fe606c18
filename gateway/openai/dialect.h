/* What an endpoint says in words of its own: how its requests are read, and how its answers are
 * written. All that happens between the two is the same for all of them: reading.h makes a request
 * ready to be submitted, answer.h pulls pieces and hands them to the endpoint's writer, which puts
 * them into events, or gathers them for an answer that goes out whole.
 *
 * Whoever opens the API hands in the dialects that are not OpenAI's completions (api.h), so that
 * each has a room of its own and knows this one, but is not known here. Static data; thread: a
 * writer is its owner's. */
#pragma once

#include "gateway/openai/reading.h"
#include "gateway/openai/render.h"
#include "gateway/openai/server_events.h"

struct lh_openai_dialect {
    lh_openai_endpoint endpoint;
    const char *id_prefix; /* of its answers: "chatcmpl-" */
    const char *id_header; /* in which replies tell their request's id, too; NULL: x-request-id is
                              all that its clients look for */

    /* By which a request without a body says that it is in these words; NULL: by nothing. */
    const char *version_header;
    const char *stream_type; /* of streams that are no server-sent events; NULL: they are */

    /* As lh_openai_request_parse, which reads chat and completions. */
    bool (*parse)(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                  lh_openai_request *request, lh_openai_error *error);

    /* A writer, which takes out of the reading what it needs of it; NULL: no memory. `events` is
     * where a stream goes, NULL where the answer goes out whole; it and the frame outlive it. */
    void *(*open)(const lh_openai_frame *frame, lh_openai_reading *reading,
                  lh_server_events *events);
    /* NULL is allowed. */
    void (*destroy)(void *writer);
    /* The next piece. LH_ERR_NO_MEMORY, also of the next three: the answer is of no use any more.
     */
    lh_status (*put)(void *writer, const lh_generation_piece *piece, const lh_token_usage *usage);
    /* Of a stream, where it can be one: all choices have ended; it cannot go on; it is silent
     * (waiting: for what, or ""). The first two are its last events, and set `done`. */
    lh_status (*end)(void *writer, const lh_token_usage *usage);
    lh_status (*fail)(void *writer, const lh_openai_error *error);
    lh_status (*keep_alive)(void *writer, const char *waiting);
    /* Of an answer that goes out whole, once all choices have ended; NULL: no memory. */
    json_t *(*whole)(void *writer, const lh_token_usage *usage);
    /* The body of a reply that refuses, which is logged under this id; NULL: no memory. None where
     * errors are OpenAI's. */
    json_t *(*error_json)(const lh_openai_error *error, const char *request_id);
    /* The model under one of its names, and the list of such entries, which it takes; NULL: no
     * memory. None where they are OpenAI's. */
    json_t *(*model_json)(const lh_served_model *model, const char *name, size_t length);
    json_t *(*models_json)(json_t *entries);
};

/* Ollama's has several dialects, and routes that tell of the model without asking it anything. */
struct lh_openai_ollama {
    const lh_openai_dialect *chat, *generate, *embed, *embeddings;
    /* The answer of a route that tells. body: of /api/show, else NULL, not taken; is_ready: the
     * model can be asked. NULL: *error says why not. */
    json_t *(*tell)(lh_openai_action action, const lh_served_model *model,
                    const lh_openai_limits *limits, bool is_ready, const json_t *body,
                    lh_openai_error *error);
};

/* That of an endpoint. */
const lh_openai_dialect *lh_openai_dialect_of(const lh_openai_service *service,
                                              lh_openai_endpoint endpoint);
