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

/* A connection whose time is over after so many seconds. */
static void add(bench *b, int index, uint32_t seconds) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    b->clients[index] = ends[0];
    b->around.config.header_deadline_ms = seconds * 1000;
    b->connections[index] = lh_http_connection_create(&b->around, NULL, ends[1]);
    assert_non_null(b->connections[index]);
    lh_connection_table_add(&b->table, b->connections[index]);
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

static void open_bench(bench *b, uint32_t most) {
    *b = (bench){
        .around = {.config = lh_http_config_default(), .handler = {.on_refusal = on_refusal}}};
    assert_int_equal(lh_socket_monitor_create(&b->around.monitor, NULL), LH_OK);
    lh_connection_table_init(&b->table, most);
}

static void close_bench(bench *b) {
    lh_connection_table_reset(&b->table);
    lh_socket_monitor_destroy(b->around.monitor);
}

/* One place in eight stays free. */
static void who_waits_longest_makes_way(void **state) {
    (void)state;
    static const uint32_t seconds[] = {50, 20, 60, 30, 70, 80, 90};
    bench b;
    open_bench(&b, 8);
    for (int i = 0; i < 7; i++)
        add(&b, i, seconds[i]);
    for (int i = 0; i < 7; i++)
        assert_true(is_open(&b, i));
    drop(&b, 1); /* from the middle, the end and the beginning of the list */
    drop(&b, 0);
    drop(&b, 6);
    add(&b, 0, 55);
    add(&b, 1, 65);
    add(&b, 6, 75);
    assert_true(is_open(&b, 3));
    add(&b, 7, 100);
    for (int i = 0; i < 8; i++)
        assert_int_equal(is_open(&b, i), i != 3);
    assert_int_equal(refusals, 1); /* it had not been served before, so it is told why */
    for (int i = 0; i < 8; i++)
        drop(&b, i);
    assert_int_equal(b.table.count, 0);
    assert_null(b.table.first);
    close_bench(&b);
}

static void nothing_begins_once_it_is_closed(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 8);
    assert_true(lh_connection_table_begin(&b.table));
    assert_int_equal(lh_connection_table_active(&b.table), 1);
    lh_connection_table_end(&b.table);
    assert_int_equal(lh_connection_table_active(&b.table), 0);
    lh_connection_table_close(&b.table);
    assert_false(lh_connection_table_begin(&b.table));
    assert_int_equal(lh_connection_table_active(&b.table), 0);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_longest_makes_way),
        cmocka_unit_test(nothing_begins_once_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
