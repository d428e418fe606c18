/* One request of the API from its headers to its end: who may ask for what, which answer it gets,
 * the headers of every reply, and a line in the log. Private to gateway/openai/. */
#pragma once

#include "gateway/openai/service.h"

/* The service outlives the server that the handler is for. */
lh_http_handler lh_openai_call_handler(lh_openai_service *service);
