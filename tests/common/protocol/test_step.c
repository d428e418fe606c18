/* The step codec: round trips, PROTOCOL.md's vectors, every truncation, bit flips, limits, the n-th
 * allocation failing. */
#include "common/base/crc32c.h"
#include "common/protocol/step.h"
#include "common/protocol/wire_type.h"
#include "tests/support/failing_malloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- What a reader gave ---- */

typedef struct seen {
    int manifests, shards;
    lh_step_manifest manifest;
    lh_step_segment segments[8];
    uint32_t tokens[64];
    lh_step_truncation truncations[8];
    lh_step_cut cuts[4];
    uint64_t mask_drops[4];
    lh_step_mask masks[4];
    uint8_t codes[4][16];
    lh_token_bias biases[8];
    lh_token_count counts[8];
    float activation[64][96];
    uint32_t result_count;
    lh_step_result results[8];
    lh_token_logprob tops[8][4];
    lh_token_score scores[8];
    int64_t sums[8];
    uint32_t sum_count;
    int result_frames;
    lh_status refuse_manifest;
} seen;

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    seen *got = context;
    got->manifests++;
    got->manifest = *manifest;
    assert_true(manifest->rows <= 64 && manifest->segment_count <= 8 &&
                manifest->truncation_count <= 8);
    memcpy(got->tokens, manifest->tokens, manifest->rows * sizeof(uint32_t));
    memcpy(got->truncations, manifest->truncations,
           manifest->truncation_count * sizeof(got->truncations[0]));
    assert_true(manifest->cut_count <= 4);
    memcpy(got->cuts, manifest->cuts, manifest->cut_count * sizeof(got->cuts[0]));
    assert_true(manifest->masks.drop_count <= 4 && manifest->masks.count <= 4);
    memcpy(got->mask_drops, manifest->masks.drops,
           manifest->masks.drop_count * sizeof(got->mask_drops[0]));
    for (uint32_t i = 0; i < manifest->masks.count; i++) {
        got->masks[i] = manifest->masks.list[i];
        assert_true(got->masks[i].code_bytes <= sizeof(got->codes[i]));
        memcpy(got->codes[i], got->masks[i].code, got->masks[i].code_bytes);
    }
    for (uint32_t i = 0; i < manifest->segment_count; i++) {
        got->segments[i] = manifest->segments[i];
        const lh_sampling *sampling = &manifest->segments[i].ask.sampling;
        if (sampling->bias_count > 0)
            memcpy(got->biases, sampling->biases, sampling->bias_count * sizeof(got->biases[0]));
        if (sampling->count_count > 0)
            memcpy(got->counts, sampling->counts, sampling->count_count * sizeof(got->counts[0]));
    }
    if (got->refuse_manifest != LH_OK)
        return lh_fail(error, got->refuse_manifest, "refused by the test");
    return LH_OK;
}

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    (void)error;
    seen *got = context;
    got->shards++;
    for (uint32_t row = 0; row < header->rows; row++) {
        memcpy(&got->activation[header->first_row + row][header->first_column],
               values + row * header->columns, header->columns * sizeof(float));
    }
    return LH_OK;
}

static lh_status on_results(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error) {
    (void)error;
    seen *got = context;
    got->result_frames++;
    got->result_count = count;
    memcpy(got->results, results, count * sizeof *results);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(results[i].answer.top_count <= 4);
        if (results[i].answer.top_count > 0)
            memcpy(got->tops[i], results[i].answer.top,
                   results[i].answer.top_count * sizeof got->tops[0][0]);
        got->results[i].answer.top = got->tops[i];
    }
    uint32_t scores = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < results[i].answer.score_count && scores < 8; k++)
            got->scores[scores++] = results[i].answer.scores[k];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < results[i].answer.pooled_count && got->sum_count < 8; k++)
            got->sums[got->sum_count++] = results[i].answer.pooled[k];
    return LH_OK;
}

static const lh_step_reader_events shard_events = {.on_manifest = on_manifest,
                                                   .on_shard = on_shard};
static const lh_step_reader_events result_events = {.on_manifest = on_manifest,
                                                    .on_results = on_results};

/* Feeds the body in pieces of `piece` bytes (0: whole) and finishes. */
static lh_status read_body(uint32_t width, const lh_step_reader_events *events, const uint8_t *body,
                           size_t length, size_t piece, seen *got, lh_error *error) {
    lh_step_reader *reader = NULL;
    lh_status status = lh_step_reader_create(width, events, got, &reader, error);
    piece = piece > 0 ? piece : length;
    for (size_t at = 0; at < length && status == LH_OK; at += piece) {
        status = lh_step_reader_feed(reader, body + at, length - at < piece ? length - at : piece,
                                     error);
    }
    if (status == LH_OK)
        status = lh_step_reader_finish(reader, error);
    lh_step_reader_destroy(reader);
    return status;
}

/* ---- Bodies to read ---- */

#define WIDTH 80u
#define ROWS  5u

static const uint32_t some_tokens[ROWS] = {1, 0xffffffffu, 3, 49151, 5};
static const lh_step_cut some_cuts[2] = {{2, {32, 80}}, {3, {32, 64, 80}}};
static const lh_step_truncation some_truncations[2] = {{7, 0}, {0xffffffffffffffffu, 0xfffffffeu}};
static const lh_token_bias some_biases[2] = {{9, -100.0f}, {10, 0.5f}};
static const lh_token_count some_counts[3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};

static const uint64_t some_mask_drops[2] = {1, 0xffffffffffffffffu};
/* Tokens 7 and 136 of 1000; all of 9 but token 3. */
static const uint8_t some_codes[2][4] = {{1, 7, 0x80, 1}, {2, 3}};
static const lh_step_mask some_masks[2] = {{0xfedcba9876543210u, 1000, 4, some_codes[0]},
                                           {2, 9, 2, some_codes[1]}};

static void some_segments(lh_step_segment segments[2]) {
    segments[0] = (lh_step_segment){.sequence = 11,
                                    .first_position = 64,
                                    .rows = 4,
                                    .forks = true,
                                    .source = 0xfedcba9876543210u};
    segments[1] = (lh_step_segment){.sequence = 0x123456789abcdef0u,
                                    .first_position = 7,
                                    .rows = 1,
                                    .ask.draws = true,
                                    .ask.sampling = {.temperature = 0.75f,
                                                     .top_k = 40,
                                                     .top_p = 0.9f,
                                                     .min_p = 0.05f,
                                                     .repetition_penalty = 1.1f,
                                                     .presence_penalty = -0.5f,
                                                     .frequency_penalty = 0.25f,
                                                     .seed = 42,
                                                     .counter = 8,
                                                     .want_logprob = true,
                                                     .want_digest = true,
                                                     .top_logprobs = 5,
                                                     .mask = 0xfedcba9876543210u,
                                                     .bias_count = 2,
                                                     .count_count = 3,
                                                     .biases = some_biases,
                                                     .counts = some_counts}};
}

static lh_step_manifest some_manifest(const lh_step_segment segments[2]) {
    return (lh_step_manifest){.epoch = 3,
                              .step = 0x1122334455667788u,
                              .step_class = LH_STEP_PREFILL,
                              .rows = ROWS,
                              .tokens = some_tokens,
                              .segment_count = 2,
                              .truncation_count = 2,
                              .segments = segments,
                              .truncations = some_truncations,
                              .timed = true,
                              .cut_count = 2,
                              .cuts = some_cuts,
                              .masks = {2, 2, some_mask_drops, some_masks}};
}

static void fill_activation(float values[ROWS][WIDTH]) {
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t column = 0; column < WIDTH; column++)
            values[row][column] = sinf((float)(row * WIDTH + column)) * 10.0f;
}

