/* A list by names; a machine that is not in it is measured by the one that it resembles. */
#include "gateway/fleet/stage_speeds.h"

#include <math.h>
#include <string.h>

#define MIB 1048576.0

/* Measurements at the start of machines that are equal differ by as much, where others use the
 * machine as well: a newcomer that is this close is taken for the same. */
#define EQUAL_FACTOR 1.25

static double row_mib(const lh_model_profile *model, const lh_chain_stage *stage) {
    const uint64_t *bytes = model->row_bytes;
    double sum = 0;
    for (uint32_t i = stage->first_layer; i < stage->last_layer; i++)
        sum += (double)bytes[i];
    return sum / MIB;
}

static bool is_of_stage(const lh_stage_speed *speed, const lh_chain_stage *stage) {
    bool is_same = strcmp(speed->worker, stage->name) == 0 &&
                   speed->follower_count == stage->team.follower_count;
    for (uint32_t i = 0; i < speed->follower_count && is_same; i++)
        is_same = strcmp(speed->followers[i], stage->team.followers[i].name) == 0;
    return is_same;
}

/* Its own place, else a new one, else that of the one that was noted longest ago. */
static lh_stage_speed *place_of(lh_stage_speeds *speeds, const lh_chain_stage *stage) {
    lh_stage_speed *oldest = &speeds->speeds[0];
    for (uint32_t i = 0; i < speeds->count; i++) {
        lh_stage_speed *speed = &speeds->speeds[i];
        if (is_of_stage(speed, stage))
            return speed;
        oldest = speed->noted_us < oldest->noted_us ? speed : oldest;
    }
    return speeds->count < LH_STAGE_SPEEDS_MAX ? &speeds->speeds[speeds->count++] : oldest;
}

static void set_names(lh_stage_speed *speed, const lh_chain_stage *stage) {
    memcpy(speed->worker, stage->name, sizeof speed->worker);
    speed->follower_count = stage->team.follower_count;
    for (uint32_t i = 0; i < speed->follower_count; i++)
        memcpy(speed->followers[i], stage->team.followers[i].name, sizeof speed->followers[i]);
}

void lh_stage_speeds_note(lh_stage_speeds *speeds, const lh_model_profile *model,
                          const lh_chain *chain, uint32_t stage, const lh_registry *registry,
                          double times, int64_t now_us) {
    const lh_worker *worker = lh_chain_worker(chain, registry, stage);
    const lh_chain_stage *layers = &chain->stages[stage];
    if (!worker || worker->report.compute.point_count == 0 ||
        lh_chain_stage_state(chain, registry, stage) != LH_WORKER_READY)
        return;
    const lh_compute_profile *compute = &worker->report.compute;
    lh_stage_speed *speed = place_of(speeds, layers);
    bool had_head = speed->instance == worker->report.instance && is_of_stage(speed, layers) &&
                    compute->draw_us == 0;
    *speed = (lh_stage_speed){.instance = worker->report.instance,
                              .draw_us = had_head ? speed->draw_us : times * compute->draw_us,
                              .draw_more_us =
                                  had_head ? speed->draw_more_us : times * compute->draw_more_us,
                              .noted_us = now_us,
                              .start = worker->report.speed,
                              .point_count = compute->point_count,
                              .step_us = compute->step_us};
    set_names(speed, layers);
    double mib = row_mib(model, layers);
    for (uint32_t i = 0; i < compute->point_count; i++)
        speed->points[i] =
            (lh_compute_point){compute->points[i].rows, times * compute->points[i].us / mib};
    speed->attention_us =
        times * compute->us_per_row_position / (layers->last_layer - layers->first_layer);
}

/* ---- Machines that have had no stage ---- */

/* How many times as long as the other machine it takes for a step of so many rows. */
static double times_as_slow(const lh_machine_speed *speed, const lh_machine_speed *other,
                            uint32_t rows) {
    double times = fmax(speed->token_us, speed->prompt_us * rows) /
                   fmax(other->token_us, other->prompt_us * rows);
    return times < EQUAL_FACTOR && times > 1 / EQUAL_FACTOR ? 1 : times;
}

