/* Machines by what a byte costs on them, as if layers could be cut anywhere. */
#include "gateway/plan/ring_bound.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

/* Limits are tried by this factor, up to so many: a coarser grid makes a looser bound. */
#define LIMIT_FACTOR 1.03
#define LIMITS_MAX   1000u

typedef struct by_cost {
    double mib_us;
    uint32_t machine;
} by_cost;

struct lh_ring_bounds {
    const lh_parts *parts;
    by_cost *order;     /* [machine_count] */
    double held_to_row; /* MiB that rows meet, at most, for each byte held */
    double layer_mib;   /* that rows meet of a layer, at most */
    /* the least of any machine, or of any hop */
    double layer_us, head_us, fixed_us, in_us, out_us, inside_us, between_us;
};

lh_status lh_ring_bounds_create(const lh_parts *parts, lh_ring_bounds **bounds, lh_error *error) {
    lh_ring_bounds *b = calloc(1, sizeof *b);
    by_cost *order = calloc((size_t)parts->machine_count + 1, sizeof *order);
    if (!b || !order) {
        free(order);
        free(b);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to bound a plan for %u machines",
                       parts->machine_count);
    }
    b->parts = parts;
    b->order = order;
    const lh_model_profile *model = parts->model;
    for (uint32_t i = 0; i < model->layers; i++) {
        b->held_to_row =
            fmax(b->held_to_row, (double)model->row_bytes[i] / (double)model->layer_bytes[i] / MIB);
        b->layer_mib = fmax(b->layer_mib, (double)model->row_bytes[i] / MIB);
    }
    *bounds = b;
    return LH_OK;
}

void lh_ring_bounds_destroy(lh_ring_bounds *bounds) {
    if (!bounds)
        return;
    free(bounds->order);
    free(bounds);
}

static int compare_costs(const void *left, const void *right) {
    const by_cost *a = left, *b = right;
    if (a->mib_us != b->mib_us)
        return a->mib_us < b->mib_us ? -1 : 1;
    return (a->machine > b->machine) - (a->machine < b->machine);
}

static void find_least_of_machines(lh_ring_bounds *b) {
    const lh_parts *parts = b->parts;
    b->layer_us = b->head_us = b->fixed_us = b->in_us = b->out_us = INFINITY;
    for (uint32_t m = 0; m < parts->machine_count; m++) {
        const lh_part_machine *machine = &parts->machines[m];
        b->order[m] = (by_cost){machine->mib_us, m};
        b->layer_us = fmin(b->layer_us, machine->layer_us);
        b->head_us = fmin(b->head_us, machine->head_us);
        b->fixed_us = fmin(b->fixed_us, machine->fixed_us);
        b->in_us = fmin(b->in_us, lh_part_hop_us(&parts->hops[LH_PART_GATEWAY][machine->site]));
        b->out_us = fmin(b->out_us, lh_part_hop_us(&parts->hops[machine->site][LH_PART_GATEWAY]));
    }
    qsort(b->order, parts->machine_count, sizeof *b->order, compare_costs);
}

static void find_least_of_hops(lh_ring_bounds *b) {
    const lh_parts *parts = b->parts;
    bool has_machines[LH_MAP_SITES_MAX] = {false};
    for (uint32_t m = 0; m < parts->machine_count; m++)
        has_machines[parts->machines[m].site] = true;
    b->inside_us = b->between_us = INFINITY;
    for (uint32_t from = 0; from < parts->map->site_count; from++)
        for (uint32_t to = 0; to < parts->map->site_count; to++) {
            double us = lh_part_hop_us(&parts->hops[from][to]);
            double *least = from == to ? &b->inside_us : &b->between_us;
            if (has_machines[from] && has_machines[to])
                *least = fmin(*least, us);
        }
}

static double capacity_mib(const lh_ring_bounds *b, const lh_part_machine *machine,
                           double limit_us) {
    double by_memory = (double)machine->memory_bytes * b->held_to_row;
    double by_time =
        isinf(limit_us) ? INFINITY : fmax((limit_us - machine->fixed_us) / machine->mib_us, 0);
    return fmin(fmin(by_memory, machine->layers_max * b->layer_mib), by_time);
}

