/* The answer to a step (PROTOCOL.md, "Answer"): 200 and `{}`, or to a step of a trial the name of
 * who has read it, or a code and a JSON problem that names the worker where it went wrong. Thread:
 * any. */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"

#include <stddef.h>

#define LH_WORKER_NAME_BYTES LH_NAME_BYTES

typedef struct lh_step_answer {
    lh_status status;
    char worker[LH_WORKER_NAME_BYTES]; /* "": the gateway, or nobody was named */
    bool is_named;                     /* of LH_OK: the body says `worker` */
    char message[LH_ERROR_MESSAGE_BYTES];
} lh_step_answer;

/* The code with which the worker answers where a step failed with this status (not LH_OK: 200). */
int lh_step_answer_http_status(lh_status status);

/* The JSON text of a failure: malloc'd, the caller frees; NULL: out of memory. */
char *lh_step_answer_render(const char *worker, lh_status status, const char *message);

/* Fills *answer from a response. What the body does not say (it is a proxy's, or cut) comes from
 * the code. */
void lh_step_answer_parse(int http_status, const char *body, size_t length, lh_step_answer *answer);
