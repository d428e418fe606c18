/* A request's way: its body on the loop, the certificate on another thread,
 * then a look by the watch, so that the certificate is accepted before its
 * owner has it, and the answer on the loop.
 */
#include "gateway/fleet/port/enrolment.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/net/address.h"
#include "common/protocol/join/join_messages_json.h"
#include "gateway/fleet/port/body_reader.h"
#include "gateway/membership/attempt_limit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One on its way holds some 100 KiB, so that is 12 MiB of both kinds. */
static const lh_stream_quota_limits joining_limits = {
    .peer_max = 32, .all_max = 64, .stall_ms = 5000, .whole_ms = 10000};
/* A copy of a member's key that sends slowly is in nobody's way. */
static const lh_stream_quota_limits renewal_limits = {
    .peer_max = 8, .all_max = 64, .stall_ms = 2500, .whole_ms = 10000, .has_turnover = true};

/* Applications that wait for their turn. */
typedef struct application_queue {
    struct application *first, **last;
} application_queue;

struct lh_enrolment {
    uv_loop_t *loop;
    lh_membership *membership;
    lh_membership_watch *watch;
    lh_stream_quota joinings, renewals;
    lh_attempt_limit attempts;
    lh_log_limit log_limit; /* of lines that strangers can cause */
    /* One certificate is made at a time, as the disk has it: others need libuv's threads, too. */
    struct application *making;
    application_queue waiting_renewals,
        waiting_joinings; /* in the order in which they are served */
    uint32_t
        working; /* applications that are being dealt with: these, and those who await a look */
    bool is_closing;
    void (*on_closed)(void *);
    void *context;
};

/* One request. */
typedef struct application {
    lh_body_reader body; /* first: its address is the application's */
    lh_enrolment *enrolment;
    lh_tls_identity identity; /* of a renewal */
    char observed[LH_ADDRESS_TEXT_BYTES];
    uint64_t address;    /* lh_address_key of that */
    lh_name_place place; /* where the worker serves, of a renewal */
    bool is_renewal, is_working;
    lh_join_request request;
    lh_join_renewal renewal;
    uv_work_t work;
    struct application *next; /* that waits */
    lh_membership_waiter waiter;
    bool is_granted;
    lh_join_grant grant;
    lh_join_refusal refusal;
} application;

/* ---- Answers ---- */

static void respond_json(lh_h2_stream *stream, int http_status, char *text) {
    lh_h2_stream_respond(stream, text ? http_status : 500,
                         text ? text : "the gateway is out of memory\n");
    free(text);
}

static void respond_refusal(lh_h2_stream *stream, const lh_join_refusal *refusal) {
    respond_json(stream, lh_join_refusal_http_status(refusal->code),
                 lh_join_refusal_render(refusal));
}

static void respond_busy(lh_h2_stream *stream, const char *message) {
    lh_join_refusal refusal = {.code = LH_JOIN_BUSY};
    snprintf(refusal.message, sizeof refusal.message, "%s", message);
    respond_refusal(stream, &refusal);
}

