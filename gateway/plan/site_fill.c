/* Machine after machine, each with no layer or some. */
#include "gateway/plan/site_fill.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a great site: as many as a chain can have, and some that are slower and hold more. */
#define FASTEST_MAX 64u
#define LARGEST_MAX 16u

/* A choice is the layers that a machine takes, and what besides. */
#define CHOICE_OF(layers, kind) ((uint16_t)((layers) * LH_FILL_KINDS + (kind)))

/* ---- Life ---- */

static uint32_t count_machines(const lh_parts *parts, uint32_t site) {
    uint32_t count = 0;
    for (uint32_t m = 0; m < parts->machine_count; m++)
        count += parts->machines[m].site == site &&
                 parts->machines[m].pinned.first == parts->machines[m].pinned.last;
    return count;
}

/* The parts have the fastest ones first. */
static void take_machines(lh_site_fill *fill, const lh_parts *parts) {
    uint32_t capacity = fill->count;
    fill->count = 0;
    for (uint32_t m = 0; m < parts->machine_count; m++) {
        const lh_part_machine *machine = &parts->machines[m];
        if (machine->site != fill->site || machine->pinned.first < machine->pinned.last)
            continue;
        if (fill->count < capacity) {
            fill->machines[fill->count++] = m;
            continue;
        }
        uint32_t least = FASTEST_MAX;
        for (uint32_t i = least + 1; i < fill->count; i++)
            if (parts->machines[fill->machines[i]].memory_bytes <
                parts->machines[fill->machines[least]].memory_bytes)
                least = i;
        if (parts->machines[fill->machines[least]].memory_bytes < machine->memory_bytes)
            fill->machines[least] = m;
    }
}

lh_status lh_site_fill_init(lh_site_fill *fill, const lh_parts *parts, uint32_t site,
                            uint32_t layers, lh_error *error) {
    uint32_t count = lh_min_u32(count_machines(parts, site), FASTEST_MAX + LARGEST_MAX);
    *fill = (lh_site_fill){.site = site, .count = count, .row = layers + 1};
    fill->machines = calloc((size_t)count + 1, sizeof *fill->machines);
    fill->us = calloc((size_t)LH_FILL_KINDS * fill->row, sizeof *fill->us);
    fill->choices = calloc(((size_t)count + 1) * LH_FILL_KINDS * fill->row, sizeof *fill->choices);
    if (!fill->machines || !fill->us || !fill->choices) {
        lh_site_fill_reset(fill);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines of a site",
                       count);
    }
    take_machines(fill, parts);
    return LH_OK;
}

void lh_site_fill_reset(lh_site_fill *fill) {
    free(fill->choices);
    free(fill->us);
    free(fill->machines);
    *fill = (lh_site_fill){0};
}

/* ---- Costs ---- */

/* What one machine may take, by kind. */
typedef struct offer {
    double layer_us, base_us[LH_FILL_KINDS];
    uint32_t most[LH_FILL_KINDS]; /* layers */
} offer;

static uint32_t layers_within(double room, double each, uint32_t most) {
    double layers = each > 0 ? room / each * (1 + 1e-12) : INFINITY;
    return room < 0 ? 0 : layers < most ? (uint32_t)layers : most;
}

static offer offer_of(const lh_part_machine *machine, const lh_fill_layer *layer, double limit_us) {
    offer o = {.layer_us = layer->row_mib * machine->mib_us + machine->layer_us};
    for (uint32_t kind = 0; kind < LH_FILL_KINDS; kind++) {
        bool is_last = kind & LH_FILL_LAST && layer->head_bytes > 0;
        double besides = (kind & LH_FILL_FIRST && layer->embedding_bytes > 0
                              ? (double)layer->embedding_bytes + (double)machine->first_extra_bytes
                              : 0) +
                         (is_last ? (double)layer->head_bytes : 0);
        double busy_us = machine->fixed_us + (is_last ? machine->head_busy_us : 0);
        uint32_t by_memory = layers_within((double)machine->memory_bytes - besides,
                                           (double)layer->held_bytes, layer->count),
                 by_time = layers_within(limit_us - busy_us, o.layer_us, layer->count);
        o.base_us[kind] = machine->fixed_us + (is_last ? machine->head_us : 0);
        o.most[kind] = lh_min_u32(lh_min_u32(by_memory, by_time), machine->layers_max);
    }
    return o;
}

