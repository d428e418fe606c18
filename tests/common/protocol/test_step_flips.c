/* Bits that flip on the wire never become an activation or a token: every single flip and every
 * burst is refused, whatever it hits, and what is read before it is what was sent.
 *
 * LONGHAUL_FLIPS=n tries n single bits and n / 10 bursts; a million takes minutes. A failure prints
 * its seed, LONGHAUL_SEED runs it again. */
#include "common/protocol/step.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLIPS       100000
#define FLIPS_QUICK 10000 /* for programs that a sanitizer makes slow */
#define WIDTH       576u
#define ROWS_MAX    16u
#define BODY_BYTES  (1u << 16)
/* A whole packet at most. */
#define BURST_BITS_MAX (1448u * 8)

typedef struct body {
    uint32_t width; /* 0: results */
    uint8_t bytes[BODY_BYTES];
    size_t length;
} body;

/* What came of a body, and of the sound one before it. */
typedef struct reading {
    const struct reading *sound; /* NULL: this is the one */
    uint32_t manifests, shards, result_frames;
    uint32_t tokens[ROWS_MAX];
    float values[ROWS_MAX * WIDTH];
    lh_step_result results[8];
    bool differs;
} reading;

static uint64_t dice_state;

/* splitmix64. */
static uint64_t dice(uint64_t below) {
    uint64_t x = dice_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)error;
    reading *got = context;
    got->manifests++;
    memcpy(got->tokens, manifest->tokens, manifest->rows * sizeof(uint32_t));
    got->differs |= got->sound && memcmp(got->tokens, got->sound->tokens, sizeof(got->tokens)) != 0;
    return LH_OK;
}

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    (void)error;
    reading *got = context;
    got->shards++;
    for (uint32_t row = 0; row < header->rows; row++) {
        size_t at = (size_t)(header->first_row + row) * WIDTH + header->first_column,
               bytes = header->columns * sizeof(float);
        memcpy(got->values + at, values + (size_t)row * header->columns, bytes);
        got->differs |= got->sound && memcmp(got->values + at, got->sound->values + at, bytes) != 0;
    }
    return LH_OK;
}

static lh_status on_results(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error) {
    (void)error;
    reading *got = context;
    got->result_frames++;
    for (uint32_t i = 0; i < count; i++) {
        const lh_step_result *sound = got->sound ? &got->sound->results[i] : &results[i];
        got->differs |= results[i].answer.token != sound->answer.token ||
                        results[i].position != sound->position ||
                        results[i].sequence != sound->sequence ||
                        results[i].answer.logprob != sound->answer.logprob;
        got->results[i] = results[i];
    }
    return LH_OK;
}

static lh_status read_body(const body *b, reading *got) {
    static const lh_step_reader_events shards = {.on_manifest = on_manifest, .on_shard = on_shard};
    static const lh_step_reader_events results = {.on_manifest = on_manifest,
                                                  .on_results = on_results};
    lh_step_reader *reader;
    lh_error error;
    lh_status status =
        lh_step_reader_create(b->width, b->width ? &shards : &results, got, &reader, &error);
    assert_int_equal(status, LH_OK);
    status = lh_step_reader_feed(reader, b->bytes, b->length, &error);
    if (status == LH_OK)
        status = lh_step_reader_finish(reader, &error);
    lh_step_reader_destroy(reader);
    return status;
}

/* ---- Bodies ---- */

static void add_manifest(body *b, uint32_t rows) {
    uint32_t tokens[ROWS_MAX];
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (uint32_t)dice(50000);
    lh_step_segment segment = {
        .sequence = dice(UINT32_MAX),
        .rows = rows,
        .ask.draws = true,
        .ask.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1}};
    lh_step_manifest manifest = {.epoch = (uint32_t)dice(UINT32_MAX),
                                 .step = dice(UINT32_MAX),
                                 .step_class = (lh_step_class)dice(2),
                                 .rows = rows,
                                 .tokens = tokens,
                                 .segment_count = rows > 0,
                                 .segments = &segment};
    lh_error error;
    assert_int_equal(
        lh_step_encode_manifest(&manifest, b->bytes, sizeof(b->bytes), &b->length, &error), LH_OK);
}

