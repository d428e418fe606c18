/* Phases of a connection, without the library: what the handler is told when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct bench {
    lh_http_surroundings around;
    lh_http_exchange *connection;
    int client;
    int ends;
} bench;

static void on_refusal(void *state, unsigned status, const char *message, lh_http_reply *reply) {
    (void)status, (void)message;
    assert_null(state); /* what it was has been freed */
    reply->body = strdup("refused");
    reply->body_bytes = strlen(reply->body);
}

/* Meanwhile another thread finds that connections run short. */
static void shed_on_done(void *state, const lh_http_request *request,
                         const lh_http_outcome *outcome) {
    bench *b = state;
    (void)request, (void)outcome;
    b->ends++;
    lh_http_connection_shed(b->connection);
}

static void open_bench(bench *b, const lh_http_handler *handler) {
    int ends[2];
    *b = (bench){.around = {.config = lh_http_config_default(), .handler = *handler}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(lh_socket_monitor_create(&b->around.monitor, NULL), LH_OK);
    b->client = ends[0];
    b->connection = lh_http_connection_create(&b->around, NULL, ends[1]);
    assert_non_null(b->connection);
    assert_int_equal(lh_http_connection_begin(b->connection, "/a?b"), LH_OK);
    b->connection->state = b;
}

static void close_bench(bench *b) {
    int fd = b->connection->fd;
    lh_http_connection_destroy(b->connection);
    lh_socket_monitor_destroy(b->around.monitor);
    close(fd);
    close(b->client);
}

/* Its client has left in the midst of the body. */
static void an_exchange_that_ends_is_not_refused_in_its_own_name(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &(lh_http_handler){.on_refusal = on_refusal, .on_done = shed_on_done});
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 1000));
    lh_http_connection_finish(b.connection, false);
    assert_int_equal(b.ends, 1);
    ssize_t length = read(b.client, text, sizeof text - 1);
    assert_true(length > 0);
    text[length] = '\0';
    assert_non_null(strstr(text, "503 Service Unavailable"));
    assert_false(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0)); /* closed */
    close_bench(&b);
}

/* Memory for bodies is counted over all connections, and given back. */
static void bodies_are_bounded_together(void **state) {
    (void)state;
    bench b;
    open_bench(&b, &(lh_http_handler){.on_refusal = on_refusal, .on_done = shed_on_done});
    b.around.config.bodies_bytes_max = 100000;
    assert_int_equal(lh_http_connection_grow_body(b.connection, 40000), LH_OK);
    assert_true(b.around.bodies_bytes >= 40000 && b.around.bodies_bytes <= 100000);
    b.connection->body_bytes = 40000;
    assert_int_equal(lh_http_connection_grow_body(b.connection, 70000), LH_ERR_LIMIT);
    lh_http_connection_drop_body(b.connection);
    assert_int_equal(b.around.bodies_bytes, 0);
    lh_http_connection_finish(b.connection, true);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_that_ends_is_not_refused_in_its_own_name),
        cmocka_unit_test(bodies_are_bounded_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
