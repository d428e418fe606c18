/* An output on a TCP connection whose other end reads when the test says so. */
#include "common/http2/output.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct wire {
    uv_loop_t loop;
    uv_tcp_t tcp;
    lh_h2_output output;
    int far; /* the other end */
    bool is_told;
    int code;
} wire;

static wire w;

static void on_written(lh_h2_output *output, int code) {
    assert_ptr_equal(output->context, &w);
    w.is_told = true;
    w.code = code;
    uv_stop(&w.loop); /* a turn that has run its timers would wait on */
}

/* A connection that holds little: what is written soon waits. */
static int open_wire(void **state) {
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
    int small = 8 << 10;
    memset(&w, 0, sizeof w);
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(near, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(near, (struct sockaddr *)&address, length) != 0)
        return -1;
    w.far = accept(listener, NULL, NULL);
    close(listener);
    uv_loop_init(&w.loop);
    uv_tcp_init(&w.loop, &w.tcp);
    uv_tcp_open(&w.tcp, near);
    lh_h2_output_init(&w.output, (uv_stream_t *)&w.tcp, on_written, &w);
    return w.far >= 0 ? 0 : -1;
}

static int close_wire(void **state) {
    (void)state;
    if (w.far >= 0)
        close(w.far);
    uv_close((uv_handle_t *)&w.tcp, NULL);
    uv_close((uv_handle_t *)&w.output.drain, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&w.loop);
}

static uint8_t letter(uint64_t at) {
    return (uint8_t)(at * 7 >> 3);
}

static void fill(size_t length) {
    for (size_t i = 0; i < length; i++)
        w.output.bytes[i] = letter(w.output.bytes_sent + i);
    w.output.used = length;
}

/* Reads on at the far end until `until` bytes have come in all, while the loop runs. */
static void read_until(uint64_t *got, uint64_t until) {
    while (*got < until) {
        uint8_t bytes[4096];
        ssize_t length = recv(w.far, bytes, sizeof bytes, MSG_DONTWAIT);
        for (ssize_t i = 0; i < length; i++)
            assert_int_equal(bytes[i], letter((*got)++));
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
}

static void more_is_filled_while_the_kernel_takes_all(void **state) {
    (void)state;
    static const uint32_t limits[] = {17 << 10, 34 << 10, 64 << 10, 64 << 10};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(w.output.limit, limits[i]);
        fill(10);
        assert_int_equal(lh_h2_output_flush(&w.output), 0);
        assert_false(w.output.writing);
    }
    assert_int_equal(w.output.bytes_sent, 40);
    assert_false(w.is_told);
    uint64_t got = 0;
    read_until(&got, 40);
}

static void what_the_kernel_may_hold_bounds_what_is_filled(void **state) {
    (void)state;
    fill(10);
    lh_h2_output_flush(&w.output);
    assert_int_equal(w.output.limit, 34 << 10);
    lh_h2_output_set_unsent_max(&w.output, 20 << 10);
    assert_int_equal(w.output.limit, 20 << 10); /* at once */
    fill(10);
    lh_h2_output_flush(&w.output);
    assert_int_equal(w.output.limit, 20 << 10); /* and for good */
    lh_h2_output_set_unsent_max(&w.output, 4 << 10);
    assert_int_equal(w.output.limit, LH_H2_OUTPUT_BYTES_MIN); /* a frame must have room */
    lh_h2_output_set_unsent_max(&w.output, 512 << 10);
    for (int i = 0; i < 3; i++) {
        fill(10);
        lh_h2_output_flush(&w.output);
    }
    assert_int_equal(w.output.limit, LH_H2_OUTPUT_BYTES_MAX);
}

/* Writes until the kernel takes no more, for the far end does not read; how much was written. */
static uint64_t clog_up(void) {
    uint64_t written = 0;
    struct pollfd near = {.fd = lh_h2_output_descriptor(&w.output), .events = POLLOUT};
    do {
        size_t length = w.output.limit;
        fill(length);
        assert_int_equal(lh_h2_output_flush(&w.output), 0);
        written += length;
        while (w.output.writing && poll(&near, 1, 100) > 0)
            uv_run(&w.loop, UV_RUN_NOWAIT);
    } while (!w.output.writing);
    w.is_told = false;
    return written;
}

