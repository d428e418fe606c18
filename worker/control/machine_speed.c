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
#define PROMPT_COUNT 4u  /* matrices that the rows of a prompt meet */
#define TOKEN_COUNT  28u /* matrices that a row alone meets */
/* A device that takes longer for a row is none that idles: what was measured first counts. */
#define SLOW_US 1000.0
/* Of a matrix, and rows of a prompt: on processors, and on a device, which smaller ones would leave
 * idle most of the time. */
#define SIDE               1024u
#define PROMPT_ROWS        32u
#define DEVICE_SIDE        4096u
#define DEVICE_PROMPT_ROWS 256u
#define ROUNDS             5u
#define REPEATS            4u /* in a round: the first ones bring the weights into the caches */
#define PAUSE_US           12000u
/* No more rounds when so much is spent: a machine on which it is, is slow enough for some to tell.
 */
#define BUDGET_US 200000.0
/* Of the clock: nothing takes less. */
#define TICK_US 1.0

typedef struct trial {
    const lh_compute *compute;
    uint32_t side, prompt_rows;
    size_t matrix_bytes;
    uint8_t *weights; /* [TOKEN_COUNT][matrix_bytes] */
    float *x, *y;     /* [prompt_rows][side] */
    lh_packed packed;
} trial;

static void *allocate(const trial *t, size_t bytes, size_t count, int fill) {
    const lh_compute *compute = t->compute;
    void *filled = lh_aligned_array_allocate(bytes, 1),
         *memory = filled ? compute->ops->allocate(compute, bytes * count) : NULL;
    if (memory) {
        memset(filled, fill, bytes);
        for (size_t i = 0; i < count; i++)
            compute->ops->put(compute, (char *)memory + i * bytes, filled, bytes);
    }
    free(filled);
    return memory;
}

static lh_status prepare(trial *t, uint32_t side, uint32_t prompt_rows, lh_error *error) {
    lh_activation_kind kind = t->compute->activations;
    t->side = side;
    t->prompt_rows = prompt_rows;
    t->matrix_bytes = lh_matrix_bytes(TYPE, side, side);
    t->weights = allocate(t, t->matrix_bytes, TOKEN_COUNT, 0x3c); /* scales of about one */
    /* floats of about a hundredth */
    t->x = allocate(t, sizeof(float) * t->prompt_rows * t->side, 1, 0x3c);
    t->y = allocate(t, sizeof(float) * t->prompt_rows * lh_row_stride(t->side), 1, 0);
    t->packed.width = t->side;
    t->packed.data[kind] = allocate(t, lh_activations_bytes(kind, t->prompt_rows, t->side), 1, 0);
    bool is_there = t->weights && t->x && t->y && t->packed.data[kind];
    return is_there ? LH_OK
                    : lh_fail(error, LH_ERR_NO_MEMORY, "no memory to measure the machine's speed");
}

static void clean_up(trial *t) {
    const lh_compute *compute = t->compute;
    compute->ops->release(compute, t->packed.data[compute->activations]);
    compute->ops->release(compute, t->y);
    compute->ops->release(compute, t->x);
    compute->ops->release(compute, t->weights);
}

static void run(const trial *t, uint32_t rows, uint32_t count) {
    lh_span all = {0, t->side};
    t->compute->ops->pack(t->compute, &t->packed, rows, all, t->x, t->side, NULL);
    for (uint32_t i = 0; i < count; i++) {
        lh_matrix matrix = {TYPE, t->side, t->side, t->weights + i * t->matrix_bytes};
        lh_product product = {matrix, t->y, lh_row_stride(t->side), all, {0, rows}, NULL};
        t->compute->ops->products(t->compute, &product, 1, &t->packed, all, false, NULL);
    }
    t->compute->ops->settle(t->compute, NULL);
}

typedef struct work {
    uint32_t rows, count; /* each of `rows` rows is multiplied by `count` matrices */
    double least_us;      /* 0: none yet */
} work;

/* Returns what it took. */
static double repeat(const trial *t, const lh_core_clock *clock, work *w) {
    double spent_us = 0;
    for (uint32_t i = 0; i < REPEATS && spent_us < BUDGET_US; i++) {
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
    work prompt = {t->prompt_rows, PROMPT_COUNT, 0}, token = {1, TOKEN_COUNT, 0};
    double spent_us = 0;
    for (uint32_t i = 0; i < ROUNDS && spent_us < BUDGET_US; i++) {
        if (i > 0)
            usleep(PAUSE_US);
        spent_us += repeat(t, clock, &prompt) + repeat(t, clock, &token);
    }
    *speed = (lh_machine_speed){.prompt_us = cost_us(t, &prompt), .token_us = cost_us(t, &token)};
}

static lh_status measure_with(const lh_compute *compute, uint32_t side, uint32_t prompt_rows,
                              lh_machine_speed *speed, lh_error *error) {
    trial t = {.compute = compute};
    lh_core_clock clock;
    lh_status status = prepare(&t, side, prompt_rows, error);
    if (status == LH_OK) {
        lh_core_clock_open(&clock, lh_thread_pool_slowdown(compute->pool));
        measure(&t, &clock, speed);
        lh_core_clock_close(&clock);
        status = compute->ops->settle(compute, error);
    }
    clean_up(&t);
    return status;
}

lh_status lh_machine_speed_measure(const lh_compute *compute, lh_machine_speed *speed,
                                   lh_error *error) {
    lh_status status = measure_with(compute, SIDE, PROMPT_ROWS, speed, error);
    if (status != LH_OK || compute->ops->is_host || speed->token_us > SLOW_US)
        return status;
    return measure_with(compute, DEVICE_SIDE, DEVICE_PROMPT_ROWS, speed, error);
}