static void append_shard(uint8_t *body, size_t capacity, size_t *length, lh_wire_type wire,
                         const float values[][WIDTH], uint32_t first_row, uint32_t rows,
                         uint32_t first_column, uint32_t columns) {
    float tight[ROWS * WIDTH];
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(tight + row * columns, &values[first_row + row][first_column],
               columns * sizeof(float));
    }
    size_t bytes = 0;
    lh_error error;
    assert_int_equal(lh_step_encode_shard(wire, first_row, rows, first_column, columns, tight,
                                          body + *length, capacity - *length, &bytes, &error),
                     LH_OK);
    assert_int_equal(bytes, lh_step_shard_bytes(wire, rows, columns));
    *length += bytes;
}

/* A manifest and three shards: columns 0..31, 32..79 rows 0..1, the same columns rows 2..4. */
static size_t some_body(lh_wire_type wire, uint8_t *body, size_t capacity) {
    lh_step_segment segments[2];
    some_segments(segments);
    lh_step_manifest manifest = some_manifest(segments);
    float values[ROWS][WIDTH];
    fill_activation(values);
    size_t length = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, capacity, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_manifest_bytes(&manifest));
    append_shard(body, capacity, &length, wire, values, 0, ROWS, 0, 32);
    append_shard(body, capacity, &length, wire, values, 0, 2, 32, 48);
    append_shard(body, capacity, &length, wire, values, 2, 3, 32, 48);
    return length;
}

static size_t results_body(uint8_t *body, size_t capacity) {
    lh_step_manifest manifest = {.epoch = 3, .step = 9};
    lh_token_logprob tops[2] = {{3, -0.5f}, {4, -1.5f}};
    lh_step_result results[2] = {{.sequence = 1,
                                  .position = 2,
                                  .answer.token = 3,
                                  .answer.logprob = -0.5f,
                                  .answer.top_count = 2,
                                  .answer.top = tops,
                                  .answer.digest = 0xfeedu},
                                 {.sequence = 5, .position = 6, .answer.token = 7}};
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, capacity, &length, NULL), LH_OK);
    assert_int_equal(
        lh_step_encode_results(results, 2, body + length, capacity - length, &more, NULL), LH_OK);
    assert_int_equal(more, lh_step_results_bytes(results, 2));
    return length + more;
}

/* ---- Tests ---- */

static void assert_some_manifest(const seen *got) {
    assert_int_equal(got->manifest.epoch, 3);
    assert_true(got->manifest.step == 0x1122334455667788u);
    assert_int_equal(got->manifest.step_class, LH_STEP_PREFILL);
    assert_memory_equal(got->tokens, some_tokens, sizeof(some_tokens));
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(got->truncations[i].sequence == some_truncations[i].sequence &&
                    got->truncations[i].length == some_truncations[i].length);
    }
    assert_true(got->manifest.timed);
    assert_int_equal(got->manifest.cut_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(got->cuts[i].count, some_cuts[i].count);
        assert_memory_equal(got->cuts[i].ends, some_cuts[i].ends,
                            some_cuts[i].count * sizeof(uint32_t));
    }
    assert_true(got->manifest.masks.drop_count == 2 && got->manifest.masks.count == 2);
    assert_memory_equal(got->mask_drops, some_mask_drops, sizeof(some_mask_drops));
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(got->masks[i].number == some_masks[i].number &&
                    got->masks[i].vocabulary == some_masks[i].vocabulary &&
                    got->masks[i].code_bytes == some_masks[i].code_bytes);
        assert_memory_equal(got->codes[i], some_codes[i], some_masks[i].code_bytes);
    }
    assert_false(got->segments[0].ask.draws);
    assert_int_equal(got->segments[0].rows, 4);
    const lh_step_segment *segment = &got->segments[1];
    assert_true(segment->sequence == 0x123456789abcdef0u && segment->first_position == 7 &&
                segment->ask.draws);
    const lh_sampling *sampling = &segment->ask.sampling;
    assert_true(sampling->temperature == 0.75f && sampling->top_k == 40 &&
                sampling->top_p == 0.9f && sampling->min_p == 0.05f &&
                sampling->repetition_penalty == 1.1f && sampling->presence_penalty == -0.5f &&
                sampling->frequency_penalty == 0.25f && sampling->seed == 42 &&
                sampling->counter == 8 && sampling->want_logprob && sampling->want_digest &&
                sampling->top_logprobs == 5 && sampling->mask == 0xfedcba9876543210u);
    assert_memory_equal(got->biases, some_biases, sizeof(some_biases));
    assert_memory_equal(got->counts, some_counts, sizeof(some_counts));
}

static void test_round_trip(void **state) {
    (void)state;
    uint8_t body[8192];
    float values[ROWS][WIDTH];
    fill_activation(values);
    size_t pieces[] = {0, 1, 7, 1000};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        seen got = {0};
        lh_error error = {0};
        size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
        assert_int_equal(read_body(WIDTH, &shard_events, body, length, pieces[i], &got, &error),
                         LH_OK);
        assert_int_equal(got.manifests, 1);
        assert_int_equal(got.shards, 3);
        assert_some_manifest(&got);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_equal(got.activation[row], values[row], sizeof(values[row]));
    }
}

static void test_even_cuts(void **state) {
    (void)state;
    struct {
        uint32_t width, shards, count, ends[4];
    } rows[] = {{576, 1, 1, {576}},       {576, 4, 4, {128, 288, 416, 576}},
                {80, 4, 3, {32, 64, 80}}, {96, 2, 2, {32, 96}},
                {31, 3, 1, {31}},         {0, 3, 0, {0}}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lh_step_cut cut = lh_step_cut_evenly(rows[i].width, rows[i].shards);
        assert_int_equal(cut.count, rows[i].count);
        assert_memory_equal(cut.ends, rows[i].ends, cut.count * sizeof(uint32_t));
    }
    assert_int_equal(lh_step_cut_evenly(65536, 100).count, LH_STEP_COLUMN_SHARDS_MAX);
}

/* A manifest with this cut as its only one, encoded without a look at its ends. */
static lh_status read_cut(uint32_t count, const uint32_t ends[4]) {
    uint8_t body[512];
    lh_step_cut cut = {.count = count};
    memcpy(cut.ends, ends, 4 * sizeof(uint32_t));
    lh_step_manifest manifest = {.epoch = 1, .step = 1, .cut_count = 1, .cuts = &cut};
    size_t length = 0;
    seen got = {0};
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof(body), &length, NULL), LH_OK);
    return read_body(WIDTH, &shard_events, body, length, 0, &got, NULL);
}

static void test_cuts_that_no_width_has_are_refused(void **state) {
    (void)state;
    static const uint32_t good[4] = {32, 64, 96, 100}, flat[4] = {32, 32}, falling[4] = {64, 32},
                          odd[4] = {33, 64}, empty[4] = {0, 32},
                          wide[4] = {32, LH_STEP_WIDTH_MAX + 32};
    assert_int_equal(read_cut(4, good), LH_OK);
    assert_int_equal(read_cut(2, flat), LH_ERR_MALFORMED);
    assert_int_equal(read_cut(2, falling), LH_ERR_MALFORMED);
    assert_int_equal(read_cut(2, odd), LH_ERR_MALFORMED);
    assert_int_equal(read_cut(2, empty), LH_ERR_MALFORMED);
    assert_int_equal(read_cut(2, wide), LH_ERR_MALFORMED);
    lh_step_cut none = {0};
    lh_step_manifest manifest = {.cut_count = 1, .cuts = &none};
    uint8_t body[512];
    size_t length = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof(body), &length, NULL),
                     LH_ERR_LIMIT);
}

