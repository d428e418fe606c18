/* Ranges and documents against a sound server, and against each way of being unsound. */
#include "tests/support/certificates.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"
#include "tests/worker/support/fleet_server.h"
#include "tests/worker/support/range_server.h"
#include "worker/weights/weight_fetch.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_BYTES (3u << 20)

static uint8_t *file;
static range_server *server;
static lh_weight_fetch *fetch;
static _Atomic bool cancelled;
static char file_url[80];
static lh_error error;

static int set_up(void **state) {
    (void)state;
    uint64_t random = 5;
    file = malloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        file[i] = (uint8_t)test_random(&random);
    signal(SIGPIPE, SIG_IGN); /* as the programs do: a peer may hang up while it is written to */
    server = range_server_create();
    range_server_add(server, "/file", file, FILE_BYTES);
    range_server_add(server, "/empty", "", 0);
    snprintf(file_url, sizeof file_url, "%s/file", range_server_url(server));
    lh_weight_fetch_options options = {
        .cancelled = &cancelled, .stall_timeout_ms = 200, .retry_delay_ms = 1, .tries = 4};
    atomic_store(&cancelled, false);
    return lh_weight_fetch_create(&options, &fetch, &error) == LH_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    lh_weight_fetch_destroy(fetch);
    range_server_destroy(server);
    free(file);
    return 0;
}

typedef struct received {
    uint64_t offset, length;
    lh_status answer;
} received;

/* Each byte once, in order, and the right one. */
static lh_status on_bytes(void *context, const uint8_t *bytes, size_t length, lh_error *failure) {
    received *r = context;
    assert_memory_equal(bytes, file + r->offset + r->length, length);
    r->length += length;
    return r->answer == LH_OK ? LH_OK : lh_fail(failure, r->answer, "enough");
}

static lh_status get(uint64_t offset, uint64_t length) {
    received r = {.offset = offset};
    lh_status status = lh_weight_fetch_range(fetch, (lh_weight_url){.url = file_url}, offset,
                                             length, on_bytes, &r, &error);
    if (status == LH_OK)
        assert_int_equal(r.length, length);
    return status;
}

static void test_ranges(void **state) {
    (void)state;
    assert_int_equal(get(0, 1), LH_OK);
    assert_int_equal(get(FILE_BYTES - 1, 1), LH_OK);
    assert_int_equal(get(12345, 1 << 20), LH_OK);
    assert_int_equal(get(0, FILE_BYTES), LH_OK);
    assert_int_equal(range_server_requests(server), 4);
    assert_int_equal(get(0, 0), LH_ERR_INVALID);
    assert_int_equal(get(1, UINT64_MAX), LH_ERR_INVALID);
    assert_int_equal(get(INT64_MAX, 2), LH_ERR_INVALID);
    assert_int_equal(range_server_requests(server), 4);
    assert_int_equal(get(FILE_BYTES - 1, 2), LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, "416"));
}

/* What a network does: all of it comes in the end, each byte once. */
static void test_faults_that_pass(void **state) {
    (void)state;
    static const range_fault faults[] = {RANGE_500,    RANGE_CLOSES,     RANGE_SILENT,
                                         RANGE_STALLS, RANGE_BREAKS_OFF, RANGE_ANSWERS_LESS};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        unsigned before = range_server_requests(server);
        range_server_fail(server, faults[i], 2);
        assert_int_equal(get(7, FILE_BYTES - 9), LH_OK);
        assert_int_equal(range_server_requests(server) - before, 3);
    }
    /* As long as each try brings something, it goes on. */
    range_server_fail(server, RANGE_ANSWERS_LESS, 5);
    assert_int_equal(get(0, FILE_BYTES), LH_OK);
}

