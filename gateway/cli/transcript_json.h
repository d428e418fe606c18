/* A conversation so far, as the API is told of it. One thread at a time. */
#pragma once

#include "gateway/cli/answer_style.h"

#include <stddef.h>

typedef struct lh_transcript lh_transcript;

/* style, which has been checked, outlives the transcript. LH_ERR_NO_MEMORY. */
lh_status lh_transcript_create(const lh_answer_style *style, lh_transcript **transcript,
                               lh_error *error);
/* NULL is allowed. */
void lh_transcript_destroy(lh_transcript *transcript);

/* What was said is forgotten; what the model is told first stays, until it is something else. */
void lh_transcript_clear(lh_transcript *transcript);
lh_status lh_transcript_set_system(lh_transcript *transcript, const char *system, lh_error *error);

/* role: "user" or "assistant". What is no UTF-8 of the text becomes U+FFFD. LH_ERR_NO_MEMORY. */
lh_status lh_transcript_add(lh_transcript *transcript, const char *role, const char *text,
                            size_t length, lh_error *error);
/* As if the last one had not been said. There is one. */
void lh_transcript_take_back(lh_transcript *transcript);

/* Bodies of requests for a stream, malloc'd, the caller frees; NULL: no memory. Of a chat; and of a
 * completion that goes on from what was said last, for models that know no conversations. */
char *lh_transcript_render_chat(const lh_transcript *transcript);
char *lh_transcript_render_completion(const lh_transcript *transcript);
