/* One choice of a request: tokens in, pieces of its text out. Tokens become whole characters, the
 * text passes the stop strings, what the model thinks is told apart from what it answers, and each
 * token's logprob leaves with the text that it begins. Knows nothing of the engine. Thread: its
 * owner's. */
#pragma once

#include "common/base/text_decoder.h"
#include "gateway/openai/prompt_answer.h"
#include "gateway/schedule/answer_store.h"
#include "gateway/schedule/sequence_request.h"
#include "gateway/text/stop_matcher.h"
#include "gateway/text/thinking.h"
#include "gateway/text/tokenizer.h"
#include "gateway/text/tools/tool_call_parser.h"

typedef struct lh_generation_token {
    lh_row_answer answer; /* the token, and what was asked for beside it */
    size_t text_offset;   /* characters of the choice's text before the token's own */
} lh_generation_token;

/* Some text of one choice, its end, or both. Pointers live until the choice's next piece. */
typedef struct lh_generation_piece {
    uint32_t choice;
    const char *text; /* whole characters */
    size_t length;
    const char *thought; /* what it thinks, before its answer; whole characters */
    size_t thought_length;
    /* of the tools that it calls; the arguments' text is in `arguments` */
    const lh_tool_call_delta *calls;
    size_t call_count;
    const char *arguments;
    bool has_called; /* in this piece or before it */
    /* in a choice's first piece, where something was asked of its prompt; else NULL */
    const lh_prompt_answer *prompt;
    /* whose text begins in this piece; only where logprobs, digests or ids were asked for */
    const lh_generation_token *tokens;
    size_t token_count;
    bool finished; /* nothing more comes of this choice */
    lh_finish_reason reason;
    /* Where it has finished by one that the request named: the stop string (NULL: none), or the
     * stop token (-1: none). */
    lh_stop_string stop;
    int64_t stop_token;
} lh_generation_piece;

/* A token whose text has not left yet, and where in the text it begins. */
typedef struct lh_choice_token {
    size_t answer; /* in the store */
    size_t text_offset, decoded_before;
} lh_choice_token;

typedef struct lh_choice {
    /* Set by the owner. */
    const lh_tokenizer *tokenizer;
    lh_stop_matcher *matcher;
    uint32_t index, min_tokens; /* stop strings count only from so many tokens on */
    bool keeps_tokens;
    bool shows_special;             /* control tokens are in the text by their names */
    const lh_prompt_answer *prompt; /* NULL: nothing was asked of it, or it has been shown */
    lh_thinking_splitter splitter;
    lh_tool_call_parser tool_calls;

    uint32_t sampled;
    bool finished;
    lh_finish_reason reason;
    int64_t stop_token; /* of those that the request named, the one that ended it; -1 */

    lh_text_decoder decoder;
    lh_text_buffer decoded;         /* of one token, scratch */
    lh_text_buffer out;             /* what the next piece shows */
    lh_text_buffer thought, answer; /* the same, told apart where the model thinks */
    lh_text_buffer said;            /* the answer without the calls of tools */
    uint32_t thought_tokens;        /* of those sampled; those of the marks are, too */
    /* characters: begins with those of an echo, which the owner sets */
    size_t decoded_bytes, decoded_characters, emitted_bytes;
    lh_choice_token *pending; /* [pending_count]; the first `shown` are in the last piece */
    size_t pending_count, pending_capacity, shown;
    lh_answer_store answers; /* of the pending tokens */
    lh_generation_token *shown_tokens;
    size_t shown_capacity;
} lh_choice;

/* Frees what it holds, its matcher too. */
void lh_choice_reset(lh_choice *choice);
/* Takes a token; the choice has finished when it completes a stop string. LH_ERR_INTERNAL: it is
 * none of the vocabulary; LH_ERR_NO_MEMORY. */
lh_status lh_choice_take_token(lh_choice *choice, const lh_sequence_event *event, lh_error *error);
/* The last token has come: what was held back comes out. LH_ERR_NO_MEMORY. */
lh_status lh_choice_finish(lh_choice *choice, lh_finish_reason reason, lh_error *error);
/* Whether there is text, or the end, to show. */
bool lh_choice_has_piece(const lh_choice *choice);
/* Shows it. LH_ERR_NO_MEMORY. */
lh_status lh_choice_show(lh_choice *choice, lh_generation_piece *piece, lh_error *error);
/* Forgets what was shown. */
void lh_choice_drop(lh_choice *choice);