static void test_results_round_trip(void **state) {
    (void)state;
    uint8_t body[1024];
    size_t length = results_body(body, sizeof(body));
    for (size_t piece = 0; piece < 3; piece++) {
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, length, piece, &got, NULL), LH_OK);
        assert_int_equal(got.result_count, 2);
        assert_true(got.results[0].answer.digest == 0xfeedu &&
                    got.results[0].answer.top[1].logprob == -1.5f);
        assert_true(got.results[1].sequence == 5 && got.results[1].position == 6 &&
                    got.results[1].answer.token == 7);
    }
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    lh_wire_type wire;
    for (uint32_t i = 0; lh_wire_from_number(i, &wire); i++) {
        size_t length = some_body(wire, body, sizeof(body));
        for (size_t cut = 0; cut < length; cut++) {
            seen got = {0};
            lh_error error = {0};
            assert_int_equal(read_body(WIDTH, &shard_events, body, cut, 0, &got, &error),
                             LH_ERR_MALFORMED);
            assert_true(error.message[0] != '\0');
        }
    }
    size_t length = results_body(body, sizeof(body));
    for (size_t cut = 0; cut < length; cut++) {
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, cut, 0, &got, NULL), LH_ERR_MALFORMED);
        assert_int_equal(got.result_frames, 0);
    }
}

static void put_u32(uint8_t *bytes, uint32_t value) {
    memcpy(bytes, &value, sizeof(value));
}

static uint32_t get_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* Makes the checksums of the frame at `frame` right again, so that what lies behind them is tried.
 */
static void reseal(uint8_t *frame) {
    put_u32(frame + 8, lh_crc32c(0, frame + 16, get_u32(frame + 4)));
    put_u32(frame + 12, lh_crc32c(0, frame, 12));
}

/* The payload at `frame` is shorter by itself: its head is right. One of the refusals says so in
 * these words. */
static void check_every_shorter_payload(uint8_t *body, size_t frame, uint32_t width,
                                        const lh_step_reader_events *events, const char *words) {
    uint32_t whole = get_u32(body + frame + 4), named = 0;
    for (uint32_t cut = 0; cut < whole; cut++) {
        seen got = {0};
        lh_error error = {.status = LH_OK};
        put_u32(body + frame + 4, cut);
        reseal(body + frame);
        assert_int_equal(read_body(width, events, body, frame + 16 + cut, 0, &got, &error),
                         LH_ERR_MALFORMED);
        named += strstr(error.message, words) != NULL;
        assert_int_equal(got.shards + got.result_frames, 0);
        assert_int_equal(got.manifests, frame > 0);
    }
    assert_true(named > 0);
}

static void test_a_payload_that_is_cut_is_malformed(void **state) {
    (void)state;
    uint8_t body[8192];
    some_body(LH_WIRE_F32, body, sizeof(body));
    size_t shard = 16 + get_u32(body + 4);
    check_every_shorter_payload(body, 0, WIDTH, &shard_events, "cut in its sampling block");
    some_body(LH_WIRE_F32, body, sizeof(body));
    check_every_shorter_payload(body, shard, WIDTH, &shard_events, "");
    results_body(body, sizeof(body));
    check_every_shorter_payload(body, 16 + get_u32(body + 4), 0, &result_events, "");
}

/* Three segments with as many counted tokens as one may have: each is within its limit. */
static void test_a_manifest_over_the_limit_is_not_encoded(void **state) {
    (void)state;
    lh_token_count *counts = calloc(LH_TOKEN_COUNTS_MAX, sizeof *counts);
    lh_step_segment segments[3];
    lh_error error;
    assert_non_null(counts);
    for (uint32_t i = 0; i < 3; i++)
        segments[i] = (lh_step_segment){.sequence = i,
                                        .rows = 1,
                                        .ask.draws = true,
                                        .ask.sampling = {.top_p = 1,
                                                         .repetition_penalty = 1,
                                                         .counts = counts,
                                                         .count_count = LH_TOKEN_COUNTS_MAX}};
    for (uint32_t count = 2; count <= 3; count++) {
        const lh_step_manifest manifest = {
            .rows = count, .tokens = some_tokens, .segment_count = count, .segments = segments};
        size_t capacity = lh_step_manifest_bytes(&manifest), length;
        uint8_t *bytes = malloc(capacity);
        assert_non_null(bytes);
        assert_int_equal(lh_step_encode_manifest(&manifest, bytes, capacity, &length, &error),
                         count == 2 ? LH_OK : LH_ERR_LIMIT);
        free(bytes);
    }
    assert_non_null(strstr(error.message, "its manifest takes more than 4194304 bytes"));
    free(counts);
}

static void test_every_bit_flip_is_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    size_t length = some_body(LH_WIRE_F16, body, sizeof(body));
    for (size_t bit = 0; bit < length * 8; bit++) {
        body[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        seen got = {0};
        assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, NULL),
                         LH_ERR_CORRUPT);
        body[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

static void test_bytes_after_the_end_are_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    size_t length = results_body(body, sizeof(body));
    memcpy(body + length, body, length);
    seen got = {0};
    assert_int_equal(read_body(0, &result_events, body, length + 1, 0, &got, NULL),
                     LH_ERR_MALFORMED);
    assert_int_equal(read_body(0, &result_events, body, 2 * length, 0, &got, NULL),
                     LH_ERR_MALFORMED);
}

/* Within the last frame, whose head is right. */
static void test_bytes_after_a_payload_are_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    size_t length = results_body(body, sizeof(body));
    uint8_t *results = body + 16 + get_u32(body + 4);
    seen got = {0};
    lh_error error;
    put_u32(results + 4, get_u32(results + 4) + 1);
    body[length] = 0;
    reseal(results);
    assert_int_equal(read_body(0, &result_events, body, length + 1, 0, &got, &error),
                     LH_ERR_MALFORMED);
    assert_string_equal(error.message, "results: bytes after their end");
    put_u32(body + 4, 20);
    reseal(body);
    assert_int_equal(read_body(0, &result_events, body, 36, 0, &got, &error), LH_ERR_MALFORMED);
    assert_string_equal(error.message, "manifest: cut in its head");
}

static lh_status with_manifest_field(size_t offset, uint32_t value) {
    uint8_t body[8192];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    put_u32(body + 16 + offset, value);
    reseal(body);
    seen got = {0};
    lh_status status = read_body(WIDTH, &shard_events, body, length, 0, &got, NULL);
    assert_int_equal(got.manifests, 0);
    return status;
}