/* A server that is being restarted, or whose port somebody floods. */
static void test_patience(void **state) {
    (void)state;
    lh_weight_fetch_options options = {.retry_delay_ms = 1};
    lh_weight_fetch *impatient = fetch;
    assert_int_equal(lh_weight_fetch_create(&options, &fetch, &error), LH_OK);
    range_server_fail(server, RANGE_CLOSES, 11);
    assert_int_equal(get(0, FILE_BYTES), LH_OK);
    lh_weight_fetch_destroy(fetch);
    fetch = impatient;
}

static void expect_end(range_fault fault, unsigned tries, lh_status status, const char *part) {
    unsigned before = range_server_requests(server);
    range_server_fail(server, fault, 100);
    lh_status got = get(100, 1000);
    range_server_fail(server, RANGE_SOUND, 0);
    if (got != status || !strstr(error.message, part) || !strstr(error.message, file_url))
        fail_msg("fault %d: %s \"%s\", wanted %s \"%s\"", (int)fault, lh_status_name(got),
                 error.message, lh_status_name(status), part);
    assert_int_equal(range_server_requests(server) - before, tries);
}

static void test_faults_that_last(void **state) {
    (void)state;
    expect_end(RANGE_500, 4, LH_ERR_UNAVAILABLE, "500");
    expect_end(RANGE_CLOSES, 4, LH_ERR_UNAVAILABLE, "");
    expect_end(RANGE_SILENT, 4, LH_ERR_TIMEOUT, "no byte for 200 ms");
    expect_end(RANGE_404, 1, LH_ERR_NOT_FOUND, "no such file");
    expect_end(RANGE_302, 1, LH_ERR_UNAVAILABLE, "302");
    expect_end(RANGE_NOT_PARTIAL, 1, LH_ERR_UNSUPPORTED, "range requests");
    expect_end(RANGE_NO_RANGE, 1, LH_ERR_MALFORMED, "no Content-Range");
    expect_end(RANGE_OTHER_RANGE, 1, LH_ERR_MALFORMED, "asked for bytes 100-1099");
    expect_end(RANGE_LONGER_RANGE, 1, LH_ERR_MALFORMED, "100-1100");
    assert_int_equal(get(0, FILE_BYTES), LH_OK);
}

static lh_status count_bytes(void *context, const uint8_t *bytes, size_t length,
                             lh_error *failure) {
    (void)bytes;
    (void)failure;
    *(uint64_t *)context += length;
    return LH_OK;
}

/* However much a server sends, no more is taken than was asked for. */
static void test_too_much(void **state) {
    (void)state;
    static const range_fault faults[] = {RANGE_LONGER_BODY, RANGE_ENDLESS_BODY};
    for (size_t i = 0; i < 2; i++) {
        uint64_t taken = 0;
        range_server_fail(server, faults[i], 100);
        lh_status status = lh_weight_fetch_range(fetch, (lh_weight_url){.url = file_url}, 0,
                                                 1 << 20, count_bytes, &taken, &error);
        range_server_fail(server, RANGE_SOUND, 0);
        assert_int_equal(status, LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, "more than 1048576 bytes"));
        assert_in_range(taken, 0, 1 << 20);
    }
}

static void test_receiver_stops(void **state) {
    (void)state;
    received r = {.answer = LH_ERR_LIMIT};
    unsigned before = range_server_requests(server);
    lh_status status = lh_weight_fetch_range(fetch, (lh_weight_url){.url = file_url}, 0, FILE_BYTES,
                                             on_bytes, &r, &error);
    assert_int_equal(status, LH_ERR_LIMIT);
    assert_string_equal(error.message, "enough");
    assert_int_equal(range_server_requests(server) - before, 1);
}

static void *cancel_soon(void *context) {
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    atomic_store(&cancelled, true);
    return NULL;
}

static void test_cancel(void **state) {
    (void)state;
    static const range_fault faults[] = {RANGE_STALLS, RANGE_SILENT};
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        atomic_store(&cancelled, false);
        range_server_fail(server, faults[i], 1);
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, NULL), 0);
        assert_int_equal(get(0, FILE_BYTES), LH_ERR_CANCELLED);
        pthread_join(thread, NULL);
    }
    assert_int_equal(get(0, 1), LH_ERR_CANCELLED);
    atomic_store(&cancelled, false);
    assert_int_equal(get(0, FILE_BYTES), LH_OK);
}

