/* One PUT against a gateway on the test's loop: what comes back of a sound answer, and what is said
 * of every other one. */
#include "tests/support/certificates.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"
#include "tests/worker/support/control_gateway.h"
#include "worker/control/control_client.h"

#include <curl/curl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BODY_BYTES_MAX 65536u

typedef struct bench {
    uv_loop_t loop;
    control_gateway gateway;
    lh_control_client *client;
    /* of the last PUT */
    char *body;
    char answer[4096];
    lh_status status;
    lh_error error;
    bool done;
} bench;

static void bench_open(bench *b, const lh_tls_options *gateway_tls) {
    memset(b, 0, sizeof *b);
    uv_loop_init(&b->loop);
    strcpy(b->gateway.answer, "{\"renew_ms\":20}");
    control_gateway_open(&b->gateway, &b->loop, gateway_tls);
}

static void connect_to(bench *b, const char *url, const lh_tls_options *tls) {
    assert_int_equal(lh_control_client_create(url, "w", tls, &b->client, &b->error), LH_OK);
}

static void bench_open_connected(bench *b) {
    bench_open(b, NULL);
    connect_to(b, b->gateway.url, NULL);
}

static void bench_close(bench *b) {
    lh_control_client_destroy(b->client);
    control_gateway_close(&b->gateway);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

static void put_on_pool(uv_work_t *work) {
    bench *b = work->data;
    const char *answer;
    size_t length;
    b->status = lh_control_client_put(b->client, b->body, &answer, &length, &b->error);
    if (b->status != LH_OK)
        return;
    assert_true(length < sizeof b->answer);
    memcpy(b->answer, answer, length);
    b->answer[length] = '\0';
}

static void on_put(uv_work_t *work, int status) {
    assert_int_equal(status, 0);
    ((bench *)work->data)->done = true;
}

static lh_status put(bench *b, const char *body) {
    uv_work_t work = {.data = b};
    b->body = strdup(body);
    b->error.message[0] = b->answer[0] = '\0';
    b->done = false;
    assert_int_equal(uv_queue_work(&b->loop, &work, put_on_pool, on_put), 0);
    loop_run_until_set(&b->loop, &b->done);
    return b->status;
}

static bool says(const bench *b, const char *text) {
    return strstr(b->error.message, text);
}

static void test_the_body_goes_and_the_answer_comes_without_its_seal(void **state) {
    (void)state;
    bench b;
    bench_open_connected(&b);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(put(&b, i == 2 ? "{\"site\":\"t\"}" : "{}"), LH_OK);
        assert_string_equal(b.gateway.report, i == 2 ? "{\"site\":\"t\"}" : "{}");
        assert_string_equal(b.answer, "{\"renew_ms\":20}");
        assert_int_equal(b.gateway.puts, i);
    }
    bench_close(&b);
}

/* In the clear as over TLS; and what the gateway has closed, by ending, is never tried in vain. */
static void test_reports_share_a_connection(void **state) {
    (void)state;
    authority a;
    authority_open(&a);
    authority_issue(&a, "ca", NULL, "fleet", NULL, 10);
    authority_issue(&a, "gateway", "ca", "?", "URI:longhaul://gateway", 10);
    authority_issue(&a, "worker", "ca", "?", "URI:longhaul://worker/w?site=home", 10);
    lh_tls_options gateway = authority_options(&a, "gateway", "ca"),
                   worker = authority_options(&a, "worker", "ca");
    for (int secure = 0; secure < 2; secure++) {
        const lh_tls_options *tls = secure ? &gateway : NULL;
        char first[64];
        bench b;
        bench_open(&b, tls);
        connect_to(&b, b.gateway.url, secure ? &worker : NULL);
        assert_int_equal(put(&b, "{}"), LH_OK);
        strcpy(first, b.gateway.put_peer);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(put(&b, "{}"), LH_OK);
            assert_string_equal(b.gateway.put_peer, first);
        }
        control_gateway_close(&b.gateway);
        control_gateway_open(&b.gateway, &b.loop, tls);
        assert_int_equal(put(&b, "{}"), LH_OK);
        assert_string_not_equal(b.gateway.put_peer, first);
        bench_close(&b);
    }
    authority_close(&a);
}