static void test_manifest_fields_are_checked(void **state) {
    (void)state;
    assert_int_equal(with_manifest_field(0, 1), LH_ERR_UNSUPPORTED); /* version */
    assert_int_equal(with_manifest_field(16, 2), LH_ERR_MALFORMED);  /* class */
    assert_int_equal(with_manifest_field(20, LH_STEP_ROWS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(20, ROWS + 1), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(24, LH_STEP_SEGMENTS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(24, LH_STEP_SEGMENTS_MAX), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(28, LH_STEP_TRUNCATIONS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(28, 3), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(32, 4), LH_ERR_MALFORMED); /* unknown flag */
    assert_int_equal(with_manifest_field(32, 2), LH_ERR_MALFORMED); /* a KV resync with rows */
    assert_int_equal(with_manifest_field(36, LH_STEP_CUTS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(36, 3), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(36, 1), LH_ERR_MALFORMED); /* bytes after the end */
    assert_int_equal(with_manifest_field(40, LH_STEP_HOP_LIMIT_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(40, 1), LH_ERR_MALFORMED); /* ends before it draws */
    assert_int_equal(with_manifest_field(44, LH_STEP_MASK_DROPS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(48, LH_STEP_MASKS_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(48, 0xffffffffu), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(48, 3), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(48, 1), LH_ERR_MALFORMED); /* bytes after the end */
    size_t segment = 52 + ROWS * 4;
    assert_int_equal(with_manifest_field(segment + 8, 0xfffffffeu),
                     LH_ERR_MALFORMED); /* position overflows */
    assert_int_equal(with_manifest_field(segment + 12, 0), LH_ERR_MALFORMED);
    /* rows do not add up */
    assert_int_equal(with_manifest_field(segment + 12, 3), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(segment + 16, 6), LH_ERR_MALFORMED); /* unknown flag */
    /* its source is one too many */
    assert_int_equal(with_manifest_field(segment + 16, 0), LH_ERR_MALFORMED);
    /* forks no position */
    assert_int_equal(with_manifest_field(segment + 8, 0), LH_ERR_MALFORMED);
    size_t sampling = segment + 20 + 8 + 20;
    for (size_t field = 0; field <= 24; field += 4) {
        if (field != 4) { /* top_k takes any number */
            /* NaN */
            assert_int_equal(with_manifest_field(sampling + field, 0x7fc00000u), LH_ERR_MALFORMED);
        }
    }
    /* temperature -1 */
    assert_int_equal(with_manifest_field(sampling, 0xbf800000u), LH_ERR_MALFORMED);
    /* top_p 2 */
    assert_int_equal(with_manifest_field(sampling + 8, 0x40000000u), LH_ERR_MALFORMED);
    /* repetition penalty 0 */
    assert_int_equal(with_manifest_field(sampling + 16, 0), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(sampling + 44, 15), LH_ERR_MALFORMED); /* unknown flag */
    /* its mask is eight bytes too many */
    assert_int_equal(with_manifest_field(sampling + 44, 3), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(sampling + 48, 21), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(sampling + 52, LH_TOKEN_BIASES_MAX + 1), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(sampling + 52, LH_TOKEN_BIASES_MAX), LH_ERR_MALFORMED);
    assert_int_equal(with_manifest_field(sampling + 56, 0xffffffffu), LH_ERR_LIMIT);
    assert_int_equal(with_manifest_field(sampling + 72, 0x7f800000u),
                     LH_ERR_MALFORMED); /* bias is infinite */
}

/* A manifest with one mask, of which the codec believes nothing. */
static lh_status with_mask(uint64_t number, uint32_t vocabulary, const char *code, uint32_t bytes,
                           uint32_t hop_limit, bool resyncs) {
    uint8_t body[512];
    const lh_step_mask mask = {number, vocabulary, bytes, (const uint8_t *)code};
    const lh_step_manifest manifest = {.epoch = 1,
                                       .step = 1,
                                       .hop_limit = hop_limit,
                                       .resyncs = resyncs,
                                       .masks = {.count = 1, .list = &mask}};
    size_t length = 0;
    seen got = {0};
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof(body), &length, NULL), LH_OK);
    return read_body(WIDTH, &shard_events, body, length, 0, &got, NULL);
}

static void test_masks_are_checked(void **state) {
    (void)state;
    assert_int_equal(with_mask(1, 10, "\x01\x03", 2, 0, false), LH_OK);
    assert_int_equal(with_mask(0, 10, "\x01\x03", 2, 0, false), LH_ERR_MALFORMED);
    assert_int_equal(with_mask(1, 10, "\x01\x0a", 2, 0, false), LH_ERR_MALFORMED);
    assert_int_equal(with_mask(1, 10, "\x01", 1, 0, false), LH_ERR_MALFORMED); /* allows nothing */
    assert_int_equal(with_mask(1, 10, "", 0, 0, false), LH_ERR_MALFORMED);
    assert_int_equal(with_mask(1, 262145, "\x01\x03", 2, 0, false), LH_ERR_LIMIT);
    assert_int_equal(with_mask(1, 10, "\x01\x03", 2, 1, false), LH_ERR_MALFORMED);
    assert_int_equal(with_mask(1, 10, "\x01\x03", 2, 0, true), LH_ERR_MALFORMED);
}

static lh_status with_shard_field(size_t offset, uint32_t value) {
    uint8_t body[8192];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    uint8_t *shard = body + 16 + get_u32(body + 4);
    put_u32(shard + 16 + offset, value);
    reseal(shard);
    seen got = {0};
    lh_status status = read_body(WIDTH, &shard_events, body, length, 0, &got, NULL);
    assert_int_equal(got.shards, 0);
    return status;
}

static void test_shard_fields_are_checked(void **state) {
    (void)state;
    assert_int_equal(with_shard_field(0, 1),
                     LH_ERR_MALFORMED); /* not where the columns stopped, and over the rows */
    assert_int_equal(with_shard_field(0, 0xffffffffu), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(4, 0), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(4, ROWS - 1), LH_ERR_MALFORMED); /* bytes left over */
    assert_int_equal(with_shard_field(4, 0xffffffffu), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(8, 16), LH_ERR_MALFORMED); /* off the blocks */
    assert_int_equal(with_shard_field(8, 0xffffffe0u), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(12, 0), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(12, 31), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(16, 1), LH_ERR_MALFORMED); /* f16 and q8 take fewer bytes */
    assert_int_equal(with_shard_field(16, 2), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(16, 3), LH_ERR_UNSUPPORTED);
    assert_int_equal(with_shard_field(16, 0xffffffffu), LH_ERR_UNSUPPORTED);
    assert_int_equal(with_shard_field(20, 1), LH_ERR_MALFORMED);
    assert_int_equal(with_shard_field(24, 0x7fc00000u), LH_ERR_MALFORMED); /* a NaN */
    assert_int_equal(with_shard_field(24, 0xff800000u), LH_ERR_MALFORMED); /* -infinity */
}

/* The first shard is ROWS x 32: its blocks' numbers follow the values. */
static lh_status with_block_number(lh_wire_type wire, size_t values_bytes, uint32_t low_bytes,
                                   uint32_t number) {
    uint8_t body[8192];
    size_t length = some_body(wire, body, sizeof(body));
    uint8_t *shard = body + 16 + get_u32(body + 4);
    memcpy(shard + 16 + 24 + values_bytes, &number, low_bytes);
    reseal(shard);
    seen got = {0};
    return read_body(WIDTH, &shard_events, body, length, 0, &got, NULL);
}

static void test_exponents_and_scales_are_checked(void **state) {
    (void)state;
    assert_int_equal(with_block_number(LH_WIRE_F16, (size_t)ROWS * 64, 1, 112), LH_OK);
    assert_int_equal(with_block_number(LH_WIRE_F16, (size_t)ROWS * 64, 1, 113), LH_ERR_MALFORMED);
    assert_int_equal(with_block_number(LH_WIRE_F16, (size_t)ROWS * 64, 1, 255), LH_ERR_MALFORMED);
    const uint32_t bad[] = {0x7c00, 0x7c01, 0x7fff, 0xfc00, 0xff80, 0xffff};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(with_block_number(LH_WIRE_Q8, (size_t)ROWS * 32, 2, bad[i]),
                         LH_ERR_MALFORMED);
    }
    assert_int_equal(with_block_number(LH_WIRE_Q8, (size_t)ROWS * 32, 2, 0x7bff), LH_OK);
    assert_int_equal(with_block_number(LH_WIRE_Q8, (size_t)ROWS * 32, 2, 0xfbff), LH_OK);
}

/* It ends where the activation does, but does not begin with a block. */
static void test_a_shard_off_the_blocks_is_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    uint8_t *shard = body + 16 + get_u32(body + 4);
    seen got = {0};
    lh_error error;
    put_u32(shard + 16 + 8, 16);
    put_u32(shard + 16 + 12, WIDTH - 16);
    reseal(shard);
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, &error),
                     LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "columns 16 to 80 are off the blocks of 32"));
}

static void test_shards_cover_exactly_once(void **state) {
    (void)state;
    uint8_t body[16384];
    lh_step_segment segments[2];
    some_segments(segments);
    lh_step_manifest manifest = some_manifest(segments);
    float values[ROWS][WIDTH];
    fill_activation(values);
    size_t start = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof(body), &start, NULL), LH_OK);
    size_t length = start;
    append_shard(body, sizeof(body), &length, LH_WIRE_F32, values, 0, ROWS, 32, 48);
    seen got = {0};
    lh_error error;
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, &error),
                     LH_ERR_MALFORMED); /* the first columns are missing */
    assert_non_null(strstr(error.message, "0 of 5 rows of column 0"));
    append_shard(body, sizeof(body), &length, LH_WIRE_F32, values, 0, ROWS, 0, 32);
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, NULL),
                     LH_OK); /* columns in any order */
    append_shard(body, sizeof(body), &length, LH_WIRE_F32, values, 0, ROWS, 0, 32);
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, NULL),
                     LH_ERR_MALFORMED); /* twice */
    length = start;
    append_shard(body, sizeof(body), &length, LH_WIRE_F32, values, 2, 3, 0,
                 32); /* rows 0 and 1 are missing */
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, NULL),
                     LH_ERR_MALFORMED);
}

