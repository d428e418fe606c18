/* Figures of the API's requests, for Prometheus: what was answered, how long clients waited for the
 * first token and the ones after it, how answers ended, what was refused and why. Names and bounds
 * are parallel to vLLM's. Noting is additions without a lock, also for each token; any thread. */
#pragma once

#include "common/metrics/exposition.h"
#include "gateway/schedule/sequence_request.h"

#define LH_METRIC_ROUTES_MAX   48u
#define LH_METRIC_STATUSES_MAX 24u
#define LH_METRIC_REFUSALS_MAX 40u

/* How a choice ended. */
typedef enum lh_request_end {
    LH_REQUEST_STOP,   /* a stop token, or a stop string */
    LH_REQUEST_LENGTH, /* as long as it may be */
    LH_REQUEST_ABORT,  /* its client has gone */
    LH_REQUEST_ERROR,
    LH_REQUEST_ENDS
} lh_request_end;

typedef struct lh_request_metrics {
    lh_histogram first_token, next_token, whole;
    lh_histogram prompt_tokens, generation_tokens; /* of a prompt, of a choice */
    lh_counter prompt_tokens_total, generation_tokens_total;
    lh_counter unknown_fields;
    lh_counter ends[LH_REQUEST_ENDS];
    lh_counter answered[LH_METRIC_ROUTES_MAX][LH_METRIC_STATUSES_MAX];
    lh_counter refused[LH_METRIC_REFUSALS_MAX];
} lh_request_metrics;

void lh_request_metrics_init(lh_request_metrics *metrics);

/* A prompt of so many tokens was admitted. */
void lh_request_metrics_note_prompt(lh_request_metrics *metrics, uint64_t tokens);
/* A choice's first token, so long after its request's headers; and one after another token. */
void lh_request_metrics_note_first_token(lh_request_metrics *metrics, int64_t after_us);
void lh_request_metrics_note_next_token(lh_request_metrics *metrics, int64_t after_us);
/* A choice of so many tokens ended, so long after its request's headers. */
void lh_request_metrics_note_end(lh_request_metrics *metrics, lh_request_end end, uint64_t tokens,
                                 int64_t after_us);
/* A request was answered with this status. route: its number (routes.h). */
void lh_request_metrics_note_answer(lh_request_metrics *metrics, uint32_t route, unsigned status);
/* The body of a request had so many fields that nobody knows. */
void lh_request_metrics_note_unknown_fields(lh_request_metrics *metrics, uint64_t fields);
/* A request was refused. code: the error's, or NULL. */
void lh_request_metrics_note_refusal(lh_request_metrics *metrics, const char *code);

void lh_request_metrics_render(const lh_request_metrics *metrics, lh_exposition *exposition);
