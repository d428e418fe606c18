/* Routes of the fleet port, and the reports of workers. */
#include "gateway/fleet/port/server.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/http2/probe.h"
#include "common/protocol/control/report_fields.h"
#include "common/protocol/control_seal.h"
#include "common/protocol/trial/trial_request.h"
#include "gateway/fleet/port/member_routes.h"
#include "gateway/fleet/port/name_claims.h"
#include "gateway/fleet/port/ring.h"
#include "gateway/fleet/port/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_fleet_server {
    lh_h2_server *http;
    lh_fleet_weights weights;
    lh_stream_quota reports, results, trials;
    lh_member_routes *members; /* NULL: there is no TLS */
    lh_name_claims names;
    lh_log_limit refusal_lines; /* a member, or in the clear anybody, may send any report */
    lh_fleet_server_owner owner;
    lh_fleet_model model;
    char *tensors; /* the answer at tensors_path; NULL: nobody has asked yet */
    char weights_path[96], tensors_path[96], blocks_path[96], pieces_path[96];
    void (*on_closed)(void *);
    void *context;
};

/* The body of a PUT as it grows. */
typedef struct put_request {
    lh_stream_place place;
    lh_fleet_server *server;
    lh_h2_stream *stream;
    char name[LH_WORKER_NAME_BYTES], peer[LH_ADDRESS_TEXT_BYTES];
    uint64_t connection;
    lh_tls_identity identity; /* of the peer */
    bool is_refused;
    size_t length;
    char body[LH_CONTROL_BODY_BYTES_MAX];
} put_request;

static void respond_problem(lh_h2_stream *stream, int http_status, const char *message) {
    char text[LH_ERROR_MESSAGE_BYTES + 2];
    snprintf(text, sizeof text, "%.*s\n", LH_ERROR_MESSAGE_BYTES, message);
    lh_h2_stream_respond(stream, http_status, text);
}

/* Takes the text over; NULL: out of memory. */
static void respond_json(lh_h2_stream *stream, char *text) {
    if (text)
        lh_h2_stream_respond(stream, 200, text);
    else
        respond_problem(stream, 500, "the gateway is out of memory");
    free(text);
}

/* ---- PUT /fleet/workers/{name} ---- */

/* A worker sends one at a time, of a few KiB; in the clear those of one address are one peer. One
 * on its way holds 64 KiB, so that is 72 MiB. */
#define REPORTS_OF_PEER_MAX 128u
#define REPORTS_MAX         (LH_WORKERS_MAX + REPORTS_OF_PEER_MAX)

static const lh_stream_quota_limits report_limits = {
    .peer_max = REPORTS_OF_PEER_MAX, .all_max = REPORTS_MAX, .stall_ms = 10000, .whole_ms = 30000};

/* A certificate is one worker's, and says where that is. */
static bool may_speak_for(const lh_tls_identity *identity, const lh_worker_report *report) {
    return identity->kind == LH_TLS_NONE || (lh_tls_identity_is_worker(identity, report->name) &&
                                             strcmp(identity->site, report->site) == 0);
}

