#include "common/net/service_manager.h"
#include "tests/support/log_capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* The service manager's side. */
typedef struct listener {
    char folder[64], path[96];
    int descriptor;
} listener;

static void forget_variables(void) {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static int set_up(void **state) {
    listener *l = calloc(1, sizeof *l);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(l);
    forget_variables();
    strcpy(l->folder, "/tmp/longhaul-notify-XXXXXX");
    assert_non_null(mkdtemp(l->folder));
    snprintf(l->path, sizeof l->path, "%s/notify", l->folder);
    strcpy(address.sun_path, l->path);
    l->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(l->descriptor, (struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", l->path, 1);
    *state = l;
    return 0;
}

static int tear_down(void **state) {
    listener *l = *state;
    forget_variables();
    close(l->descriptor);
    unlink(l->path);
    rmdir(l->folder);
    free(l);
    return 0;
}

/* The next datagram; "": there is none. */
static const char *heard(const listener *l) {
    static char text[512];
    ssize_t length = recv(l->descriptor, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void each_event_is_one_datagram(void **state) {
    const listener *l = *state;
    lh_service_manager manager;
    lh_service_manager_open(&manager, "test");
    lh_service_manager_ready(&manager);
    assert_string_equal(heard(l), "READY=1\n");
    lh_service_manager_reloading(&manager, 123456);
    assert_string_equal(heard(l), "RELOADING=1\nMONOTONIC_USEC=123456\n");
    lh_service_manager_stopping(&manager);
    assert_string_equal(heard(l), "STOPPING=1\n");
    assert_string_equal(heard(l), "");
    lh_service_manager_close(&manager);
}

static void words_are_told_when_they_change(void **state) {
    const listener *l = *state;
    lh_service_manager manager;
    lh_service_manager_open(&manager, "test");
    assert_int_equal(lh_service_manager_interval_ms(&manager), 1000);
    lh_service_manager_tell(&manager, 0, "loads");
    assert_string_equal(heard(l), "STATUS=loads\n");
    lh_service_manager_tell(&manager, 1000000, "loads");
    assert_string_equal(heard(l), "");
    lh_service_manager_tell(&manager, 2000000, "serves\nREADY=1");
    assert_string_equal(heard(l), "STATUS=serves READY=1\n");
    lh_service_manager_close(&manager);
}

static void words_have_bounds(void **state) {
    const listener *l = *state;
    char long_text[1000];
    lh_service_manager manager;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    lh_service_manager_open(&manager, "test");
    lh_service_manager_tell(&manager, 0, long_text);
    assert_int_equal(strlen(heard(l)), strlen("STATUS=\n") + LH_SERVICE_STATUS_BYTES - 1);
    lh_service_manager_tell(&manager, 0, long_text);
    assert_string_equal(heard(l), "");
    lh_service_manager_close(&manager);
}

static void a_sign_of_life_comes_each_third_of_the_watchdogs_time(void **state) {
    const listener *l = *state;
    lh_service_manager manager;
    setenv("WATCHDOG_USEC", "30000000", 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(manager.beat_us, 10000000);
    lh_service_manager_tell(&manager, 50, "serves");
    assert_string_equal(heard(l), "WATCHDOG=1\nSTATUS=serves\n");
    lh_service_manager_tell(&manager, 9000000, "serves");
    assert_string_equal(heard(l), "");
    lh_service_manager_tell(&manager, 10000050, "serves");
    assert_string_equal(heard(l), "WATCHDOG=1\nSTATUS=serves\n");
    lh_service_manager_close(&manager);
}

static void a_short_watchdog_is_told_in_time(void **state) {
    (void)state;
    lh_service_manager manager;
    setenv("WATCHDOG_USEC", "600000", 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(lh_service_manager_interval_ms(&manager), 200);
    lh_service_manager_close(&manager);
    setenv("WATCHDOG_USEC", "1", 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(lh_service_manager_interval_ms(&manager), 1000);
    lh_service_manager_close(&manager);
}

static void a_watchdog_of_another_process_is_none(void **state) {
    (void)state;
    char own[16];
    lh_service_manager manager;
    setenv("WATCHDOG_USEC", "30000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(manager.beat_us, 0);
    lh_service_manager_close(&manager);
    snprintf(own, sizeof own, "%d", (int)getpid());
    setenv("WATCHDOG_PID", own, 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(manager.beat_us, 10000000);
    lh_service_manager_close(&manager);
    setenv("WATCHDOG_USEC", "thirty", 1);
    lh_service_manager_open(&manager, "test");
    assert_int_equal(manager.beat_us, 0);
    lh_service_manager_close(&manager);
}

/* Fills the listener's queue: what does not fit is said by the next call. */
static void what_there_is_no_room_for_is_told_later(void **state) {
    const listener *l = *state;
    lh_service_manager manager;
    lh_service_manager_open(&manager, "test");
    for (int i = 0; i < 10000; i++)
        lh_service_manager_ready(&manager);
    lh_service_manager_tell(&manager, 0, "serves");
    while (strcmp(heard(l), "READY=1\n") == 0)
        ;
    lh_service_manager_tell(&manager, 0, "serves");
    assert_string_equal(heard(l), "STATUS=serves\n");
    lh_service_manager_close(&manager);
}

static void without_a_service_manager_nothing_is_done(void **state) {
    (void)state;
    lh_service_manager manager;
    unsetenv("NOTIFY_SOCKET");
    lh_service_manager_open(&manager, "test");
    assert_int_equal(manager.descriptor, -1);
    assert_int_equal(lh_service_manager_interval_ms(&manager), 0);
    lh_service_manager_tell(&manager, 0, "serves");
    lh_service_manager_ready(&manager);
    lh_service_manager_close(&manager);
}

static void a_socket_that_is_not_there_is_a_warning(void **state) {
    (void)state;
    static const char *const sockets[] = {"/nonexistent/notify", "@longhaul-nobody", "vsock:2:1234",
                                          "relative/notify"};
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0]; i++) {
        lh_service_manager manager;
        setenv("NOTIFY_SOCKET", sockets[i], 1);
        log_capture_begin();
        lh_service_manager_open(&manager, "test");
        char *text = log_capture_end();
        assert_non_null(strstr(text, sockets[i]));
        free(text);
        assert_int_equal(manager.descriptor, -1);
        lh_service_manager_ready(&manager);
    }
}

static void an_abstract_socket_is_reached(void **state) {
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[64];
    listener l = {.descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
    snprintf(text, sizeof text, "@longhaul-notify-%d", (int)getpid());
    memcpy(address.sun_path + 1, text + 1, strlen(text) - 1);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
    assert_int_equal(bind(l.descriptor, (struct sockaddr *)&address, length), 0);
    setenv("NOTIFY_SOCKET", text, 1);
    lh_service_manager manager;
    lh_service_manager_open(&manager, "test");
    lh_service_manager_ready(&manager);
    assert_string_equal(heard(&l), "READY=1\n");
    lh_service_manager_close(&manager);
    close(l.descriptor);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_event_is_one_datagram),
        TEST(words_are_told_when_they_change),
        TEST(words_have_bounds),
        TEST(a_sign_of_life_comes_each_third_of_the_watchdogs_time),
        TEST(a_short_watchdog_is_told_in_time),
        TEST(a_watchdog_of_another_process_is_none),
        TEST(what_there_is_no_room_for_is_told_later),
        TEST(without_a_service_manager_nothing_is_done),
        TEST(a_socket_that_is_not_there_is_a_warning),
        TEST(an_abstract_socket_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