static void log_outcome(application *a) {
    const char *kind = a->is_renewal ? "renewal" : "joining";
    unsigned long long left_out;
    if (a->is_granted)
        lh_log(LH_LOG_INFO, "fleet", "a worker has a certificate by=%s worker=%s site=%s peer=%s",
               kind, a->grant.name, a->grant.site, a->observed);
    else if (lh_log_limit_take(&a->enrolment->log_limit, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "fleet",
               "a worker is given no certificate by=%s peer=%s reason=%s left_out=%llu", kind,
               a->observed, lh_join_refusal_name(a->refusal.code), left_out);
}

/* A worker that has moved looks the same for as long as it reports from where it was. */
static void warn_of_copy(const application *a) {
    if (a->is_granted && a->is_renewal && a->place == LH_NAME_ELSEWHERE)
        lh_log(LH_LOG_WARN, "fleet",
               "a worker's certificate was renewed from another address than that at which it "
               "serves: if that was not its machine its key was copied, so revoke it and let it "
               "join again worker=%s peer=%s",
               a->grant.name, a->observed);
}

/* The stream may have closed by now. */
static void answer(application *a) {
    if (!a->body.stream)
        return;
    if (a->is_granted)
        respond_json(a->body.stream, 200, lh_join_grant_render(&a->grant));
    else
        respond_refusal(a->body.stream, &a->refusal);
}

/* ---- The certificate ---- */

static void free_application(application *a) {
    explicit_bzero(&a->request.secret, sizeof a->request.secret);
    explicit_bzero(a->body.bytes, sizeof a->body.bytes);
    free(a);
}

static void close_quotas(lh_enrolment *enrolment);

static void end_work(application *a) {
    lh_enrolment *enrolment = a->enrolment;
    assert(enrolment->working > 0);
    a->is_working = false;
    enrolment->working--;
    answer(a);
    if (!a->body.stream)
        free_application(a);
    if (enrolment->is_closing && enrolment->working == 0)
        close_quotas(enrolment);
}

static void on_looked(lh_membership_waiter *waiter) {
    end_work((application *)((char *)waiter - offsetof(application, waiter)));
}

static void on_work(uv_work_t *work) {
    application *a = work->data;
    lh_membership *membership = a->enrolment->membership;
    int64_t now_s = time(NULL);
    const lh_renewing_member member = {.name = a->identity.name,
                                       .site = a->identity.site,
                                       .serial = a->identity.serial,
                                       .observed = a->observed,
                                       .is_where_it_serves = a->place == LH_NAME_HERE};
    if (a->is_renewal)
        a->is_granted = lh_certificate_grant_renewal(lh_membership_issuer(membership), &member,
                                                     &a->renewal, now_s, &a->grant, &a->refusal);
    else
        a->is_granted = lh_certificate_grant_join(lh_membership_issuer(membership), &a->request,
                                                  a->observed, now_s, &a->grant, &a->refusal);
}

static void make_next(lh_enrolment *enrolment);

static void on_worked(uv_work_t *work, int status) {
    application *a = work->data;
    lh_enrolment *enrolment = a->enrolment;
    (void)status;
    enrolment->making = NULL;
    make_next(enrolment);
    log_outcome(a);
    warn_of_copy(a);
    if (!a->is_granted && a->refusal.code == LH_JOIN_TOKEN_UNKNOWN)
        lh_attempt_limit_note(&enrolment->attempts, a->address, lh_clock_us());
    if (!a->is_granted || enrolment->is_closing) {
        end_work(a);
        return;
    }
    a->waiter.on_looked = on_looked;
    lh_membership_watch_await(enrolment->watch, &a->waiter);
}

static void push(application_queue *queue, application *a) {
    a->next = NULL;
    *queue->last = a;
    queue->last = &a->next;
}

/* NULL: it is empty. */
static application *pop(application_queue *queue) {
    application *a = queue->first;
    if (!a)
        return NULL;
    queue->first = a->next;
    if (!a->next)
        queue->last = &queue->first;
    return a;
}

static void make_next(lh_enrolment *enrolment) {
    if (enrolment->making)
        return;
    application *a = pop(&enrolment->waiting_renewals);
    if (!a)
        a = pop(&enrolment->waiting_joinings);
    if (!a)
        return;
    enrolment->making = a;
    a->work.data = a;
    int code = uv_queue_work(enrolment->loop, &a->work, on_work, on_worked);
    assert(code == 0); /* it fails for want of a function alone */
    (void)code;
}

static void make_certificate(application *a) {
    lh_enrolment *enrolment = a->enrolment;
    a->is_working = true;
    enrolment->working++;
    push(a->is_renewal ? &enrolment->waiting_renewals : &enrolment->waiting_joinings, a);
    lh_stream_place_set_patience(&a->body.place, 2); /* it waits for us now */
    make_next(enrolment);
}

/* ---- The request ---- */

static void refuse_body(application *a, lh_status status, const lh_error *error) {
    lh_join_refusal refusal = {.code = status == LH_ERR_UNSUPPORTED ? LH_JOIN_PROTOCOL
                                       : status == LH_ERR_NO_MEMORY ? LH_JOIN_UNAVAILABLE
                                                                    : LH_JOIN_MALFORMED};
    snprintf(refusal.message, sizeof refusal.message, "%.*s", (int)sizeof refusal.message - 1,
             error->message);
    respond_refusal(a->body.stream, &refusal);
}

static void on_whole(lh_body_reader *body) {
    application *a = (application *)body;
    lh_error error;
    lh_status status = a->is_renewal
                           ? lh_join_renewal_parse(body->bytes, body->length, &a->renewal, &error)
                           : lh_join_request_parse(body->bytes, body->length, &a->request, &error);
    if (status != LH_OK) {
        refuse_body(a, status, &error);
        return;
    }
    make_certificate(a);
}

static void on_too_long(lh_body_reader *body) {
    const lh_error error = {.message = "the request is longer than 16 KiB"};
    refuse_body((application *)body, LH_ERR_LIMIT, &error);
}

static void on_body_closed(lh_body_reader *body) {
    application *a = (application *)body;
    if (!a->is_working)
        free_application(a);
}

/* The IP address of "127.0.0.1:4711" and "[::1]:4711"; IPv4 as itself, also by way of a socket for
 * both. Returns what stands for it among attempts. */
static uint64_t observe(const char *peer, char observed[LH_ADDRESS_TEXT_BYTES]) {
    lh_address address = {.host = "?"}, seen = {.port = 1};
    struct sockaddr_storage value;
    lh_error ignored;
    lh_address_parse(peer, &address, &ignored);
    bool is_mapped = strncmp(address.host, "::ffff:", 7) == 0 && strchr(address.host, '.');
    snprintf(observed, LH_ADDRESS_TEXT_BYTES, "%.*s", LH_ADDRESS_TEXT_BYTES - 1,
             address.host + (is_mapped ? 7 : 0));
    snprintf(seen.host, sizeof seen.host, "%s", observed);
    return lh_address_is_literal(&seen, &value) ? lh_address_key((struct sockaddr *)&value) : 0;
}

static void begin(lh_enrolment *enrolment, bool is_renewal, lh_name_place place,
                  lh_h2_stream *stream, const lh_h2_request *request,
                  const lh_h2_stream_events **events, void **context) {
    lh_stream_quota *quota = is_renewal ? &enrolment->renewals : &enrolment->joinings;
    application *a = calloc(1, sizeof *a);
    if (!a) {
        respond_busy(stream, "the gateway is out of memory: try again in a second");
        return;
    }
    a->enrolment = enrolment;
    a->is_renewal = is_renewal;
    a->place = place;
    a->identity = *request->peer_identity;
    a->body.on_whole = on_whole;
    a->body.on_too_long = on_too_long;
    a->body.on_closed = on_body_closed;
    a->address = observe(request->peer, a->observed);
    if (lh_body_reader_begin(&a->body, quota, stream, request, events, context) != LH_OK)
        free(a);
}

void lh_enrolment_take_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                               const lh_h2_stream_events **events, void **stream_context) {
    lh_enrolment *enrolment = context;
    char observed[LH_ADDRESS_TEXT_BYTES];
    uint64_t address = observe(request->peer, observed);
    if (strcmp(request->path, LH_JOIN_PATH) != 0)
        lh_h2_stream_respond(stream, 404, "there is nothing but " LH_JOIN_PATH " here\n");
    else if (strcmp(request->method, "POST") != 0)
        lh_h2_stream_respond(stream, 405, "another method is wanted here\n");
    else if (!lh_attempt_limit_allows(&enrolment->attempts, address, lh_clock_us()))
        respond_busy(stream, "this address has shown too many wrong tokens: try again in a minute");
    else if (lh_stream_quota_is_full(&enrolment->joinings, request))
        respond_busy(stream, "too many workers are joining at once: try again in a second");
    else
        begin(enrolment, false, LH_NAME_NOWHERE, stream, request, events, stream_context);
}

