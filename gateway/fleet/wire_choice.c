/* Wire types by the busy times of stages and hops. */
#include "gateway/fleet/wire_choice.h"

/* A hop gets q8 where it is busy for more than MORE times as long as the slowest stage, and f16
 * again where it is busy for less than LESS times: the estimates vary by a few per cent from one
 * epoch to the next, and at the line nothing is to be gained. */
#define MORE 1.1
#define LESS 0.9

lh_wire_type lh_wire_choice_first(const lh_wire_policy *policy) {
    return policy->is_auto ? LH_WIRE_F16 : policy->type;
}

static bool depends_on_measurements(const lh_wire_policy *policy) {
    return policy->is_auto && policy->allows_q8;
}

/* Of a row of a prompt, in steps as large as they were measured. Attention comes on top, and only
 * makes a hop less of a bottleneck. */
static double row_us(const lh_compute_profile *compute) {
    if (compute->point_count == 0)
        return 0;
    const lh_compute_point *largest = &compute->points[compute->point_count - 1];
    return largest->us / largest->rows;
}

static double slowest_row_us(const lh_wire_stage *stages, uint32_t count) {
    double slowest = 0;
    for (uint32_t i = 0; i < count; i++) {
        double us = row_us(stages[i].compute);
        slowest = us > slowest ? us : slowest;
    }
    return slowest;
}

typedef enum hop_load { LOAD_UNKNOWN, LOAD_LIGHT, LOAD_BOTTLENECK } hop_load;

/* A bound may show that a hop is fast enough, never that it is too slow. */
static hop_load load_of(const lh_wire_stage *stage, double stages_us, uint32_t width) {
    if (stage->next->bytes_per_us <= 0 || stages_us <= 0)
        return LOAD_UNKNOWN;
    double hop_us = (double)lh_wire_bytes(LH_WIRE_F16, 1, width) / stage->next->bytes_per_us;
    if (hop_us <= stages_us * (stage->wire == LH_WIRE_Q8 ? LESS : MORE))
        return LOAD_LIGHT;
    return stage->next->bytes_per_us_is_bound ? LOAD_UNKNOWN : LOAD_BOTTLENECK;
}

bool lh_wire_choice_is_known(const lh_wire_policy *policy, uint32_t width,
                             const lh_wire_stage *stages, uint32_t count) {
    if (!depends_on_measurements(policy) || count < 2)
        return true;
    double stages_us = slowest_row_us(stages, count);
    for (uint32_t i = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        if (stages[i].compute->point_count == 0 ||
            (!is_last && load_of(&stages[i], stages_us, width) == LOAD_UNKNOWN))
            return false;
    }
    return true;
}

static lh_wire_type choose(const lh_wire_stage *stage, double stages_us, uint32_t width) {
    hop_load load = load_of(stage, stages_us, width);
    if (load == LOAD_UNKNOWN)
        return stage->wire;
    return load == LOAD_BOTTLENECK ? LH_WIRE_Q8 : LH_WIRE_F16;
}

bool lh_wire_choice_make(const lh_wire_policy *policy, uint32_t width, lh_wire_stage *stages,
                         uint32_t count) {
    double stages_us = slowest_row_us(stages, count);
    bool has_changed = false;
    for (uint32_t i = 0; i < count; i++) {
        lh_wire_type wire = lh_wire_choice_first(policy);
        if (depends_on_measurements(policy) && i + 1 < count)
            wire = choose(&stages[i], stages_us, width);
        has_changed = has_changed || wire != stages[i].wire;
        stages[i].wire = wire;
    }
    return has_changed;
}
