/* What stands before an answer that has a form: a thought, where the model's template marks them,
 * and the header of the final message, where answers have channels. Thread: any. */
#pragma once

#include "gateway/text/thinking.h"
#include "gateway/text/tokenizer.h"

#include <jansson.h>

typedef struct lh_answer_lead {
    const lh_thinking_marks *marks;
    const lh_tokenizer *tokenizer;
    const lh_tokens *prompt;
    bool is_thinking; /* the prompt ends inside of a thought */
    bool has_head;    /* the prompt ends where an answer begins */
    bool has_header;  /* the form is to stand behind the header of a final message */
} lh_answer_lead;

/* Of channels: what a final message begins with. */
const char *lh_answer_lead_header(void);

/* The lead of lh_constraint_source, which is the caller's; json_null: there is none. NULL: no
 * memory. */
json_t *lh_answer_lead_make(const lh_answer_lead *of);
