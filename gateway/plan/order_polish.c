/* All moves are changes of one list, of which the split leaves out what does not help. */
#include "gateway/plan/order_polish.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Beside each site's machines in the order. */
#define BESIDE_MAX 4u
/* Of the layout's stages, with those beside and the pinned ones. */
#define ORDER_MAX 160u
/* Limits that one order is split with. */
#define SPLIT_TRIES 24u
#define MOVE_TRIES  4u
/* How much longer than with layers of one size the busiest stage may be. */
#define BUSIEST_SLACK 1.3
/* Stages that one polish may try, at about 2 ns each. */
#define WORK_MAX 8e6
/* For so few machines that each move may matter. */
#define FEW          16u
#define WORK_MAX_FEW 5e7

lh_status lh_order_polish_init(lh_order_polish *polish, lh_parts *parts, const lh_aim *aim,
                               lh_error *error) {
    *polish = (lh_order_polish){.parts = parts,
                                .aim = aim,
                                .work_left = parts->machine_count <= FEW ? WORK_MAX_FEW : WORK_MAX};
    polish->kept = calloc(ORDER_MAX, sizeof *polish->kept);
    if (!polish->kept)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to split the layers");
    return lh_order_split_init(&polish->split, parts, NULL, ORDER_MAX, error);
}

void lh_order_polish_reset(lh_order_polish *polish) {
    lh_order_split_reset(&polish->split);
    free(polish->kept);
    *polish = (lh_order_polish){0};
}

/* ---- The list ---- */

static bool is_listed(const lh_order_split *split, uint32_t machine) {
    for (uint32_t i = 0; i < split->count; i++)
        if (split->order[i] == machine)
            return true;
    return false;
}

static void insert(lh_order_split *split, uint32_t at, uint32_t machine) {
    assert(at <= split->count && split->count < split->capacity);
    memmove(split->order + at + 1, split->order + at, (split->count - at) * sizeof *split->order);
    split->order[at] = machine;
    split->count++;
}

static uint32_t remove_at(lh_order_split *split, uint32_t at) {
    assert(at < split->count);
    uint32_t machine = split->order[at];
    split->count--;
    memmove(split->order + at, split->order + at + 1, (split->count - at) * sizeof *split->order);
    return machine;
}

static bool is_pinned(const lh_part_machine *machine) {
    return machine->pinned.first < machine->pinned.last;
}

/* Behind the last of its site, or where the list ends. */
static uint32_t place_beside(const lh_order_polish *p, uint32_t site) {
    for (uint32_t i = p->split.count; i > 0; i--)
        if (p->parts->machines[p->split.order[i - 1]].site == site)
            return i;
    return p->split.count;
}

static bool has_site(const lh_order_polish *p, uint32_t site) {
    for (uint32_t i = 0; i < p->split.count; i++)
        if (p->parts->machines[p->split.order[i]].site == site)
            return true;
    return false;
}

static void add_those_beside(lh_order_polish *p) {
    uint32_t added[LH_MAP_SITES_MAX] = {0};
    for (uint32_t m = 0; m < p->parts->machine_count && p->split.count < ORDER_MAX; m++) {
        const lh_part_machine *machine = &p->parts->machines[m];
        if (is_pinned(machine) || added[machine->site] == BESIDE_MAX || is_listed(&p->split, m) ||
            !has_site(p, machine->site))
            continue;
        added[machine->site]++;
        insert(&p->split, place_beside(p, machine->site), m);
    }
}

/* Where the layers before it have been dealt. */
static void add_pinned(lh_order_polish *p, const lh_found *from) {
    for (;;) {
        uint32_t first = UINT32_MAX, next = UINT32_MAX, layer = 0, at = 0;
        for (uint32_t m = 0; m < p->parts->machine_count; m++) {
            const lh_part_machine *machine = &p->parts->machines[m];
            if (is_pinned(machine) && !is_listed(&p->split, m) && machine->pinned.first < first) {
                first = machine->pinned.first;
                next = m;
            }
        }
        if (next == UINT32_MAX || p->split.count == ORDER_MAX)
            return;
        while (at < p->split.count && layer < first) {
            uint32_t listed = p->split.order[at++];
            const lh_part_machine *machine = &p->parts->machines[listed];
            if (is_pinned(machine))
                layer += machine->pinned.last - machine->pinned.first;
            for (uint32_t s = 0; s < from->ring.layout.stage_count; s++)
                if (from->ring.layout.stages[s].machine == listed)
                    layer += from->ring.layout.stages[s].layers.last;
        }
        insert(&p->split, at, next);
    }
}

