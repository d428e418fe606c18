/* What each of many matrices lacks comes in one request, and goes to its place. */
#include "common/base/digest.h"
#include "tests/support/gguf_writer.h"
#include "tests/worker/support/range_server.h"
#include "worker/weights/missing_parts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Matrices of 128 KiB, behind as much of something else. */
enum { COLUMNS = 256, ROWS = 128, MATRICES = 5, ROW_BYTES = 4 * COLUMNS, BEFORE = 1000 };
enum { MATRIX_BYTES = ROWS * ROW_BYTES, TENSOR_BYTES = MATRICES * MATRIX_BYTES };

static const lh_gguf_tensor tensor = {.name = {"experts", 7},
                                      .dimensions = 3,
                                      .shape = {COLUMNS, ROWS, MATRICES, 1},
                                      .offset = BEFORE,
                                      .bytes = TENSOR_BYTES};
static uint8_t *file, *pieces;
static char root[64];
static range_server *server;
static lh_weight_cache *cache;
static lh_weight_fetch *fetch;
static lh_slice_file *slices;
static lh_block_set set;
static lh_missing_parts missing;
static lh_error error;

static int set_up(void **state) {
    (void)state;
    const lh_weight_fetch_options options = {
        .stall_timeout_ms = 2000, .retry_delay_ms = 1, .tries = 3};
    uint8_t digest[LH_SHA256_BYTES];
    uint64_t random = 5;
    file = malloc(BEFORE + TENSOR_BYTES);
    pieces = malloc(TENSOR_BYTES);
    assert_true(file && pieces);
    for (size_t i = 0; i < BEFORE + TENSOR_BYTES; i++)
        file[i] = (uint8_t)test_random(&random);
    server = range_server_create();
    range_server_add(server, "/file", file, BEFORE + TENSOR_BYTES);
    snprintf(root, sizeof root, "/tmp/longhaul-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(lh_weight_cache_open(root, &cache, &error), LH_OK);
    assert_int_equal(lh_weight_fetch_create(&options, &fetch, &error), LH_OK);
    lh_sha256_digest(file + BEFORE, TENSOR_BYTES, digest);
    assert_int_equal(lh_slice_file_open(cache, digest, TENSOR_BYTES, true, &slices, &error), LH_OK);
    assert_int_equal(lh_block_set_init(&set, &tensor, 32, &error), LH_OK);
    for (uint64_t i = 0; i < set.blocks.count; i++) {
        const lh_block_extent extent = lh_tensor_block_at(&set.blocks, i);
        lh_sha256_digest(file + BEFORE + extent.offset, (size_t)extent.bytes, set.digests[i]);
    }
    missing = (lh_missing_parts){.has_pieces = true};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    lh_missing_parts_reset(&missing);
    lh_block_set_reset(&set);
    lh_slice_file_close(slices);
    lh_weight_fetch_destroy(fetch);
    lh_weight_cache_close(cache);
    range_server_destroy(server);
    free(pieces);
    free(file);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void need_rows(uint64_t first, uint64_t count, uint64_t matrices) {
    const lh_tensor_slice slice = {first * ROW_BYTES, count * ROW_BYTES, MATRIX_BYTES, matrices};
    lh_block_set_need(&set, &slice);
}

static void on_part(void *context, const lh_weight_part *part) {
    (void)context;
    lh_block_set_found(&set, part->block);
}

/* As the server names the pieces: rows [first, first + count) of each matrix. */
static void serve_pieces(uint64_t first, uint64_t count) {
    char path[96];
    const size_t bytes = count * ROW_BYTES;
    for (size_t i = 0; i < MATRICES; i++)
        memcpy(pieces + i * bytes, file + BEFORE + i * MATRIX_BYTES + first * ROW_BYTES, bytes);
    snprintf(path, sizeof path, "/pieces/%zu-%zu-%d-%d", BEFORE + (size_t)first * ROW_BYTES, bytes,
             MATRIX_BYTES, MATRICES);
    range_server_add(server, path, pieces, MATRICES * bytes);
}

static unsigned download(void) {
    char url[96], pieces_url[96];
    const lh_weight_download_events events = {NULL, on_part, NULL};
    const unsigned before = range_server_requests(server);
    snprintf(url, sizeof url, "%s/file", range_server_url(server));
    snprintf(pieces_url, sizeof pieces_url, "%s/pieces", range_server_url(server));
    assert_int_equal(lh_missing_parts_add_blocks(&missing, &tensor, 0, &set, slices, &error),
                     LH_OK);
    if (lh_missing_parts_download(&missing, fetch, (lh_weight_url){.url = url},
                                  (lh_weight_url){.url = pieces_url}, cache, &events,
                                  &error) != LH_OK)
        fail_msg("%s", error.message);
    assert_int_equal(set.missing, 0);
    return range_server_requests(server) - before;
}

/* What is here has the file's bytes. */
static void check(void) {
    uint8_t *bytes = malloc(MATRIX_BYTES);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < set.blocks.count; i++) {
        const lh_block_extent extent = lh_tensor_block_at(&set.blocks, i);
        bool has;
        assert_int_equal(lh_slice_file_check(slices, extent, set.digests[i], bytes, &has, &error),
                         LH_OK);
        assert_int_equal(has, (set.states[i] & LH_BLOCK_NEEDED) != 0);
    }
    free(bytes);
}

static void the_same_rows_of_all_matrices_come_in_one_request(void **state) {
    (void)state;
    need_rows(32, 32, MATRICES);
    serve_pieces(32, 32);
    assert_int_equal(download(), 1);
    assert_int_equal(missing.count, 0);
    check();
}

/* More is needed: what lacks is pieces again. */
static void what_is_there_is_left_out(void **state) {
    (void)state;
    need_rows(0, 32, MATRICES);
    for (uint64_t i = 0; i < set.blocks.count; i += set.blocks.each) {
        const lh_block_extent extent = lh_tensor_block_at(&set.blocks, i);
        assert_int_equal(lh_slice_file_write(slices, extent, set.digests[i],
                                             file + BEFORE + extent.offset, &error),
                         LH_OK);
        lh_block_set_found(&set, i);
    }
    need_rows(0, 64, MATRICES);
    serve_pieces(32, 32);
    assert_int_equal(download(), 1);
    check();
}

static void elsewhere_they_come_one_by_one(void **state) {
    (void)state;
    missing.has_pieces = false;
    need_rows(32, 32, MATRICES);
    assert_int_equal(download(), MATRICES);
    check();
}

/* Of some matrices alone; and where less lies between than a round trip takes. */
static void what_is_no_pattern_is_of_the_file(void **state) {
    (void)state;
    need_rows(32, 32, 2);
    assert_int_equal(download(), 2);
    check();
    lh_missing_parts_reset(&missing);
    missing.has_pieces = true;
    lh_block_set_lose(&set);
    memset(set.states, 0, set.blocks.count);
    set.missing = set.missing_bytes = 0;
    need_rows(0, 96, MATRICES);
    assert_int_equal(download(), 1);
    assert_int_equal(missing.piece_count, 0);
    check();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_rows_of_all_matrices_come_in_one_request, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_there_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(elsewhere_they_come_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_pattern_is_of_the_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
