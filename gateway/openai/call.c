/* The HTTP server's handler: on_headers makes a call the state of its exchange. */
#include "gateway/openai/call.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "gateway/auth/api_key.h"
#include "gateway/openai/answer.h"
#include "gateway/openai/cors.h"
#include "gateway/openai/lookup.h"
#include "gateway/openai/reading_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define REQUEST_ID_MAX 128
/* Connections and bodies that were too many come in within a second, or are ended. */
#define CROWD_RETRY_MS 1000
/* In which the engine's time for forms is charged while the answer goes on. */
#define GUIDED_PIECE_US 10000

typedef struct call {
    lh_openai_service *service; /* NULL: of a request without headers */
    lh_http_exchange *exchange;
    char id[REQUEST_ID_MAX + 1];
    int64_t begun_us;
    bool is_at_ollama; /* on the port that is like Ollama's */
    bool routed;
    lh_openai_route route;
    bool is_read;                /* by the reader pool, */
    lh_openai_reading_goal goal; /* for this; chat, where it has none: the words are ours, */
    bool is_of_messages;         /* or, as the headers say, Anthropic's */
    lh_ticket ticket;
    uint64_t address; /* stands for the client where no keys are asked for */
    lh_cors_origin origin;
    bool is_preflight;
    bool is_gzip;             /* the request's body */
    bool is_called_form;      /* it is taken where it begins as JSON's objects do */
    lh_openai_error refusal;  /* by what the headers say; status 0: none */
    lh_openai_answer *answer; /* to a request that generates */
    lh_reading_share share;   /* whose processor time it takes */
    uint64_t guided_us;       /* of it, charged for following the form of the answer */
    lh_openai_reading_job *reading;
    size_t unknown_fields, replaced_characters;
} call;

/* ---- In whose words. ---- */

/* NULL: no route is known, so the words are ours. */
static const lh_openai_dialect *dialect_of(const call *c) {
    if (c->route.is_ollama && !c->is_read)
        return c->service->config.ollama->chat;
    if (!c->routed)
        return NULL;
    return lh_openai_dialect_of(
        c->service, c->is_of_messages ? LH_OPENAI_MESSAGES : lh_openai_reading_endpoint(c->goal));
}

/* ---- What is left. ---- */

static const char *const request_names[] = {
    "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"};
static const char *const token_names[] = {
    "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"};

/* Where a key has no rate of its own, what limits its client is the engine's room. When it will all
 * be free nobody knows; it is worth another look after a second. */
static void add_limit(const char *const names[3], lh_allowance rate, uint64_t room,
                      uint64_t room_free, lh_http_reply *reply) {
    uint64_t limit = rate.most ? rate.most : room;
    uint64_t remaining = rate.most ? rate.remaining : room_free;
    int64_t reset_us = rate.most ? rate.whole_us : remaining < limit ? 1000000 : 0;
    if (limit == UINT64_MAX)
        return;
    lh_http_reply_add(reply, names[0], "%llu", (unsigned long long)limit);
    lh_http_reply_add(reply, names[1], "%llu", (unsigned long long)remaining);
    lh_http_reply_add(reply, names[2], "%lldms", (long long)((reset_us + 999) / 1000));
}

static void add_rate_limits(call *c, lh_http_reply *reply) {
    lh_allowance requests, tokens;
    lh_engine_room room = lh_engine_current_room(c->service->engine);
    lh_ticket_allowances(&c->ticket, lh_clock_us(), &requests, &tokens);
    add_limit(request_names, requests, room.sequences_max, room.sequences_free, reply);
    add_limit(token_names, tokens, room.positions_max, room.positions_free, reply);
}

/* The headers of every answer: its id, its time, and what is left of the limits where it generates.
 */