static void test_an_answer_whose_seal_is_wrong_is_not_believed(void **state) {
    (void)state;
    bench b;
    bench_open_connected(&b);
    b.gateway.answer_damage = 3;
    assert_int_equal(put(&b, "{}"), LH_ERR_CORRUPT);
    b.gateway.raw = "{\"renew_ms\":20}"; /* without a seal */
    assert_int_equal(put(&b, "{}"), LH_ERR_CORRUPT);
    b.gateway.raw = "";
    assert_int_equal(put(&b, "{}"), LH_ERR_CORRUPT);
    b.gateway.raw = NULL;
    b.gateway.answer_damage = 0;
    assert_int_equal(put(&b, "{}"), LH_OK);
    bench_close(&b);
}

static void test_a_refusal_is_quoted_by_its_first_line(void **state) {
    (void)state;
    static const struct {
        int answer;
        lh_status status;
    } refusals[] = {{403, LH_ERR_INVALID},
                    {409, LH_ERR_EXISTS},
                    {499, LH_ERR_INVALID},
                    {500, LH_ERR_UNAVAILABLE},
                    {503, LH_ERR_UNAVAILABLE}};
    bench b;
    bench_open_connected(&b);
    b.gateway.raw = "another worker has this name\nand more";
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        b.gateway.answer_status = refusals[i].answer;
        assert_int_equal(put(&b, "{}"), refusals[i].status);
        assert_true(says(&b, ": another worker has this name") && !says(&b, "more"));
    }
    assert_true(says(&b, "the gateway answers 503"));
    bench_close(&b);
}

static void test_an_answer_of_the_greatest_length_is_read_and_a_longer_one_is_not(void **state) {
    (void)state;
    bench b;
    bench_open_connected(&b);
    char *text = malloc(BODY_BYTES_MAX + 2);
    memset(text, 'x', BODY_BYTES_MAX + 1);
    text[BODY_BYTES_MAX] = '\0';
    b.gateway.raw = text;
    assert_int_equal(put(&b, "{}"), LH_ERR_CORRUPT); /* read to its end, where there is no seal */
    text[BODY_BYTES_MAX] = 'x';
    text[BODY_BYTES_MAX + 1] = '\0';
    assert_int_equal(put(&b, "{}"), LH_ERR_LIMIT);
    assert_true(says(&b, "longer than 65536 bytes"));
    b.gateway.raw = NULL;
    assert_int_equal(put(&b, "{}"), LH_OK);
    free(text);
    bench_close(&b);
}

static void test_a_gateway_that_is_away_is_found_again(void **state) {
    (void)state;
    bench b;
    bench_open_connected(&b);
    assert_int_equal(put(&b, "{}"), LH_OK);
    control_gateway_close(&b.gateway);
    for (int has_answered = 1; has_answered >= 0; has_answered--) {
        assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
        assert_true(says(&b, "the gateway does not answer: "));
        assert_false(says(&b, "--gateway begins with")); /* nobody is there: no wrong scheme */
        lh_control_client_destroy(b.client);
        connect_to(&b, b.gateway.url, NULL);
    }
    control_gateway_open(&b.gateway, &b.loop, NULL);
    assert_int_equal(put(&b, "{}"), LH_OK);
    bench_close(&b);
}

/* Whoever mixes up http:// and https:// is told, unless the scheme has been right before. */
static void test_the_wrong_scheme_is_hinted_at(void **state) {
    (void)state;
    authority a;
    authority_open(&a);
    authority_issue(&a, "ca", NULL, "fleet", NULL, 10);
    authority_issue(&a, "gateway", "ca", "?", "URI:longhaul://gateway", 10);
    authority_issue(&a, "worker", "ca", "?", "URI:longhaul://worker/w?site=home", 10);
    authority_issue(&a, "other-ca", NULL, "somebody", NULL, 10);
    lh_tls_options gateway = authority_options(&a, "gateway", "ca"),
                   worker = authority_options(&a, "worker", "ca"),
                   stranger = authority_options(&a, "worker", "other-ca");
    bench b;

    bench_open(&b, &gateway);
    connect_to(&b, b.gateway.url, &worker);
    assert_int_equal(put(&b, "{}"), LH_OK);
    assert_int_equal(put(&b, "{}"), LH_OK);
    lh_control_client_destroy(b.client);
    connect_to(&b, b.gateway.url, &stranger);
    assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
    assert_false(says(&b, "--gateway begins with"));
    lh_control_client_destroy(b.client);
    char url[64] = "http";
    strcat(url, strchr(b.gateway.url, ':'));
    connect_to(&b, url, NULL);
    assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
    assert_true(says(&b, "(if its fleet port takes TLS, --gateway begins with https://)"));
    bench_close(&b);

    bench_open(&b, NULL);
    strcpy(url, "https");
    strcat(url, strchr(b.gateway.url, ':'));
    connect_to(&b, url, &worker);
    assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
    assert_true(says(&b, "(is its fleet port without TLS? then --gateway begins with http://)"));
    lh_control_client_destroy(b.client);
    connect_to(&b, b.gateway.url, NULL);
    assert_int_equal(put(&b, "{}"), LH_OK);
    control_gateway_close(&b.gateway);
    control_gateway_open(&b.gateway, &b.loop, &gateway);
    assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
    assert_false(says(&b, "--gateway begins with"));
    bench_close(&b);
    authority_close(&a);
}

