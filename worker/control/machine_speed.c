/* Rows of a prompt meet a few matrices, which stay in a core's cache as a layer's do while the rows
 * of a chunk pass; a row alone meets many, which do not. The least of some runs counts: what is
 * more was others' doing. Where a host has other guests those slow this one down for some tens of
 * milliseconds at a time, so the runs are spread over more. */
#include "worker/control/machine_speed.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/control/core_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TYPE         LH_DTYPE_Q4_0
#define SIDE         1024u
#define PROMPT_ROWS  32u
#define PROMPT_COUNT 4u  /* matrices that the rows of a prompt meet */
#define TOKEN_COUNT  28u /* matrices that a row alone meets */
#define ROUNDS       5u
#define REPEATS      4u /* in a round: the first ones bring the weights into the caches */
#define PAUSE_US     12000u
/* No more rounds when so much is spent: a machine on which it is, is slow enough for some to tell.
 */
#define BUDGET_US 200000.0
/* Of the clock: nothing takes less. */
#define TICK_US 1.0

typedef struct trial {
    const lh_compute *compute;
    size_t matrix_bytes;
    uint8_t *weights; /* [TOKEN_COUNT][matrix_bytes] */
    float *x, *y;     /* [PROMPT_ROWS][SIDE] */
    lh_packed packed;
} trial;

static void *allocate(size_t bytes, int fill) {
    void *memory = lh_aligned_array_allocate(bytes, 1);
    return memory ? memset(memory, fill, bytes) : NULL;
}

static lh_status prepare(trial *t, lh_error *error) {
    lh_activation_kind kind = t->compute->activations;
    t->matrix_bytes = lh_matrix_bytes(TYPE, SIDE, SIDE);
    t->weights = allocate(TOKEN_COUNT * t->matrix_bytes, 0x3c); /* scales of about one */
    t->x = allocate(sizeof(float) * PROMPT_ROWS * SIDE, 0x3c);  /* floats of about a hundredth */
    t->y = allocate(sizeof(float) * PROMPT_ROWS * lh_row_stride(SIDE), 0);
    t->packed.width = SIDE;
    t->packed.data[kind] = allocate(lh_activations_bytes(kind, PROMPT_ROWS, SIDE), 0);
    bool is_there = t->weights && t->x && t->y && t->packed.data[kind];
    return is_there ? LH_OK
                    : lh_fail(error, LH_ERR_NO_MEMORY, "no memory to measure the machine's speed");
}

static void clean_up(trial *t) {
    free(t->packed.data[t->compute->activations]);
    free(t->y);
    free(t->x);
    free(t->weights);
}

static void run(const trial *t, uint32_t rows, uint32_t count) {
    lh_span all = {0, SIDE};
    t->compute->ops->pack(t->compute, &t->packed, rows, all, t->x, SIDE, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        lh_matrix matrix = {TYPE, SIDE, SIDE, t->weights + i * t->matrix_bytes};
        lh_product product = {matrix, t->y, lh_row_stride(SIDE), all, {0, rows}, NULL};
        t->compute->ops->products(t->compute, &product, 1, &t->packed, all, false, NULL);
    }
}

typedef struct work {
    uint32_t rows, count; /* each of `rows` rows is multiplied by `count` matrices */
    double least_us;      /* 0: none yet */
} work;

/* Returns what it took. */
static double repeat(const trial *t, const lh_core_clock *clock, work *w) {
    double spent_us = 0;
    for (uint32_t i = 0; i < REPEATS; i++) {
        int64_t begin_us = lh_core_clock_us(clock);
        run(t, w->rows, w->count);
        double us = fmax((double)(lh_core_clock_us(clock) - begin_us), TICK_US);
        w->least_us = w->least_us > 0 ? fmin(us, w->least_us) : us;
        spent_us += us;
    }
    return spent_us;
}

/* Of one row, for each MiB of the matrices. */
static double cost_us(const trial *t, const work *w) {
    return w->least_us / w->rows / ((double)w->count * (double)t->matrix_bytes / (1 << 20));
}

static void measure(const trial *t, const lh_core_clock *clock, lh_machine_speed *speed) {
    work prompt = {PROMPT_ROWS, PROMPT_COUNT, 0}, token = {1, TOKEN_COUNT, 0};
    double spent_us = 0;
    for (uint32_t i = 0; i < ROUNDS && spent_us < BUDGET_US; i++) {
        if (i > 0)
            usleep(PAUSE_US);
        spent_us += repeat(t, clock, &prompt) + repeat(t, clock, &token);
    }
    *speed = (lh_machine_speed){.prompt_us = cost_us(t, &prompt), .token_us = cost_us(t, &token)};
}

lh_status lh_machine_speed_measure(const lh_compute *compute, lh_machine_speed *speed,
                                   lh_error *error) {
    trial t = {.compute = compute};
    lh_core_clock clock;
    lh_status status = prepare(&t, error);
    if (status == LH_OK) {
        lh_core_clock_open(&clock, lh_thread_pool_slowdown(compute->pool));
        measure(&t, &clock, speed);
        lh_core_clock_close(&clock);
    }
    clean_up(&t);
    return status;
}
