/* Headers and bodies. */
#include "gateway/openai/call.h"

#include "common/base/clock.h"
#include "common/json/json_text.h"

/* ---- What is left. ---- */

static const char *const request_names[] = {
    "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"};
static const char *const token_names[] = {
    "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"};

static void add_limit(const char *const names[3], uint64_t limit, uint64_t remaining,
                      int64_t reset_us, lh_http_reply *reply) {
    lh_http_reply_add(reply, names[0], "%llu", (unsigned long long)limit);
    lh_http_reply_add(reply, names[1], "%llu", (unsigned long long)remaining);
    lh_http_reply_add(reply, names[2], "%lldms", (long long)((reset_us + 999) / 1000));
}

/* Where a key has no rate of its own, what limits its client is the room for sequences and their
 * positions. When it will all be free nobody knows; it is worth another look after a second. */
static void add_room(const char *const names[3], uint64_t limit, uint64_t remaining,
                     lh_http_reply *reply) {
    add_limit(names, limit, remaining, remaining < limit ? 1000000 : 0, reply);
}

static void add_rate_limits(lh_openai_call *call, lh_http_reply *reply) {
    lh_allowance requests, tokens;
    lh_engine_room room = lh_engine_current_room(call->api->engine);
    lh_ticket_allowances(&call->ticket, lh_clock_us(), &requests, &tokens);
    if (requests.most)
        add_limit(request_names, requests.most, requests.remaining, requests.whole_us, reply);
    else
        add_room(request_names, room.sequences_max, room.sequences_free, reply);
    if (tokens.most)
        add_limit(token_names, tokens.most, tokens.remaining, tokens.whole_us, reply);
    else if (room.positions_max != UINT64_MAX)
        add_room(token_names, room.positions_max, room.positions_free, reply);
}

void lh_openai_call_add_headers(lh_openai_call *call, lh_http_reply *reply) {
    double elapsed_ms = (double)(lh_clock_us() - call->begun_us) / 1000;
    lh_http_reply_add(reply, "x-request-id", "%s", call->id);
    lh_http_reply_add(reply, "openai-processing-ms", "%.0f", elapsed_ms);
    lh_http_reply_add(reply, "Server-Timing", "total;dur=%.1f", elapsed_ms);
    lh_http_reply_add(reply, "X-Content-Type-Options", "nosniff");
    if (call->answer)
        add_rate_limits(call, reply);
    if (call->api && atomic_load(&call->api->draining))
        reply->close = true; /* so that its next request goes to another server */
}

/* ---- Replies. ---- */

lh_http_progress lh_openai_call_reply_error(lh_openai_call *call, const lh_openai_error *error,
                                            lh_http_reply *reply) {
    lh_openai_error_reply(error, reply);
    reply->close |= error->status == 408; /* RFC 9110, 15.5.9 */
    if (error->status == 405)
        lh_http_reply_add(reply, "Allow", "%s", call->route.methods);
    lh_openai_call_add_headers(call, reply);
    return LH_HTTP_READY;
}

lh_http_progress lh_openai_call_reply_json(lh_openai_call *call, unsigned status, json_t *object,
                                           lh_http_reply *reply) {
    lh_text_buffer body = {0};
    if (lh_json_render(object, &body)) {
        lh_text_buffer_reset(&body);
        return LH_HTTP_BREAK;
    }
    reply->status = status;
    reply->body = body.bytes;
    reply->body_bytes = body.length;
    lh_http_reply_add(reply, "Content-Type", "application/json");
    lh_openai_call_add_headers(call, reply);
    return LH_HTTP_READY;
}