/* In column shards, of any wire type. */
static void make_step(body *b) {
    uint32_t rows = 1 + (uint32_t)dice(ROWS_MAX), end = 0;
    lh_wire_type wire = (lh_wire_type)dice(3);
    b->width = WIDTH;
    add_manifest(b, rows);
    for (uint32_t first = 0; first < WIDTH; first = end) {
        float values[ROWS_MAX * WIDTH];
        uint32_t columns = 32 * (1 + (uint32_t)dice(WIDTH / 32));
        end = first + columns < WIDTH ? first + columns : WIDTH;
        for (uint32_t i = 0; i < rows * (end - first); i++)
            values[i] = (float)((double)dice(2000001) / 1000000 - 1);
        size_t more;
        lh_error error;
        assert_int_equal(lh_step_encode_shard(wire, 0, rows, first, end - first, values,
                                              b->bytes + b->length, sizeof(b->bytes) - b->length,
                                              &more, &error),
                         LH_OK);
        b->length += more;
    }
}

static void make_results(body *b) {
    lh_step_result results[8] = {0};
    uint32_t count = 1 + (uint32_t)dice(8);
    b->width = 0;
    add_manifest(b, 0);
    for (uint32_t i = 0; i < count; i++) {
        results[i] = (lh_step_result){.sequence = dice(1000),
                                      .position = (uint32_t)dice(4096),
                                      .answer.token = (uint32_t)dice(50000),
                                      .answer.logprob = -0.5f};
    }
    size_t more;
    lh_error error;
    assert_int_equal(lh_step_encode_results(results, count, b->bytes + b->length,
                                            sizeof(b->bytes) - b->length, &more, &error),
                     LH_OK);
    b->length += more;
}

/* ---- Flips ---- */

static void flip(body *b, uint64_t bit) {
    b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* The first and the last bit of it, and any between. */
static void flip_burst(body *b) {
    uint64_t bits = b->length * 8, length = 2 + dice(dice(2) ? 64 : BURST_BITS_MAX),
             first = dice(bits);
    uint64_t last = first + length < bits ? first + length : bits - 1;
    flip(b, first);
    for (uint64_t bit = first + 1; bit < last; bit++)
        if (dice(2))
            flip(b, bit);
    if (last > first)
        flip(b, last);
}

static void try_flips(uint64_t seed, bool in_bursts) {
    static body sent, came;
    static reading sound, got;
    dice_state = seed;
    if (dice(4) == 0)
        make_results(&sent);
    else
        make_step(&sent);
    sound = (reading){0};
    assert_int_equal(read_body(&sent, &sound), LH_OK);
    for (int i = 0; i < 100; i++) {
        came = sent;
        if (in_bursts)
            flip_burst(&came);
        else
            flip(&came, dice(came.length * 8));
        got = (reading){.sound = &sound};
        lh_status status = read_body(&came, &got);
        if (status == LH_OK || got.differs) {
            fail_msg("accepted: LONGHAUL_SEED=%llu, flip %d, %s", (unsigned long long)seed, i,
                     in_bursts ? "burst" : "single bit");
        }
    }
}

static void run(bool in_bursts) {
    const char *one = getenv("LONGHAUL_SEED"), *many = getenv("LONGHAUL_FLIPS");
    uint64_t usual = getenv("LONGHAUL_TEST_QUICK") ? FLIPS_QUICK : FLIPS;
    uint64_t flips = many ? strtoull(many, NULL, 10) : usual;
    uint64_t bodies = (in_bursts ? flips / 10 : flips) / 100;
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    for (uint64_t seed = first; seed < first + (one ? 1 : bodies); seed++)
        try_flips(seed, in_bursts);
    printf("%llu %s: none accepted\n", (unsigned long long)bodies * 100,
           in_bursts ? "bursts" : "single bits");
}

static void single_bits_are_refused(void **state) {
    (void)state;
    run(false);
}

static void bursts_are_refused(void **state) {
    (void)state;
    run(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_bits_are_refused),
        cmocka_unit_test(bursts_are_refused),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