/* Its first row is the one that is due, and its last one is none of the step's. */
static void test_a_shard_that_ends_past_the_rows_is_refused(void **state) {
    (void)state;
    uint8_t body[8192];
    lh_step_segment segments[2];
    some_segments(segments);
    lh_step_manifest manifest = some_manifest(segments);
    static const float values[ROWS + 1][WIDTH];
    size_t length = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof body, &length, NULL), LH_OK);
    append_shard(body, sizeof body, &length, LH_WIRE_F32, values, 0, 2, 0, 32);
    append_shard(body, sizeof body, &length, LH_WIRE_F32, values, 2, ROWS - 1, 0, 32);
    seen got = {0};
    lh_error error = {0};
    assert_int_equal(read_body(WIDTH, &shard_events, body, length, 0, &got, &error),
                     LH_ERR_MALFORMED);
    assert_string_equal(error.message, "shard: 4 rows from 2 of a step of 5");
    assert_int_equal(got.shards, 1);
}

static lh_status ignore_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)context;
    (void)manifest;
    (void)error;
    return LH_OK;
}

static lh_status on_many_results(void *context, const lh_step_result *results, uint32_t count,
                                 lh_error *error) {
    (void)error;
    uint32_t *seen_counts = context;
    seen_counts[0] = count;
    seen_counts[1] = count ? results[count - 1].answer.top_count : 0;
    return LH_OK;
}

/* A body with `count` results of `top_count` candidates each, whatever the limits say. */
static lh_status read_many_results(uint32_t count, uint32_t top_count, uint32_t seen_counts[2],
                                   lh_error *error) {
    static uint8_t body[1u << 18];
    static lh_step_result result;
    const lh_step_manifest manifest = {.epoch = 3, .step = 9};
    const lh_step_reader_events events = {.on_manifest = ignore_manifest,
                                          .on_results = on_many_results};
    size_t length = 0, one = 0, entry = 40 + (size_t)top_count * 8;
    uint8_t single[256];
    result.answer.top_count = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof body, &length, NULL), LH_OK);
    assert_int_equal(lh_step_encode_results(&result, 1, single, sizeof single, &one, NULL), LH_OK);
    uint8_t *frame = body + length;
    memcpy(frame, single, 16 + 4);
    put_u32(frame + 4, (uint32_t)(4 + count * entry));
    put_u32(frame + 16, count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = frame + 20 + i * entry;
        memset(at, 0, entry);
        memcpy(at, single + 20, 40);
        put_u32(at + 20, top_count);
    }
    reseal(frame);
    lh_step_reader *reader = NULL;
    assert_int_equal(lh_step_reader_create(0, &events, seen_counts, &reader, NULL), LH_OK);
    lh_status status = lh_step_reader_feed(reader, body, length + 20 + count * entry, error);
    if (status == LH_OK)
        status = lh_step_reader_finish(reader, error);
    lh_step_reader_destroy(reader);
    return status;
}

static void test_one_candidate_or_result_too_many_is_refused(void **state) {
    (void)state;
    uint32_t counts[2] = {0};
    lh_error error = {0};
    assert_int_equal(read_many_results(1, LH_TOP_LOGPROBS_MAX, counts, &error), LH_OK);
    assert_true(counts[0] == 1 && counts[1] == LH_TOP_LOGPROBS_MAX);
    assert_int_equal(read_many_results(1, LH_TOP_LOGPROBS_MAX + 1, counts, &error), LH_ERR_LIMIT);
    assert_string_equal(error.message, "results: result 0 has 21 logprobs; the limit is 20");
    assert_int_equal(read_many_results(LH_STEP_SEGMENTS_MAX, 0, counts, &error), LH_OK);
    assert_int_equal(counts[0], LH_STEP_SEGMENTS_MAX);
    assert_int_equal(read_many_results(LH_STEP_SEGMENTS_MAX + 1, 0, counts, &error), LH_ERR_LIMIT);
    assert_string_equal(error.message, "results: 1025; the limit is 1024");
}

/* -inf is that of a token that cannot come. */
static void test_a_logprob_that_is_no_number_is_refused(void **state) {
    (void)state;
    static const size_t logprobs[] = {16, 40 + 4, 40 + 12}; /* of a result and its candidates */
    for (size_t i = 0; i < sizeof(logprobs) / sizeof(logprobs[0]); i++) {
        static const uint32_t values[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
        for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
            uint8_t body[1024];
            size_t length = results_body(body, sizeof(body));
            uint8_t *frame = body + 16 + get_u32(body + 4);
            put_u32(frame + 16 + 4 + logprobs[i], values[j]);
            reseal(frame);
            seen got = {0};
            lh_status status = read_body(0, &result_events, body, length, 0, &got, NULL);
            assert_int_equal(status, j < 2 ? LH_ERR_MALFORMED : LH_OK);
            assert_int_equal(got.result_frames, j == 2);
        }
    }
}

/* ---- Scores ---- */

/* A step of one segment of three rows, which are scored so, encoded without a look at it. */
static lh_status read_scoring(lh_row_scoring scoring, bool sample, uint32_t hop_limit, seen *got) {
    uint8_t body[512];
    size_t length = 0;
    lh_step_segment segment = {.sequence = 1,
                               .first_position = 4,
                               .rows = 3,
                               .ask.draws = sample,
                               .ask.sampling = {.top_p = 1, .repetition_penalty = 1},
                               .ask.scoring = scoring};
    const lh_step_manifest manifest = {.epoch = 1,
                                       .step = 1,
                                       .rows = 3,
                                       .tokens = some_tokens,
                                       .segment_count = 1,
                                       .segments = &segment,
                                       .hop_limit = hop_limit};
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof body, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_manifest_bytes(&manifest));
    *got = (seen){0};
    return read_body(0, &shard_events, body, length, 0, got, NULL);
}

static void test_rows_that_are_scored(void **state) {
    (void)state;
    static const lh_row_scoring good[] = {{0, 3, 20, 9}, {1, 2, 0, 0}, {0, 2, 1, LH_STEP_NO_TOKEN}};
    seen got;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(read_scoring(good[i], false, 0, &got), LH_OK);
        assert_memory_equal(&got.segments[0].ask.scoring, &good[i], sizeof good[i]);
    }
    assert_int_equal(read_scoring(good[2], true, 0, &got), LH_OK);
    assert_int_equal(read_scoring((lh_row_scoring){0}, false, 0, &got), LH_OK);
    assert_int_equal(got.segments[0].ask.scoring.rows, 0);
}

static void test_scoring_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const lh_row_scoring bad[] = {{0, 4, 0, 9},
                                         {2, 2, 0, 9},
                                         {3, 1, 0, 9},
                                         {0, 2, 0, 9},
                                         {0, 3, 0, LH_STEP_NO_TOKEN},
                                         {0xffffffffu, 2, 0, 9}};
    seen got;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_scoring(bad[i], false, 0, &got), LH_ERR_MALFORMED);
    assert_int_equal(read_scoring((lh_row_scoring){0, 3, 21, 9}, false, 0, &got), LH_ERR_LIMIT);
    /* the row that draws is not scored, nor is one that no last worker sees */
    assert_int_equal(read_scoring((lh_row_scoring){0, 3, 0, 9}, true, 0, &got), LH_ERR_MALFORMED);
    assert_int_equal(read_scoring((lh_row_scoring){0, 3, 0, 9}, false, 1, &got), LH_ERR_MALFORMED);
}