static lh_status get_document(const char *path, size_t limit, lh_text_buffer *document) {
    char url[80];
    snprintf(url, sizeof url, "%s%s", range_server_url(server), path);
    lh_text_buffer_reset(document);
    return lh_weight_fetch_document(fetch, (lh_weight_url){.url = url}, limit, document, &error);
}

static void test_documents(void **state) {
    (void)state;
    lh_text_buffer document = {0};
    assert_int_equal(get_document("/file", FILE_BYTES, &document), LH_OK);
    assert_int_equal(document.length, FILE_BYTES);
    assert_memory_equal(document.bytes, file, FILE_BYTES);
    assert_int_equal(get_document("/empty", 10, &document), LH_OK);
    assert_int_equal(document.length, 0);
    assert_int_equal(get_document("/nothing", 10, &document), LH_ERR_NOT_FOUND);
    assert_int_equal(get_document("/file", FILE_BYTES - 1, &document), LH_ERR_LIMIT);
    range_server_fail_whole(server, RANGE_BREAKS_OFF, 2); /* begun anew each time */
    assert_int_equal(get_document("/file", FILE_BYTES, &document), LH_OK);
    assert_int_equal(document.length, FILE_BYTES);
    assert_memory_equal(document.bytes, file, FILE_BYTES);
    lh_text_buffer_reset(&document);
}

static void test_urls(void **state) {
    (void)state;
    received r = {0};
    assert_int_equal(lh_weight_fetch_range(fetch, (lh_weight_url){.url = "file:///etc/passwd"}, 0,
                                           9, on_bytes, &r, &error),
                     LH_ERR_INVALID);
    assert_int_equal(
        lh_weight_fetch_range(fetch, (lh_weight_url){.url = "http://"}, 0, 9, on_bytes, &r, &error),
        LH_ERR_INVALID);
    /* Port 1 of loopback: nobody listens. */
    assert_int_equal(lh_weight_fetch_range(fetch, (lh_weight_url){.url = "http://127.0.0.1:1/x"}, 0,
                                           9, on_bytes, &r, &error),
                     LH_ERR_UNAVAILABLE);
    /* HTTP/2 asked of a server that speaks HTTP/1.1. */
    assert_int_equal(
        lh_weight_fetch_range(fetch, (lh_weight_url){.url = file_url, .prior_knowledge = true}, 0,
                              9, on_bytes, &r, &error),
        LH_ERR_UNAVAILABLE);
    assert_int_equal(r.length, 0);
}

