/* Wire types by the busy times of stages and hops. */
#include "gateway/wire_choice.h"

/* A hop must be busy for so much longer than the slowest stage to get q8, and for so little to get f16 again: the
 * estimates vary by a few per cent from one epoch to the next, and at the line nothing is to be gained. */
#define MORE 1.1
#define LESS 0.9

lh_wire_type lh_wire_choice_first(const lh_wire_policy *policy) {
    return policy->is_auto ? LH_WIRE_F16 : policy->type;
}

static bool depends_on_measurements(const lh_wire_policy *policy) {
    return policy->is_auto && policy->allows_q8;
}

bool lh_wire_choice_is_known(const lh_wire_policy *policy, const lh_wire_stage *stages, uint32_t count) {
    if (!depends_on_measurements(policy) || count < 2)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        if (stages[i].compute->point_count == 0 || (!is_last && stages[i].next->bytes_per_us <= 0))
            return false;
    }
    return true;
}

/* Of a row of a prompt, in steps as large as they were measured. Attention comes on top, and only makes a hop less
 * of a bottleneck. */
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

static bool is_bottleneck(const lh_wire_stage *stage, double stages_us, uint32_t width) {
    bool is_now = stage->wire == LH_WIRE_Q8;
    if (stage->next->bytes_per_us <= 0 || stages_us <= 0)
        return is_now;
    double hop_us = (double)lh_wire_bytes(LH_WIRE_F16, 1, width) / stage->next->bytes_per_us;
    return hop_us > stages_us * (is_now ? LESS : MORE);
}

bool lh_wire_choice_make(const lh_wire_policy *policy, uint32_t width, lh_wire_stage *stages,
                         uint32_t count) {
    double stages_us = slowest_row_us(stages, count);
    bool has_changed = false;
    for (uint32_t i = 0; i < count; i++) {
        bool wants_q8 =
            depends_on_measurements(policy) && i + 1 < count && is_bottleneck(&stages[i], stages_us, width);
        lh_wire_type wire = wants_q8 ? LH_WIRE_Q8 : lh_wire_choice_first(policy);
        has_changed = has_changed || wire != stages[i].wire;
        stages[i].wire = wire;
    }
    return has_changed;
}
