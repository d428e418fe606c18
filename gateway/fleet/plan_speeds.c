/* One scale for all: the measurement's, or threads. */
#include "gateway/fleet/plan_speeds.h"

#include <stdbool.h>

/* Machines whose times are this close are taken for equal. Where machines are shared, the same one is measured half as fast now and
 * then; and what an uneven split could gain between two that differ by so much is an eighth. */
#define EQUAL_FACTOR 1.25

/* Without a measurement: a row alone costs so much more than one of many, which share each read of the weights. */
#define ALONE_DEARER 6.0

static bool are_measured(const lh_plan_worker *workers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (workers[i].speed.prompt_us <= 0 || workers[i].speed.token_us <= 0)
            return false;
    return true;
}

static double *time_of(lh_plan_worker *worker, bool is_token) {
    return is_token ? &worker->speed.token_us : &worker->speed.prompt_us;
}

/* The least time that is at least `from`. False: there is none. */
static bool find_least(lh_plan_worker *workers, uint32_t count, bool is_token, double from, double *least) {
    bool is_found = false;
    for (uint32_t i = 0; i < count; i++) {
        double us = *time_of(&workers[i], is_token);
        if (us >= from && (!is_found || us < *least)) {
            *least = us;
            is_found = true;
        }
    }
    return is_found;
}

/* From the fastest on: it, and all that are close to it, take its time; then the fastest of the rest. */
static void even_out(lh_plan_worker *workers, uint32_t count, bool is_token) {
    double least = 0, from = 0;
    while (find_least(workers, count, is_token, from, &least)) {
        double most = least * EQUAL_FACTOR;
        for (uint32_t i = 0; i < count; i++) {
            double *us = time_of(&workers[i], is_token);
            if (*us >= least && *us < most)
                *us = least;
        }
        from = most;
    }
}

void lh_plan_speeds_compare(lh_plan_worker *workers, uint32_t count) {
    if (are_measured(workers, count)) {
        even_out(workers, count, false);
        even_out(workers, count, true);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        double threads = workers[i].threads ? workers[i].threads : 1;
        workers[i].speed = (lh_machine_speed){1 / threads, ALONE_DEARER / threads};
    }
}
