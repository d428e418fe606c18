/* Waits in milliseconds. */
#include "gateway/openai/refusals.h"

#define RETRY_MS_MAX 120000

/* Above 0, which would mean that it is not said. */
static uint32_t retry_ms(int64_t wait_us) {
    int64_t ms = (wait_us + 999) / 1000;
    return ms < 1 ? 1 : ms > RETRY_MS_MAX ? RETRY_MS_MAX : (uint32_t)ms;
}

static const char *limit_text(lh_account_limit limit) {
    switch (limit) {
    case LH_ACCOUNT_REQUESTS:
        return "requests a minute";
    case LH_ACCOUNT_TOKENS:
        return "tokens a minute";
    case LH_ACCOUNT_CONCURRENT:
        break;
    }
    return "requests at a time";
}

void lh_openai_refuse_client(lh_openai_error *error, const lh_ticket *ticket,
                             const lh_account_refusal *refusal) {
    uint32_t wait_ms = retry_ms(refusal->wait_us);
    lh_openai_error_set(error, 429, "rate_limit_exceeded",
                        "Rate limit reached for %s: %u %s. Try again in %.3f s.", ticket->name,
                        refusal->most, limit_text(refusal->limit), (double)wait_ms / 1000);
    error->retry_after_ms = wait_ms;
}

void lh_openai_refuse_full(lh_openai_error *error, lh_ticket *ticket, uint32_t sequences,
                           int64_t now_us) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_BUSY});
    error->retry_after_ms = retry_ms(lh_ticket_retry_us(ticket, sequences, now_us));
}

void lh_openai_refuse_late(lh_openai_error *error, uint64_t tokens, int64_t timeout_us) {
    double seconds = (double)timeout_us / 1e6;
    if (tokens == 0)
        lh_openai_error_set(error, 408, "request_timeout",
                            "The request's time, %.3g s, was over before its first token.",
                            seconds);
    else
        lh_openai_error_set(error, 504, "request_timeout",
                            "The request's time, %.3g s, was over after %llu tokens.", seconds,
                            (unsigned long long)tokens);
}

void lh_openai_refuse_gone(lh_openai_error *error) {
    lh_openai_error_set(
        error, 499, "client_closed_request",
        "The client closed its side of the connection before the answer was complete.");
}
