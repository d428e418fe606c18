/* A server with one kind of stream. */
#include "tests/gateway/support/step_peer.h"

#include "common/protocol/trial/trial_request.h"
#include "tests/support/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)context;
    (void)bytes;
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    step_peer *peer = context;
    peer->steps++;
    if (!peer->is_silent)
        lh_h2_stream_respond(stream, peer->refusal ? 409 : 200,
                             peer->refusal ? peer->refusal : "{}");
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    step_peer *peer = context;
    const char *width = strstr(request->path, "/chains/main/trials/");
    if (width) {
        peer->trials++;
        snprintf(peer->trial_peer, sizeof peer->trial_peer, "%s", request->peer);
        lh_trial_take(NULL, stream, request, peer->name, strtoull(width + 20, NULL, 10), events,
                      stream_context);
        return;
    }
    assert_non_null(strstr(request->path, "/chains/main/steps/"));
    snprintf(peer->step_peer, sizeof peer->step_peer, "%s", request->peer);
    *events = &stream_events;
    *stream_context = context;
}

void step_peer_open(step_peer *peer, uv_loop_t *loop) {
    lh_h2_limits limits = lh_h2_default_limits();
    *peer = (step_peer){.name = "w-1"};
    assert_int_equal(lh_h2_server_create(loop, "127.0.0.1:0", NULL, &limits, on_request, peer,
                                         &peer->server, NULL),
                     LH_OK);
}

void step_peer_close(step_peer *peer) {
    if (peer->server)
        lh_h2_server_close(peer->server, loop_set_flag, &peer->is_closed);
    peer->server = NULL;
}

const char *step_peer_address(const step_peer *peer) {
    static char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(peer->server));
    return address;
}
