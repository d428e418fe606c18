/* One request of the API from its headers to its end: who may ask for what, which answer it gets,
 * the headers of every reply, and a line in the log. Private to gateway/openai/. */
#pragma once

#include "gateway/openai/service.h"

/* Where requests come in: the same routes at each, and on Ollama's port those that only a server of
 * its own has. */
typedef struct lh_openai_door {
    lh_openai_service *service;
    bool is_ollama;
} lh_openai_door;

/* The door and its service outlive the server that the handler is for. */
lh_http_handler lh_openai_call_handler(lh_openai_door *door);