void lh_enrolment_take_renewal(lh_enrolment *enrolment, lh_name_place place, lh_h2_stream *stream,
                               const lh_h2_request *request, const lh_h2_stream_events **events,
                               void **context) {
    begin(enrolment, true, place, stream, request, events, context);
}

/* ---- Life ---- */

lh_status lh_enrolment_create(uv_loop_t *loop, lh_membership *membership,
                              lh_membership_watch *watch, lh_enrolment **out, lh_error *error) {
    lh_enrolment *enrolment = calloc(1, sizeof *enrolment);
    if (!enrolment)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for joining workers");
    enrolment->loop = loop;
    enrolment->membership = membership;
    enrolment->watch = watch;
    enrolment->waiting_renewals.last = &enrolment->waiting_renewals.first;
    enrolment->waiting_joinings.last = &enrolment->waiting_joinings.first;
    lh_stream_quota_init(&enrolment->joinings, loop, "joining workers", &joining_limits);
    lh_stream_quota_init(&enrolment->renewals, loop, "renewals", &renewal_limits);
    *out = enrolment;
    return LH_OK;
}

static void on_quotas_closed(void *context) {
    lh_enrolment *enrolment = context;
    void (*on_closed)(void *) = enrolment->on_closed;
    void *owner = enrolment->context;
    free(enrolment);
    on_closed(owner);
}

static void on_joinings_closed(void *context) {
    lh_enrolment *enrolment = context;
    lh_stream_quota_close(&enrolment->renewals, on_quotas_closed, enrolment);
}

static void close_quotas(lh_enrolment *enrolment) {
    lh_stream_quota_close(&enrolment->joinings, on_joinings_closed, enrolment);
}

void lh_enrolment_close(lh_enrolment *enrolment, void (*on_closed)(void *), void *context) {
    enrolment->is_closing = true;
    enrolment->on_closed = on_closed;
    enrolment->context = context;
    if (enrolment->working == 0)
        close_quotas(enrolment);
}
