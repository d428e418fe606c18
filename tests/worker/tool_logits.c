/* Runs a model's stages in one process over given token ids: logits of every position to a file,
 * their digests, or greedy text's ids; speeds on standard error. The judges of fidelity and of "one
 * answer" call it. */
#include "common/base/clock.h"
#include "common/base/options.h"
#include "tests/support/mapped_file.h"
#include "tests/worker/support/stage_chain.h"
#include "worker/device_choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct flags {
    const char *model, *tokens, *isa, *out, *wire, *activations, *kv_type, *device, *cuda_library,
        *cublas_library, *gpu_math;
    int64_t device_stage, stages, column_shards, chunk_rows, threads, generate, kv_bytes;
    bool digest;
} flags;

#define FIELD(name) offsetof(flags, name)
static const lh_option options[] = {
    {"model", LH_OPTION_TEXT, FIELD(model), NULL, "FILE", 0, 0, NULL, "GGUF file"},
    {"tokens", LH_OPTION_TEXT, FIELD(tokens), NULL, "FILE", 0, 0, NULL,
     "Token ids: decimal text, or little-endian 32-bit words"},
    {"stages", LH_OPTION_NUMBER, FIELD(stages), "1", "N", 1, 64, NULL,
     "Stages to split the model into"},
    {"column-shards", LH_OPTION_NUMBER, FIELD(column_shards), "1", "N", 1, 4096, NULL,
     "Column shards between stages"},
    {"chunk-rows", LH_OPTION_NUMBER, FIELD(chunk_rows), "512", "N", 1, 8192, NULL,
     "Rows of one step"},
    {"threads", LH_OPTION_NUMBER, FIELD(threads), "1", "N", 1, 1024, NULL, "Compute threads"},
    {"kv-bytes", LH_OPTION_BYTES, FIELD(kv_bytes), "1G", "BYTES", 1, INT64_MAX, NULL,
     "KV budget of a stage"},
    {"isa", LH_OPTION_TEXT, FIELD(isa), "auto", "NAME", 0, 0, NULL, "Instruction set"},
    {"device", LH_OPTION_TEXT, FIELD(device), "cpu", "NAME", 0, 0, NULL, "As the worker's"},
    {"device-stage", LH_OPTION_NUMBER, FIELD(device_stage), "-1", "N", -1, 63, NULL,
     "The only stage there, the others on processors; -1: all are"},
    {"cuda-library", LH_OPTION_TEXT, FIELD(cuda_library), "", "PATH", 0, 0, NULL,
     "As the worker's"},
    {"cublas-library", LH_OPTION_TEXT, FIELD(cublas_library), "", "PATH", 0, 0, NULL,
     "As the worker's"},
    {"gpu-math", LH_OPTION_CHOICE, FIELD(gpu_math), "exact", NULL, 0, 0, "exact|fast",
     "As the gateway's"},
    {"activations", LH_OPTION_CHOICE, FIELD(activations), "q8", NULL, 0, 0, "q8|q16",
     "As quantized weights meet them"},
    {"kv-type", LH_OPTION_CHOICE, FIELD(kv_type), "f32", NULL, 0, 0, "f32|f16|q8",
     "Numbers in the KV cache"},
    {"wire", LH_OPTION_CHOICE, FIELD(wire), "f32", NULL, 0, 0, "f32|f16|q8",
     "What activations go through between stages"},
    {"generate", LH_OPTION_NUMBER, FIELD(generate), "0", "N", 0, 1 << 20, NULL,
     "Print the ids of so many greedy tokens after the given ones"},
    {"digest", LH_OPTION_FLAG, FIELD(digest), "0", NULL, 0, 0, NULL,
     "Print the digest of each position's logits"},
    {"out", LH_OPTION_TEXT, FIELD(out), "", "FILE", 0, 0, NULL,
     "Write f32 logits [tokens][vocabulary] there"},
};
static const lh_option_table table = {.program = "logits",
                                      .summary = "Logits of a model over given tokens",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

typedef struct run_state {
    const flags *flags;
    stage_chain *chain;
    FILE *out;
    uint32_t last_token; /* drawn last */
} run_state;

static void die(const char *what, const char *why) {
    fprintf(stderr, "logits: %s: %s\n", what, why);
    exit(1);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        die("memory", "out of it");
    return memory;
}

static bool is_text(const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr("0123456789, \t\r\n", bytes[i]) || bytes[i] == '\0')
            return false;
    return true;
}

static size_t parse_text(const uint8_t *bytes, size_t length, uint32_t *tokens) {
    size_t count = 0;
    for (size_t i = 0; i < length;) {
        if (bytes[i] < '0' || bytes[i] > '9') {
            i++;
            continue;
        }
        uint64_t value = 0;
        for (; i < length && bytes[i] >= '0' && bytes[i] <= '9'; i++) {
            value = value * 10 + (uint64_t)(bytes[i] - '0');
            /* in no vocabulary: the stage says so */
            value = value > UINT32_MAX ? UINT32_MAX : value;
        }
        tokens[count++] = (uint32_t)value;
    }
    return count;
}

/* With room for `more` behind them. */
static uint32_t *read_tokens(const char *path, size_t more, size_t *count) {
    lh_mapped_file *file;
    lh_error error;
    if (lh_mapped_file_open(path, &file, &error) != LH_OK)
        die(path, error.message);
    const uint8_t *bytes = lh_mapped_file_bytes(file);
    size_t length = lh_mapped_file_size(file);
    uint32_t *tokens = allocate(length + more, sizeof *tokens);
    if (is_text(bytes, length)) {
        *count = parse_text(bytes, length, tokens);
    } else {
        *count = length / sizeof *tokens;
        memcpy(tokens, bytes, *count * sizeof *tokens);
    }
    lh_mapped_file_close(file);
    if (*count == 0)
        die(path, "no token ids");
    return tokens;
}

