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
    lh_http_outcome outcome;
    atomic_int gone;
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

static void note_done(void *state, const lh_http_request *request, const lh_http_outcome *outcome) {
    bench *b = state;
    (void)request;
    b->outcome = *outcome;
    b->ends++;
}

static void on_gone(void *state) {
    ((bench *)state)->gone++;
}

static void refuse(void *state, unsigned status, const char *message, lh_http_reply *reply) {
    (void)state;
    lh_http_reply_add(reply, "X-Why", "%u", status);
    reply->body = strdup(message);
    reply->body_bytes = strlen(message);
}

static const lh_http_handler plain = {
    .on_refusal = refuse, .on_gone = on_gone, .on_done = note_done};

static void open_bench(bench *b, const lh_http_handler *handler, uint32_t header_deadline_ms) {
    int ends[2];
    *b = (bench){.around = {.config = lh_http_config_default(), .handler = *handler}};
    b->around.config.header_deadline_ms = b->around.config.idle_deadline_ms = header_deadline_ms;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(lh_socket_monitor_create(&b->around.monitor, NULL), LH_OK);
    assert_int_equal(lh_body_memory_init(&b->around.bodies, 200000, 2, NULL), LH_OK);
    pthread_mutex_init(&b->around.bodies_mutex, NULL);
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
    lh_body_memory_reset(&b->around.bodies);
    pthread_mutex_destroy(&b->around.bodies_mutex);
    close(fd);
    close(b->client);
}

/* Its client has left in the midst of the body. */
static void an_exchange_that_ends_is_not_refused_in_its_own_name(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &(lh_http_handler){.on_refusal = on_refusal, .on_done = shed_on_done}, 60000);
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
    open_bench(&b, &(lh_http_handler){.on_refusal = on_refusal, .on_done = shed_on_done}, 60000);
    const lh_body_memory *memory = &b.around.bodies;
    assert_int_equal(lh_http_connection_grow_body(b.connection, 40000), LH_OK);
    assert_true(memory->bytes >= 40000 && memory->bytes <= 100000);
    b.connection->body_bytes = 40000;
    assert_int_equal(lh_http_connection_grow_body(b.connection, 30000), LH_OK);
    assert_int_equal(memory->bytes, b.connection->body_capacity);
    assert_int_equal(lh_http_connection_grow_body(b.connection, 170000), LH_ERR_LIMIT);
    assert_int_equal(memory->bytes, b.connection->body_capacity);
    lh_http_connection_drop_body(b.connection);
    assert_int_equal(memory->bytes, 0);
    lh_http_connection_finish(b.connection, true);
    close_bench(&b);
}

static void no_more_is_taken_than_was_announced(void **state) {
    (void)state;
    bench b;
    open_bench(&b, &(lh_http_handler){.on_refusal = on_refusal, .on_done = shed_on_done}, 60000);
    b.connection->request.announced_bytes = 50001;
    assert_int_equal(lh_http_connection_grow_body(b.connection, 100), LH_OK);
    assert_int_equal(b.connection->body_capacity, 16384);
    assert_int_equal(lh_http_connection_grow_body(b.connection, 33000), LH_OK);
    assert_int_equal(b.connection->body_capacity, 50001);
    assert_int_equal(b.around.bodies.bytes, 50001);
    lh_http_connection_finish(b.connection, true);
    close_bench(&b);
}

/* What the client reads until the connection is closed. */
static size_t read_all(const bench *b, char *text, size_t capacity) {
    size_t used = 0;
    for (ssize_t part; (part = read(b->client, text + used, capacity - 1 - used)) > 0;)
        used += (size_t)part;
    text[used] = '\0';
    return used;
}

static void a_client_that_is_late_is_told_so(void **state) {
    (void)state;
    static const struct {
        lh_http_phase phase;
        const char *message;
    } late[] = {{LH_HTTP_PHASE_HEADERS, "The request's headers did not come in time."},
                {LH_HTTP_PHASE_BODY, "The request's body did not come in time."}};
    for (size_t i = 0; i < 2; i++) {
        bench b;
        char text[512];
        open_bench(&b, &plain, i == 0 ? 20 : 60000);
        if (i == 1)
            assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 20));
        assert_true(read_all(&b, text, sizeof text) > 0);
        assert_ptr_equal(strstr(text, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"),
                         text);
        assert_non_null(strstr(text, "X-Why: 408\r\n"));
        assert_non_null(strstr(text, late[i].message));
        assert_true(lh_http_connection_is_gone(b.connection));
        lh_http_connection_finish(b.connection, false);
        assert_int_equal(b.outcome.status, 408);
        assert_false(b.outcome.complete);
        close_bench(&b);
    }
}

static void a_connection_that_rests_is_closed_without_a_word(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &plain, 20);
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    lh_http_connection_finish(b.connection, true);
    assert_true(b.outcome.complete && b.outcome.elapsed_us < 60000000);
    assert_int_equal(read_all(&b, text, sizeof text), 0);
    close_bench(&b);
}