/* The results of three segments: scored, scored and drawn, drawn. */
static size_t scores_body(uint8_t *body, size_t capacity) {
    lh_step_manifest manifest = {.epoch = 3, .step = 9};
    lh_token_score scores[3] = {
        {.logprob = -0.5f, .rank = 1, .top_count = 1, .top = {{3, -0.5f}}},
        {.logprob = -INFINITY, .rank = 48000},
        {.logprob = -1, .rank = 2, .top_count = 2, .top = {{8, 0}, {3, -1}}}};
    lh_step_result results[3] = {
        {.sequence = 1, .position = 2, .answer.score_count = 2, .answer.scores = scores},
        {.sequence = 2,
         .position = 9,
         .answer.token = 5,
         .answer.score_count = 1,
         .answer.scores = scores + 2},
        {.sequence = 5, .position = 6, .answer.token = 7}};
    results[0].answer.token = LH_STEP_NO_TOKEN;
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, capacity, &length, NULL), LH_OK);
    assert_int_equal(
        lh_step_encode_results(results, 3, body + length, capacity - length, &more, NULL), LH_OK);
    assert_int_equal(more, lh_step_results_bytes(results, 3));
    return length + more;
}

static void test_scores_round_trip(void **state) {
    (void)state;
    uint8_t body[1024];
    size_t length = scores_body(body, sizeof body);
    for (size_t piece = 0; piece < 3; piece++) {
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, length, piece, &got, NULL), LH_OK);
        assert_int_equal(got.result_count, 3);
        assert_true(got.results[0].answer.score_count == 2 &&
                    got.results[1].answer.score_count == 1 &&
                    got.results[2].answer.score_count == 0);
        assert_true(got.results[0].answer.token == LH_STEP_NO_TOKEN);
        assert_true(got.scores[0].logprob == -0.5f && got.scores[0].rank == 1 &&
                    got.scores[0].top[0].token == 3);
        assert_true(got.scores[1].logprob == -INFINITY && got.scores[1].top_count == 0);
        assert_true(got.scores[2].top_count == 2 && got.scores[2].top[1].logprob == -1);
    }
}

/* Of the first score: its logprob, its count of candidates, a candidate's logprob; then how many
 * scores there are. */
static void test_scores_that_are_none_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        lh_status status;
    } rows[] = {{40, 0x7fc00000u, LH_ERR_MALFORMED},
                {48, 21, LH_ERR_MALFORMED},
                {56, 0x7f800000u, LH_ERR_MALFORMED},
                {32, 8193, LH_ERR_LIMIT},
                {32, 100, LH_ERR_LIMIT},
                {32, 1, LH_ERR_MALFORMED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t body[1024];
        size_t length = scores_body(body, sizeof body);
        uint8_t *frame = body + 16 + get_u32(body + 4);
        put_u32(frame + 20 + rows[i].at, rows[i].value);
        reseal(frame);
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, length, 0, &got, NULL), rows[i].status);
    }
}

/* ---- Pooling ---- */

/* A step of `count` segments of three rows, which are pooled so. */
static lh_status read_pooling(lh_row_pooling pooling, uint32_t count, bool sample,
                              uint32_t hop_limit, seen *got) {
    uint8_t body[2048];
    size_t length = 0;
    uint32_t tokens[48] = {0};
    lh_step_segment segments[16];
    for (uint32_t i = 0; i < count; i++)
        segments[i] = (lh_step_segment){.sequence = i + 1,
                                        .rows = 3,
                                        .ask.draws = sample,
                                        .ask.sampling = {.top_p = 1, .repetition_penalty = 1},
                                        .ask.pooling = pooling};
    const lh_step_manifest manifest = {.epoch = 1,
                                       .step = 1,
                                       .rows = 3 * count,
                                       .tokens = tokens,
                                       .segment_count = count,
                                       .segments = segments,
                                       .hop_limit = hop_limit};
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof body, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_manifest_bytes(&manifest));
    *got = (seen){0};
    return read_body(0, &shard_events, body, length, 0, got, NULL);
}

static void test_rows_that_are_pooled(void **state) {
    (void)state;
    static const lh_row_pooling good[] = {{0, 3}, {2, 1}, {1, 1}},
                                bad[] = {{0, 4}, {3, 1}, {2, 2}, {0xffffffffu, 2}};
    seen got;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(read_pooling(good[i], LH_STEP_POOLED_MAX, false, 0, &got), LH_OK);
        assert_memory_equal(&got.segments[7].ask.pooling, &good[i], sizeof good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_pooling(bad[i], 1, false, 0, &got), LH_ERR_MALFORMED);
    assert_int_equal(read_pooling(good[0], 1, true, 0, &got), LH_ERR_MALFORMED);
    assert_int_equal(read_pooling(good[0], 1, false, 1, &got), LH_ERR_MALFORMED);
}

/* The results of a segment that is pooled, one that is not, another one that is. */
static size_t pooled_body(uint8_t *body, size_t capacity) {
    static int64_t sums[5] = {1, -2, INT64_MAX, INT64_MIN, 5};
    lh_step_manifest manifest = {.epoch = 3, .step = 9};
    lh_step_result results[3] = {
        {.sequence = 1, .answer.pooled_count = 3, .answer.pooled = sums},
        {.sequence = 2},
        {.sequence = 5, .answer.pooled_count = 2, .answer.pooled = sums + 3}};
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, capacity, &length, NULL), LH_OK);
    assert_int_equal(
        lh_step_encode_results(results, 3, body + length, capacity - length, &more, NULL), LH_OK);
    assert_int_equal(more, lh_step_results_bytes(results, 3));
    return length + more;
}

static void test_sums_round_trip(void **state) {
    (void)state;
    static const int64_t expected[5] = {1, -2, INT64_MAX, INT64_MIN, 5};
    uint8_t body[1024];
    size_t length = pooled_body(body, sizeof body);
    for (size_t piece = 0; piece < 3; piece++) {
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, length, piece, &got, NULL), LH_OK);
        assert_true(got.results[0].answer.pooled_count == 3 &&
                    got.results[1].answer.pooled_count == 0);
        assert_int_equal(got.sum_count, 5);
        assert_memory_equal(got.sums, expected, sizeof expected);
    }
}

/* How many sums the first result has. */
static void test_sums_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t count;
        lh_status status;
    } rows[] = {{65537, LH_ERR_LIMIT}, {65536, LH_ERR_MALFORMED}, {0, LH_ERR_LIMIT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t body[1024];
        size_t length = pooled_body(body, sizeof body);
        uint8_t *frame = body + 16 + get_u32(body + 4);
        put_u32(frame + 20 + 36, rows[i].count);
        reseal(frame);
        seen got = {0};
        assert_int_equal(read_body(0, &result_events, body, length, 0, &got, NULL), rows[i].status);
    }
}

static void test_no_more_are_pooled_than_may_be(void **state) {
    (void)state;
    int64_t sums[1] = {0};
    lh_step_result results[LH_STEP_POOLED_MAX + 1];
    uint8_t buffer[1024];
    size_t length;
    seen got;
    for (size_t i = 0; i <= LH_STEP_POOLED_MAX; i++)
        results[i] =
            (lh_step_result){.sequence = i, .answer.pooled_count = 1, .answer.pooled = sums};
    assert_int_equal(
        lh_step_encode_results(results, LH_STEP_POOLED_MAX, buffer, sizeof buffer, &length, NULL),
        LH_OK);
    assert_int_equal(lh_step_encode_results(results, LH_STEP_POOLED_MAX + 1, buffer, sizeof buffer,
                                            &length, NULL),
                     LH_ERR_LIMIT);
    assert_int_equal(read_pooling((lh_row_pooling){0, 3}, LH_STEP_POOLED_MAX + 1, false, 0, &got),
                     LH_ERR_LIMIT);
}