static void list_layout(lh_order_polish *p, const lh_layout *layout) {
    p->split.count = 0;
    for (uint32_t s = 0; s < layout->stage_count; s++)
        p->split.order[p->split.count++] = layout->stages[s].machine;
}

/* ---- Tries ---- */

/* Of one limit: from each machine to each behind it, from each layer as many layers as go. */
static double work_of(const lh_order_polish *p, double limit_us) {
    double count = p->split.count, layers = p->parts->layers, cap = 1;
    for (uint32_t i = 0; i < p->split.count; i++) {
        const lh_part_machine *m = &p->parts->machines[p->split.order[i]];
        double each_us = p->parts->row_mib[p->parts->layers] / layers * m->mib_us + m->layer_us;
        cap = fmax(cap, fmin(limit_us / each_us, layers));
    }
    return count * (count + 1) / 2 * layers * cap / 2;
}

static bool try_order(lh_order_polish *p, const lh_aim_size *size, double from_us, uint32_t tries,
                      lh_found *best) {
    const lh_limit_search search = {.find = lh_order_split_find,
                                    .context = &p->split,
                                    .aim = p->aim,
                                    .size = size,
                                    .tries_max = tries,
                                    .from_us = from_us};
    double before = best->value;
    p->work_left -= tries * work_of(p, from_us);
    lh_limit_search_run(&search, best);
    return best->value < before;
}

void lh_order_polish_split(lh_order_polish *polish, const lh_found *from, lh_found *best) {
    lh_parts_price(polish->parts, polish->aim, &from->size);
    list_layout(polish, &from->ring.layout);
    add_pinned(polish, from);
    add_those_beside(polish);
    if (!try_order(polish, &from->size, from->ring.busiest_us * BUSIEST_SLACK, SPLIT_TRIES, best) &&
        isinf(best->value))
        try_order(polish, &from->size, INFINITY, SPLIT_TRIES, best);
}

/* ---- Moves ---- */

typedef struct mover {
    lh_order_polish *polish;
    lh_found *best;
    bool has_gained;
} mover;

static void keep(mover *m) {
    memcpy(m->polish->kept, m->polish->split.order,
           m->polish->split.count * sizeof *m->polish->kept);
}

static bool has_work(const mover *m) {
    return m->polish->work_left > 0 && !m->has_gained;
}

/* The list as it has been changed; it is `count` long when it is put back. */
static void try_move(mover *m, uint32_t count) {
    lh_order_polish *p = m->polish;
    const lh_aim_size size = m->best->size;
    m->has_gained =
        try_order(p, &size, m->best->ring.busiest_us * BUSIEST_SLACK, MOVE_TRIES, m->best);
    memcpy(p->split.order, p->kept, count * sizeof *p->kept);
    p->split.count = count;
}

static void try_newcomers(mover *m) {
    lh_order_split *split = &m->polish->split;
    uint32_t count = split->count;
    for (uint32_t u = 0; u < m->polish->parts->machine_count && has_work(m); u++) {
        if (is_listed(split, u) || is_pinned(&m->polish->parts->machines[u]))
            continue;
        for (uint32_t at = 0; at <= count && count < ORDER_MAX && has_work(m); at++) {
            insert(split, at, u);
            try_move(m, count);
        }
    }
}

static void try_shifts(mover *m) {
    lh_order_split *split = &m->polish->split;
    uint32_t count = split->count;
    for (uint32_t from = 0; from < count && has_work(m); from++)
        for (uint32_t to = 0; to < count && has_work(m); to++) {
            if (to == from || to + 1 == from)
                continue;
            insert(split, to, remove_at(split, from));
            try_move(m, count);
        }
}

static void try_reversals(mover *m) {
    lh_order_split *split = &m->polish->split;
    uint32_t count = split->count;
    for (uint32_t first = 0; first < count && has_work(m); first++)
        for (uint32_t last = first + 1; last < count && has_work(m); last++) {
            for (uint32_t i = first; i <= last; i++)
                split->order[i] = m->polish->kept[first + last - i];
            try_move(m, count);
        }
}

void lh_order_polish_move(lh_order_polish *polish, lh_found *best) {
    mover m = {polish, best, isfinite(best->value)};
    while (m.has_gained && polish->work_left > 0) {
        m.has_gained = false;
        lh_parts_price(polish->parts, polish->aim, &best->size);
        list_layout(polish, &best->ring.layout);
        keep(&m);
        try_shifts(&m);
        try_newcomers(&m);
        try_reversals(&m);
    }
}
