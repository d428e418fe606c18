/* Exchanges over a real socket: how a handler that waits is asked again; a server that ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gateway/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_US 100000
#define ENDINGS  300

/* On the server's thread, but read when the answer has come. */
typedef struct log {
    lh_http_exchange *exchange;
    int64_t due_us, asked_again_us;
    int wakes;
    char peer[LH_HTTP_PEER_BYTES];
} log;

static bool on_headers(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                       lh_http_reply *reply, void **state) {
    (void)request, (void)reply;
    *state = context;
    ((log *)context)->exchange = exchange;
    return true;
}

/* Woken before it says that it waits: it is asked again at once, and once. */
static lh_http_progress on_request(void *state, const lh_http_request *request,
                                   lh_http_reply *reply) {
    (void)reply;
    strcpy(((log *)state)->peer, request->peer);
    lh_http_exchange_wake(((log *)state)->exchange);
    return LH_HTTP_WAIT;
}

static lh_http_progress on_wake(void *state, lh_http_reply *reply) {
    log *l = state;
    if (l->wakes++ == 0) {
        l->due_us = lh_clock_us() + PAUSE_US;
        lh_http_exchange_wake_at(l->exchange, l->due_us);
        return LH_HTTP_WAIT;
    }
    l->asked_again_us = lh_clock_us();
    reply->status = 204;
    reply->close = true;
    return LH_HTTP_READY;
}

static lh_http_progress on_read(void *state, char *buffer, size_t capacity, size_t *length) {
    (void)state, (void)buffer, (void)capacity, (void)length;
    return LH_HTTP_BREAK;
}

static void on_gone(void *state) {
    (void)state;
}

static void on_refusal(void *state, unsigned status, const char *message, lh_http_reply *reply) {
    (void)state, (void)status, (void)message, (void)reply;
}

static void on_done(void *state, const lh_http_request *request, const lh_http_outcome *outcome) {
    (void)state, (void)request, (void)outcome;
}

typedef struct knocking {
    uint16_t port;
    atomic_bool stop;
} knocking;

/* own_port: from which it is asked. */
static size_t ask(uint16_t port, char *answer, size_t capacity, uint16_t *own_port) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    socklen_t address_bytes = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &address_bytes), 0);
    *own_port = ntohs(address.sin_port);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    size_t length = 0;
    for (ssize_t got; (got = read(fd, answer + length, capacity - 1 - length)) > 0;)
        length += (size_t)got;
    answer[length] = '\0';
    close(fd);
    return length;
}

static void a_wake_that_came_early_counts_once(void **state) {
    (void)state;
    log l = {0};
    const lh_http_handler handler = {.context = &l,
                                     .on_headers = on_headers,
                                     .on_request = on_request,
                                     .on_wake = on_wake,
                                     .on_read = on_read,
                                     .on_gone = on_gone,
                                     .on_refusal = on_refusal,
                                     .on_done = on_done};
    lh_http_config config = lh_http_config_default();
    lh_http_server *server;
    lh_error error;
    config.listen = "127.0.0.1:0";
    assert_int_equal(lh_http_server_create(&config, &handler, &server, &error), LH_OK);
    char answer[1024], peer[32];
    uint16_t own_port;
    assert_true(ask(lh_http_server_port(server), answer, sizeof answer, &own_port) > 0);
    assert_non_null(strstr(answer, "HTTP/1.1 204"));
    lh_http_server_destroy(server);
    assert_int_equal(l.wakes, 2);
    snprintf(peer, sizeof peer, "127.0.0.1:%u", own_port);
    assert_string_equal(l.peer, peer);
    assert_true(l.asked_again_us >= l.due_us);
}

/* Connects and leaves, until it is told to stop. */
static void *come_and_go(void *context) {
    const knocking *k = context;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(k->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    while (!atomic_load(&k->stop)) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        connect(fd, (struct sockaddr *)&address, sizeof address); /* nobody may listen any more */
        close(fd);
    }
    return NULL;
}

static void ends_while_clients_come_and_go(void **state) {
    (void)state;
    const lh_http_handler handler = {0}; /* nobody asks for anything */
    lh_http_config config = lh_http_config_default();
    config.listen = "127.0.0.1:0";
    for (int i = 0; i < ENDINGS; i++) {
        lh_http_server *server;
        lh_error error;
        pthread_t thread;
        assert_int_equal(lh_http_server_create(&config, &handler, &server, &error), LH_OK);
        knocking k = {.port = lh_http_server_port(server)};
        assert_int_equal(pthread_create(&thread, NULL, come_and_go, &k), 0);
        usleep(1000);
        lh_http_server_destroy(server);
        atomic_store(&k.stop, true);
        pthread_join(thread, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wake_that_came_early_counts_once),
        cmocka_unit_test(ends_while_clients_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
