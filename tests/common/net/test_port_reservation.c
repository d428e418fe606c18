/* Ports that connections of this very process have as their own ends. */
#include "common/net/listener.h"
#include "common/net/port_owner.h"
#include "tests/support/log_capture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct connection {
    int listener, client, served;
    char address[32]; /* of the client's end */
    char remote[32];
    struct sockaddr_in local;
} connection;

/* Binds to a free port that the kernel gives to no connection of others. */
static void bind_client(connection *c) {
    c->client = socket(AF_INET, SOCK_STREAM, 0);
    c->local =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t port = (uint16_t)(20000 + getpid() % 10000);
    do
        c->local.sin_port = htons(port++);
    while (bind(c->client, (struct sockaddr *)&c->local, sizeof c->local) != 0 && port < 32768);
    assert_true(port < 32768);
}

/* To a listener of its own. */
static void open_connection(connection *c) {
    uint16_t port;
    assert_int_equal(lh_listener_open("127.0.0.1:0", &c->listener, &port, NULL), LH_OK);
    struct sockaddr_in target = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind_client(c);
    assert_int_equal(connect(c->client, (struct sockaddr *)&target, sizeof target), 0);
    c->served = accept(c->listener, NULL, NULL);
    assert_true(c->served >= 0);
    snprintf(c->address, sizeof c->address, "127.0.0.1:%u", ntohs(c->local.sin_port));
    snprintf(c->remote, sizeof c->remote, "127.0.0.1:%u", port);
}

/* By a reset: nothing is left of it. */
static void reset_connection(connection *c) {
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(c->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(c->client);
    close(c->served);
    close(c->listener);
}

static void a_connection_is_told_from_a_listener(void **state) {
    (void)state;
    connection c;
    char text[LH_PORT_USE_BYTES], wanted[128];
    open_connection(&c);
    struct sockaddr_in address = c.local;
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&address, text), LH_PORT_USE_CONNECTION);
    snprintf(wanted, sizeof wanted, "a connection to %s of ", c.remote);
    assert_non_null(strstr(text, wanted));
    snprintf(wanted, sizeof wanted, ", process %d", (int)getpid());
    assert_non_null(strstr(text, wanted));
    /* Every address is in the way of a listener at all of them, and no other one of it. */
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&address, text), LH_PORT_USE_CONNECTION);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&address, text), LH_PORT_USE_NONE);
    struct sockaddr_in6 any = {
        .sin6_family = AF_INET6, .sin6_port = c.local.sin_port, .sin6_addr = in6addr_any};
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&any, text), LH_PORT_USE_CONNECTION);
    any.sin6_addr = in6addr_loopback;
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&any, text), LH_PORT_USE_NONE);
    /* A listener's port is a listener's, whoever is connected to it. */
    address = c.local;
    address.sin_port = htons((uint16_t)atoi(strchr(c.remote, ':') + 1));
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&address, text), LH_PORT_USE_LISTENER);
    assert_string_equal(text, "");
    reset_connection(&c);
    assert_int_equal(lh_port_owner_use((struct sockaddr *)&c.local, text), LH_PORT_USE_NONE);
}

typedef struct waiter {
    connection *connection;
    lh_port_reservations reserved;
    lh_status status;
    lh_error error;
    atomic_bool is_done;
} waiter;

static void *reserve(void *context) {
    waiter *w = context;
    w->status = lh_listener_reserve("listen", w->connection->address, LH_PORT_PATIENCE_MS,
                                    &w->reserved, &w->error);
    atomic_store(&w->is_done, true);
    return NULL;
}

static void waits_for_a_connection_to_end(void **state) {
    (void)state;
    connection c;
    open_connection(&c);
    waiter w = {.connection = &c};
    pthread_t thread;
    log_capture_begin();
    assert_int_equal(pthread_create(&thread, NULL, reserve, &w), 0);
    /* Two tries have failed before the connection ends. */
    usleep(250000);
    assert_false(atomic_load(&w.is_done));
    reset_connection(&c);
    pthread_join(thread, NULL);
    char *log = log_capture_end(), wanted[128];
    assert_int_equal(w.status, LH_OK);
    assert_int_equal(w.reserved.count, 1);
    snprintf(wanted, sizeof wanted, "flag=listen address=%s by=\"a connection to %s of ", c.address,
             c.remote);
    char *line = strstr(log, wanted);
    assert_non_null(line);
    assert_null(strstr(line + 1, "flag=listen")); /* said once */
    free(log);
    /* It may be listened at while it is reserved, and afterwards. */
    int fd;
    uint16_t port;
    assert_int_equal(lh_listener_open(c.address, &fd, &port, NULL), LH_OK);
    lh_listener_release(&w.reserved);
    assert_int_equal(w.reserved.count, 0);
    close(fd);
}

static void patience_ends(void **state) {
    (void)state;
    connection c;
    lh_error error;
    lh_port_reservations reserved = {0};
    char wanted[128];
    open_connection(&c);
    assert_int_equal(lh_listener_reserve("listen-tls", c.address, 0, &reserved, &error),
                     LH_ERR_EXISTS);
    snprintf(wanted, sizeof wanted, "cannot listen on %s: address already in use, by a connection",
             c.address);
    assert_non_null(strstr(error.message, wanted));
    assert_non_null(strstr(error.message, "--listen-tls HOST:PORT"));
    assert_int_equal(reserved.count, 0);
    /* The client ends it first, so that its port rests in TIME_WAIT. */
    char byte;
    assert_int_equal(shutdown(c.client, SHUT_WR), 0);
    assert_int_equal(read(c.served, &byte, 1), 0);
    close(c.served);
    assert_int_equal(read(c.client, &byte, 1), 0);
    close(c.client);
    close(c.listener);
    assert_int_equal(lh_listener_reserve("listen", c.address, 0, &reserved, &error), LH_ERR_EXISTS);
    snprintf(wanted, sizeof wanted, "by a connection to %s that has ended (TIME_WAIT);", c.remote);
    assert_non_null(strstr(error.message, wanted));
}

/* As a connection could take it between the reservation and the listener. */
static void no_connection_gets_a_reserved_port(void **state) {
    (void)state;
    connection c;
    lh_port_reservations reserved = {0};
    open_connection(&c);
    reset_connection(&c);
    assert_int_equal(lh_listener_reserve("listen", c.address, 0, &reserved, NULL), LH_OK);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(other, (struct sockaddr *)&c.local, sizeof c.local), -1);
    lh_listener_release(&reserved);
    assert_int_equal(bind(other, (struct sockaddr *)&c.local, sizeof c.local), 0);
    close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_told_from_a_listener),
        cmocka_unit_test(waits_for_a_connection_to_end),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(no_connection_gets_a_reserved_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