static void the_rest_goes_when_the_kernel_takes_it(void **state) {
    (void)state;
    uint64_t got = 0, written = clog_up();
    assert_int_equal(w.output.limit, LH_H2_OUTPUT_BYTES_MIN); /* the link is slow */
    assert_true(w.output.bytes_sent < written);
    uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_false(w.is_told);
    read_until(&got, written);
    loop_run_until_set(&w.loop, &w.is_told);
    assert_int_equal(w.code, 0);
    assert_false(w.output.writing);
    assert_int_equal(w.output.bytes_sent, written);
    assert_int_equal(w.output.used, 0);
}

static void a_connection_that_is_gone_is_told(void **state) {
    (void)state;
    struct linger at_once = {.l_onoff = 1};
    clog_up();
    setsockopt(w.far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(w.far); /* with a reset */
    w.far = -1;
    loop_run_until_set(&w.loop, &w.is_told);
    assert_true(w.code < 0);
    assert_false(w.output.writing);
    fill(10);
    assert_true(lh_h2_output_flush(&w.output) < 0);
    assert_false(w.output.writing);
    assert_false(lh_h2_output_try(&w.output));
}

/* What the kernel holds unsent is asked before more is given to it, and again soon. */
static void a_kernel_that_holds_enough_is_given_no_more(void **state) {
    (void)state;
    uint64_t got = 0, written = clog_up();
    assert_false(lh_h2_output_is_full(&w.output)); /* it may hold what it takes */
    lh_h2_output_set_unsent_max(&w.output, 129 << 10);
    assert_false(lh_h2_output_is_full(&w.output)); /* so much makes no difference */
    assert_false(uv_is_active((uv_handle_t *)&w.output.drain));
    lh_h2_output_set_unsent_max(&w.output, 1);
    assert_true(lh_h2_output_is_full(&w.output));
    loop_run_until_set(&w.loop, &w.is_told); /* by the drain: the far end has read nothing */
    assert_int_equal(w.code, 0);
    assert_true(w.output.writing && lh_h2_output_is_full(&w.output));
    read_until(&got, written);
    assert_false(lh_h2_output_is_full(&w.output));
}

/* Where the kernel may hold more than 128 KiB it is not asked. */
static void much_that_waits_makes_no_difference(void **state) {
    (void)state;
    int large = 1 << 20;
    setsockopt(lh_h2_output_descriptor(&w.output), SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    assert_true(clog_up() > 300 << 10);
    lh_h2_output_set_unsent_max(&w.output, (128 << 10) + 1);
    assert_false(lh_h2_output_is_full(&w.output));
    assert_false(uv_is_active((uv_handle_t *)&w.output.drain));
    lh_h2_output_set_unsent_max(&w.output, 128 << 10);
    assert_true(lh_h2_output_is_full(&w.output));
    assert_in_range(uv_timer_get_due_in(&w.output.drain), 0, 4);
}

static void without_a_connection_there_is_no_descriptor(void **state) {
    (void)state;
    uv_tcp_t tcp;
    uv_tcp_init(&w.loop, &tcp);
    const lh_h2_output output = {.stream = (uv_stream_t *)&tcp};
    assert_int_equal(lh_h2_output_descriptor(&output), -1);
    uv_close((uv_handle_t *)&tcp, NULL);
    uv_run(&w.loop, UV_RUN_NOWAIT);
}

static void last_words_go_now_or_never(void **state) {
    (void)state;
    uint64_t got = 0;
    assert_true(lh_h2_output_try(&w.output)); /* nothing to say */
    fill(17);
    assert_true(lh_h2_output_try(&w.output));
    read_until(&got, 17);
    bool has_gone = true;
    for (int i = 0; i < 1000 && has_gone; i++) {
        fill(LH_H2_OUTPUT_BYTES_MAX);
        has_gone = lh_h2_output_try(&w.output);
    }
    assert_false(has_gone);
    assert_false(w.output.writing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_is_filled_while_the_kernel_takes_all, open_wire,
                                        close_wire),
        cmocka_unit_test_setup_teardown(what_the_kernel_may_hold_bounds_what_is_filled, open_wire,
                                        close_wire),
        cmocka_unit_test_setup_teardown(the_rest_goes_when_the_kernel_takes_it, open_wire,
                                        close_wire),
        cmocka_unit_test_setup_teardown(a_connection_that_is_gone_is_told, open_wire, close_wire),
        cmocka_unit_test_setup_teardown(a_kernel_that_holds_enough_is_given_no_more, open_wire,
                                        close_wire),
        cmocka_unit_test_setup_teardown(much_that_waits_makes_no_difference, open_wire, close_wire),
        cmocka_unit_test_setup_teardown(without_a_connection_there_is_no_descriptor, open_wire,
                                        close_wire),
        cmocka_unit_test_setup_teardown(last_words_go_now_or_never, open_wire, close_wire),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