static void a_stream_that_failed_takes_its_connection_along(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &plain, 60000);
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_ANSWER, 0));
    lh_http_exchange_close_after(b.connection);
    lh_http_connection_finish(b.connection, true);
    assert_int_equal(read_all(&b, text, sizeof text), 0);
    assert_false(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    close_bench(&b);
}

/* Its body stands still while another connection's needs the memory; once it is whole it stays. */
static void a_body_that_stands_still_makes_room(void **state) {
    (void)state;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        bench b;
        char text[512];
        int ends[2];
        open_bench(&b, &plain, 60000);
        assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 60000));
        assert_int_equal(lh_http_connection_grow_body(b.connection, 120000), LH_OK);
        b.connection->share.moved_us -= 60000000;
        if (is_whole)
            lh_http_connection_complete_body(b.connection);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        lh_http_exchange *other = lh_http_connection_create(&b.around, NULL, ends[1]);
        assert_non_null(other);
        assert_int_equal(lh_http_connection_grow_body(other, 120000),
                         is_whole ? LH_ERR_LIMIT : LH_OK);
        assert_int_equal(lh_http_connection_is_gone(b.connection), !is_whole);
        if (!is_whole) {
            assert_true(read_all(&b, text, sizeof text) > 0);
            assert_ptr_equal(strstr(text, "HTTP/1.1 408 Request Timeout\r\n"), text);
            assert_non_null(strstr(text, "while others needed the memory."));
            /* What still comes of it finds no room. */
            assert_int_equal(lh_http_connection_grow_body(b.connection, 200000), LH_ERR_LIMIT);
            assert_false(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_ANSWER, 0));
        }
        lh_http_connection_finish(b.connection, false);
        lh_http_connection_drop_body(other);
        lh_http_connection_destroy(other);
        close(ends[0]);
        close(ends[1]);
        close_bench(&b);
    }
}

/* Nobody reads the end of a stream: its place may be given to others. */
static void an_answer_that_nobody_takes_is_cut(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &plain, 60000);
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_ANSWER, 0));
    b.connection->status = 200;
    lh_http_connection_shed(b.connection);
    assert_false(lh_http_connection_is_gone(b.connection));
    lh_http_connection_note_takes(b.connection);
    lh_http_connection_shed(b.connection);
    assert_true(lh_http_connection_is_gone(b.connection));
    assert_int_equal(read_all(&b, text, sizeof text), 0); /* nothing in the midst of an answer */
    lh_http_connection_finish(b.connection, false);
    close_bench(&b);
}

static void a_refusal_past_the_library_is_said_once(void **state) {
    (void)state;
    bench b;
    char text[512];
    open_bench(&b, &plain, 60000);
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    lh_http_connection_refuse(b.connection, 413, "too large");
    lh_http_connection_refuse(b.connection, 503, "too many");
    assert_true(read_all(&b, text, sizeof text) > 0);
    assert_non_null(strstr(text, "HTTP/1.1 413 Content Too Large\r\n"));
    assert_non_null(strstr(text, "\r\n\r\ntoo large"));
    assert_null(strstr(text, "too many"));
    lh_http_connection_finish(b.connection, false);
    assert_int_equal(b.outcome.status, 413);
    close_bench(&b);
}

static void a_client_that_hangs_up_is_gone_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, &plain, 60000);
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_BODY, 0));
    assert_true(lh_http_connection_enter(b.connection, LH_HTTP_PHASE_ANSWER, 0));
    lh_http_connection_shed(b.connection); /* it is being answered: it stays */
    assert_false(lh_http_connection_is_gone(b.connection));
    shutdown(b.client, SHUT_WR);
    for (int i = 0; i < 5000 && !b.gone; i++)
        usleep(1000);
    assert_int_equal(b.gone, 1);
    assert_true(lh_http_connection_is_gone(b.connection));
    assert_false(lh_http_connection_wait(b.connection)); /* it is not put aside any more */
    lh_http_connection_finish(b.connection, false);
    assert_int_equal(b.outcome.status, 499);
    assert_false(lh_http_connection_is_gone(b.connection)); /* as its next request would find it */
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_is_late_is_told_so),
        cmocka_unit_test(a_connection_that_rests_is_closed_without_a_word),
        cmocka_unit_test(a_stream_that_failed_takes_its_connection_along),
        cmocka_unit_test(a_refusal_past_the_library_is_said_once),
        cmocka_unit_test(a_client_that_hangs_up_is_gone_once),
        cmocka_unit_test(an_exchange_that_ends_is_not_refused_in_its_own_name),
        cmocka_unit_test(bodies_are_bounded_together),
        cmocka_unit_test(no_more_is_taken_than_was_announced),
        cmocka_unit_test(a_body_that_stands_still_makes_room),
        cmocka_unit_test(an_answer_that_nobody_takes_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
