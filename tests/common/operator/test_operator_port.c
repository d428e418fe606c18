/* A port with two pages, asked over a socket. */
#include "common/operator/operator_port.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned render_words(void *context, lh_text_buffer *body) {
    return lh_text_buffer_append(body, context, strlen(context), NULL) == LH_OK ? 200 : 500;
}

static unsigned render_nothing(void *context, lh_text_buffer *body) {
    (void)context;
    (void)body;
    return 503;
}

static const lh_operator_page pages[] = {
    {"/metrics", "text/plain; version=0.0.4", render_words, "figures\n"},
    {"/health", "application/json", render_nothing, NULL}};

static lh_operator_port *open_at(const char *listen, const char *usual) {
    const lh_operator_port_options options = {
        .listen = listen, .usual = usual, .allowed_hosts = "", .pages = pages, .page_count = 2};
    lh_operator_port *port;
    assert_int_equal(lh_operator_port_open(&options, &port, NULL), LH_OK);
    return port;
}

/* Sends it, and reads until the other end closes. */
static void ask(const lh_operator_port *port, const char *request, char *answer, size_t capacity) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(lh_operator_port_number(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    size_t length = 0;
    for (ssize_t got;
         length + 1 < capacity && (got = recv(fd, answer + length, capacity - 1 - length, 0)) > 0;)
        length += (size_t)got;
    answer[length] = '\0';
    close(fd);
}

#define CLOSES "Connection: close\r\n\r\n"

static void pages_are_shown_and_nothing_else(void **state) {
    (void)state;
    static const struct {
        const char *request, *status, *part;
    } samples[] = {
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" CLOSES, " 200 ", "\r\n\r\nfigures\n"},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" CLOSES, " 200 ",
         "Content-Type: text/plain; version=0.0.4\r\n"},
        {"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" CLOSES, " 200 ", "figures"},
        {"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n" CLOSES, " 200 ", "Content-Length: 8"},
        {"GET /health HTTP/1.1\r\nHost: localhost\r\n" CLOSES, " 503 ", "application/json"},
        {"GET /fleet HTTP/1.1\r\nHost: localhost\r\n" CLOSES, " 404 ", "/metrics /health"},
        {"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" CLOSES, " 405 ",
         "Allow: GET, HEAD\r\n"},
        {"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n" CLOSES, " 421 ", "localhost"},
    };
    lh_operator_port *port = open_at("127.0.0.1:0", "");
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        char answer[4096];
        ask(port, samples[i].request, answer, sizeof answer);
        assert_non_null(strstr(answer, samples[i].status));
        assert_non_null(strstr(answer, samples[i].part));
    }
    lh_operator_port_close(port);
}

static void a_body_is_not_read(void **state) {
    (void)state;
    char answer[4096];
    lh_operator_port *port = open_at("127.0.0.1:0", "");
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", answer,
        sizeof answer);
    assert_null(strstr(answer, "figures"));
    lh_operator_port_close(port);
}

static void headers_are_bounded(void **state) {
    (void)state;
    char request[40000], answer[4096];
    size_t length = (size_t)snprintf(request, sizeof request,
                                     "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(request + length, 'x', sizeof request - length);
    strcpy(request + sizeof request - 5, "\r\n\r\n");
    lh_operator_port *port = open_at("127.0.0.1:0", "");
    ask(port, request, answer, sizeof answer);
    assert_null(strstr(answer, "figures"));
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" CLOSES, answer, sizeof answer);
    assert_non_null(strstr(answer, "figures"));
    lh_operator_port_close(port);
}

static void only_who_asks_for_an_address_insists_on_it(void **state) {
    (void)state;
    char taken[32];
    lh_error error;
    lh_operator_port *first = open_at("127.0.0.1:0", ""), *second;
    snprintf(taken, sizeof taken, "127.0.0.1:%u", lh_operator_port_number(first));
    assert_null(open_at("", taken));
    assert_null(open_at("off", taken));
    assert_int_equal(lh_operator_port_number(NULL), 0);
    const lh_operator_port_options options = {
        .listen = taken, .usual = "", .allowed_hosts = "", .pages = pages, .page_count = 2};
    assert_int_equal(lh_operator_port_open(&options, &second, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "--metrics-listen"));
    assert_non_null(strstr(error.message, taken));
    lh_operator_port_close(first);
}

static void addresses_need_a_host(void **state) {
    (void)state;
    static const char *const right[] = {"", "off", "127.0.0.1:7102", "[::1]:0", "0.0.0.0:7102"},
                             *const wrong[] = {"7102", ":7102", "localhost", "a:b", "on"};
    lh_error error;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_int_equal(lh_operator_port_check(right[i], &error), LH_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(lh_operator_port_check(wrong[i], &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "--metrics-listen: "));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_shown_and_nothing_else),
        cmocka_unit_test(a_body_is_not_read),
        cmocka_unit_test(headers_are_bounded),
        cmocka_unit_test(addresses_need_a_host),
        cmocka_unit_test(only_who_asks_for_an_address_insists_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
