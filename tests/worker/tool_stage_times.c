/* How long one stage takes by itself: no network, no other stage, nothing else to do. The bench's
 * bounds are made of these. One line of JSON for each length of a prompt and each length of its
 * chunks:
 *
 *     {"rows": R, "chunk": C, "prompt_us": the whole prompt, "row_us": one row more, on average
 *     over some, "width": W}
 *
 * and with --batch one for each number of sequences whose next rows make up a step, after the first
 * length of a prompt:
 *
 *     {"rows": R, "batch": B, "step_us": a step of one row of each of B sequences, all of which
 *     draw, on average over some, "width": W}
 *
 * the best of several runs. The activations are random numbers, the token ids too. */
#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/gguf/gguf.h"
#include "kernels/kernels.h"
#include "tests/support/mapped_file.h"
#include "tests/worker/support/mapped_weights.h"
#include "worker/compute/stage/stage.h"
#include "worker/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 16u
#define ROWS_MORE                                                                                  \
    16u /* single rows after the prompt: together, since a slowdown is paid in pieces */
#define BATCH_MAX 1024u

typedef struct flags {
    const char *model, *rows, *chunks, *batch, *slowdown, *isa, *activations, *kv_type, *device,
        *cuda_library, *cublas_library, *gpu_math;
    int64_t kv_bytes, first, last, repeats, steps, threads, others_bytes;
} flags;