static void add_headers(call *c, lh_http_reply *reply) {
    double elapsed_ms = (double)(lh_clock_us() - c->begun_us) / 1000;
    lh_http_reply_add(reply, "x-request-id", "%s", c->id);
    const lh_openai_dialect *dialect = dialect_of(c);
    if (dialect && dialect->id_header)
        lh_http_reply_add(reply, dialect->id_header, "%s", c->id);
    lh_http_reply_add(reply, "openai-processing-ms", "%.0f", elapsed_ms);
    lh_http_reply_add(reply, "Server-Timing", "total;dur=%.1f", elapsed_ms);
    lh_http_reply_add(reply, "X-Content-Type-Options", "nosniff");
    if (c->answer)
        add_rate_limits(c, reply);
    if (c->service)
        lh_cors_add_headers(c->service->config.cors_origins, c->origin,
                            c->is_preflight ? c->route.methods : NULL, reply);
    if (c->service && c->service->draining)
        reply->close = true; /* so that its next request goes to another server */
}

static lh_http_progress reply_error(call *c, const lh_openai_error *error, lh_http_reply *reply) {
    const lh_openai_dialect *dialect = dialect_of(c);
    lh_openai_error_reply_as(error,
                             dialect && dialect->error_json ? dialect->error_json(error, c->id)
                                                            : lh_openai_error_json(error),
                             reply);
    if (c->service)
        lh_request_metrics_note_refusal(c->service->metrics, error->code);
    reply->close |= error->status == 408; /* RFC 9110, 15.5.9 */
    if (error->status == 405)
        lh_http_reply_add(reply, "Allow", "%s", c->route.methods);
    add_headers(c, reply);
    return LH_HTTP_READY;
}

/* ---- What is generated. ---- */

/* What it took to follow the form of the answer by now: in pieces, so that a token of an answer
 * without one costs nothing. */
static void charge_guidance(call *c, uint64_t least_us) {
    uint64_t new_us = lh_openai_answer_guided_us(c->answer) - c->guided_us;
    if (new_us < least_us)
        return;
    c->guided_us += new_us;
    lh_reader_pool_charge(c->service->readers, &c->share, new_us);
}

/* What has been drawn by now is the client's. */
static void charge(call *c) {
    if (!c->answer)
        return;
    lh_ticket_spend(&c->ticket, lh_openai_answer_usage(c->answer).completion_tokens, lh_clock_us());
    charge_guidance(c, GUIDED_PIECE_US);
}

static lh_http_progress proceed(call *c, lh_http_reply *reply) {
    lh_openai_error error;
    lh_http_progress progress = lh_openai_answer_proceed(c->answer, reply, &error);
    charge(c);
    if (progress == LH_HTTP_READY && !reply->streamed)
        lh_ticket_leave(&c->ticket, lh_clock_us());
    if (progress == LH_HTTP_READY && error.status)
        return reply_error(c, &error, reply);
    if (progress == LH_HTTP_READY)
        add_headers(c, reply);
    return progress;
}

static bool makes_answer(const call *c) {
    return c->is_read && lh_openai_reading_is_answered(c->goal);
}

static bool reads_body(const call *c) {
    return c->is_read && lh_openai_reading_has_body(c->goal);
}

/* What was made while reading is the whole answer. */
static lh_http_progress show(call *c, lh_text_buffer *text, lh_http_reply *reply) {
    reply->status = 200;
    reply->body = text->bytes;
    reply->body_bytes = text->length;
    *text = (lh_text_buffer){0};
    lh_http_reply_add(reply, "Content-Type", "application/json");
    add_headers(c, reply);
    return LH_HTTP_READY;
}

/* The request is not served. Where that is nothing that it says, it has not counted. */
static lh_http_progress refuse(call *c, const lh_openai_error *error, lh_http_reply *reply) {
    if (error->status == 429 || error->status >= 500)
        lh_ticket_refund(&c->ticket, lh_clock_us());
    lh_ticket_leave(&c->ticket, lh_clock_us());
    return reply_error(c, error, reply);
}

/* Each kind once for each client, so that whoever runs the server learns what its clients ask for.
 */
static void tell_left_out(call *c, const lh_left_out *left_out) {
    uint64_t client = c->ticket.tenant ? c->ticket.tenant : c->address;
    lh_log_limit *limit =
        lh_ticket_log_limit(c->service->config.authenticator, &c->ticket, LH_CLIENT_LINE_LEFT_OUT);
    for (size_t i = 0; i < left_out->count; i++) {
        unsigned long long more;
        if (lh_left_out_log_take(&c->service->left_out, client, left_out->kinds[i], limit,
                                 lh_clock_us(), &more))
            lh_log(LH_LOG_INFO, "api",
                   "part of a request is left out kind=\"%s\" route=%s client=%s id=%s "
                   "left_out=%llu",
                   left_out->kinds[i], c->route.name, c->ticket.client ? c->ticket.name : "", c->id,
                   more);
    }
}

