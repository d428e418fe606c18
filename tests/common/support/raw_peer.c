#include "tests/common/support/raw_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char raw_server_greeting[9] = "\0\0\0\4\0\0\0\0";
const char raw_client_greeting[33] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    static char scratch[65536];
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(scratch, sizeof scratch);
}

static void take_waiting(raw_peer *p);

static void on_closed(uv_handle_t *handle) {
    free(handle);
}

static void close_connection(raw_peer *p) {
    if (p->is_open)
        uv_close((uv_handle_t *)p->tcp, on_closed);
    p->is_open = false;
}

static void open_handle(raw_peer *p, uv_loop_t *loop) {
    p->tcp = malloc(sizeof *p->tcp);
    assert_non_null(p->tcp);
    uv_tcp_init(loop, p->tcp);
    p->tcp->data = p;
    p->is_open = true;
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
    raw_peer *p = stream->data;
    if (length < 0) {
        p->closed++;
        close_connection(p);
        take_waiting(p);
        return;
    }
    size_t room = sizeof p->heard - p->heard_length;
    size_t part = (size_t)length < room ? (size_t)length : room;
    memcpy(p->heard + p->heard_length, buffer->base, part);
    p->heard_length += part;
}

static void begin(raw_peer *p) {
    p->connected++;
    if (p->curt) {
        close_connection(p);
        return;
    }
    if (p->greeting_length)
        raw_peer_send(p, p->greeting, p->greeting_length);
    if (!p->deaf)
        uv_read_start((uv_stream_t *)p->tcp, on_alloc, on_read);
}

static void take_waiting(raw_peer *p) {
    if (!p->waiting || p->is_open)
        return;
    p->waiting = false;
    open_handle(p, p->listener.loop);
    assert_int_equal(uv_accept((uv_stream_t *)&p->listener, (uv_stream_t *)p->tcp), 0);
    begin(p);
}

static void on_connection(uv_stream_t *listener, int code) {
    raw_peer *p = listener->data;
    assert_int_equal(code, 0);
    p->waiting = true;
    take_waiting(p);
}

int raw_peer_listen(raw_peer *p, uv_loop_t *loop, const void *greeting, size_t length) {
    struct sockaddr_in address;
    int size = sizeof address;
    p->greeting = greeting;
    p->greeting_length = length;
    p->listens = true;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop, &p->listener);
    p->listener.data = p;
    assert_int_equal(uv_tcp_bind(&p->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&p->listener, 8, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&p->listener, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static void on_connected(uv_connect_t *connect, int code) {
    raw_peer *p = connect->data;
    assert_int_equal(code, 0);
    begin(p);
}

void raw_peer_connect(raw_peer *p, uv_loop_t *loop, int port, const void *greeting, size_t length) {
    struct sockaddr_in address;
    p->greeting = greeting;
    p->greeting_length = length;
    uv_ip4_addr("127.0.0.1", port, &address);
    open_handle(p, loop);
    p->connect.data = p;
    assert_int_equal(uv_tcp_connect(&p->connect, p->tcp, (struct sockaddr *)&address, on_connected),
                     0);
}

typedef struct sending {
    uv_write_t write;
    uint8_t bytes[];
} sending;

static void on_written(uv_write_t *write, int code) {
    (void)code;
    free((char *)write - offsetof(sending, write));
}

void raw_peer_send(raw_peer *p, const void *bytes, size_t length) {
    if (!p->is_open)
        return;
    sending *s = malloc(sizeof *s + length);
    assert_non_null(s);
    memcpy(s->bytes, bytes, length);
    uv_buf_t buffer = uv_buf_init((char *)s->bytes, (unsigned)length);
    uv_write(&s->write, (uv_stream_t *)p->tcp, &buffer, 1, on_written);
}

void raw_peer_close(raw_peer *p) {
    close_connection(p);
    if (p->listens)
        uv_close((uv_handle_t *)&p->listener, NULL);
}

size_t raw_frame(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
                 size_t length) {
    const uint8_t header[] = {
        (uint8_t)(length >> 16),
        (uint8_t)(length >> 8),
        (uint8_t)length,
        type,
        flags,
        (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16),
        (uint8_t)(stream >> 8),
        (uint8_t)stream,
    };
    memcpy(to, header, sizeof header);
    if (length)
        memcpy(to + sizeof header, payload, length);
    return sizeof header + length;
}

int raw_find_goaway(const uint8_t *bytes, size_t length) {
    size_t at = 0;
    while (at + 17 <= length) {
        const uint8_t *frame = bytes + at;
        if (frame[3] == 7)
            return frame[13] << 24 | frame[14] << 16 | frame[15] << 8 | frame[16];
        at += 9 + ((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);
    }
    return -1;
}
