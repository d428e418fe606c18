/* Forward over the sets of machines, each of which is greater than those before it. */
#include "gateway/plan/machine_subsets.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* So that a sum that is rounded is no more than it should be. */
#define ROUNDING 1e-12

typedef struct state {
    double us; /* once around so far; INFINITY: cannot be */
    uint16_t before_layer;
    uint8_t before_machine;
} state;

struct lh_machine_subsets {
    const lh_parts *parts;
    uint32_t count, row;                   /* row: layers + 1 */
    state *states;                         /* [2^count][count][row] */
    double rest_us[LH_MAP_LAYERS_MAX + 1]; /* the least that the layers from this one on cost */
};

/* The best way home. */
typedef struct arrival {
    double us;
    uint32_t mask, machine, layer; /* the last stage's machine, and its first layer */
    uint32_t before_machine;
} arrival;

lh_status lh_machine_subsets_create(const lh_parts *parts, lh_machine_subsets **subsets,
                                    lh_error *error) {
    lh_machine_subsets *s = calloc(1, sizeof *s);
    assert(parts->machine_count <= LH_MACHINE_SUBSETS_MAX);
    if (s) {
        *s = (lh_machine_subsets){
            .parts = parts, .count = parts->machine_count, .row = parts->layers + 1};
        s->states = malloc((((size_t)1 << s->count) * s->count * s->row + 1) * sizeof(state));
    }
    if (!s || !s->states) {
        free(s);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines",
                       parts->machine_count);
    }
    *subsets = s;
    return LH_OK;
}

void lh_machine_subsets_destroy(lh_machine_subsets *subsets) {
    if (!subsets)
        return;
    free(subsets->states);
    free(subsets);
}

static state *states_of(const lh_machine_subsets *s, uint32_t mask, uint32_t machine) {
    return s->states + ((size_t)mask * s->count + machine) * s->row;
}

/* All stages of one machine that begin where another ends. */
typedef struct extension {
    uint32_t before_mask, before_machine, machine, layer;
    double us; /* until it begins: with the hop to it */
} extension;

static void extend(const lh_machine_subsets *s, const extension *e, double limit_us,
                   arrival *best) {
    const lh_part_machine *machine = &s->parts->machines[e->machine];
    const lh_part_hop *back = &s->parts->hops[machine->site][LH_PART_GATEWAY];
    uint32_t mask = e->before_mask | 1u << e->machine;
    state *to = states_of(s, mask, e->machine);
    for (uint32_t last = e->layer + 1; last < s->row; last++) {
        lh_map_layers layers = {e->layer, last};
        double busy_us, us = e->us + lh_parts_stage_us(s->parts, machine, layers, &busy_us);
        if (busy_us > limit_us)
            return; /* more layers take longer */
        if (us + s->rest_us[last] >= best->us)
            return; /* nor do they get cheaper than they are where they are cheapest */
        if (!lh_parts_may_hold(s->parts, machine, layers))
            continue;
        if (last + 1 == s->row) {
            us += lh_part_hop_us(back);
            if (back->busy_us <= limit_us && us < best->us)
                *best = (arrival){us, mask, e->machine, e->layer, e->before_machine};
        } else if (us < to[last].us) {
            to[last] = (state){us, (uint16_t)e->layer, (uint8_t)e->before_machine};
        }
    }
}

static void begin(const lh_machine_subsets *s, double limit_us, arrival *best) {
    for (uint32_t m = 0; m < s->count; m++) {
        const lh_part_hop *hop = &s->parts->hops[LH_PART_GATEWAY][s->parts->machines[m].site];
        const extension e = {0, m, m, 0, lh_part_hop_us(hop)};
        if (hop->busy_us <= limit_us)
            extend(s, &e, limit_us, best);
    }
}

static void go_on(const lh_machine_subsets *s, uint32_t mask, uint32_t last, double limit_us,
                  arrival *best) {
    const state *from = states_of(s, mask, last);
    for (uint32_t next = 0; next < s->count; next++) {
        const lh_part_hop *hop =
            &s->parts->hops[s->parts->machines[last].site][s->parts->machines[next].site];
        if (mask & 1u << next || hop->busy_us > limit_us)
            continue;
        for (uint32_t layer = 1; layer + 1 < s->row; layer++) {
            const extension e = {mask, last, next, layer, from[layer].us + lh_part_hop_us(hop)};
            if (e.us + s->rest_us[layer] < best->us)
                extend(s, &e, limit_us, best);
        }
    }
}

static void trace_back(const lh_machine_subsets *s, const arrival *best, lh_layout *layout) {
    lh_layout_stage reversed[LH_MACHINE_SUBSETS_MAX];
    uint32_t count = 0, mask = best->mask, machine = best->machine,
             before_machine = best->before_machine, first = best->layer, last = s->row - 1;
    for (;;) {
        assert(count < s->count && first < last && mask & 1u << machine);
        reversed[count++] = (lh_layout_stage){machine, {first, last}};
        if (first == 0)
            break;
        mask &= ~(1u << machine);
        machine = before_machine;
        const state *at = &states_of(s, mask, machine)[first];
        last = first;
        first = at->before_layer;
        before_machine = at->before_machine;
    }
    layout->stage_count = count;
    for (uint32_t i = 0; i < count; i++)
        layout->stages[i] = reversed[count - 1 - i];
}

static void find_rests(lh_machine_subsets *s) {
    double least_us = INFINITY;
    for (uint32_t m = 0; m < s->count; m++)
        least_us = fmin(least_us, s->parts->machines[m].mib_us);
    for (uint32_t layer = 0; layer < s->row; layer++)
        s->rest_us[layer] =
            (s->parts->row_mib[s->row - 1] - s->parts->row_mib[layer]) * least_us * (1 - ROUNDING);
}

bool lh_machine_subsets_find(void *context, double busiest_max_us, lh_part_ring *ring) {
    lh_machine_subsets *s = context;
    size_t count = ((size_t)1 << s->count) * s->count * s->row;
    arrival best = {.us = ring->ring_us, .layer = s->row};
    find_rests(s);
    for (size_t i = 0; i < count; i++)
        s->states[i].us = INFINITY;
    begin(s, busiest_max_us, &best);
    for (uint32_t mask = 1; mask < 1u << s->count; mask++)
        for (uint32_t last = 0; last < s->count; last++)
            if (mask & 1u << last)
                go_on(s, mask, last, busiest_max_us, &best);
    if (best.layer == s->row)
        return false;
    trace_back(s, &best, &ring->layout);
    lh_parts_measure(s->parts, ring);
    return true;
}
