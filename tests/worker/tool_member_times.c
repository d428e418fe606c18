/* What members of one stage gain (worker/compute/stage/division.h): decode steps, and chunks of a
 * prompt, of one thread each, by 1 to N members in this process, which exchange over a link that is
 * played. One line of JSON for each number of members and rows:
 *
 *     {"members": T, "rows": R, "compute_us": the processor time of a step, of the member that has
 *     the most, "posted_bytes": what it posts, "gather_us": what the link takes for that, by its
 *     rate and delay, "predicted_us": both together, "step_us": what a step took by the clock}
 *
 * each the least of several steps. compute_us is of processors alone, so it holds as well where
 * there are fewer of them than members; step_us needs one for each member. Rows of a chunk follow
 * each other, and of decode steps are of one sequence each. */
#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/gguf/gguf.h"
#include "tests/support/mapped_file.h"
#include "tests/worker/support/mapped_weights.h"
#include "tests/worker/support/member_exchange.h"
#include "worker/compute/stage/stage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS_MAX = 512, CONTEXT = 4096 };

typedef struct flags {
    const char *model, *isa, *activations;
    int64_t members, rows, position, steps, rate_mbit, delay_us;
    bool chunk;
} flags;

#define FIELD(name) offsetof(flags, name)
static const lh_option options[] = {
    {"model", LH_OPTION_TEXT, FIELD(model), NULL, "FILE", 0, 0, NULL, "GGUF file"},
    {"members", LH_OPTION_NUMBER, FIELD(members), "2", "N", 1, LH_MEMBERS_MAX, NULL,
     "At most so many"},
    {"rows", LH_OPTION_NUMBER, FIELD(rows), "1", "N", 1, ROWS_MAX, NULL,
     "Rows of a step: sequences that decode"},
    {"chunk", LH_OPTION_FLAG, FIELD(chunk), NULL, NULL, 0, 0, NULL,
     "They are of one sequence: a chunk of its prompt"},
    {"position", LH_OPTION_NUMBER, FIELD(position), "128", "N", 0, CONTEXT / 2, NULL,
     "Positions before them"},
    {"steps", LH_OPTION_NUMBER, FIELD(steps), "8", "N", 1, 1024, NULL, "Steps of each"},
    {"rate-mbit", LH_OPTION_NUMBER, FIELD(rate_mbit), "1000", "N", 1, 1000000, NULL,
     "Of each member's link"},
    {"delay-us", LH_OPTION_NUMBER, FIELD(delay_us), "60", "N", 0, 1000000, NULL, "One way"},
    {"isa", LH_OPTION_TEXT, FIELD(isa), "auto", "NAME", 0, 0, NULL, "Instruction set"},
    {"activations", LH_OPTION_CHOICE, FIELD(activations), "q8", NULL, 0, 0, "q8|q16",
     "As quantized weights meet them"},
};
static const lh_option_table table = {.program = "member_times",
                                      .summary = "What members of one stage gain",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

typedef struct bench bench;

typedef struct bench_member {
    bench *owner;
    uint32_t number;
    lh_thread_pool *pool;
    lh_stage *stage;
    int64_t compute_us; /* of the last step */
} bench_member;

struct bench {
    const flags *flags;
    const uint8_t *bytes;
    lh_gguf *gguf;
    lh_model_config config;
    uint32_t count;
    bench_member members[LH_MEMBERS_MAX];
    member_exchange *exchange;
    const lh_batch *batch;
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "member_times: %s: %s\n", what, why);
    exit(1);
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    (void)context;
    (void)segment;
    (void)part;
}

static int64_t processor_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void *run_member(void *context) {
    bench_member *member = context;
    const bench *b = member->owner;
    const lh_stage_output output = {.on_answer = on_answer,
                                    .gather = member_exchange_gather(b->exchange, member->number)};
    const int64_t begin_us = processor_us();
    lh_stage_step *step;
    lh_error error;
    if (lh_stage_begin(member->stage, b->batch, &step, &error) != LH_OK ||
        lh_stage_finish(step, &output, &error) != LH_OK)
        die("step", error.message);
    lh_stage_end(step);
    member->compute_us = processor_us() - begin_us;
    return NULL;
}

/* Returns what the step took. */
static int64_t run_step(bench *b, const lh_batch *batch) {
    pthread_t threads[LH_MEMBERS_MAX];
    b->batch = batch;
    member_exchange_begin(b->exchange);
    const int64_t begin_us = lh_clock_us();
    for (uint32_t i = 1; i < b->count; i++)
        if (pthread_create(&threads[i], NULL, run_member, &b->members[i]) != 0)
            die("thread", "none");
    run_member(&b->members[0]);
    for (uint32_t i = 1; i < b->count; i++)
        pthread_join(threads[i], NULL);
    return lh_clock_us() - begin_us;
}