/* The fleet port: HTTP/2 from the first byte. */
static void test_http2_with_prior_knowledge(void **state) {
    (void)state;
    char url[80];
    received r = {.offset = 5};
    fleet_server *fleet = fleet_server_create(file, FILE_BYTES, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/weights", fleet_server_port(fleet));
    assert_int_equal(lh_weight_fetch_range(fetch,
                                           (lh_weight_url){.url = url, .prior_knowledge = true}, 5,
                                           FILE_BYTES - 5, on_bytes, &r, &error),
                     LH_OK);
    assert_int_equal(r.length, FILE_BYTES - 5);
    r = (received){.offset = 0};
    assert_int_equal(lh_weight_fetch_range(fetch,
                                           (lh_weight_url){.url = url, .prior_knowledge = true}, 0,
                                           1, on_bytes, &r, &error),
                     LH_OK);
    assert_int_equal(lh_weight_fetch_range(fetch,
                                           (lh_weight_url){.url = url, .prior_knowledge = true},
                                           FILE_BYTES, 1, on_bytes, &r, &error),
                     LH_ERR_NOT_FOUND);
    fleet_server_destroy(fleet);
    assert_int_equal(lh_weight_fetch_range(fetch,
                                           (lh_weight_url){.url = url, .prior_knowledge = true}, 0,
                                           1, on_bytes, &r, &error),
                     LH_ERR_UNAVAILABLE);
}

static lh_status get_with_certificates(const authority *a, int port, const char *own,
                                       const char *ca) {
    char url[80];
    lh_weight_fetch *other;
    received r = {0};
    lh_tls_options tls = authority_options(a, own, ca);
    lh_weight_fetch_options options = {
        .certificates = {tls.certificate_file, tls.key_file, tls.ca_file},
        .retry_delay_ms = 1,
        .tries = 2};
    snprintf(url, sizeof url, "https://127.0.0.1:%d/weights", port);
    assert_int_equal(lh_weight_fetch_create(&options, &other, &error), LH_OK);
    lh_status status = lh_weight_fetch_range(other, (lh_weight_url){.url = url, .is_gateway = true},
                                             0, FILE_BYTES, on_bytes, &r, &error);
    assert_int_equal(r.length, status == LH_OK ? FILE_BYTES : 0);
    lh_weight_fetch_destroy(other);
    return status;
}

/* Between sites: TLS 1.3, both sides show certificates, and ALPN gives HTTP/2. */
static void test_http2_over_tls(void **state) {
    (void)state;
    authority a;
    authority_open(&a);
    authority_issue(&a, "ca", NULL, "fleet", NULL, 10);
    authority_issue(&a, "gateway", "ca", "?", "URI:longhaul://gateway", 10);
    authority_issue(&a, "worker", "ca", "?", "URI:longhaul://worker/w?site=home", 10);
    authority_issue(&a, "another", "ca", "gateway",
                    "IP:127.0.0.1,URI:longhaul://worker/gateway?site=home", 10);
    authority_issue(&a, "other-ca", NULL, "somebody", NULL, 10);
    authority_issue(&a, "stranger", "other-ca", "?", "URI:longhaul://worker/w?site=home", 10);

    lh_tls_options tls = authority_options(&a, "gateway", "ca");
    fleet_server *fleet = fleet_server_create(file, FILE_BYTES, &tls);
    int port = fleet_server_port(fleet);
    assert_int_equal(get_with_certificates(&a, port, "worker", "ca"), LH_OK);
    assert_int_equal(get_with_certificates(&a, port, "worker", "other-ca"),
                     LH_ERR_INVALID); /* whom it does not know */
    assert_int_equal(get_with_certificates(&a, port, "stranger", "ca"),
                     LH_ERR_UNAVAILABLE); /* whom the server does not */
    assert_int_equal(get_with_certificates(&a, port, "nobody", "ca"), LH_ERR_INVALID);
    fleet_server_destroy(fleet);

    tls = authority_options(&a, "another", "ca");
    fleet = fleet_server_create(file, FILE_BYTES, &tls);
    assert_int_equal(get_with_certificates(&a, fleet_server_port(fleet), "worker", "ca"),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "the gateway was expected and worker gateway of site "
                                          "home has answered"));
    fleet_server_destroy(fleet);
    authority_close(&a);
}

static void test_every_allocation_fails(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_weight_fetch *other = NULL;
        lh_text_buffer document = {0};
        lh_weight_fetch_options options = {.tries = 1};
        failing_malloc_arm(n);
        lh_status status = lh_weight_fetch_create(&options, &other, &error);
        if (status == LH_OK)
            status = lh_weight_fetch_document(other, (lh_weight_url){.url = file_url}, FILE_BYTES,
                                              &document, &error);
        bool failed = failing_malloc_disarm();
        lh_text_buffer_reset(&document);
        lh_weight_fetch_destroy(other);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_faults_that_pass),
        cmocka_unit_test(test_faults_that_last),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_receiver_stops),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_http2_with_prior_knowledge),
        cmocka_unit_test(test_http2_over_tls),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