/* The site's best for n layers with what the machine can add to fewer, of which those before it can
 * have `before` at most. Entries of fewer layers are still those without it. */
static void add_machine(lh_site_fill *fill, uint16_t *choices, const offer *o, double hop_us,
                        uint32_t before, uint32_t kind, uint32_t n) {
    double *best = &fill->us[kind * fill->row + n];
    for (uint32_t own = 0; own <= kind; own++) {
        if ((own & kind) != own)
            continue;
        const double *others = fill->us + (kind & ~own) * fill->row;
        uint32_t most = lh_min_u32(o->most[own], n), least = n > before ? n - before : 1;
        for (uint32_t layers = least; layers <= most; layers++) {
            double us = others[n - layers] + o->base_us[own] + layers * o->layer_us +
                        (layers < n ? hop_us : 0);
            if (us < *best) {
                *best = us;
                choices[kind * fill->row + n] = CHOICE_OF(layers, own);
            }
        }
    }
}

void lh_site_fill_compute(lh_site_fill *fill, const lh_parts *parts, const lh_fill_layer *layer,
                          double limit_us) {
    const lh_part_hop *inside = &parts->hops[fill->site][fill->site];
    double hop_us = inside->busy_us <= limit_us ? lh_part_hop_us(inside) : INFINITY;
    size_t row = fill->row, table = LH_FILL_KINDS * row;
    assert(layer->count + 1 == fill->row);
    for (size_t i = 0; i < table; i++)
        fill->us[i] = INFINITY;
    fill->us[0] = 0;
    memset(fill->choices, 0, fill->count * table * sizeof *fill->choices);
    uint32_t reached = 0; /* layers that those so far can have together */
    for (uint32_t i = 0; i < fill->count; i++) {
        offer o = offer_of(&parts->machines[fill->machines[i]], layer, limit_us);
        uint32_t before = reached;
        reached = lh_min_u32(reached + o.most[0], layer->count);
        for (uint32_t n = reached; n > 0; n--)
            for (uint32_t kind = 0; kind < LH_FILL_KINDS; kind++)
                add_machine(fill, fill->choices + i * table, &o, hop_us, before, kind, n);
    }
}

/* ---- Stages ---- */

static void insert(lh_layout *layout, uint32_t at, const lh_layout_stage *stage) {
    for (uint32_t i = layout->stage_count++; i > at; i--)
        layout->stages[i] = layout->stages[i - 1];
    layout->stages[at] = *stage;
}

bool lh_site_fill_append(const lh_site_fill *fill, uint32_t kind, uint32_t layers,
                         lh_layout *layout) {
    uint32_t begin = layout->stage_count, end = 0;
    bool has_last = false;
    for (uint32_t i = fill->count; i-- > 0 && layers > 0;) {
        uint16_t choice = fill->choices[((size_t)i * LH_FILL_KINDS + kind) * fill->row + layers];
        uint32_t own = choice % LH_FILL_KINDS, taken = choice / LH_FILL_KINDS;
        const lh_layout_stage stage = {fill->machines[i], {0, taken}};
        if (taken == 0)
            continue;
        if (layout->stage_count == LH_LAYOUT_STAGES_MAX)
            return false;
        end = layout->stage_count - (has_last && !(own & LH_FILL_LAST));
        insert(layout, own & LH_FILL_FIRST ? begin : end, &stage);
        has_last |= (own & LH_FILL_LAST) != 0;
        kind &= ~own;
        layers -= taken;
        begin += (own & LH_FILL_FIRST) != 0;
    }
    assert(layers == 0 || layout->stage_count > 0);
    return true;
}