static void fill_batch(const bench *b, uint32_t position, uint32_t rows, bool is_chunk,
                       uint32_t *tokens, lh_step_segment *segments, lh_batch *batch) {
    const uint32_t count = is_chunk ? 1 : rows;
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (position + i) * 7919 % b->config.vocabulary;
    for (uint32_t i = 0; i < count; i++)
        segments[i] = (lh_step_segment){.sequence = i + 1,
                                        .first_position = position,
                                        .rows = is_chunk ? rows : 1,
                                        .ask.draws = true,
                                        .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
    *batch =
        (lh_batch){.rows = rows, .tokens = tokens, .segment_count = count, .segments = segments};
}

static void forget(bench *b, uint32_t rows) {
    for (uint32_t m = 0; m < b->count; m++)
        for (uint32_t i = 0; i < rows; i++)
            lh_stage_truncate(b->members[m].stage, i + 1, 0);
}

static int64_t most_compute_us(const bench *b) {
    int64_t most = 0;
    for (uint32_t i = 0; i < b->count; i++)
        most = b->members[i].compute_us > most ? b->members[i].compute_us : most;
    return most;
}

/* The least processor time and the least time of some steps, over this link. */
static void measure(bench *b, member_link link, int64_t *compute_us, int64_t *step_us,
                    member_posted *posted) {
    static uint32_t tokens[ROWS_MAX];
    static lh_step_segment segments[ROWS_MAX];
    const flags *f = b->flags;
    const uint32_t rows = (uint32_t)f->rows, position = (uint32_t)f->position;
    lh_batch batch;
    b->exchange = member_exchange_create(b->count, link);
    *compute_us = *step_us = INT64_MAX;
    for (int64_t i = 0; i < f->steps; i++) {
        for (uint32_t s = 0; s < (f->chunk ? 1 : rows); s++) {
            for (uint32_t first = 0; first < position; first += ROWS_MAX) {
                const uint32_t some = position - first < ROWS_MAX ? position - first : ROWS_MAX;
                fill_batch(b, first, some, true, tokens, segments, &batch);
                segments[0].sequence = s + 1;
                segments[0].ask.draws = false;
                if (i == 0 || f->chunk)
                    run_step(b, &batch);
            }
        }
        const member_posted before = member_exchange_posted(b->exchange, 0);
        fill_batch(b, position + (f->chunk ? 0 : (uint32_t)i), rows, f->chunk, tokens, segments,
                   &batch);
        const int64_t us = run_step(b, &batch);
        *step_us = us < *step_us ? us : *step_us;
        *compute_us = most_compute_us(b) < *compute_us ? most_compute_us(b) : *compute_us;
        *posted = member_exchange_posted(b->exchange, 0);
        posted->count -= before.count;
        posted->bytes -= before.bytes;
        if (f->chunk)
            forget(b, rows);
    }
    forget(b, rows);
    member_exchange_destroy(b->exchange);
}

static void create_members(bench *b) {
    const lh_weight_source source = mapped_weights(b->bytes);
    lh_stage_options o = {.range = {0, b->config.layers},
                          .kv_bytes = (size_t)1 << 30,
                          .context = CONTEXT < b->config.context ? CONTEXT : b->config.context,
                          .rows_max = ROWS_MAX,
                          .steps_max = 1};
    lh_error error;
    if (!lh_activation_kind_parse(b->flags->activations, &o.activations))
        die(b->flags->activations, "no kind of activations");
    for (uint32_t i = 0; i < b->count; i++) {
        bench_member *member = &b->members[i];
        *member = (bench_member){.owner = b, .number = i};
        if (lh_kernels_select(b->flags->isa, &o.kernels, &error) != LH_OK ||
            lh_thread_pool_create(1, &member->pool, &error) != LH_OK)
            die("member", error.message);
        o.pool = member->pool;
        o.membership = (lh_membership){.members = b->count, .number = i};
        if (lh_stage_create(b->gguf, &b->config, &source, &o, NULL, NULL, &member->stage, &error) !=
            LH_OK)
            die("stage", error.message);
    }
}

static void destroy_members(bench *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        lh_stage_destroy(b->members[i].stage);
        lh_thread_pool_destroy(b->members[i].pool);
    }
}

/* Each gather waits for the slowest way: own bytes to all others, then the delay. */
static int64_t gather_us(const bench *b, const member_posted *posted, const member_link *link) {
    return (int64_t)((double)(posted->bytes * (b->count - 1)) / link->bytes_per_us) +
           (int64_t)posted->count * link->delay_us;
}

static void run(bench *b, uint32_t members) {
    const flags *f = b->flags;
    const member_link link = {(double)f->rate_mbit / 8, f->delay_us};
    int64_t compute_us, step_us, unused;
    member_posted posted;
    b->count = members;
    create_members(b);
    measure(b, (member_link){0}, &compute_us, &unused, &posted);
    measure(b, link, &unused, &step_us, &posted);
    destroy_members(b);
    const int64_t gathers_us = gather_us(b, &posted, &link);
    printf("{\"members\": %u, \"rows\": %u, \"compute_us\": %lld, \"posted_bytes\": %llu, "
           "\"gather_us\": %lld, \"predicted_us\": %lld, \"step_us\": %lld}\n",
           members, (uint32_t)f->rows, (long long)compute_us, (unsigned long long)posted.bytes,
           (long long)gathers_us, (long long)(compute_us + gathers_us), (long long)step_us);
    fflush(stdout);
}

int main(int argc, char **argv) {
    flags f;
    lh_error error;
    lh_option_action action;
    lh_mapped_file *file;
    if (lh_options_parse(&table, argc, argv, &f, stdout, &action, &error) != LH_OK)
        die("options", error.message);
    if (action == LH_OPTIONS_EXIT)
        return 0;
    if (lh_mapped_file_open(f.model, &file, &error) != LH_OK)
        die(f.model, error.message);
    bench b = {.flags = &f, .bytes = lh_mapped_file_bytes(file)};
    const size_t length = lh_mapped_file_size(file);
    if (lh_gguf_parse(b.bytes, length, length, &b.gguf, &error) != LH_OK ||
        lh_model_config_read(b.gguf, &b.config, &error) != LH_OK)
        die(f.model, error.message);
    for (uint32_t members = 1; members <= (uint32_t)f.members; members++)
        run(&b, members);
    lh_gguf_destroy(b.gguf);
    lh_mapped_file_close(file);
    return 0;
}