static void log_refusal(lh_fleet_server *server, const put_request *put, const char *why) {
    unsigned long long left_out;
    if (lh_log_limit_take(&server->refusal_lines, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "fleet",
               "a report is refused peer=%s worker=%s error=\"%s\" left_out=%llu", put->peer,
               put->name, why, left_out);
}

/* Said on both sides. */
static void refuse_name(const put_request *put, const lh_worker_report *report) {
    char identity[LH_TLS_IDENTITY_TEXT_BYTES], text[LH_TLS_IDENTITY_TEXT_BYTES + 256];
    lh_tls_identity_describe(&put->identity, identity);
    snprintf(text, sizeof text,
             "the certificate is that of %s, the report that of worker %s of site %s", identity,
             report->name, report->site);
    log_refusal(put->server, put, text);
    respond_problem(put->stream, 403, text);
}

static lh_name_claim claim_of(const put_request *put, const lh_worker_report *report) {
    lh_name_claim claim = {.instance = report->instance,
                           .has_tls = put->identity.kind != LH_TLS_NONE,
                           .connection = put->connection};
    memcpy(claim.name, report->name, sizeof claim.name);
    memcpy(claim.peer, put->peer, sizeof claim.peer);
    memcpy(claim.address, report->plain_address, sizeof claim.address);
    return claim;
}

static void take_checked_report(put_request *put, const lh_worker_report *report) {
    lh_fleet_server *server = put->server;
    lh_fleet_answer answer;
    lh_error error;
    bool is_news;
    const lh_name_claim claim = claim_of(put, report);
    lh_status status =
        lh_name_claims_check(&server->names, &claim, lh_clock_us(), &is_news, &error);
    if (status == LH_ERR_EXISTS && is_news)
        log_refusal(server, put, error.message);
    if (status == LH_OK && server->members)
        lh_member_routes_note_report(server->members, report);
    if (status == LH_OK)
        status = server->owner.on_report(server->owner.context, report, &answer, &error);
    if (status != LH_OK) {
        respond_problem(put->stream, status == LH_ERR_EXISTS ? 409 : 503, error.message);
        return;
    }
    answer.trust_sha256 = server->members ? lh_member_routes_trust_sha256(server->members) : NULL;
    lh_name_claims_hold(&server->names, &claim, answer.renew_us, answer.lease_us, lh_clock_us());
    respond_json(put->stream, lh_control_seal(put->name, lh_control_json_render_answer(
                                                             &answer, &server->model)));
}

/* With the report's way in it: milliseconds, where clocks that are wrong are off by seconds. */
static void compare_clocks(lh_worker_report *report) {
    lh_host_facts own = {0};
    lh_host_facts_read_clock(&own);
    if (lh_host_facts_know(&report->host, LH_HOST_CLOCK_MS))
        report->clock_offset_ms = lh_host_facts_get(&report->host, LH_HOST_CLOCK_MS) -
                                  lh_host_facts_get(&own, LH_HOST_CLOCK_MS);
}

static void take_report(put_request *put) {
    lh_worker_report report;
    lh_error error;
    size_t length = 0;
    lh_status status = lh_control_unseal(put->name, put->body, put->length, &length, &error);
    if (status == LH_OK)
        status = lh_worker_report_parse(put->name, put->body, length, &report, &error);
    if (status != LH_OK) {
        log_refusal(put->server, put, error.message);
        respond_problem(put->stream, status == LH_ERR_NO_MEMORY ? 500 : 400, error.message);
        return;
    }
    compare_clocks(&report);
    if (may_speak_for(&put->identity, &report))
        take_checked_report(put, &report);
    else
        refuse_name(put, &report);
}

static void on_put_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    put_request *put = context;
    lh_h2_stream_consume(stream, length);
    lh_stream_place_move(&put->place);
    if (put->is_refused)
        return;
    if (length > sizeof put->body - put->length) {
        put->is_refused = true;
        respond_problem(stream, 413, "a report is at most 64 KiB");
        return;
    }
    memcpy(put->body + put->length, bytes, length);
    put->length += length;
}

static void on_put_end(lh_h2_stream *stream, void *context) {
    put_request *put = context;
    (void)stream;
    if (!put->is_refused)
        take_report(put);
}

static void on_put_closed(lh_h2_stream *stream, void *context, lh_status status) {
    put_request *put = context;
    (void)stream;
    (void)status;
    lh_stream_place_leave(&put->place);
    free(put);
}

static void begin_put(lh_fleet_server *server, lh_h2_stream *stream, const lh_h2_request *request,
                      const char *name, const lh_h2_stream_events **events, void **context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_put_body, .on_end = on_put_end, .on_closed = on_put_closed};
    put_request *put = lh_name_is_valid(name) ? malloc(sizeof *put) : NULL;
    if (!put) {
        respond_problem(stream, 400, "a worker's name is 1 to 63 of [A-Za-z0-9._-]");
        return;
    }
    if (lh_stream_place_enter(&put->place, &server->reports, stream, request) != LH_OK) {
        free(put);
        return;
    }
    put->server = server;
    put->stream = stream;
    put->is_refused = false;
    put->length = 0;
    snprintf(put->name, sizeof put->name, "%s", name);
    put->identity = *request->peer_identity;
    snprintf(put->peer, sizeof put->peer, "%s", request->peer);
    put->connection = request->connection;
    *events = &stream_events;
    *context = put;
}

/* ---- Routes ---- */

static const char *after(const char *path, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 ? path + length : NULL;
}

