/* Extends each split of the first layers by a stage of a machine behind the last one. */
#include "gateway/plan/order_split.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define NOBODY UINT16_MAX

/* The best split of the layers before one, which ends with a stage of this machine. */
struct lh_split_state {
    double us; /* once around so far, or the sum of squares; INFINITY: cannot be */
    uint16_t before_layer, before;
    uint16_t stages;
};

/* What the slowest stage of an even split takes, for either kind of step. */
struct lh_split_slowest {
    double us, second_us;
};

lh_status lh_order_split_init(lh_order_split *split, const lh_parts *parts, const lh_parts *second,
                              uint32_t capacity, lh_error *error) {
    const size_t count = (size_t)(capacity + 1) * (parts->layers + 1);
    assert(capacity < NOBODY && parts->layers < NOBODY);
    assert(!second || second->machine_count == parts->machine_count);
    *split = (lh_order_split){.parts = parts, .second = second, .capacity = capacity};
    split->order = calloc((size_t)capacity + 1, sizeof *split->order);
    split->states = calloc(count, sizeof *split->states);
    if (second)
        split->slowest = calloc(count, sizeof *split->slowest);
    if (split->order && split->states && (split->slowest || !second))
        return LH_OK;
    lh_order_split_reset(split);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to split %u layers", parts->layers);
}

void lh_order_split_reset(lh_order_split *split) {
    free(split->order);
    free(split->states);
    free(split->slowest);
    *split = (lh_order_split){0};
}

static size_t index_of(const lh_order_split *s, uint32_t place, uint32_t layer) {
    return (size_t)place * (s->parts->layers + 1) + layer;
}

static lh_split_state *states_of(const lh_order_split *s, uint32_t place) {
    return s->states + index_of(s, place, 0);
}

static void forget(const lh_order_split *s) {
    assert(s->count <= s->capacity);
    for (size_t i = 0; i < index_of(s, s->count, 0); i++)
        s->states[i].us = INFINITY;
}

static void trace_back(const lh_order_split *s, uint32_t place, lh_layout *layout) {
    const lh_split_state *at = &states_of(s, place)[s->parts->layers];
    uint32_t last = s->parts->layers;
    layout->stage_count = at->stages;
    for (uint32_t i = at->stages; i-- > 0;) {
        assert(at->before_layer < last);
        layout->stages[i] = (lh_layout_stage){s->order[place], {at->before_layer, last}};
        last = at->before_layer;
        place = at->before;
        if (i > 0)
            at = &states_of(s, place)[last];
    }
    assert(last == 0);
}

/* ---- The shortest ring ---- */

/* Adds all stages of the machine at `place` that begin at this layer; the machine at `before` has
 * the stage before it. */
static void extend(const lh_order_split *s, uint32_t place, uint32_t layer, uint32_t before,
                   uint32_t stages, double us, double limit_us) {
    const lh_part_machine *machine = &s->parts->machines[s->order[place]];
    lh_split_state *to = states_of(s, place);
    for (uint32_t last = layer + 1; last <= s->parts->layers; last++) {
        lh_map_layers layers = {layer, last};
        double busy_us, then_us = us + lh_parts_stage_us(s->parts, machine, layers, &busy_us);
        if (busy_us > limit_us)
            return;
        if (then_us < to[last].us && lh_parts_may_hold(s->parts, machine, layers))
            to[last] = (lh_split_state){then_us, (uint16_t)layer, (uint16_t)before,
                                        (uint16_t)(stages + 1)};
    }
}

