/* Which connection goes where places run short, and what is active. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/connection_table.h"

#include <stdlib.h>
#include <unistd.h>

#define COUNT 8

typedef struct bench {
    lh_http_surroundings around;
    lh_connection_table table;
    lh_http_exchange *connections[COUNT];
    int clients[COUNT];
} bench;

static int refusals;

static void on_refusal(void *state, unsigned status, const char *message, lh_http_reply *reply) {
    (void)state, (void)message, (void)reply;
    assert_int_equal(status, 503);
    refusals++;
}

/* A connection that waits for its client from now on. */
static void add(bench *b, int index) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    b->clients[index] = ends[0];
    b->connections[index] = lh_http_connection_create(&b->around, NULL, ends[1]);
    assert_non_null(b->connections[index]);
    assert_true(lh_connection_table_add(&b->table, b->connections[index]));
}

static void drop(bench *b, int index) {
    int fd = b->connections[index]->fd;
    lh_connection_table_remove(&b->table, b->connections[index]);
    lh_http_connection_destroy(b->connections[index]);
    close(fd);
    close(b->clients[index]);
}

static bool is_open(const bench *b, int index) {
    return !lh_http_connection_is_gone(b->connections[index]);
}

static void open_bench(bench *b) {
    *b = (bench){
        .around = {.config = lh_http_config_default(), .handler = {.on_refusal = on_refusal}}};
    assert_int_equal(lh_socket_monitor_create(&b->around.monitor, NULL), LH_OK);
    assert_int_equal(lh_body_memory_init(&b->around.bodies, 1, COUNT, NULL), LH_OK);
    pthread_mutex_init(&b->around.bodies_mutex, NULL);
    assert_int_equal(lh_connection_table_init(&b->table, COUNT, 0, NULL), LH_OK);
}

static void close_bench(bench *b) {
    lh_connection_table_reset(&b->table);
    lh_body_memory_reset(&b->around.bodies);
    pthread_mutex_destroy(&b->around.bodies_mutex);
    lh_socket_monitor_destroy(b->around.monitor);
}

/* One place in eight stays free: the eighth connection closes the only one that has waited for more
 * than a second, which is told why. */
static void who_waits_makes_way(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        add(&b, i);
    drop(&b, 1); /* the indices of others change */
    drop(&b, 0);
    drop(&b, 6);
    add(&b, 0);
    add(&b, 1);
    add(&b, 6);
    for (int i = 0; i < 7; i++) {
        assert_true(is_open(&b, i));
        assert_ptr_equal(b.table.claims.list[b.connections[i]->place].connection, b.connections[i]);
    }
    b.table.claims.list[b.connections[3]->place].since_us = 0;
    add(&b, 7);
    for (int i = 0; i < 8; i++)
        assert_int_equal(is_open(&b, i), i != 3);
    assert_int_equal(refusals, 1);
    for (int i = 0; i < 8; i++)
        drop(&b, i);
    assert_int_equal(b.table.claims.count, 0);
    close_bench(&b);
}

/* Its waiting begins anew with each request, and ends while it is answered. */
static void a_connection_waits_from_one_request_to_the_next(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    add(&b, 0);
    const lh_connection_claim *claim = &b.table.claims.list[0];
    int64_t since_us = claim->since_us;
    assert_int_equal(claim->wait, LH_HTTP_WAITS_TO_SEND);
    assert_true(lh_connection_table_begin(&b.table, b.connections[0]));
    assert_int_equal(claim->wait, LH_HTTP_WAITS_NOT);
    lh_connection_table_wait(&b.table, b.connections[0], LH_HTTP_RESTS);
    lh_connection_table_end(&b.table);
    assert_int_equal(claim->wait, LH_HTTP_RESTS);
    assert_true(claim->since_us >= since_us);
    b.connections[0]->client = 77;
    lh_connection_table_know(&b.table, b.connections[0]);
    assert_int_equal(claim->client, 77);
    drop(&b, 0);
    close_bench(&b);
}

/* Of eight places six are for answers, five of them for those of one client. */
static void answers_leave_a_quarter_of_the_places(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++) {
        add(&b, i);
        b.connections[i]->client = i < 6 ? 77 : 88;
        lh_connection_table_know(&b.table, b.connections[i]);
        assert_true(lh_connection_table_begin(&b.table, b.connections[i]));
        assert_int_equal(lh_connection_table_is_crowded(&b.table, b.connections[i]), i >= 5);
    }
    lh_connection_table_wait(&b.table, b.connections[0], LH_HTTP_RESTS);
    lh_connection_table_end(&b.table);
    assert_false(lh_connection_table_is_crowded(&b.table, b.connections[1])); /* it has five */
    assert_false(lh_connection_table_is_crowded(&b.table, b.connections[6]));
    for (int i = 0; i < 6; i++)
        lh_connection_table_end(&b.table);
    for (int i = 0; i < 7; i++)
        drop(&b, i);
    close_bench(&b);
}

/* A connection that found no place is in no table, whatever is said of it. */
static void who_finds_no_place_stays_outside(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    add(&b, 0);
    b.table.claims.per_address_max = 1; /* all of these have the same */
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    lh_http_exchange *outside = lh_http_connection_create(&b.around, NULL, ends[1]);
    assert_non_null(outside);
    assert_false(lh_connection_table_add(&b.table, outside));
    lh_connection_table_wait(&b.table, outside, LH_HTTP_RESTS);
    lh_connection_table_know(&b.table, outside);
    assert_false(lh_connection_table_begin(&b.table, outside));
    lh_connection_table_remove(&b.table, outside);
    assert_int_equal(b.table.claims.count, 1);
    lh_http_connection_destroy(outside);
    close(ends[0]);
    close(ends[1]);
    drop(&b, 0);
    close_bench(&b);
}

static void nothing_begins_once_it_is_closed(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    add(&b, 0);
    assert_true(lh_connection_table_begin(&b.table, b.connections[0]));
    assert_int_equal(lh_connection_table_active(&b.table), 1);
    lh_connection_table_end(&b.table);
    assert_int_equal(lh_connection_table_active(&b.table), 0);
    lh_connection_table_close(&b.table);
    assert_false(lh_connection_table_begin(&b.table, b.connections[0]));
    assert_int_equal(lh_connection_table_active(&b.table), 0);
    drop(&b, 0);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_makes_way),
        cmocka_unit_test(a_connection_waits_from_one_request_to_the_next),
        cmocka_unit_test(answers_leave_a_quarter_of_the_places),
        cmocka_unit_test(who_finds_no_place_stays_outside),
        cmocka_unit_test(nothing_begins_once_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