/* "{chain}/steps/{step}" or "{chain}/trials/0" */
static void begin_step(lh_fleet_server *server, lh_h2_stream *stream, const lh_h2_request *request,
                       const char *rest, const lh_h2_stream_events **events, void **context) {
    char chain[LH_WORKER_NAME_BYTES];
    const char *slash = strchr(rest, '/');
    const char *step = slash ? after(slash, "/steps/") : NULL;
    bool is_trial = slash && strcmp(slash, "/trials/0") == 0;
    if ((!step && !is_trial) || slash == rest || (size_t)(slash - rest) >= sizeof chain) {
        respond_problem(stream, 404, "there is nothing at this path");
        return;
    }
    if (is_trial) {
        lh_trial_take(&server->trials, stream, request, "", 0, events, context);
        return;
    }
    memcpy(chain, rest, (size_t)(slash - rest));
    chain[slash - rest] = 0;
    lh_fleet_ring_take(&server->owner, &server->results, stream, request, chain, step, events,
                       context);
}

/* rest: behind pieces_path and a slash. */
static void begin_pieces(lh_fleet_server *server, const char *rest, lh_h2_stream *stream,
                         const lh_h2_request *request, const lh_h2_stream_events **events,
                         void **context) {
    lh_file_pieces pieces;
    if (lh_file_pieces_parse(rest, lh_model_file_size(server->model.file), &pieces) == LH_OK)
        lh_fleet_weights_take(&server->weights, &pieces, stream, request, events, context);
    else
        respond_problem(stream, 400, "these are no pieces of the model file");
}

/* They never change, and are thousands: so they are rendered once. */
static void begin_tensors(lh_fleet_server *server, lh_h2_stream *stream,
                          const lh_h2_request *request, const lh_h2_stream_events **events,
                          void **context) {
    if (!server->tensors)
        server->tensors = lh_control_json_render_tensors(&server->model);
    if (server->tensors)
        lh_fleet_weights_take_text(&server->weights, server->tensors, stream, request, events,
                                   context);
    else
        respond_problem(stream, 500, "the gateway is out of memory");
}

static void begin_get(lh_fleet_server *server, lh_h2_stream *stream, const lh_h2_request *request,
                      const lh_h2_stream_events **events, void **context) {
    const char *pieces = after(request->path, server->pieces_path);
    if (strcmp(request->path, server->weights_path) == 0)
        lh_fleet_weights_take(&server->weights, NULL, stream, request, events, context);
    else if (pieces && *pieces == '/')
        begin_pieces(server, pieces + 1, stream, request, events, context);
    else if (strcmp(request->path, server->tensors_path) != 0 &&
             strcmp(request->path, server->blocks_path) != 0)
        respond_problem(stream, 404, "there is nothing at this path: is it of another model?");
    else if (lh_model_file_has_failed(server->model.file))
        respond_problem(stream, 503, "the gateway cannot read its model file: see its log");
    else if (!lh_model_file_has_digests(server->model.file))
        respond_problem(stream, 503, "the digests of the tensors are still being computed");
    else if (strcmp(request->path, server->blocks_path) == 0)
        lh_fleet_weights_take_blocks(&server->weights, stream, request, events, context);
    else
        begin_tensors(server, stream, request, events, context);
}

static void on_request(void *server_context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **context) {
    lh_fleet_server *server = server_context;
    const char *worker = after(request->path, "/fleet/workers/"),
               *chain = after(request->path, "/chains/");
    bool is_get = strcmp(request->method, "GET") == 0;
    if (server->members && lh_member_routes_take(server->members, stream, request, events, context))
        return;
    if (worker && strcmp(request->method, "PUT") == 0)
        begin_put(server, stream, request, worker, events, context);
    else if (chain && strcmp(request->method, "POST") == 0)
        begin_step(server, stream, request, chain, events, context);
    else if (strcmp(request->path, LH_H2_PROBE_PATH) == 0 && strcmp(request->method, "POST") == 0)
        lh_h2_probe_take(stream, events, context);
    else if (worker || chain)
        respond_problem(stream, 405, "another method is wanted here");
    else if (is_get)
        begin_get(server, stream, request, events, context);
    else
        respond_problem(stream, 404, "there is nothing at this path");
}

/* ---- Life ---- */

static bool has_connection(const void *context, uint64_t connection) {
    const lh_fleet_server *server = context;
    return lh_h2_server_has_connection(server->http, connection);
}

