/* Wire types by the busy times of stages and hops. */
#include "gateway/fleet/wire_choice.h"

#include "common/base/log.h"

/* A hop gets q8 where it is busy for more than MORE times as long as the slowest stage, and f16
 * again where it is busy for less than LESS times: the estimates vary by a few per cent from one
 * epoch to the next, and at the line nothing is to be gained. */
#define MORE 1.1
#define LESS 0.9

static lh_wire_type first_type(const lh_wire_policy *policy) {
    return policy->is_auto ? LH_WIRE_F16 : policy->type;
}

void lh_wire_choice_begin(const lh_wire_policy *policy, lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        chain->stages[i].wire = first_type(policy);
}

static bool depends_on_measurements(const lh_wire_policy *policy) {
    return policy->is_auto && policy->allows_q8;
}

/* Of a row of a prompt, in steps as large as they were measured; 0: not known. Attention comes on
 * top, and only makes a hop less of a bottleneck. */
static double row_us(const lh_worker *worker) {
    if (!worker || worker->report.compute.point_count == 0)
        return 0;
    const lh_compute_profile *compute = &worker->report.compute;
    const lh_compute_point *largest = &compute->points[compute->point_count - 1];
    return largest->us / largest->rows;
}

static double slowest_row_us(const lh_chain *chain, const lh_registry *registry) {
    double slowest = 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        double us = row_us(lh_chain_worker(chain, registry, i));
        slowest = us > slowest ? us : slowest;
    }
    return slowest;
}

typedef enum hop_load { LOAD_UNKNOWN, LOAD_LIGHT, LOAD_BOTTLENECK } hop_load;

/* Of the hop behind a stage. A bound may show that it is fast enough, never that it is too slow. */
static hop_load load_of(const lh_worker *worker, lh_wire_type wire, double stages_us,
                        uint32_t width) {
    if (!worker || worker->report.next.bytes_per_us <= 0 || stages_us <= 0)
        return LOAD_UNKNOWN;
    double hop_us = (double)lh_wire_bytes(LH_WIRE_F16, 1, width) / worker->report.next.bytes_per_us;
    if (hop_us <= stages_us * (wire == LH_WIRE_Q8 ? LESS : MORE))
        return LOAD_LIGHT;
    return worker->report.next.bytes_per_us_is_bound ? LOAD_UNKNOWN : LOAD_BOTTLENECK;
}

bool lh_wire_choice_is_known(const lh_wire_policy *policy, uint32_t width, const lh_chain *chain,
                             const lh_registry *registry) {
    if (!depends_on_measurements(policy) || chain->stage_count < 2)
        return true;
    double stages_us = slowest_row_us(chain, registry);
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        bool is_last = i + 1 == chain->stage_count;
        if (row_us(worker) <= 0 ||
            (!is_last && load_of(worker, chain->stages[i].wire, stages_us, width) == LOAD_UNKNOWN))
            return false;
    }
    return true;
}

static lh_wire_type type_for(hop_load load, lh_wire_type present) {
    if (load == LOAD_UNKNOWN)
        return present;
    return load == LOAD_BOTTLENECK ? LH_WIRE_Q8 : LH_WIRE_F16;
}

bool lh_wire_choice_make(const lh_wire_policy *policy, uint32_t width, lh_chain *chain,
                         const lh_registry *registry) {
    double stages_us = slowest_row_us(chain, registry);
    bool has_changed = false;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        lh_chain_stage *stage = &chain->stages[i];
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        lh_wire_type wire = first_type(policy);
        if (depends_on_measurements(policy) && i + 1 < chain->stage_count)
            wire = type_for(load_of(worker, stage->wire, stages_us, width), stage->wire);
        if (wire == stage->wire)
            continue;
        lh_log(LH_LOG_INFO, "fleet", "wire type changes chain=%s worker=%s from=%s to=%s",
               chain->name, stage->name, lh_wire_name(stage->wire), lh_wire_name(wire));
        stage->wire = wire;
        has_changed = true;
    }
    return has_changed;
}