static void test_frames_out_of_place_are_refused(void **state) {
    (void)state;
    uint8_t body[8192], results[1024];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    size_t manifest = 16 + get_u32(body + 4);
    seen got = {0};
    assert_int_equal(
        read_body(WIDTH, &shard_events, body + manifest, length - manifest, 0, &got, NULL),
        LH_ERR_MALFORMED); /* a shard first */
    assert_int_equal(read_body(0, &shard_events, body, length, 0, &got, NULL),
                     LH_ERR_MALFORMED); /* width 0 */
    memmove(body + manifest, body, manifest);
    assert_int_equal(read_body(WIDTH, &shard_events, body, 2 * manifest, 0, &got, NULL),
                     LH_ERR_MALFORMED);
    length = results_body(results, sizeof(results));
    assert_int_equal(read_body(WIDTH, &shard_events, results, length, 0, &got, NULL),
                     LH_ERR_MALFORMED);
    put_u32(body, 4); /* no such type */
    reseal(body);
    assert_int_equal(read_body(WIDTH, &shard_events, body, manifest, 0, &got, NULL),
                     LH_ERR_MALFORMED);
    put_u32(body, 1);
    put_u32(body + 4, LH_STEP_MANIFEST_BYTES_MAX + 1);
    put_u32(body + 12, lh_crc32c(0, body, 12));
    assert_int_equal(read_body(WIDTH, &shard_events, body, manifest, 0, &got, NULL), LH_ERR_LIMIT);
}

static void test_a_refusal_of_the_user_stays(void **state) {
    (void)state;
    uint8_t body[8192];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    seen got = {.refuse_manifest = LH_ERR_STALE};
    lh_step_reader *reader = NULL;
    lh_error error = {0};
    assert_int_equal(lh_step_reader_create(WIDTH, &shard_events, &got, &reader, NULL), LH_OK);
    assert_int_equal(lh_step_reader_feed(reader, body, length, &error), LH_ERR_STALE);
    assert_string_equal(error.message, "refused by the test");
    assert_int_equal(lh_step_reader_feed(reader, body, length, &error), LH_ERR_STALE);
    assert_int_equal(lh_step_reader_finish(reader, &error), LH_ERR_STALE);
    assert_int_equal(got.manifests, 1);
    assert_int_equal(got.shards, 0);
    lh_step_reader_destroy(reader);
}

static void test_encoder_refuses_what_is_over_a_limit(void **state) {
    (void)state;
    static uint8_t buffer[1024];
    size_t length;
    lh_step_manifest manifest = {.rows = LH_STEP_ROWS_MAX + 1};
    assert_int_equal(lh_step_encode_manifest(&manifest, buffer, sizeof(buffer), &length, NULL),
                     LH_ERR_LIMIT);
    manifest = (lh_step_manifest){.truncation_count = 2, .truncations = some_truncations};
    for (size_t capacity = 0; capacity < lh_step_manifest_bytes(&manifest); capacity++) {
        assert_int_equal(lh_step_encode_manifest(&manifest, buffer, capacity, &length, NULL),
                         LH_ERR_LIMIT);
    }
    float values[64] = {0};
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_F32, 0, 1, 0, 64, values, buffer, 100, &length, NULL),
        LH_ERR_LIMIT);
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_F32, 0, 1, 31, 33, values, buffer, 1024, &length, NULL),
        LH_ERR_INVALID);
    values[40] = NAN;
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_F32, 0, 1, 0, 64, values, buffer, 1024, &length, NULL),
        LH_ERR_INVALID);
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_F16, 0, 1, 0, 64, values, buffer, 1024, &length, NULL),
        LH_ERR_INVALID);
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_Q8, 0, 1, 0, 64, values, buffer, 1024, &length, NULL),
        LH_ERR_INVALID);
    assert_int_equal(lh_step_shard_bytes(LH_WIRE_F32, LH_STEP_ROWS_MAX, LH_STEP_WIDTH_MAX), 0);
    uint32_t rows = lh_step_shard_rows_max(LH_WIRE_F32, LH_STEP_WIDTH_MAX);
    assert_true(rows >= 1 && lh_step_shard_bytes(LH_WIRE_F32, rows, LH_STEP_WIDTH_MAX) > 0);
    assert_int_equal(lh_step_shard_bytes(LH_WIRE_F32, rows + 1, LH_STEP_WIDTH_MAX), 0);
    static lh_step_result results[LH_STEP_SEGMENTS_MAX + 1];
    static uint8_t frame[1u << 16];
    for (uint32_t count = LH_STEP_SEGMENTS_MAX; count <= LH_STEP_SEGMENTS_MAX + 1; count++)
        assert_int_equal(
            lh_step_encode_results(results, count, frame, sizeof(frame), &length, NULL),
            count > LH_STEP_SEGMENTS_MAX ? LH_ERR_LIMIT : LH_OK);
    results[0].answer.top_count = 21;
    assert_int_equal(lh_step_encode_results(results, 1, buffer, sizeof(buffer), &length, NULL),
                     LH_ERR_LIMIT);
}

/* ---- PROTOCOL.md ---- */

static size_t from_hex(const char *text, const char *end, uint8_t *bytes, size_t capacity) {
    size_t length = 0;
    while (text < end) {
        unsigned value;
        if (*text == ' ' || *text == '\n') {
            text++;
            continue;
        }
        assert_int_equal(sscanf(text, "%2x", &value), 1);
        assert_true(length < capacity);
        bytes[length++] = (uint8_t)value;
        text += 2;
    }
    return length;
}

/* The hex lines (indented by four) that follow `title` in PROTOCOL.md. */
static size_t vector_named(const char *title, uint8_t *bytes, size_t capacity) {
    FILE *file = fopen(TEST_SOURCE_DIR "/../common/protocol/PROTOCOL.md", "r");
    assert_non_null(file);
    static char text[65536];
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *at = strstr(text, title);
    assert_non_null(at);
    at = strstr(at, "\n\n    ");
    assert_non_null(at);
    const char *end = strstr(at + 2, "\n\n");
    end = end ? end : text + size;
    return from_hex(at, end, bytes, capacity);
}

static size_t vector_step(lh_wire_type wire, uint8_t *bytes, size_t capacity) {
    static const uint32_t tokens[2] = {1, 504};
    static const lh_step_truncation truncations[1] = {{6, 128}};
    static const lh_step_cut cut = {1, {3}};
    static const uint64_t dropped = 1;
    static const uint8_t code[4] = {1, 28, 0xdb, 3};
    static const lh_step_mask mask = {2, 512, 4, code};
    static const lh_token_bias bias = {9, -1.5f};
    static const lh_token_count count = {504, 1, 0};
    lh_step_segment segment = {.sequence = 7,
                               .first_position = 64,
                               .rows = 2,
                               .ask.draws = true,
                               .forks = true,
                               .source = 5,
                               .ask.scoring = {0, 1, 2, LH_STEP_NO_TOKEN},
                               .ask.sampling = {.temperature = 1,
                                                .top_k = 40,
                                                .top_p = 0.5f,
                                                .repetition_penalty = 1,
                                                .presence_penalty = 0.25f,
                                                .seed = 42,
                                                .counter = 66,
                                                .want_logprob = true,
                                                .top_logprobs = 1,
                                                .mask = 2,
                                                .bias_count = 1,
                                                .count_count = 1,
                                                .biases = &bias,
                                                .counts = &count}};
    lh_step_manifest manifest = {.epoch = 3,
                                 .step = 258,
                                 .step_class = LH_STEP_PREFILL,
                                 .rows = 2,
                                 .tokens = tokens,
                                 .segment_count = 1,
                                 .truncation_count = 1,
                                 .segments = &segment,
                                 .truncations = truncations,
                                 .timed = true,
                                 .cut_count = 1,
                                 .cuts = &cut,
                                 .masks = {1, 1, &dropped, &mask}};
    float values[2][3] = {{0, 1, -2.5f}, {100000, 0x1p-24f, 0.1f}};
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, bytes, capacity, &length, NULL), LH_OK);
    assert_int_equal(lh_step_encode_shard(wire, 0, 2, 0, 3, &values[0][0], bytes + length,
                                          capacity - length, &more, NULL),
                     LH_OK);
    return length + more;
}

