/* Tables with a place for what is none of them, so that no label is a client's. */
#include "gateway/openai/request_metrics.h"

#include "gateway/openai/routes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* vLLM's bounds, and some for tokens that come sooner than those of a large model on one GPU. */
static const double first_token_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                            0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                            20,    40,    80,   160,  640,  2560};
static const double next_token_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                           0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5,
                                           5,     7.5,    10,    20,   40,    80};
static const double whole_bounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double token_bounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

/* Statuses that are answered; the last place is for all others. */
static const uint16_t statuses[] = {200, 204, 400, 401, 403, 404, 405, 408, 413, 414, 415,
                                    421, 429, 431, 499, 500, 501, 503, 504, 505, 0};
/* Codes of errors; the last place is for all others, and for those without a code. */
static const char *const refusals[] = {"array_above_max_length",
                                       "client_closed_request",
                                       "context_length_exceeded",
                                       "host_not_allowed",
                                       "insufficient_scope",
                                       "internal_error",
                                       "invalid_api_key",
                                       "invalid_json",
                                       "invalid_type",
                                       "invalid_value",
                                       "method_not_allowed",
                                       "missing_required_parameter",
                                       "model_not_found",
                                       "model_unavailable",
                                       "object_above_max_properties",
                                       "queue_full",
                                       "rate_limit_exceeded",
                                       "request_timeout",
                                       "request_too_large",
                                       "string_above_max_length",
                                       "trace_not_found",
                                       "tracing_off",
                                       "unknown_parameter",
                                       "unknown_url",
                                       "unsupported_media_type",
                                       "unsupported_parameter",
                                       "unsupported_value",
                                       "upstream_timeout",
                                       "other"};

_Static_assert(COUNT(statuses) <= LH_METRIC_STATUSES_MAX, "a place for each status");
_Static_assert(COUNT(refusals) <= LH_METRIC_REFUSALS_MAX, "a place for each code");

#define INIT(histogram, bounds) lh_histogram_init(histogram, bounds, (uint32_t)COUNT(bounds))

void lh_request_metrics_init(lh_request_metrics *m) {
    *m = (lh_request_metrics){0};
    INIT(&m->first_token, first_token_bounds);
    INIT(&m->next_token, next_token_bounds);
    INIT(&m->whole, whole_bounds);
    INIT(&m->prompt_tokens, token_bounds);
    INIT(&m->generation_tokens, token_bounds);
}

/* ---- Noting ---- */

void lh_request_metrics_note_prompt(lh_request_metrics *m, uint64_t tokens) {
    lh_counter_add(&m->prompt_tokens_total, tokens);
    lh_histogram_observe_count(&m->prompt_tokens, tokens);
}

void lh_request_metrics_note_first_token(lh_request_metrics *m, int64_t after_us) {
    lh_counter_add(&m->generation_tokens_total, 1);
    lh_histogram_observe_us(&m->first_token, after_us);
}

void lh_request_metrics_note_next_token(lh_request_metrics *m, int64_t after_us) {
    lh_counter_add(&m->generation_tokens_total, 1);
    lh_histogram_observe_us(&m->next_token, after_us);
}

void lh_request_metrics_note_end(lh_request_metrics *m, lh_request_end end, uint64_t tokens,
                                 int64_t after_us) {
    lh_counter_add(&m->ends[end], 1);
    if (end != LH_REQUEST_STOP && end != LH_REQUEST_LENGTH)
        return;
    lh_histogram_observe_count(&m->generation_tokens, tokens);
    lh_histogram_observe_us(&m->whole, after_us);
}

void lh_request_metrics_note_answer(lh_request_metrics *m, uint32_t route, unsigned status) {
    size_t place = 0;
    assert(route < LH_METRIC_ROUTES_MAX);
    while (place + 1 < COUNT(statuses) && statuses[place] != status)
        place++;
    lh_counter_add(&m->answered[route][place], 1);
}

void lh_request_metrics_note_unknown_fields(lh_request_metrics *m, uint64_t fields) {
    lh_counter_add(&m->unknown_fields, fields);
}

