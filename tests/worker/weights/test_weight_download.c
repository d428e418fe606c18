/* Which parts share a request, and that each arrives whole whatever lies between them. */
#include "tests/support/gguf_writer.h"
#include "tests/worker/support/range_server.h"
#include "worker/weights/weight_download.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES (66u << 20)
#define PARTS_MAX  64

static uint8_t *file;
static range_server *server;
static lh_weight_cache *cache;
static lh_weight_fetch *fetch;
static char root[64], file_url[80];
static lh_error error;
static lh_weight_part parts[PARTS_MAX];
static size_t part_count, arrived;
static int64_t progress;

static int set_up(void **state) {
    (void)state;
    uint64_t random = 11;
    file = calloc(1, FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i += 509)
        file[i] = (uint8_t)test_random(&random);
    server = range_server_create();
    range_server_add(server, "/file", file, FILE_BYTES);
    snprintf(file_url, sizeof file_url, "%s/file", range_server_url(server));
    snprintf(root, sizeof root, "/tmp/longhaul-test-XXXXXX");
    lh_weight_fetch_options options = {.stall_timeout_ms = 2000, .retry_delay_ms = 1, .tries = 3};
    part_count = arrived = 0;
    progress = 0;
    return mkdtemp(root) && lh_weight_cache_open(root, &cache, &error) == LH_OK &&
                   lh_weight_fetch_create(&options, &fetch, &error) == LH_OK
               ? 0
               : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    lh_weight_fetch_destroy(fetch);
    lh_weight_cache_close(cache);
    range_server_destroy(server);
    free(file);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void add_part(uint64_t offset, uint64_t bytes) {
    lh_weight_part *part = &parts[part_count];
    *part = (lh_weight_part){
        .name = {"part", 4}, .offset = offset, .bytes = bytes, .index = part_count};
    lh_sha256_digest(file + offset, bytes, part->digest);
    part_count++;
}

static void on_part(void *context, const lh_weight_part *part) {
    (void)context;
    assert_int_equal(part->index, arrived);
    arrived++;
}

static void on_bytes(void *context, int64_t bytes) {
    (void)context;
    progress += bytes;
}

/* Everything comes, in `requests` requests. */
static void expect_requests(unsigned requests) {
    const lh_weight_download_events events = {NULL, on_part, on_bytes};
    int64_t total = 0;
    unsigned before = range_server_requests(server);
    assert_int_equal(lh_weight_download(fetch, (lh_weight_url){.url = file_url}, cache, parts,
                                        part_count, &events, &error),
                     LH_OK);
    assert_int_equal(range_server_requests(server) - before, requests);
    assert_int_equal(arrived, part_count);
    for (size_t i = 0; i < part_count; i++) {
        lh_regular_file *cached;
        uint8_t *bytes = malloc(parts[i].bytes);
        assert_non_null(bytes);
        assert_int_equal(
            lh_weight_cache_find(cache, parts[i].digest, parts[i].bytes, &cached, &error), LH_OK);
        assert_int_equal(lh_regular_file_read(cached, 0, bytes, parts[i].bytes, &error), LH_OK);
        assert_memory_equal(bytes, file + parts[i].offset, parts[i].bytes);
        lh_regular_file_close(cached);
        free(bytes);
        total += (int64_t)parts[i].bytes;
    }
    assert_int_equal(progress, total);
}

static void test_neighbours_share_a_request(void **state) {
    (void)state;
    for (uint64_t offset = 7; part_count < 40; offset += 1000 + 32 * (part_count % 3))
        add_part(offset, 1000);
    expect_requests(1);
}

static void test_a_wide_gap_is_not_fetched(void **state) {
    (void)state;
    add_part(0, 5000);
    add_part(5000 + (64 << 10), 100); /* just near enough */
    add_part(5100 + (128 << 10) + 1, 100);
    expect_requests(2);
}

static void test_a_request_has_a_bound(void **state) {
    (void)state;
    add_part(0, 1 << 20);
    add_part(1 << 20, 63u << 20);
    add_part(64u << 20, 1 << 20);
    expect_requests(2);
}

static void test_a_break_in_the_middle_of_a_part(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 10; i++)
        add_part(i * 300000, 300000);
    range_server_fail(server, RANGE_BREAKS_OFF, 2);
    expect_requests(3);
}

static void test_damage_costs_one_part(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        add_part(i * 300000, 300000);
    /* in the middle of the range: the second part */
    range_server_fail(server, RANGE_WRONG_BYTE, 1);
    expect_requests(2);
}

static void test_nothing_to_do(void **state) {
    (void)state;
    expect_requests(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_neighbours_share_a_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wide_gap_is_not_fetched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_request_has_a_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_break_in_the_middle_of_a_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_costs_one_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_to_do, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