static size_t vector_results(uint8_t *bytes, size_t capacity) {
    lh_step_manifest manifest = {.epoch = 3, .step = 258, .step_class = LH_STEP_PREFILL};
    lh_token_score score = {.logprob = -2, .rank = 3, .top_count = 1, .top = {{9, -0.25f}}};
    lh_token_logprob top = {28, -0.5f};
    lh_step_result result = {.sequence = 7,
                             .answer.score_count = 1,
                             .answer.scores = &score,
                             .position = 66,
                             .answer.token = 28,
                             .answer.logprob = -0.5f,
                             .answer.top_count = 1,
                             .answer.top = &top};
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, bytes, capacity, &length, NULL), LH_OK);
    assert_int_equal(
        lh_step_encode_results(&result, 1, bytes + length, capacity - length, &more, NULL), LH_OK);
    return length + more;
}

static void assert_vector(const char *title, const uint8_t *bytes, size_t length) {
    uint8_t expected[1024];
    size_t expected_length = vector_named(title, expected, sizeof(expected));
    if (expected_length != length || memcmp(expected, bytes, length) != 0) {
        fprintf(stderr, "the codec gives for \"%s\":\n", title);
        for (size_t i = 0; i < length; i++)
            fprintf(stderr, "%s%02x", i % 32 == 0 ? "\n    " : i % 4 == 0 ? " " : "", bytes[i]);
        fprintf(stderr, "\n");
    }
    assert_int_equal(expected_length, length);
    assert_memory_equal(expected, bytes, length);
}

static void test_protocol_vectors(void **state) {
    (void)state;
    uint8_t bytes[1024];
    assert_vector("**Vector 1**", bytes, vector_step(LH_WIRE_F32, bytes, sizeof(bytes)));
    assert_vector("**Vector 2**", bytes, vector_step(LH_WIRE_F16, bytes, sizeof(bytes)));
    assert_vector("**Vector 3**", bytes, vector_results(bytes, sizeof(bytes)));
    assert_vector("**Vector 4**", bytes, vector_step(LH_WIRE_Q8, bytes, sizeof(bytes)));
    seen got = {0};
    size_t length = vector_named("**Vector 2**", bytes, sizeof(bytes));
    assert_int_equal(read_body(3, &shard_events, bytes, length, 0, &got, NULL), LH_OK);
    assert_true(got.activation[0][2] == -2.5f && got.activation[1][0] == 99968.0f);
    got = (seen){0};
    length = vector_named("**Vector 4**", bytes, sizeof(bytes));
    assert_int_equal(read_body(3, &shard_events, bytes, length, 0, &got, NULL), LH_OK);
    assert_true(got.activation[0][1] == 51 * 1291 * 0x1p-16f &&
                got.activation[1][0] == 127 * 787.5f);
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    uint8_t body[8192], results[1024];
    size_t length = some_body(LH_WIRE_F32, body, sizeof(body));
    size_t results_length = results_body(results, sizeof(results));
    size_t n = 1;
    for (;; n++) {
        seen got = {0}, other = {0};
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = read_body(WIDTH, &shard_events, body, length, 50, &got, &error);
        if (status == LH_OK)
            status = read_body(0, &result_events, results, results_length, 0, &other, &error);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
    assert_true(n > 6);
}

static lh_status on_resync(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)error;
    assert_true(manifest->resyncs && !manifest->timed);
    assert_int_equal(manifest->hop_limit, 2);
    assert_int_equal(manifest->truncation_count, 2);
    assert_int_equal(manifest->truncations[1].sequence, 9);
    assert_int_equal(manifest->truncations[1].length, 70);
    ++*(int *)context;
    return LH_OK;
}

static lh_status read_resync(uint32_t first, uint32_t second, int *seen_resyncs) {
    static const lh_step_reader_events events = {.on_manifest = on_resync};
    const lh_step_truncation resync[] = {{5, first}, {9, second}};
    const lh_step_manifest manifest = {.epoch = 2,
                                       .step = 1,
                                       .resyncs = true,
                                       .truncation_count = 2,
                                       .truncations = resync,
                                       .hop_limit = 2};
    uint8_t bytes[256];
    size_t length = 0;
    lh_step_reader *reader;
    assert_int_equal(lh_step_encode_manifest(&manifest, bytes, sizeof(bytes), &length, NULL),
                     LH_OK);
    assert_int_equal(length, lh_step_manifest_bytes(&manifest));
    assert_int_equal(lh_step_reader_create(WIDTH, &events, seen_resyncs, &reader, NULL), LH_OK);
    lh_status status = lh_step_reader_feed(reader, bytes, length, NULL);
    lh_step_reader_destroy(reader);
    return status;
}

/* Not even one row. */
static void test_a_kv_resync_has_no_rows(void **state) {
    (void)state;
    static const uint32_t token = 7;
    const lh_step_segment segment = {.sequence = 1, .rows = 1};
    uint8_t body[1024];
    size_t length = 0;
    seen got = {0};
    lh_error error;
    const lh_step_manifest manifest = {.epoch = 1,
                                       .step = 1,
                                       .rows = 1,
                                       .tokens = &token,
                                       .segment_count = 1,
                                       .segments = &segment};
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof(body), &length, NULL), LH_OK);
    assert_int_equal(read_body(0, &shard_events, body, length, 0, &got, NULL), LH_OK);
    put_u32(body + 16 + 32, 2); /* the flags */
    reseal(body);
    assert_int_equal(read_body(0, &shard_events, body, length, 0, &got, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "a KV resync with 1 rows"));
}

static void test_a_kv_resync_names_positions(void **state) {
    (void)state;
    int seen_resyncs = 0;
    assert_int_equal(read_resync(1, 70, &seen_resyncs), LH_OK);
    assert_int_equal(read_resync(0, 70, &seen_resyncs), LH_ERR_MALFORMED);
    assert_int_equal(read_resync(1, 0, &seen_resyncs), LH_ERR_MALFORMED);
    assert_int_equal(seen_resyncs, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_even_cuts),
        cmocka_unit_test(test_cuts_that_no_width_has_are_refused),
        cmocka_unit_test(test_results_round_trip),
        cmocka_unit_test(test_rows_that_are_scored),
        cmocka_unit_test(test_scoring_that_cannot_be_is_refused),
        cmocka_unit_test(test_scores_round_trip),
        cmocka_unit_test(test_scores_that_are_none_are_refused),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_a_payload_that_is_cut_is_malformed),
        cmocka_unit_test(test_a_manifest_over_the_limit_is_not_encoded),
        cmocka_unit_test(test_every_bit_flip_is_refused),
        cmocka_unit_test(test_bytes_after_the_end_are_refused),
        cmocka_unit_test(test_bytes_after_a_payload_are_refused),
        cmocka_unit_test(test_manifest_fields_are_checked),
        cmocka_unit_test(test_shard_fields_are_checked),
        cmocka_unit_test(test_exponents_and_scales_are_checked),
        cmocka_unit_test(test_a_shard_off_the_blocks_is_refused),
        cmocka_unit_test(test_shards_cover_exactly_once),
        cmocka_unit_test(test_a_shard_that_ends_past_the_rows_is_refused),
        cmocka_unit_test(test_one_candidate_or_result_too_many_is_refused),
        cmocka_unit_test(test_a_logprob_that_is_no_number_is_refused),
        cmocka_unit_test(test_rows_that_are_pooled),
        cmocka_unit_test(test_sums_round_trip),
        cmocka_unit_test(test_sums_that_cannot_be_are_refused),
        cmocka_unit_test(test_no_more_are_pooled_than_may_be),
        cmocka_unit_test(test_frames_out_of_place_are_refused),
        cmocka_unit_test(test_a_refusal_of_the_user_stays),
        cmocka_unit_test(test_encoder_refuses_what_is_over_a_limit),
        cmocka_unit_test(test_masks_are_checked),
        cmocka_unit_test(test_protocol_vectors),
        cmocka_unit_test(test_nth_allocation_fails),
        cmocka_unit_test(test_a_kv_resync_names_positions),
        cmocka_unit_test(test_a_kv_resync_has_no_rows),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