/* What was read of the body, or why it was not. */
static lh_http_progress begin(call *c, lh_openai_reading *reading, lh_openai_error *error,
                              lh_http_reply *reply) {
    c->unknown_fields = reading->request.parameters.unknown_fields;
    c->replaced_characters = reading->replaced_characters;
    lh_request_metrics_note_unknown_fields(c->service->metrics, c->unknown_fields);
    tell_left_out(c, &reading->request.left_out);
    if (!error->status && reading->reply.length > 0) {
        lh_ticket_leave(&c->ticket, lh_clock_us());
        return show(c, &reading->reply, reply);
    }
    bool begun = !error->status && lh_openai_answer_begin(c->answer, reading, error);
    return begun ? proceed(c, reply) : refuse(c, error, reply);
}

static lh_http_progress await_reading(call *c, lh_http_reply *reply) {
    lh_openai_error error;
    lh_openai_reading *reading = lh_openai_reading_job_result(c->reading, &error);
    if (!reading)
        return LH_HTTP_WAIT;
    lh_http_progress progress = begin(c, reading, &error, reply);
    lh_openai_reading_job_end(c->reading);
    c->reading = NULL;
    return progress;
}

/* Whether the engine is full will be asked again when the request is submitted; here nothing has
 * been spent on reading it. */
static bool may_generate(call *c, lh_openai_error *error) {
    lh_account_refusal limit;
    if (!c->answer)
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    if (c->service->draining)
        return lh_openai_lookup_refuse(c->service, error);
    if (!lh_ticket_take_request(&c->ticket, lh_clock_us(), &limit))
        return lh_openai_refuse_client(error, &c->ticket, &limit);
    return (!lh_http_exchange_is_crowded(c->exchange) &&
            lh_engine_current_room(c->service->engine).sequences_free > 0) ||
           lh_openai_refuse_full(error, &c->ticket, 1);
}

static bool refuse_type(lh_openai_error *error) {
    return lh_openai_refuse(error, 415, NULL, "unsupported_media_type",
                            "The body must be JSON, and of Content-Type application/json.");
}

static bool begins_as_object(const lh_http_request *request) {
    static const char blanks[] = " \t\r\n";
    size_t at = 0;
    while (at < request->body_bytes && memchr(blanks, request->body[at], sizeof blanks - 1))
        at++;
    return at < request->body_bytes && request->body[at] == '{';
}

/* The body, or what follows the path: malloc'd. */
static char *take_text(call *c, size_t *length) {
    if (reads_body(c))
        return lh_http_exchange_take_body(c->exchange);
    *length = strlen(c->route.rest);
    return strdup(c->route.rest);
}

/* What a body costs shows only when it is read, so no more than its first byte is read here. */
static lh_http_progress have_read(call *c, const lh_http_request *request, lh_http_reply *reply) {
    const lh_openai_client client = {&c->ticket, request->peer_network};
    c->address = request->peer_network;
    size_t length = request->body_bytes;
    lh_openai_error error;
    bool begun = (!c->is_called_form || begins_as_object(request) || refuse_type(&error)) &&
                 (!makes_answer(c) || may_generate(c, &error));
    if (begun) {
        char *text = take_text(c, &length);
        begun = text || length == 0
                    ? lh_openai_reading_job_begin(c->service, c->exchange, c->goal, &client, text,
                                                  length, c->is_gzip, &c->reading, &error)
                    : lh_openai_refuse_status(&error, LH_ERR_NO_MEMORY);
    }
    return begun ? LH_HTTP_WAIT : refuse(c, &error, reply);
}

/* ---- The handler. ---- */

static bool is_request_id(const char *id) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = id ? strspn(id, allowed) : 0;
    return length > 0 && length <= REQUEST_ID_MAX && !id[length];
}

