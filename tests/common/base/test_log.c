/* Standard error as a pipe, whose other end a parent reads late or never; each program in a child
 * of its own, since a log has one thread and a process one end. */
#include "common/base/log.h"
#include "tests/common/support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* More than the pipe and the queue hold together. */
#define MANY 40000

static int reader, writer_end;

static int set_up(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    reader = ends[0];
    writer_end = ends[1];
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    close(reader);
    return close(writer_end);
}

/* All that is in the pipe; ended by a zero, to be freed. */
static char *read_all(void) {
    size_t length = 0, room = 1u << 16;
    char *text = malloc(room + 1);
    assert_non_null(text);
    fcntl(reader, F_SETFL, O_NONBLOCK);
    for (ssize_t got; (got = read(reader, text + length, room - length)) > 0;) {
        length += (size_t)got;
        text = length < room ? text : realloc(text, (room *= 2) + 1);
        assert_non_null(text);
    }
    text[length] = '\0';
    return text;
}

static void fill_pipe(void) {
    char page[4096];
    memset(page, 'x', sizeof page);
    page[sizeof page - 1] = '\n';
    fcntl(writer_end, F_SETFL, O_NONBLOCK);
    while (write(writer_end, page, sizeof page) > 0)
        ;
    fcntl(writer_end, F_SETFL, 0);
}

static void log_lines(int count) {
    for (int i = 0; i < count; i++)
        lh_log(LH_LOG_INFO, "test", "line number=%d", i);
}

/* Whether lines 0 to count - 1 follow each other. */
static bool has_all_in_order(const char *text, int count) {
    char wanted[64];
    for (int i = 0; i < count && text; i++) {
        snprintf(wanted, sizeof wanted, "test: line number=%d\n", i);
        text = strstr(text, wanted);
    }
    return text;
}

/* How a program of this body, given as `context`, ends; its exit is exit(3)'s. */
static int in_program(void *context) {
    void (*const *body)(void) = context;
    if (dup2(writer_end, STDERR_FILENO) < 0)
        return 255;
    signal(SIGSEGV, SIG_DFL); /* cmocka's handler is none of the program's */
    (*body)();
    exit(0);
}

static int run(void (*body)(void)) {
    return child_outcome(in_program, &body);
}

/* ---- Nobody reads ---- */

static void start_thread(void) {
    if (lh_log_start_thread(NULL) != LH_OK)
        _exit(254);
}

static void say_much_before_the_start(void) {
    log_lines(MANY);
    _exit(0);
}

static void say_much_while_serving(void) {
    start_thread();
    log_lines(MANY);
    _exit(0);
}

static void nobody_waits_for_who_reads_the_log(void **state) {
    (void)state;
    fill_pipe();
    assert_int_equal(run(say_much_before_the_start), 0);
    assert_int_equal(run(say_much_while_serving), 0);
}

static void serve(void) {
    start_thread();
    log_lines(10);
}

static void serve_and_abort(void) {
    start_thread();
    log_lines(10);
    abort();
}

/* A program that ends waits a second for them. */
static void who_ends_does_not_wait_for_ever(void **state) {
    (void)state;
    fill_pipe();
    assert_int_equal(run(serve), 0);
    assert_int_equal(run(serve_and_abort), -SIGABRT);
}

/* ---- Somebody reads ---- */

static void say_and_fail(void) {
    log_lines(2);
    lh_log_failure("longhaul-test", "it cannot be");
    exit(1);
}

static void serve_and_fault(void) {
    start_thread();
    log_lines(300);
    raise(SIGSEGV);
}

static void serve_much(void) {
    start_thread();
    log_lines(300);
}

static void what_was_said_is_there_when_the_program_has_ended(void **state) {
    (void)state;
    void (*const bodies[])(void) = {serve_much, serve_and_fault};
    const int outcomes[] = {0, -SIGSEGV};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run(bodies[i]), outcomes[i]);
        char *text = read_all();
        assert_true(has_all_in_order(text, 300));
        free(text);
    }
}

static void last_words_come_last(void **state) {
    (void)state;
    assert_int_equal(run(say_and_fail), 1);
    char *text = read_all(), *words = strstr(text, "\nlonghaul-test: it cannot be\n");
    assert_true(has_all_in_order(text, 2));
    assert_non_null(words);
    assert_string_equal(words, "\nlonghaul-test: it cannot be\n");
    free(text);
}

/* Reads until it is told how many lines are missing, which comes behind all others. */
static void *read_late(void *context) {
    char **text = context;
    struct pollfd more = {.fd = reader, .events = POLLIN};
    size_t length = 0, room = 8u << 20;
    *text = calloc(1, room + 1);
    while (*text && !strstr(*text + (length > 8192 ? length - 8192 : 0), "left_out=") &&
           poll(&more, 1, -1) > 0) {
        ssize_t got = read(reader, *text + length, 4096);
        length += got > 0 ? (size_t)got : 0;
    }
    return NULL;
}

static void say_much_and_read(void) {
    pthread_t thread;
    char *text = NULL;
    int written = 0;
    start_thread();
    log_lines(MANY);
    if (pthread_create(&thread, NULL, read_late, &text) || pthread_join(thread, NULL) || !text)
        _exit(253);
    const char *gap = strstr(text, "warn  log: lines are missing here: the log did not take them");
    const char *count = gap ? strstr(gap, "left_out=") : NULL;
    for (const char *at = text; (at = strstr(at, "line number=")); at++)
        written++;
    int missing = count ? atoi(count + strlen("left_out=")) : 0;
    bool is_sound = missing > 0 && written + missing == MANY && has_all_in_order(text, written);
    free(text);
    _exit(is_sound ? 0 : 252);
}

static void what_is_missing_is_counted(void **state) {
    (void)state;
    assert_int_equal(run(say_much_and_read), 0);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ROW(nobody_waits_for_who_reads_the_log),
        ROW(who_ends_does_not_wait_for_ever),
        ROW(what_was_said_is_there_when_the_program_has_ended),
        ROW(last_words_come_last),
        ROW(what_is_missing_is_counted),
    };
    alarm(60); /* a program that waits for ever fails, and does not hang the tests */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