#define FIELD(name) offsetof(flags, name)
static const lh_option options[] = {
    {"model", LH_OPTION_TEXT, FIELD(model), NULL, "FILE", 0, 0, NULL, "GGUF file"},
    {"first", LH_OPTION_NUMBER, FIELD(first), "0", "LAYER", 0, 65535, NULL,
     "First layer of the stage"},
    {"last", LH_OPTION_NUMBER, FIELD(last), "0", "LAYER", 0, 65535, NULL,
     "The layer after it; 0: all"},
    {"rows", LH_OPTION_TEXT, FIELD(rows), "128,512", "N,N...", 0, 0, NULL, "Lengths of prompts"},
    {"chunks", LH_OPTION_TEXT, FIELD(chunks), "64,128,512", "N,N...", 0, 0, NULL,
     "Lengths of chunks"},
    {"batch", LH_OPTION_TEXT, FIELD(batch), "", "N,N...", 0, 0, NULL,
     "Instead of prompts: decode steps of so many sequences"},
    {"repeats", LH_OPTION_NUMBER, FIELD(repeats), "3", "N", 1, 1000, NULL, "Runs of each"},
    {"steps", LH_OPTION_NUMBER, FIELD(steps), "8", "N", 1, 4096, NULL,
     "Decode steps of a run, with --batch"},
    {"threads", LH_OPTION_NUMBER, FIELD(threads), "1", "N", 1, 256, NULL, "Compute threads"},
    {"slowdown", LH_OPTION_TEXT, FIELD(slowdown), "1", "F", 0, 0, NULL, "As the worker's"},
    {"others-bytes", LH_OPTION_BYTES, FIELD(others_bytes), "0", "BYTES", 0, (int64_t)1 << 32, NULL,
     "Memory that is read before each single row, outside of the times: what the other workers of "
     "a chain read meanwhile, where they share this machine's last cache"},
    {"isa", LH_OPTION_TEXT, FIELD(isa), "auto", "NAME", 0, 0, NULL, "Instruction set"},
    {"device", LH_OPTION_TEXT, FIELD(device), "cpu", "NAME", 0, 0, NULL, "As the worker's"},
    {"cuda-library", LH_OPTION_TEXT, FIELD(cuda_library), "", "PATH", 0, 0, NULL,
     "As the worker's"},
    {"kv-bytes", LH_OPTION_BYTES, FIELD(kv_bytes), "1G", "BYTES", 1, INT64_MAX, NULL, "KV budget"},
    {"cublas-library", LH_OPTION_TEXT, FIELD(cublas_library), "", "PATH", 0, 0, NULL,
     "As the worker's"},
    {"gpu-math", LH_OPTION_CHOICE, FIELD(gpu_math), "exact", NULL, 0, 0, "exact|fast",
     "As the gateway's"},
    {"activations", LH_OPTION_CHOICE, FIELD(activations), "q8", NULL, 0, 0, "q8|q16",
     "As quantized weights meet them"},
    {"kv-type", LH_OPTION_CHOICE, FIELD(kv_type), "f32", NULL, 0, 0, "f32|f16|q8",
     "Numbers in the KV cache"},
};
static const lh_option_table table = {.program = "stage_times",
                                      .summary = "How long one stage takes by itself",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

typedef struct bench {
    lh_gguf *gguf;
    const uint8_t *bytes;
    lh_model_config config;
    lh_stage *stage;
    bool is_first;
    uint32_t chunk_max;
    uint32_t *tokens;
    float *values; /* [chunk_max][width] */
    uint8_t *others;
    size_t others_bytes;
} bench;

static void die(const char *what, const char *why) {
    fprintf(stderr, "stage_times: %s: %s\n", what, why);
    exit(1);
}

static uint32_t parse_list(const char *text, uint32_t list[LIST_MAX]) {
    uint32_t count = 0;
    for (const char *at = text; *at != '\0';) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        if (end == at || value == 0 || value > 65536 || count == LIST_MAX ||
            (*end != '\0' && *end != ',')) {
            die(text, "not a list of numbers");
        }
        list[count++] = (uint32_t)value;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void on_shard(void *context, const lh_stage_shard *shard) {
    (void)context;
    (void)shard;
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    (void)context;
    (void)segment;
    (void)part;
}

static int64_t run_one(bench *b, const lh_batch *batch) {
    const lh_stage_shard shard = {
        .rows = batch->rows, .columns = b->config.width, .values = b->values};
    const lh_stage_output output = {.on_shard = on_shard, .on_answer = on_answer};
    lh_stage_step *step;
    lh_error error;
    int64_t begin_us = lh_clock_us();
    if (lh_stage_begin(b->stage, batch, &step, &error) != LH_OK ||
        (!b->is_first && lh_stage_accept(step, &shard, &error) != LH_OK) ||
        lh_stage_finish(step, &output, &error) != LH_OK) {
        die("step", error.message);
    }
    lh_stage_end(step);
    return lh_clock_us() - begin_us;
}

/* Rows of one sequence; returns what they took. */
static int64_t run_step(bench *b, uint64_t sequence, uint32_t first, uint32_t rows, bool sample) {
    const lh_step_segment segment = {.sequence = sequence,
                                     .first_position = first,
                                     .rows = rows,
                                     .ask.draws = sample,
                                     .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
    return run_one(
        b,
        &(lh_batch){.rows = rows, .tokens = b->tokens, .segment_count = 1, .segments = &segment});
}

static void read_others(const bench *b) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < b->others_bytes; i += 64)
        sum = (uint8_t)(sum + b->others[i]);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void run(bench *b, uint32_t rows, uint32_t chunk, int64_t repeats) {
    int64_t prompt_us = INT64_MAX, row_us = INT64_MAX;
    for (int64_t i = 0; i < repeats; i++) {
        int64_t us = 0;
        for (uint32_t first = 0; first < rows; first += chunk) {
            uint32_t here = rows - first < chunk ? rows - first : chunk;
            us += run_step(b, 1, first, here, first + here == rows);
        }
        prompt_us = least(prompt_us, us);
        us = 0;
        for (uint32_t j = 0; j < ROWS_MORE; j++) {
            read_others(b);
            us += run_step(b, 1, rows + j, 1, true);
        }
        row_us = least(row_us, us / ROWS_MORE);
        lh_stage_truncate(b->stage, 1, 0);
    }
    printf("{\"rows\": %u, \"chunk\": %u, \"prompt_us\": %lld, \"row_us\": %lld, \"width\": %u}\n",
           rows, chunk, (long long)prompt_us, (long long)row_us, b->config.width);
    fflush(stdout);
}

/* One row of each of `count` sequences that have `first` positions; returns what it took. */
static int64_t run_batch(bench *b, uint32_t first, uint32_t count) {
    static lh_step_segment segments[BATCH_MAX];
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = (lh_step_segment){.sequence = i + 1,
                                        .first_position = first,
                                        .rows = 1,
                                        .ask.draws = true,
                                        .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
    }
    const lh_batch batch = {
        .rows = count, .tokens = b->tokens, .segment_count = count, .segments = segments};
    return run_one(b, &batch);
}

/* The best of the repeats, each the mean of some steps. */
static void run_decode(bench *b, uint32_t rows, uint32_t count, int64_t steps, int64_t repeats) {
    int64_t step_us = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t first = 0; first < rows; first += b->chunk_max) {
            run_step(b, i + 1, first, rows - first < b->chunk_max ? rows - first : b->chunk_max,
                     false);
        }
    }
    uint32_t position = rows;
    for (int64_t i = 0; i < repeats; i++) {
        int64_t us = 0;
        for (int64_t j = 0; j < steps; j++) {
            read_others(b);
            us += run_batch(b, position++, count);
        }
        step_us = least(step_us, us / steps);
    }
    for (uint32_t i = 0; i < count; i++)
        lh_stage_truncate(b->stage, i + 1, 0);
    printf("{\"rows\": %u, \"batch\": %u, \"step_us\": %lld, \"width\": %u}\n", rows, count,
           (long long)step_us, b->config.width);
    fflush(stdout);
}