/* How many of the sites with the greatest capacities it takes; 0: all are too few. */
static uint32_t count_sites(const double *capacities, uint32_t count, double wanted) {
    bool is_taken[LH_MAP_SITES_MAX] = {false};
    for (uint32_t taken = 0; taken < count; taken++) {
        uint32_t most = UINT32_MAX;
        for (uint32_t s = 0; s < count; s++)
            if (!is_taken[s] && (most == UINT32_MAX || capacities[s] > capacities[most]))
                most = s;
        assert(most < count);
        is_taken[most] = true;
        wanted -= capacities[most];
        if (wanted <= 0)
            return taken + 1;
    }
    return 0;
}

/* Hops between stages; none is INFINITY where none is needed. */
static double hops_us(const lh_ring_bounds *b, uint32_t stages, uint32_t sites) {
    double us = 0;
    if (sites > 1)
        us += (sites - 1) * b->between_us;
    if (stages > sites)
        us += (stages - sites) * fmin(b->inside_us, b->between_us);
    return us;
}

/* False: the machines do not hold the model within the limit. */
static bool bound_ring(const lh_ring_bounds *b, double limit_us, lh_ring_bound *bound) {
    const lh_parts *parts = b->parts;
    double all_mib = parts->row_mib[parts->layers] * (1 - 1e-9), left_mib = all_mib, most_mib = 0,
           sites_mib[LH_MAP_SITES_MAX] = {0};
    *bound = (lh_ring_bound){.compute_us = parts->layers * b->layer_us, .head_us = b->head_us};
    for (uint32_t i = 0; i < parts->machine_count; i++) {
        const lh_part_machine *machine = &parts->machines[b->order[i].machine];
        double mib = capacity_mib(b, machine, limit_us), taken = fmin(mib, left_mib);
        bound->compute_us += taken * machine->mib_us;
        left_mib -= taken;
        most_mib = fmax(most_mib, mib);
        sites_mib[machine->site] += mib;
    }
    if (left_mib > 0)
        return false;
    bound->stages = lh_max_u32((uint32_t)ceil(all_mib / most_mib), 1);
    bound->sites = count_sites(sites_mib, parts->map->site_count, all_mib);
    bound->stages = lh_max_u32(bound->stages, bound->sites);
    bound->steps_us = bound->stages * b->fixed_us;
    bound->wires_us = b->in_us + b->out_us + hops_us(b, bound->stages, bound->sites);
    return isfinite(bound->wires_us);
}

static double ring_us(const lh_ring_bound *bound) {
    return bound->compute_us + bound->head_us + bound->steps_us + bound->wires_us;
}

/* No busiest stage is shorter. */
static double least_limit_us(const lh_ring_bounds *b) {
    double mib_per_us = 0;
    for (uint32_t m = 0; m < b->parts->machine_count; m++)
        mib_per_us += 1 / b->parts->machines[m].mib_us;
    return b->parts->row_mib[b->parts->layers] * (1 - 1e-9) / mib_per_us;
}

lh_ring_bound lh_ring_bounds_find(lh_ring_bounds *bounds, const lh_aim *aim,
                                  const lh_aim_size *size) {
    lh_ring_bound least = {.value = INFINITY}, widest, bound;
    find_least_of_machines(bounds);
    find_least_of_hops(bounds);
    if (bounds->parts->machine_count == 0 || !bound_ring(bounds, INFINITY, &widest))
        return least;
    double limit_us = least_limit_us(bounds);
    for (uint32_t i = 0; i < LIMITS_MAX; i++) {
        double next_us = i + 1 < LIMITS_MAX ? limit_us * LIMIT_FACTOR : INFINITY;
        widest.value = lh_aim_value(aim, size, ring_us(&widest), limit_us);
        if (widest.value >= least.value)
            break; /* it only grows with the limit */
        bool is_possible = bound_ring(bounds, next_us, &bound);
        bound.busiest_us = limit_us;
        if (is_possible)
            bound.value = lh_aim_value(aim, size, ring_us(&bound), limit_us);
        if (is_possible && bound.value < least.value)
            least = bound;
        limit_us = next_us;
    }
    return least;
}
