/* A conversation with a running gateway's model, in a terminal or in one question. Thread: the
 * program's only one. */
#pragma once

#include "gateway/cli/answer_style.h"

typedef struct lh_conversation_options {
    const char *url, *key; /* of the gateway's API; key "": none */
    const lh_answer_style *style;
    const char *prompt; /* the one question; NULL: that of standard input, or a conversation */
} lh_conversation_options;

/* Answers go to standard output as they come, everything else to standard error. With a terminal at
 * standard input, and without a prompt, it goes on until /bye or the end of the input; Ctrl-C stops
 * an answer. Without one there is one answer, which Ctrl-C ends, too: LH_ERR_CANCELLED. Statuses of
 * lh_transcript_create, lh_message_read_all and lh_api_transfer; LH_ERR_INVALID: the style, or the
 * gateway refuses the question. What goes wrong within a conversation is told, and it goes on. */
lh_status lh_conversation_run(const lh_conversation_options *options, lh_error *error);
