/* What Ollama's answers have in common. Each json_t is the caller's; NULL: no memory.
 * Thread: any. */
#pragma once

#include "gateway/openai/error.h"
#include "gateway/openai/render.h"

#include <jansson.h>
#include <stdint.h>

#define LH_OLLAMA_TIME_BYTES 40
/* Unix time as "2026-11-29T15:04:05.000001Z". */
void lh_ollama_time(int64_t seconds, int64_t microseconds, char text[LH_OLLAMA_TIME_BYTES]);

/* {"model", "created_at": now}. */
json_t *lh_ollama_object(const char *model);
/* Adds to an answer, which it takes, that it ends, why, and what it took; usage NULL: nothing, as
 * the model was asked nothing. Times count from the request's headers on, so that what it waited
 * is in those of the prompt. */
json_t *lh_ollama_end(json_t *answer, const char *reason, const lh_openai_frame *frame,
                      const lh_token_usage *usage);
/* {"error": "..."}. As lh_openai_dialect has it. */
json_t *lh_ollama_error(const lh_openai_error *error, const char *request_id);