void lh_request_metrics_note_refusal(lh_request_metrics *m, const char *code) {
    size_t place = 0;
    while (place + 1 < COUNT(refusals) && (!code || strcmp(refusals[place], code) != 0))
        place++;
    lh_counter_add(&m->refused[place], 1);
}

/* ---- Rendering ---- */

static void render_histogram(lh_exposition *e, const char *name, const char *help,
                             const lh_histogram *histogram) {
    lh_exposition_family(e, name, LH_METRIC_HISTOGRAM, help);
    lh_exposition_histogram(e, NULL, histogram);
}

static void render_total(lh_exposition *e, const char *name, const char *help,
                         const lh_counter *counter) {
    lh_exposition_family(e, name, LH_METRIC_COUNTER, help);
    lh_exposition_count(e, NULL, lh_counter_read(counter));
}

static void render_ends(const lh_request_metrics *m, lh_exposition *e) {
    static const char *const names[LH_REQUEST_ENDS] = {"stop", "length", "abort", "error"};
    lh_exposition_family(e, "longhaul_request_finished_total", LH_METRIC_COUNTER,
                         "Choices that have ended, by how: stop and length are whole answers.");
    for (uint32_t i = 0; i < LH_REQUEST_ENDS; i++)
        lh_exposition_count(e, LH_METRIC_LABELS({"finished_reason", names[i]}),
                            lh_counter_read(&m->ends[i]));
}

/* Only those that have occurred: most pairs never do. */
static void render_answers(const lh_request_metrics *m, lh_exposition *e) {
    lh_exposition_family(e, "longhaul_http_requests_total", LH_METRIC_COUNTER,
                         "Requests to the API that are over, by route and status; 499: the client "
                         "left before the answer was complete.");
    for (uint32_t route = 0; route <= lh_openai_route_count(); route++) {
        for (size_t place = 0; place < COUNT(statuses); place++) {
            uint64_t count = lh_counter_read(&m->answered[route][place]);
            char status[8] = "other";
            if (statuses[place])
                snprintf(status, sizeof status, "%u", statuses[place]);
            if (count)
                lh_exposition_count(
                    e, LH_METRIC_LABELS({"route", lh_openai_route_name(route)}, {"status", status}),
                    count);
        }
    }
}

static void render_refusals(const lh_request_metrics *m, lh_exposition *e) {
    lh_exposition_family(e, "longhaul_request_refusals_total", LH_METRIC_COUNTER,
                         "Requests to the API that were refused or failed, by the error's code.");
    for (size_t i = 0; i < COUNT(refusals); i++)
        lh_exposition_count(e, LH_METRIC_LABELS({"reason", refusals[i]}),
                            lh_counter_read(&m->refused[i]));
}

void lh_request_metrics_render(const lh_request_metrics *m, lh_exposition *e) {
    render_histogram(e, "longhaul_request_time_to_first_token_seconds",
                     "From a request's headers to the first token of each of its choices.",
                     &m->first_token);
    render_histogram(e, "longhaul_time_per_output_token_seconds",
                     "Between two tokens of a choice, as the gateway gets them.", &m->next_token);
    render_histogram(e, "longhaul_e2e_request_latency_seconds",
                     "From a request's headers to the end of each choice that ended well.",
                     &m->whole);
    render_histogram(e, "longhaul_request_prompt_tokens", "Tokens of a prompt that was admitted.",
                     &m->prompt_tokens);
    render_histogram(e, "longhaul_request_generation_tokens", "Tokens of a choice that ended well.",
                     &m->generation_tokens);
    render_total(e, "longhaul_prompt_tokens_total", "Tokens of prompts that were admitted.",
                 &m->prompt_tokens_total);
    render_total(e, "longhaul_generation_tokens_total",
                 "Tokens that were generated, also for clients that left.",
                 &m->generation_tokens_total);
    render_total(e, "longhaul_request_unknown_fields_total",
                 "Fields of requests' bodies that nobody knows: ignored, or refused under "
                 "--strict-params.",
                 &m->unknown_fields);
    render_ends(m, e);
    render_answers(m, e);
    render_refusals(m, e);
}
