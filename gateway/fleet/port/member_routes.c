/* Paths, and who may ask. */
#include "gateway/fleet/port/member_routes.h"

#include "common/base/clock.h"
#include "gateway/fleet/port/enrolment.h"
#include "gateway/fleet/port/reach_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_PATH "/fleet/workers/"
#define TRUST_PATH   "/fleet/trust"

struct lh_member_routes {
    lh_h2_server *http;         /* NULL: it is closed, and so will these be */
    lh_membership_watch *watch; /* NULL, and so the next: there is no CA of its own */
    lh_enrolment *enrolment;
    lh_reach_tests reach;
    const lh_name_claims *names; /* NULL: nobody serves */
    void (*on_revoked)(void *context, const char *worker);
    void *revoked_context;
    void (*on_closed)(void *);
    void *context;
};

/* ---- Routes ---- */

typedef enum member_route { NO_ROUTE, CERTIFICATE_ROUTE, REACH_ROUTE } member_route;

/* Of "/fleet/workers/{name}/certificate" and "/fleet/workers/{name}/reach". */
static member_route parse_path(const char *path, char name[LH_NAME_BYTES]) {
    size_t prefix = strlen(WORKERS_PATH);
    const char *slash =
        strncmp(path, WORKERS_PATH, prefix) == 0 ? strchr(path + prefix, '/') : NULL;
    size_t length = slash ? (size_t)(slash - path) - prefix : 0;
    if (length == 0 || length >= LH_NAME_BYTES)
        return NO_ROUTE;
    memcpy(name, path + prefix, length);
    name[length] = '\0';
    return strcmp(slash, "/certificate") == 0 ? CERTIFICATE_ROUTE
           : strcmp(slash, "/reach") == 0     ? REACH_ROUTE
                                              : NO_ROUTE;
}

static lh_name_place place_of(const lh_member_routes *routes, const char *name, const char *peer) {
    return routes->names ? lh_name_claims_place(routes->names, name, peer, lh_clock_us())
                         : LH_NAME_NOWHERE;
}

static void take_worker_request(lh_member_routes *routes, member_route route, const char *name,
                                lh_h2_stream *stream, const lh_h2_request *request,
                                const lh_h2_stream_events **events, void **context) {
    if (strcmp(request->method, "POST") != 0)
        lh_h2_stream_respond(stream, 405, "another method is wanted here\n");
    else if (!lh_tls_identity_is_worker(request->peer_identity, name))
        lh_h2_stream_respond(stream, 403, "that is for the worker of this name alone\n");
    else if (route == REACH_ROUTE)
        lh_reach_tests_take(&routes->reach, lh_member_routes_members(routes), stream, request,
                            events, context);
    else if (routes->enrolment)
        lh_enrolment_take_renewal(routes->enrolment, place_of(routes, name, request->peer), stream,
                                  request, events, context);
    else
        lh_h2_stream_respond(stream, 404,
                             "this gateway has no CA of its own: certificates come "
                             "from whoever has made those of its fleet\n");
}

static void respond_trust(const lh_member_routes *routes, lh_h2_stream *stream) {
    static const lh_h2_header type = {"content-type", "application/x-pem-file"};
    const lh_membership_view *view = lh_membership_watch_view(routes->watch);
    if (lh_h2_stream_respond_headers(stream, 200, &type, 1, false) == LH_OK &&
        lh_h2_stream_write(stream, view->trust, view->trust_length) == LH_OK)
        lh_h2_stream_end(stream);
    else
        lh_h2_stream_cancel(stream);
}

bool lh_member_routes_take(lh_member_routes *routes, lh_h2_stream *stream,
                           const lh_h2_request *request, const lh_h2_stream_events **events,
                           void **context) {
    char name[LH_NAME_BYTES];
    member_route route = parse_path(request->path, name);
    bool is_trust = routes->watch && strcmp(request->path, TRUST_PATH) == 0 &&
                    strcmp(request->method, "GET") == 0;
    if (is_trust)
        respond_trust(routes, stream);
    else if (route != NO_ROUTE)
        take_worker_request(routes, route, name, stream, request, events, context);
    return is_trust || route != NO_ROUTE;
}

