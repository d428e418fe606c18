/* The API's description of itself, OpenAPI 3.1: GET /openapi.json. Paths are those of the table of
 * routes; a request's body is what the parsers of that route draw of it (body_reader.h), within the
 * limits of this server. Nothing is written down a second time. Thread: any. */
#pragma once

#include "gateway/openai/service.h"

/* NULL: no memory. */
json_t *lh_openai_openapi_json(const lh_openai_service *service);