static void on_sample(void *context, uint64_t sequence, const lh_row_answer *result) {
    run_state *state = context;
    (void)sequence;
    state->last_token = result->token;
    if (state->flags->digest)
        printf("%016llx\n", (unsigned long long)result->digest);
}

static void on_logits(void *context, uint64_t sequence, const float *logits, uint32_t vocabulary) {
    const run_state *state = context;
    (void)sequence;
    if (fwrite(logits, sizeof *logits, vocabulary, state->out) != vocabulary)
        die(state->flags->out, strerror(errno));
}

/* Tokens [first, first + rows). With every_row each is a segment of its own and draws; otherwise
 * the last one does. */
static void run_step(run_state *state, const uint32_t *tokens, uint32_t first, uint32_t rows,
                     bool every_row, lh_step_segment *segments) {
    const stage_chain_events events = {
        .context = state, .on_sample = on_sample, .on_logits = state->out ? on_logits : NULL};
    uint32_t count = every_row ? rows : 1;
    lh_error error;
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = (lh_step_segment){
            .sequence = 1,
            .first_position = first + i,
            .rows = every_row ? 1 : rows,
            .ask.draws = true,
            .ask.sampling = {.top_p = 1, .repetition_penalty = 1, .want_digest = every_row}};
    }
    if (stage_chain_run(state->chain,
                        &(lh_batch){rows, tokens + first, count, segments, {0}, false}, &events,
                        &error) != LH_OK) {
        die("step", error.message);
    }
}

static void report(const char *what, size_t tokens, int64_t begin_us) {
    double seconds = (double)(lh_clock_us() - begin_us) * 1e-6;
    fprintf(stderr, "%s: %zu tokens in %.3f s, %.1f tokens/s\n", what, tokens, seconds,
            (double)tokens / seconds);
}

static void run(run_state *state, uint32_t *tokens, size_t count) {
    const flags *f = state->flags;
    lh_step_segment *segments = allocate((size_t)f->chunk_rows, sizeof *segments);
    bool every_row = f->digest || state->out;
    int64_t begin_us = lh_clock_us();
    for (size_t first = 0; first < count; first += (size_t)f->chunk_rows) {
        size_t rows = count - first < (size_t)f->chunk_rows ? count - first : (size_t)f->chunk_rows;
        run_step(state, tokens, (uint32_t)first, (uint32_t)rows, every_row, segments);
    }
    report("prompt", count, begin_us);
    begin_us = lh_clock_us();
    for (size_t i = 0; i < (size_t)f->generate; i++) {
        tokens[count + i] = state->last_token;
        printf("%u\n", state->last_token);
        run_step(state, tokens, (uint32_t)(count + i), 1, every_row, segments);
    }
    if (f->generate > 0)
        report("decode", (size_t)f->generate, begin_us);
    free(segments);
}

int main(int argc, char **argv) {
    flags f;
    lh_error error;
    lh_option_action action;
    if (lh_options_parse(&table, argc, argv, &f, stdout, &action, &error) != LH_OK)
        die("options", error.message);
    if (action == LH_OPTIONS_EXIT)
        return 0;
    size_t count;
    lh_mapped_file *model;
    uint32_t *tokens = read_tokens(f.tokens, (size_t)f.generate, &count);
    run_state state = {.flags = &f};
    lh_wire_type wire = LH_WIRE_F32;
    if (!lh_wire_parse(f.wire, &wire))
        die(f.wire, "no wire type");
    lh_activation_kind activations;
    if (!lh_activation_kind_parse(f.activations, &activations))
        die(f.activations, "no kind of activations");
    lh_kv_type kv_type;
    if (!lh_kv_type_parse(f.kv_type, &kv_type))
        die(f.kv_type, "no type of a KV cache");
    lh_device_choice device;
    if (lh_device_choice_make(f.device, f.cuda_library, f.cublas_library, &device, &error) != LH_OK)
        die("device", error.message);
    const stage_chain_options chain_options = {.stages = (uint32_t)f.stages,
                                               .column_shards = (uint32_t)f.column_shards,
                                               .threads = (uint32_t)f.threads,
                                               .rows_max = (uint32_t)f.chunk_rows,
                                               .kv_bytes = (size_t)f.kv_bytes,
                                               .wire = wire,
                                               .activations = activations,
                                               .kv_type = kv_type,
                                               .device = lh_device_choice_device(&device),
                                               .device_stage = (uint32_t)f.device_stage,
                                               .is_device_everywhere = f.device_stage < 0,
                                               .is_fast = strcmp(f.gpu_math, "fast") == 0,
                                               .isa = f.isa};
    if (lh_mapped_file_open(f.model, &model, &error) != LH_OK ||
        stage_chain_create(lh_mapped_file_bytes(model), lh_mapped_file_size(model), &chain_options,
                           &state.chain, &error) != LH_OK) {
        die(f.model, error.message);
    }
    if (f.out[0] != '\0' && (state.out = fopen(f.out, "wb")) == NULL)
        die(f.out, strerror(errno));
    run(&state, tokens, count);
    if (state.out && fclose(state.out) != 0)
        die(f.out, strerror(errno));
    stage_chain_destroy(state.chain);
    lh_mapped_file_close(model);
    free(tokens);
    return 0;
}