/* "identity" where the header is absent. */
static bool is_coded_as(const lh_http_request *request, const char *name) {
    const char *coding = lh_http_request_header(request, "Content-Encoding");
    return strcasecmp(coding ? coding : "identity", name) == 0;
}

/* Anthropic's clients show their key under a name of its own. */
static bool open_ticket(call *c, const lh_http_request *request) {
    const char *shown = lh_http_request_header(request, "Authorization");
    const char *key = shown ? NULL : lh_http_request_header(request, "x-api-key");
    char as_bearer[LH_API_KEY_BYTES + sizeof "Bearer "];
    int length = snprintf(as_bearer, sizeof as_bearer, "Bearer %s", key ? key : "");
    bool fits = (size_t)length < sizeof as_bearer;
    bool open = lh_ticket_open(c->service->config.authenticator, key && fits ? as_bearer : shown,
                               time(NULL), &c->ticket);
    explicit_bzero(as_bearer, sizeof as_bearer);
    return open;
}

/* curl -d calls every body a form, as does a form of a page that only pretends to be JSON. */
static bool is_curl_form(const lh_http_request *request) {
    return lh_http_request_is_type(request, "application/x-www-form-urlencoded") &&
           is_coded_as(request, "identity") && !lh_http_request_may_be_a_page_s(request);
}

static bool tells_models(const call *c) {
    return c->routed &&
           (c->route.action == LH_OPENAI_LIST_MODELS || c->route.action == LH_OPENAI_GET_MODEL);
}

static bool names_messages(const call *c, const lh_http_request *request) {
    const char *header = lh_openai_dialect_of(c->service, LH_OPENAI_MESSAGES)->version_header;
    return header && lh_http_request_header(request, header);
}

/* Ollama's own examples send JSON as what it is not, as curl does unless it is told. What a web
 * page sends so, its browser sends to every server unasked; but the browser says from where. */
static bool is_json(const call *c, const lh_http_request *request) {
    return lh_http_request_is_type(request, "application/json") ||
           (c->route.is_ollama && !lh_http_request_may_be_a_page_s(request));
}

/* Everything that the headers alone decide. Fills c->refusal. */
static void check_headers(call *c, const lh_http_request *request) {
    lh_openai_error error;
    c->routed =
        lh_openai_route_find(request->method, request->path, c->is_at_ollama, &c->route, &error);
    c->is_read = c->routed && lh_openai_reading_goal_of(c->route.action, &c->goal);
    c->is_of_messages = tells_models(c) && names_messages(c, request);
    c->is_gzip = reads_body(c) && is_coded_as(request, "gzip");
    c->origin = lh_cors_match(c->service->config.cors_origins, request);
    c->is_preflight = c->routed && lh_cors_is_preflight(c->origin, request);
    c->is_called_form = reads_body(c) && is_curl_form(request);
    if (!c->route.is_public && !c->is_preflight && !open_ticket(c, request))
        lh_openai_refuse(&c->refusal, 401, NULL, "invalid_api_key",
                         "The API key is missing, wrong or expired.");
    else if (!c->routed)
        c->refusal = error;
    else if (c->route.is_admin && !c->is_preflight && !c->ticket.is_admin)
        lh_openai_refuse(&c->refusal, 403, NULL, "insufficient_scope",
                         "This API key may not ask for that: its line lacks the word admin.");
    else if (reads_body(c) && !c->is_called_form && !is_json(c, request))
        refuse_type(&c->refusal);
    else if (reads_body(c) && !c->is_gzip && !is_coded_as(request, "identity"))
        lh_openai_refuse(&c->refusal, 415, NULL, "unsupported_media_type",
                         "The body must come without a Content-Encoding, or with gzip.");
}