static double distance(const lh_machine_speed *a, const lh_machine_speed *b) {
    return fabs(log(a->token_us / b->token_us)) + fabs(log(a->prompt_us / b->prompt_us));
}

/* The one that is most like it; of equal ones the first by name, so that the order in which they
 * came does not matter. */
static const lh_stage_speed *find_like(const lh_stage_speeds *speeds,
                                       const lh_machine_speed *speed) {
    const lh_stage_speed *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < speeds->count; i++) {
        const lh_stage_speed *other = &speeds->speeds[i];
        double apart = lh_machine_speed_is_known(&other->start) && other->follower_count == 0
                           ? distance(speed, &other->start)
                           : INFINITY;
        if (isinf(apart) || apart > least ||
            (apart == least && strcmp(other->worker, best->worker) > 0))
            continue;
        best = other;
        least = apart;
    }
    return best;
}

static const lh_stage_speed *find_own(const lh_stage_speeds *speeds,
                                      const lh_worker_report *report) {
    for (uint32_t i = 0; i < speeds->count; i++)
        if (speeds->speeds[i].instance == report->instance &&
            speeds->speeds[i].follower_count == 0 &&
            strcmp(speeds->speeds[i].worker, report->name) == 0)
            return &speeds->speeds[i];
    return NULL;
}

/* From the one that had it last. */
static void infer_head(const lh_stage_speeds *speeds, lh_stage_speed *speed) {
    const lh_stage_speed *last = NULL;
    for (uint32_t i = 0; i < speeds->count; i++)
        if (speeds->speeds[i].draw_us > 0 && speeds->speeds[i].follower_count == 0 &&
            (!last || speeds->speeds[i].noted_us > last->noted_us))
            last = &speeds->speeds[i];
    if (!last || speed->draw_us > 0)
        return;
    double times = speed->points[0].us / last->points[0].us;
    speed->draw_us = last->draw_us * times;
    speed->draw_more_us = last->draw_more_us * times;
}

/* By the machine that is most like it. False: there is none. */
static bool infer(const lh_stage_speeds *speeds, const lh_worker_report *report,
                  lh_stage_speed *speed) {
    const lh_stage_speed *like =
        lh_machine_speed_is_known(&report->speed) ? find_like(speeds, &report->speed) : NULL;
    if (!like)
        return false;
    *speed = *like;
    memcpy(speed->worker, report->name, sizeof speed->worker);
    speed->instance = report->instance;
    speed->start = report->speed;
    for (uint32_t i = 0; i < speed->point_count; i++)
        speed->points[i].us *= times_as_slow(&report->speed, &like->start, speed->points[i].rows);
    double many = times_as_slow(&report->speed, &like->start, LH_STEP_ROWS_MAX);
    speed->attention_us *= many;
    speed->step_us *= many;
    speed->draw_us = speed->draw_more_us = 0;
    return true;
}

bool lh_stage_speeds_find(const lh_stage_speeds *speeds, const lh_worker_report *report,
                          lh_stage_speed *speed) {
    const lh_stage_speed *own = find_own(speeds, report);
    if (!own && !infer(speeds, report, speed))
        return false;
    if (own)
        *speed = *own;
    infer_head(speeds, speed);
    return true;
}

/* ---- Teams ---- */

lh_stage_speed lh_stage_speeds_names(const lh_chain_stage *stage) {
    lh_stage_speed names = {0};
    set_names(&names, stage);
    return names;
}

static bool has_member(const lh_stage_speed *speed, const char *worker) {
    bool has = speed->follower_count > 0 && strcmp(speed->worker, worker) == 0;
    for (uint32_t i = 0; i < speed->follower_count && !has; i++)
        has = strcmp(speed->followers[i], worker) == 0;
    return has;
}

const lh_stage_speed *lh_stage_speeds_with(const lh_stage_speeds *speeds, const char *worker) {
    const lh_stage_speed *last = NULL;
    for (uint32_t i = 0; i < speeds->count; i++)
        if (has_member(&speeds->speeds[i], worker) &&
            (!last || speeds->speeds[i].noted_us > last->noted_us))
            last = &speeds->speeds[i];
    return last;
}
