/* The engine's outage in words. */
#include "gateway/openai/outage.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"

#include <stdio.h>

#define RETRY_S_MAX 3600

/* 0: not known. */
static int64_t seconds_left(const lh_engine_outage *outage) {
    if (!outage->is_loading || outage->ready_us == INT64_MAX)
        return 0;
    return lh_max_i64(1, (outage->ready_us - lh_clock_us() + 999999) / 1000000);
}

static void describe_loading(const lh_engine_outage *outage, char *text, size_t text_bytes) {
    int64_t left_s = seconds_left(outage);
    int used = snprintf(text, text_bytes, "weights, %u %%", outage->loaded_percent);
    if (left_s > 0)
        snprintf(text + used, text_bytes - (size_t)used, ", about %lld s", (long long)left_s);
}

void lh_openai_outage_explain(const lh_openai_service *service, lh_openai_error *error) {
    lh_engine_outage outage;
    lh_engine_current_outage(service->engine, &outage);
    bool is_open = lh_authenticator_keys(service->config.authenticator) == 0;
    const char *text = is_open && outage.reason[0] ? outage.reason : outage.shortfall;
    char loading[LH_OPENAI_WAITING_BYTES];
    int64_t left_s = seconds_left(&outage);
    if (left_s > 0)
        error->retry_after_ms = (uint32_t)lh_min_i64(left_s, RETRY_S_MAX) * 1000;
    if (outage.is_loading) {
        describe_loading(&outage, loading, sizeof loading);
        snprintf(
            error->message, sizeof error->message,
            "No complete chain of workers serves the model now: its workers load their %s%s%s.",
            loading, text[0] ? "; " : "", text);
    } else if (text[0])
        snprintf(error->message, sizeof error->message,
                 "No complete chain of workers serves the model now: %s.", text);
}

void lh_openai_outage_waiting(const lh_openai_service *service,
                              char text[LH_OPENAI_WAITING_BYTES]) {
    lh_engine_outage outage;
    lh_engine_current_outage(service->engine, &outage);
    text[0] = '\0';
    if (outage.is_out && !outage.is_loading)
        snprintf(text, LH_OPENAI_WAITING_BYTES, "waiting for workers");
    else if (outage.is_out) {
        int used = snprintf(text, LH_OPENAI_WAITING_BYTES, "waiting for ");
        describe_loading(&outage, text + used, LH_OPENAI_WAITING_BYTES - (size_t)used);
    }
}