static void log_misled_worker(const call *c, const lh_http_request *request) {
    static lh_log_limit limit;
    unsigned long long left_out;
    if (lh_log_limit_take(&limit, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "api",
               "a worker asks at the public API's port: its --gateway has to name the fleet port "
               "worker=%.63s peer=%s fleet_port=%d left_out=%llu",
               c->route.rest, request->peer, lh_engine_fleet_port(c->service->engine), left_out);
}

static bool on_headers(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                       lh_http_reply *reply, void **state) {
    const lh_openai_door *door = context;
    call *c = calloc(1, sizeof *c);
    if (!c) {
        lh_openai_error error;
        lh_openai_refuse_status(&error, LH_ERR_NO_MEMORY);
        lh_openai_error_reply(&error, reply);
        return false;
    }
    *state = c;
    c->service = door->service;
    c->is_at_ollama = door->is_ollama;
    c->exchange = exchange;
    c->begun_us = lh_clock_us();
    const char *id = lh_http_request_header(request, "x-request-id");
    if (is_request_id(id))
        strcpy(c->id, id);
    else
        lh_random_id("req_", c->id);
    check_headers(c, request);
    c->share = lh_openai_reading_share(&(lh_openai_client){&c->ticket, request->peer_network});
    if (c->ticket.tenant)
        lh_http_exchange_know_client(exchange, c->ticket.tenant);
    if (makes_answer(c) && !c->refusal.status)
        c->answer = lh_openai_answer_create(c->service, dialect_of(c), exchange, &c->ticket, c->id,
                                            c->begun_us);
    if (!c->refusal.status || (!request->chunked && request->announced_bytes == 0))
        return true; /* no body to save: the connection need not be closed for it */
    reply_error(c, &c->refusal, reply);
    return false;
}

static lh_http_progress on_request(void *state, const lh_http_request *request,
                                   lh_http_reply *reply) {
    call *c = state;
    lh_openai_error error;
    if (c->refusal.status)
        return reply_error(c, &c->refusal, reply);
    if (c->is_read)
        return have_read(c, request, reply);
    if (c->route.action == LH_OPENAI_TELL_FLEET_PORT)
        log_misled_worker(c, request);
    if (!lh_openai_lookup(c->service, dialect_of(c), &c->route, reply, &error))
        return reply_error(c, &error, reply);
    add_headers(c, reply);
    return LH_HTTP_READY;
}

static lh_http_progress on_wake(void *state, lh_http_reply *reply) {
    call *c = state;
    return c->reading ? await_reading(c, reply) : proceed(c, reply);
}

static lh_http_progress on_read(void *state, char *buffer, size_t capacity, size_t *length) {
    call *c = state;
    lh_http_progress progress = lh_openai_answer_read(c->answer, buffer, capacity, length);
    charge(c);
    if (lh_openai_answer_is_over(c->answer))
        lh_ticket_leave(&c->ticket, lh_clock_us());
    return progress;
}

static void on_gone(void *state) {
    call *c = state;
    if (c && c->answer)
        lh_openai_answer_abandon(c->answer);
}

static void on_refusal(void *state, unsigned status, const char *message, lh_http_reply *reply) {
    call unknown = {.begun_us = lh_clock_us()};
    if (!state)
        lh_random_id("req_", unknown.id);
    lh_openai_error error;
    lh_openai_refuse(&error, status, NULL,
                     status == 413   ? "request_too_large"
                     : status == 408 ? "request_timeout"
                     : status == 421 ? "host_not_allowed"
                                     : NULL,
                     "%s", message);
    if (status == 503)
        error.retry_after_ms = CROWD_RETRY_MS;
    reply_error(state ? state : &unknown, &error, reply);
}

/* Load balancers and service managers ask every few seconds: while all is well that is no news. */
static bool is_quiet_probe(const call *c, unsigned status) {
    return status == 200 && c->routed &&
           (c->route.action == LH_OPENAI_GET_HEALTH || c->route.action == LH_OPENAI_GET_LIFE);
}

static const char *or_nothing(const char *text) {
    return text ? text : "";
}

/* How it ended; "": it is none that generates, or was refused. */
static const char *finish_of(const lh_openai_answer_facts *facts, const lh_http_outcome *outcome) {
    if (!facts->id || facts->progress.finish[0])
        return or_nothing(facts->progress.finish);
    return outcome->status == 499 ? "cancelled" : "error";
}

/* A client that left takes no more, but what was computed for it was computed. */
static unsigned long long tokens_out(const call *c, const lh_openai_answer_facts *facts) {
    uint64_t taken = c->answer ? lh_openai_answer_usage(c->answer).completion_tokens : 0;
    bool is_whole = facts->id && facts->progress.finish[0];
    return is_whole || taken > facts->progress.tokens_sampled ? taken
                                                              : facts->progress.tokens_sampled;
}

/* Whether its line is written. One that a chain computed has cost far more than a line; others cost
 * nothing, so only some of those are logged, whoever sends them. */
static bool may_log(const call *c, const lh_openai_answer_facts *facts, lh_log_level level,
                    unsigned status, unsigned long long *left_out) {
    const lh_generation_progress *progress = &facts->progress;
    bool is_computed =
        facts->id && (progress->tokens_sampled > 0 || (status == 200 && progress->epoch > 0));
    *left_out = 0;
    return level == LH_LOG_DEBUG || is_computed ||
           lh_log_limit_take(lh_ticket_log_limit(c->service->config.authenticator, &c->ticket,
                                                 LH_CLIENT_LINE_REQUEST),
                             lh_clock_us(), left_out);
}

static void log_request(const call *c, const lh_http_request *request,
                        const lh_http_outcome *outcome) {
    lh_token_usage usage = {0};
    lh_openai_answer_facts facts = {0};
    unsigned long long left_out;
    if (c->answer) {
        usage = lh_openai_answer_usage(c->answer);
        facts = lh_openai_answer_tell(c->answer);
    }
    int64_t first_us = facts.progress.first_token_us;
    lh_log_level level = is_quiet_probe(c, outcome->status) ? LH_LOG_DEBUG : LH_LOG_INFO;
    if (!may_log(c, &facts, level, outcome->status, &left_out))
        return;
    lh_log(level, "api",
           "request method=%.16s route=%s status=%u ms=%.1f first_token_ms=%.1f finish=%s "
           "tokens_in=%llu tokens_out=%llu unknown_fields=%zu replaced=%zu answer=%s chain=%s "
           "epoch=%u "
           "client=%s peer=%s id=%s left_out=%llu",
           request->method, c->route.name, outcome->status, (double)outcome->elapsed_us / 1000,
           first_us ? (double)(first_us - c->begun_us) / 1000 : (double)NAN,
           finish_of(&facts, outcome), (unsigned long long)usage.prompt_tokens,
           tokens_out(c, &facts), c->unknown_fields, c->replaced_characters, or_nothing(facts.id),
           or_nothing(facts.progress.chain), facts.progress.epoch,
           c->ticket.client ? c->ticket.name : "", request->peer, c->id, left_out);
}

/* Nothing of what it sent is fit for the log. */
static void log_malformed(const lh_http_request *request, const lh_http_outcome *outcome) {
    static lh_log_limit limit;
    unsigned long long left_out;
    if (lh_log_limit_take(&limit, lh_clock_us(), &left_out))
        lh_log(LH_LOG_INFO, "api", "refused status=%u ms=%.1f peer=%s left_out=%llu",
               outcome->status, (double)outcome->elapsed_us / 1000, request->peer, left_out);
}

/* Also one that did not come whole. */
static bool has_large_body(const lh_http_request *request) {
    return request->chunked || request->announced_bytes > LH_LARGE_BODY_BYTES;
}

static void on_done(void *state, const lh_http_request *request, const lh_http_outcome *outcome) {
    call *c = state;
    if (!c) {
        log_malformed(request, outcome);
        return;
    }
    charge(c);
    if (c->answer)
        charge_guidance(c, 1);
    lh_request_metrics_note_answer(c->service->metrics, c->route.number, outcome->status);
    log_request(c, request, outcome);
    if (has_large_body(request))
        lh_reader_pool_note_memory(c->service->readers);
    lh_openai_reading_job_end(c->reading);
    lh_openai_answer_destroy(c->answer);
    lh_ticket_close(&c->ticket, lh_clock_us());
    free(c);
}

lh_http_handler lh_openai_call_handler(lh_openai_door *door) {
    return (lh_http_handler){door,    on_headers, on_request, on_wake,
                             on_read, on_gone,    on_refusal, on_done};
}