lh_status lh_fleet_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls,
                                 const lh_h2_limits *limits, const char *model_name,
                                 const lh_model_file *model_file,
                                 const lh_fleet_server_owner *owner, lh_fleet_server **server,
                                 lh_error *error) {
    lh_fleet_server *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet port");
    const char *identity = lh_model_file_header_sha256(model_file);
    snprintf(s->weights_path, sizeof s->weights_path, "/fleet/models/%s/weights", identity);
    snprintf(s->tensors_path, sizeof s->tensors_path, "/fleet/models/%s/tensors", identity);
    snprintf(s->blocks_path, sizeof s->blocks_path, "/fleet/models/%s/blocks", identity);
    snprintf(s->pieces_path, sizeof s->pieces_path, "/fleet/models/%s/pieces", identity);
    s->model = (lh_fleet_model){.name = model_name,
                                .file = model_file,
                                .weights_path = s->weights_path,
                                .tensors_path = s->tensors_path,
                                .blocks_path = s->blocks_path,
                                .pieces_path = s->pieces_path};
    s->owner = *owner;
    s->names = (lh_name_claims){.has_connection = has_connection, .context = s};
    lh_h2_limits own_limits = *limits;
    /* Of each worker: reports, the ring, weights, and one that is being renewed. */
    own_limits.connections_max = 4 * LH_WORKERS_MAX;
    lh_status status =
        lh_h2_server_create(loop, listen, tls, &own_limits, on_request, s, &s->http, error);
    if (status != LH_OK) {
        free(s);
        return status;
    }
    const lh_stream_quota_limits weights_limits = lh_fleet_weights_default_limits();
    lh_fleet_weights_init(&s->weights, loop, model_file, &weights_limits);
    lh_stream_quota_init(&s->reports, loop, "reports", &report_limits);
    const lh_stream_quota_limits results_limits = lh_fleet_ring_limits();
    lh_stream_quota_init(&s->results, loop, "results of steps", &results_limits);
    const lh_stream_quota_limits trial_limits = lh_trial_limits();
    lh_stream_quota_init(&s->trials, loop, "trials of hops", &trial_limits);
    *server = s;
    return LH_OK;
}

lh_status lh_fleet_server_open_members(lh_fleet_server *server, uv_loop_t *loop,
                                       const lh_tls_options *tls, const lh_h2_limits *limits,
                                       lh_membership *membership, lh_error *error) {
    const lh_member_routes_options options = {.loop = loop,
                                              .http = server->http,
                                              .tls = tls,
                                              .limits = limits,
                                              .membership = membership,
                                              .names = &server->names,
                                              .on_revoked = server->owner.on_revoked,
                                              .context = server->owner.context};
    return lh_member_routes_create(&options, &server->members, error);
}

int lh_fleet_server_port(const lh_fleet_server *server) {
    return lh_h2_server_port(server->http);
}

const lh_member_list *lh_fleet_server_members(const lh_fleet_server *server) {
    return server->members ? lh_member_routes_members(server->members) : NULL;
}

const lh_fleet_model *lh_fleet_server_model(const lh_fleet_server *server) {
    return &server->model;
}

static void on_trials_closed(void *context) {
    lh_fleet_server *server = context;
    if (server->on_closed)
        server->on_closed(server->context);
    free(server->tensors);
    free(server);
}

static void on_results_closed(void *context) {
    lh_fleet_server *server = context;
    lh_stream_quota_close(&server->trials, on_trials_closed, server);
}

static void on_reports_closed(void *context) {
    lh_fleet_server *server = context;
    lh_stream_quota_close(&server->results, on_results_closed, server);
}

static void on_weights_closed(void *context) {
    lh_fleet_server *server = context;
    lh_stream_quota_close(&server->reports, on_reports_closed, server);
}

static void on_members_closed(void *context) {
    lh_fleet_server *server = context;
    lh_fleet_weights_close(&server->weights, on_weights_closed, server);
}

/* Its streams are closed, so no transfer, no report and no result is left. */
static void on_http_closed(void *context) {
    lh_fleet_server *server = context;
    if (server->members)
        lh_member_routes_close(server->members, on_members_closed, server);
    else
        on_members_closed(server);
}

void lh_fleet_server_close(lh_fleet_server *server, void (*on_closed)(void *), void *context) {
    server->on_closed = on_closed;
    server->context = context;
    lh_h2_server_close(server->http, on_http_closed, server);
}