const char *lh_member_routes_trust_sha256(const lh_member_routes *routes) {
    return routes->watch ? lh_membership_watch_view(routes->watch)->trust_sha256 : NULL;
}

const lh_member_list *lh_member_routes_members(const lh_member_routes *routes) {
    return routes->watch ? &lh_membership_watch_view(routes->watch)->members : NULL;
}

void lh_member_routes_note_report(lh_member_routes *routes, const lh_worker_report *report) {
    bool is_known = lh_host_facts_know(&report->host, LH_HOST_CERTIFICATE_ENDS_S);
    if (routes->watch)
        lh_membership_watch_note(
            routes->watch, report->name, report->trust_sha256,
            is_known ? lh_host_facts_get(&report->host, LH_HOST_CERTIFICATE_ENDS_S) : -1);
}

/* ---- Life ---- */

static void on_change(void *context, const lh_membership_view *before) {
    lh_member_routes *routes = context;
    const lh_member_list *now = &lh_membership_watch_view(routes->watch)->members;
    if (!routes->http)
        return;
    lh_h2_server_drop_revoked(routes->http);
    for (size_t i = 0; i < before->members.count; i++) {
        const lh_member *member = &before->members.members[i];
        if (lh_member_list_find(&before->members, member->name) == member &&
            !lh_member_list_find(now, member->name))
            routes->on_revoked(routes->revoked_context, member->name);
    }
}

static void forget(void *context) {
    (void)context;
}

static lh_status open_membership(lh_member_routes *routes, const lh_member_routes_options *options,
                                 lh_error *error) {
    const lh_membership_watch_options watch = {.loop = options->loop,
                                               .membership = options->membership,
                                               .credentials = options->tls->credentials,
                                               .on_change = on_change,
                                               .context = routes};
    lh_status status = lh_membership_watch_create(&watch, &routes->watch, error);
    if (status != LH_OK)
        return status;
    status = lh_enrolment_create(options->loop, options->membership, routes->watch,
                                 &routes->enrolment, error);
    if (status != LH_OK) {
        lh_membership_watch_close(routes->watch, forget, NULL);
        routes->watch = NULL;
        return status;
    }
    lh_h2_server_set_enrolment(options->http, lh_enrolment_take_request, routes->enrolment);
    return LH_OK;
}

lh_status lh_member_routes_create(const lh_member_routes_options *options, lh_member_routes **out,
                                  lh_error *error) {
    lh_member_routes *routes = calloc(1, sizeof *routes);
    if (!routes)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet port");
    routes->http = options->http;
    routes->names = options->names;
    routes->on_revoked = options->on_revoked;
    routes->revoked_context = options->context;
    lh_status status = options->membership ? open_membership(routes, options, error) : LH_OK;
    if (status != LH_OK) {
        free(routes);
        return status;
    }
    lh_reach_tests_init(&routes->reach, options->loop, options->tls, options->limits);
    *out = routes;
    return LH_OK;
}

static void on_reach_closed(void *context) {
    lh_member_routes *routes = context;
    routes->on_closed(routes->context);
    free(routes);
}

static void close_reach(void *context) {
    lh_member_routes *routes = context;
    lh_reach_tests_close(&routes->reach, on_reach_closed, routes);
}

static void close_watch(void *context) {
    lh_member_routes *routes = context;
    lh_membership_watch_close(routes->watch, close_reach, routes);
}

void lh_member_routes_close(lh_member_routes *routes, void (*on_closed)(void *), void *context) {
    routes->http = NULL;
    routes->on_closed = on_closed;
    routes->context = context;
    if (routes->enrolment)
        lh_enrolment_close(routes->enrolment, close_watch, routes);
    else
        close_reach(routes);
}