bool lh_order_split_find(void *context, double busiest_max_us, lh_part_ring *ring) {
    const lh_order_split *s = context;
    uint32_t layers = s->parts->layers, best = NOBODY;
    double best_us = INFINITY;
    forget(s);
    for (uint32_t place = 0; place < s->count; place++) {
        uint32_t site = s->parts->machines[s->order[place]].site;
        const lh_part_hop *in = &s->parts->hops[LH_PART_GATEWAY][site],
                          *back = &s->parts->hops[site][LH_PART_GATEWAY];
        if (in->busy_us <= busiest_max_us)
            extend(s, place, 0, NOBODY, 0, lh_part_hop_us(in), busiest_max_us);
        const lh_split_state *here = states_of(s, place);
        for (uint32_t next = place + 1; next < s->count; next++) {
            const lh_part_hop *hop = &s->parts->hops[site][s->parts->machines[s->order[next]].site];
            if (hop->busy_us > busiest_max_us)
                continue;
            for (uint32_t layer = 1; layer < layers; layer++)
                if (isfinite(here[layer].us) && here[layer].stages < LH_LAYOUT_STAGES_MAX)
                    extend(s, next, layer, place, here[layer].stages,
                           here[layer].us + lh_part_hop_us(hop), busiest_max_us);
        }
        if (back->busy_us <= busiest_max_us && here[layers].us + lh_part_hop_us(back) < best_us) {
            best_us = here[layers].us + lh_part_hop_us(back);
            best = place;
        }
    }
    if (best == NOBODY || isinf(best_us))
        return false;
    trace_back(s, best, &ring->layout);
    lh_parts_measure(s->parts, ring);
    return true;
}

/* ---- The even split ---- */

static bool is_more_even(const lh_split_slowest *a, double a_squares, const lh_split_slowest *b,
                         double b_squares) {
    if (isinf(b_squares) || a->us != b->us)
        return isinf(b_squares) || a->us < b->us;
    if (a->second_us != b->second_us)
        return a->second_us < b->second_us;
    return a_squares < b_squares;
}

/* Adds all stages of the machine at `place` that begin at this layer and leave a layer to each
 * machine behind it. */
static void extend_evenly(const lh_order_split *s, uint32_t place, uint32_t layer,
                          double squares_before, const lh_split_slowest *before) {
    const lh_part_machine *machine = &s->parts->machines[s->order[place]],
                          *second = &s->second->machines[s->order[place]];
    for (uint32_t last = layer + 1; last + (s->count - place - 1) <= s->parts->layers; last++) {
        const lh_map_layers layers = {layer, last};
        if (!lh_parts_may_hold(s->parts, machine, layers))
            continue;
        double busy_us, us = lh_parts_stage_us(s->parts, machine, layers, &busy_us),
                        second_us = lh_parts_stage_us(s->second, second, layers, &busy_us);
        const lh_split_slowest slowest = {fmax(before->us, us), fmax(before->second_us, second_us)};
        const double squares = squares_before + us * us;
        lh_split_state *to = &states_of(s, place)[last];
        lh_split_slowest *slowest_to = &s->slowest[index_of(s, place, last)];
        if (!is_more_even(&slowest, squares, slowest_to, to->us))
            continue;
        *slowest_to = slowest;
        *to = (lh_split_state){squares, (uint16_t)layer, (uint16_t)(place > 0 ? place - 1 : NOBODY),
                               (uint16_t)(place + 1)};
    }
}

bool lh_order_split_evenly(lh_order_split *split, lh_layout *layout) {
    const uint32_t count = split->count, layers = split->parts->layers;
    assert(split->second && count <= LH_LAYOUT_STAGES_MAX);
    if (count == 0)
        return false;
    forget(split);
    extend_evenly(split, 0, 0, 0, &(lh_split_slowest){0});
    for (uint32_t place = 1; place < count; place++)
        for (uint32_t layer = place; layer < layers; layer++) {
            const size_t before = index_of(split, place - 1, layer);
            if (isfinite(split->states[before].us))
                extend_evenly(split, place, layer, split->states[before].us,
                              &split->slowest[before]);
        }
    if (isinf(states_of(split, count - 1)[layers].us))
        return false;
    trace_back(split, count - 1, layout);
    assert(layout->stage_count == count);
    return true;
}
