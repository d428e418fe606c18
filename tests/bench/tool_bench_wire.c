/* Times what lies between a stage's numbers and the socket, on both sides, beside copying memory:
 *
 *   bench_wire [ROWS] [COLUMNS] [milliseconds per figure]
 *
 * encode, decode: the wire type alone; frame: the sender's whole work for a shard (allocate,
 * encode, checksum); read: the receiver's (collect, checksum, check, decode). One thread; the best
 * of the time given. */
#include "common/base/crc32c.h"
#include "common/protocol/wire_type.h"
#include "worker/serve/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
    lh_wire_type wire;
    uint32_t rows, columns;
    float *values, *decoded;
    uint8_t *bytes;
    size_t length; /* of the encoded values */
    uint8_t *body; /* a step: manifest and one shard */
    size_t body_length;
    double limit_s;
} bench;

static void fail(const char *what) {
    fprintf(stderr, "bench_wire: %s\n", what);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory)
        fail("out of memory");
    return memory;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Nanoseconds of one call: the least over the time limit. */
static double best_of(void (*run)(bench *), bench *b) {
    double best = 1e9, total = 0;
    while (total < b->limit_s) {
        double start = now_s();
        run(b);
        double seconds = now_s() - start;
        best = seconds < best ? seconds : best;
        total += seconds + 1e-7;
    }
    return best * 1e9;
}

static void run_copy(bench *b) {
    memcpy(b->decoded, b->values, (size_t)b->rows * b->columns * sizeof(float));
    __asm__ volatile("" ::: "memory");
}

static void run_encode(bench *b) {
    if (!lh_wire_encode(b->wire, b->values, b->rows, b->columns, b->bytes))
        fail("cannot encode");
}

static void run_decode(bench *b) {
    if (!lh_wire_decode(b->wire, b->bytes, b->rows, b->columns, b->decoded))
        fail("cannot decode");
}

static volatile uint32_t sink;

static void run_checksum(bench *b) {
    sink = lh_crc32c(0, b->bytes, b->length);
}

static void run_frame(bench *b) {
    const lh_stage_shard shard = {.rows = b->rows, .columns = b->columns, .values = b->values};
    void *bytes;
    size_t length;
    if (lh_frames_of_shard(b->wire, &shard, &bytes, &length, NULL) != LH_OK)
        fail("cannot make a frame");
    free(bytes);
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)context;
    (void)manifest;
    (void)error;
    return LH_OK;
}

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    (void)context;
    (void)header;
    (void)error;
    sink = (uint32_t)values[0];
    return LH_OK;
}

static void run_read(bench *b) {
    const lh_step_reader_events events = {.on_manifest = on_manifest, .on_shard = on_shard};
    const size_t piece = 16384; /* as HTTP/2 frames bring them */
    lh_step_reader *reader;
    if (lh_step_reader_create(b->columns, &events, NULL, &reader, NULL) != LH_OK)
        fail("cannot make a reader");
    for (size_t at = 0; at < b->body_length; at += piece) {
        size_t length = b->body_length - at < piece ? b->body_length - at : piece;
        if (lh_step_reader_feed(reader, b->body + at, length, NULL) != LH_OK)
            fail("cannot read");
    }
    if (lh_step_reader_finish(reader, NULL) != LH_OK)
        fail("the step is not whole");
    lh_step_reader_destroy(reader);
}

/* The body that run_read reads. */
static void write_body(bench *b) {
    uint32_t *tokens = calloc(b->rows, sizeof *tokens);
    const lh_step_segment segment = {.sequence = 1, .rows = b->rows};
    const lh_step_manifest manifest = {
        .rows = b->rows, .tokens = tokens, .segment_count = 1, .segments = &segment};
    size_t shard = lh_step_shard_bytes(b->wire, b->rows, b->columns), head = 0, length = 0;
    size_t capacity = lh_step_manifest_bytes(&manifest) + shard;
    b->body = allocate(capacity);
    if (!tokens || shard == 0 ||
        lh_step_encode_manifest(&manifest, b->body, capacity, &head, NULL) != LH_OK ||
        lh_step_encode_shard(b->wire, 0, b->rows, 0, b->columns, b->values, b->body + head,
                             capacity - head, &length, NULL) != LH_OK) {
        fail("cannot write the step: too many rows?");
    }
    b->body_length = head + length;
    free(tokens);
}

static void bench_type(bench *b) {
    double count = (double)b->rows * b->columns;
    b->length = lh_wire_bytes(b->wire, b->rows, b->columns);
    b->bytes = allocate(b->length);
    write_body(b);
    double encode = best_of(run_encode, b), decode = best_of(run_decode, b);
    double checksum = best_of(run_checksum, b);
    double frame = best_of(run_frame, b), read = best_of(run_read, b);
    printf("%-4s %9.2f %10.3f %10.3f %10.3f %10.3f %10.3f %12.2f %12.2f\n", lh_wire_name(b->wire),
           (double)b->length / count, encode / count, decode / count, checksum / count,
           frame / count, read / count, frame / b->rows * 1e-3, read / b->rows * 1e-3);
    free(b->bytes);
    free(b->body);
}

int main(int argc, char **argv) {
    bench b = {.rows = argc > 1 ? (uint32_t)atoi(argv[1]) : 64,
               .columns = argc > 2 ? (uint32_t)atoi(argv[2]) : 576,
               .limit_s = (argc > 3 ? atof(argv[3]) : 200) * 1e-3};
    if (b.rows == 0 || b.rows > LH_STEP_ROWS_MAX || b.columns == 0 || b.columns > LH_STEP_WIDTH_MAX)
        fail("rows or columns are over the limits");
    size_t count = (size_t)b.rows * b.columns;
    b.values = allocate(count * sizeof(float));
    b.decoded = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        b.values[i] = (float)((i * 2654435761u >> 7) % 2001) * 1e-2f - 10;
    printf("%u rows of %u columns; copying the floats takes %.3f ns a value\n", b.rows, b.columns,
           best_of(run_copy, &b) / (double)count);
    printf("type B/value  ns/value:                                                us/row:\n"
           "                    encode     decode   checksum      frame       read        frame    "
           "     read\n");
    for (uint32_t i = 0; lh_wire_from_number(i, &b.wire); i++)
        bench_type(&b);
    free(b.values);
    free(b.decoded);
    return 0;
}