/* It has the host's address and the gateway's common name, and is not the gateway. */
static void test_another_member_is_not_the_gateway(void **state) {
    (void)state;
    authority a;
    authority_open(&a);
    authority_issue(&a, "ca", NULL, "fleet", NULL, 10);
    authority_issue(&a, "attic", "ca", "gateway",
                    "IP:127.0.0.1,DNS:gateway,URI:longhaul://worker/attic?site=home", 10);
    authority_issue(&a, "worker", "ca", "?", "URI:longhaul://worker/w?site=home", 10);
    lh_tls_options attic = authority_options(&a, "attic", "ca"),
                   worker = authority_options(&a, "worker", "ca");
    bench b;
    bench_open(&b, &attic);
    connect_to(&b, b.gateway.url, &worker);
    assert_int_equal(put(&b, "{}"), LH_ERR_UNAVAILABLE);
    assert_true(says(&b, "the gateway was expected and worker attic of site home has answered"));
    bench_close(&b);
    authority_close(&a);
}

static void test_a_url_that_is_too_long_is_refused(void **state) {
    (void)state;
    /* with "/fleet/workers/w" the first one just fits into the 1024 bytes of a URL */
    char url[1010] = "http://";
    lh_control_client *client = NULL;
    lh_error error;
    memset(url + 7, 'x', sizeof url - 7);
    url[1023 - strlen("/fleet/workers/w")] = '\0';
    assert_int_equal(lh_control_client_create(url, "w", NULL, &client, &error), LH_OK);
    lh_control_client_destroy(client);
    assert_int_equal(lh_control_client_create(url, "ww", NULL, &client, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "the URL is too long"));
}

static bool says_no_memory(const lh_error *error) {
    return strstr(error->message, "out of memory");
}

static void test_without_memory_there_is_no_client_and_no_report(void **state) {
    (void)state;
    lh_error error;
    lh_status status = LH_ERR_NO_MEMORY;
    /* libcurl allocates as the rest does, so that its allocations fail, too */
    assert_int_equal(
        curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, free, realloc, strdup, calloc), CURLE_OK);
    for (size_t n = 1; status != LH_OK; n++) {
        lh_control_client *client = NULL;
        failing_malloc_arm(n);
        status = lh_control_client_create("http://127.0.0.1:1", "w", NULL, &client, &error);
        bool has_failed = failing_malloc_disarm();
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        assert_true(!has_failed || says_no_memory(&error));
        lh_control_client_destroy(client);
    }
    curl_global_cleanup();
    bench b;
    bench_open_connected(&b);
    const char *answer;
    size_t length;
    assert_int_equal(lh_control_client_put(b.client, NULL, &answer, &length, &error),
                     LH_ERR_NO_MEMORY);
    assert_int_equal(b.gateway.puts, 0);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_body_goes_and_the_answer_comes_without_its_seal),
        cmocka_unit_test(test_reports_share_a_connection),
        cmocka_unit_test(test_an_answer_whose_seal_is_wrong_is_not_believed),
        cmocka_unit_test(test_a_refusal_is_quoted_by_its_first_line),
        cmocka_unit_test(test_an_answer_of_the_greatest_length_is_read_and_a_longer_one_is_not),
        cmocka_unit_test(test_a_gateway_that_is_away_is_found_again),
        cmocka_unit_test(test_the_wrong_scheme_is_hinted_at),
        cmocka_unit_test(test_another_member_is_not_the_gateway),
        cmocka_unit_test(test_a_url_that_is_too_long_is_refused),
        cmocka_unit_test(test_without_memory_there_is_no_client_and_no_report),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
