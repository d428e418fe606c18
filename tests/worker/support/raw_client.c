#include "tests/worker/support/raw_client.h"

#include "tests/support/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((raw_client *)context)->connected = connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((raw_client *)context)->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    raw_client *client = context;
    assert_true(client->length + length < sizeof(client->body));
    memcpy(client->body + client->length, bytes, length);
    client->length += length;
    lh_h2_stream_consume(stream, length);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    ((raw_client *)context)->closed = true;
}

void raw_client_open(raw_client *client, uv_loop_t *loop, const char *address) {
    lh_h2_limits limits = lh_h2_default_limits();
    memset(client, 0, sizeof *client);
    client->loop = loop;
    assert_int_equal(
        lh_h2_client_create(loop, address, NULL, &limits, on_state, client, &client->client, NULL),
        LH_OK);
    loop_run_until_set(loop, &client->connected);
}

void raw_client_close(raw_client *client) {
    bool closed = false;
    lh_h2_client_close(client->client, loop_set_flag, &closed);
    loop_run_until_set(client->loop, &closed);
}

lh_h2_stream *raw_client_begin(raw_client *client, const char *method, const char *path) {
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_closed = on_closed};
    lh_h2_stream *stream = NULL;
    client->closed = false;
    client->http_status = 0;
    client->length = 0;
    memset(client->body, 0, sizeof(client->body));
    assert_int_equal(lh_h2_client_submit(client->client, method, path, NULL, 0, 1, &events, client,
                                         &stream, NULL),
                     LH_OK);
    return stream;
}

int raw_client_request(raw_client *client, const char *method, const char *path, const void *body,
                       size_t length) {
    lh_h2_stream *stream = raw_client_begin(client, method, path);
    if (length > 0)
        lh_h2_stream_write(stream, body, length);
    lh_h2_stream_end(stream);
    loop_run_until_set(client->loop, &client->closed);
    return client->http_status;
}