static void fill(bench *b) {
    uint32_t random = 1;
    b->tokens = malloc(b->chunk_max * sizeof *b->tokens);
    b->values = malloc((size_t)b->chunk_max * b->config.width * sizeof *b->values);
    b->others = malloc(b->others_bytes + 1);
    if (!b->tokens || !b->values || !b->others)
        die("memory", "out of it");
    memset(b->others, 1, b->others_bytes); /* pages of its own */
    for (uint32_t i = 0; i < b->chunk_max; i++) {
        random = random * 1664525u + 1013904223u;
        b->tokens[i] = (random >> 8) % b->config.vocabulary;
    }
    for (size_t i = 0; i < (size_t)b->chunk_max * b->config.width; i++) {
        random = random * 1664525u + 1013904223u;
        b->values[i] = (float)(random >> 8) * 0x1p-23f - 1;
    }
}

int main(int argc, char **argv) {
    flags f;
    lh_error error;
    lh_option_action action;
    double factors[2];
    if (lh_options_parse(&table, argc, argv, &f, stdout, &action, &error) != LH_OK)
        die("options", error.message);
    if (action == LH_OPTIONS_EXIT)
        return 0;
    uint32_t rows[LIST_MAX], chunks[LIST_MAX], batches[LIST_MAX];
    uint32_t row_count = parse_list(f.rows, rows), chunk_count = parse_list(f.chunks, chunks);
    uint32_t batch_count = parse_list(f.batch, batches);
    bench b = {.is_first = f.first == 0, .others_bytes = (size_t)f.others_bytes};
    lh_mapped_file *file;
    lh_thread_pool *pool;
    if (lh_mapped_file_open(f.model, &file, &error) != LH_OK)
        die(f.model, error.message);
    b.bytes = lh_mapped_file_bytes(file);
    size_t length = lh_mapped_file_size(file);
    uint32_t rows_max = 0;
    for (uint32_t i = 0; i < row_count; i++)
        rows_max = rows[i] > rows_max ? rows[i] : rows_max;
    for (uint32_t i = 0; i < chunk_count; i++)
        b.chunk_max = chunks[i] > b.chunk_max ? chunks[i] : b.chunk_max;
    for (uint32_t i = 0; i < batch_count; i++) {
        if (batches[i] > BATCH_MAX)
            die(f.batch, "more than 1024 sequences");
        b.chunk_max = batches[i] > b.chunk_max ? batches[i] : b.chunk_max;
    }
    const lh_weight_source source = mapped_weights(b.bytes);
    lh_stage_options stage = {.context = rows_max + ROWS_MORE + (uint32_t)(f.steps * f.repeats) + 1,
                              .rows_max = b.chunk_max,
                              .steps_max = 1};
    if (!lh_activation_kind_parse(f.activations, &stage.activations))
        die(f.activations, "no kind of activations");
    if (!lh_kv_type_parse(f.kv_type, &stage.kv_type))
        die(f.kv_type, "no type of a KV cache");
    if (lh_gguf_parse(b.bytes, length, length, &b.gguf, &error) != LH_OK ||
        lh_model_config_read(b.gguf, &b.config, &error) != LH_OK ||
        lh_thread_pool_create((uint32_t)f.threads, &pool, &error) != LH_OK ||
        lh_kernels_select(f.isa, &stage.kernels, &error) != LH_OK ||
        lh_slowdown_parse(f.slowdown, factors, &error) != LH_OK) {
        die(f.model, error.message);
    }
    stage.pool = pool;
    stage.kv_bytes = (size_t)f.kv_bytes;
    lh_device_choice device;
    if (lh_device_choice_make(f.device, f.cuda_library, f.cublas_library, &device, &error) != LH_OK)
        die("device", error.message);
    stage.device = lh_device_choice_device(&device);
    stage.is_fast = strcmp(f.gpu_math, "fast") == 0;
    stage.range =
        (lh_layer_range){(uint32_t)f.first, f.last > 0 ? (uint32_t)f.last : b.config.layers};
    if (lh_stage_create(b.gguf, &b.config, &source, &stage, NULL, NULL, &b.stage, &error) != LH_OK)
        die("stage", error.message);
    lh_slowdown_set(lh_thread_pool_slowdown(pool), factors[0]);
    fill(&b);
    for (uint32_t i = 0; i < batch_count && row_count > 0; i++)
        run_decode(&b, rows[0], batches[i], f.steps, f.repeats);
    for (uint32_t i = 0; i < row_count && batch_count == 0; i++) {
        for (uint32_t j = 0; j < chunk_count; j++)
            if (chunks[j] <= rows[i])
                run(&b, rows[i], chunks[j], f.repeats);
    }
    free(b.others);
    free(b.tokens);
    free(b.values);
    lh_stage_destroy(b.stage);
    lh_thread_pool_destroy(pool);
    lh_gguf_destroy(b.gguf);
    lh_mapped_file_close(file);
    return 0;
}
