/* Few machines: all sets of them. Many: orders over sites first. */
#include "gateway/plan/layout_search.h"

#include "common/base/arithmetic.h"
#include "gateway/plan/machine_subsets.h"
#include "gateway/plan/order_polish.h"
#include "gateway/plan/site_search.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Orders over sites that are tried for one size. */
#define SITE_TRIES 16u
#define BEAM_TRIES 8u
/* The same for a plan that is wanted at once, and the sizes that are tried for it. */
#define QUICK_TRIES 6u
#define QUICK_SIZES 2u
/* Of the orders that were best in turn, those that are split with the layers' true sizes. */
#define ORDERS_MAX 3u

/* With few layers so many machines are few, too. */
#define EXACT_MACHINES_MAX 12u
#define EXACT_WORK_MAX     3e7

/* A site alone is split with the true sizes where it is not worse than this: they may suit it. */
#define NEARLY 1.05
/* Sums are rounded. */
#define ROUNDING 1e-12

typedef struct search {
    const lh_fleet_map *map;
    const lh_aim *aim;
    bool is_quick;
    lh_parts *parts;
    uint32_t size_count;
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    double floors[LH_AIM_SIZES_MAX]; /* no value of this size is less */
    lh_ring_bound bound;             /* of all sizes */
    lh_found best;
} search;

/* ---- What is possible ---- */

static lh_status find_bounds(search *s, lh_error *error) {
    lh_ring_bounds *bounds;
    lh_status status = lh_ring_bounds_create(s->parts, &bounds, error);
    if (status != LH_OK)
        return status;
    s->bound.value = INFINITY;
    for (uint32_t i = 0; i < s->size_count; i++) {
        lh_parts_price(s->parts, s->aim, &s->sizes[i]);
        lh_ring_bound bound = lh_ring_bounds_find(bounds, s->aim, &s->sizes[i]);
        s->floors[i] = bound.value;
        if (bound.value < s->bound.value)
            s->bound = bound;
    }
    lh_ring_bounds_destroy(bounds);
    return LH_OK;
}

/* The sizes that promise most come first: then the others need less work. */
static uint32_t next_size(const search *s, bool is_done[LH_AIM_SIZES_MAX]) {
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < s->size_count; i++)
        if (!is_done[i] && (next == UINT32_MAX || s->floors[i] < s->floors[next]))
            next = i;
    assert(next == UINT32_MAX || next < s->size_count);
    if (next != UINT32_MAX)
        is_done[next] = true;
    return next;
}

/* Layers as if they could be cut anywhere, by the machines of one site, or of all: on the fastest
 * alone, and on all at once. */
static void find_leasts(const search *s, uint32_t site, lh_limit_search *by_limit) {
    double least_us = INFINITY, mib_per_us = 0, mib = s->parts->row_mib[s->parts->layers];
    for (uint32_t m = 0; m < s->parts->machine_count; m++) {
        const lh_part_machine *machine = &s->parts->machines[m];
        if (site != LH_PART_GATEWAY && machine->site != site)
            continue;
        least_us = fmin(least_us, machine->mib_us);
        mib_per_us += 1 / machine->mib_us;
    }
    if (mib_per_us == 0)
        return;
    by_limit->ring_least_us = mib * least_us * (1 - ROUNDING);
    by_limit->busiest_least_us = mib / mib_per_us * (1 - ROUNDING);
}

/* ---- Few ---- */

/* All sets of machines, with all layers that each may have, are tried within about a second. */
static bool can_be_exact(const search *s) {
    uint32_t machines = s->parts->machine_count;
    double layers = s->parts->layers;
    return !s->is_quick &&
           (machines <= LH_LAYOUT_EXACT_MACHINES ||
            (machines <= EXACT_MACHINES_MAX &&
             (double)(1u << machines) * machines * layers * layers <= EXACT_WORK_MAX));
}

static lh_status search_machines(search *s, lh_error *error) {
    lh_machine_subsets *subsets;
    bool is_done[LH_AIM_SIZES_MAX] = {false};
    lh_status status = lh_machine_subsets_create(s->parts, &subsets, error);
    if (status != LH_OK)
        return status;
    for (uint32_t i; (i = next_size(s, is_done)) != UINT32_MAX;) {
        lh_limit_search by_limit = {.find = lh_machine_subsets_find,
                                    .context = subsets,
                                    .aim = s->aim,
                                    .size = &s->sizes[i],
                                    .tries_max = UINT32_MAX};
        if (s->floors[i] >= s->best.value)
            continue;
        lh_parts_price(s->parts, s->aim, &s->sizes[i]);
        find_leasts(s, LH_PART_GATEWAY, &by_limit);
        lh_limit_search_run(&by_limit, &s->best);
    }
    lh_machine_subsets_destroy(subsets);
    return LH_OK;
}

/* ---- Many ---- */

/* The best orders, the last one first. */
typedef struct orders {
    uint32_t count;
    lh_found items[ORDERS_MAX];
} orders;

static void add_order(orders *all, const lh_found *found) {
    if (all->count < ORDERS_MAX)
        all->count++;
    assert(all->count > 0);
    memmove(all->items + 1, all->items, (all->count - 1) * sizeof *all->items);
    all->items[0] = *found;
}

/* Whoever is pinned must serve: no site is enough without them. */
static bool has_pins(const search *s) {
    return s->parts->pinned_layers[s->parts->layers] > 0;
}

static uint32_t tries_of(const search *s, uint32_t site) {
    bool is_beam = site == LH_PART_GATEWAY && s->map->site_count > LH_SITE_SEARCH_EXACT;
    return s->is_quick ? QUICK_TRIES : is_beam ? BEAM_TRIES : SITE_TRIES;
}

/* Sizes that are looked at, those that promise most. */
static uint32_t sizes_of(const search *s) {
    return s->is_quick ? lh_min_u32(s->size_count, QUICK_SIZES) : s->size_count;
}

/* For machines of one site, or of all; those whose value is less than this. */
static void find_orders(search *s, lh_site_search *sites, uint32_t site, double less_than,
                        orders *all) {
    bool is_done[LH_AIM_SIZES_MAX] = {false};
    lh_found best = {.value = less_than};
    lh_site_search_limit(sites, site);
    for (uint32_t n = 0; n < sizes_of(s); n++) {
        uint32_t i = next_size(s, is_done);
        lh_limit_search by_limit = {.find = lh_site_search_find,
                                    .context = sites,
                                    .aim = s->aim,
                                    .size = &s->sizes[i],
                                    .tries_max = tries_of(s, site)};
        double before = best.value;
        if (s->floors[i] >= before)
            continue;
        lh_parts_price(s->parts, s->aim, &s->sizes[i]);
        if (!has_pins(s))
            find_leasts(s, site, &by_limit);
        lh_limit_search_run(&by_limit, &best);
        if (best.value < before)
            add_order(all, &best);
    }
}

static void search_orders(search *s, lh_site_search *sites, lh_order_polish *polish) {
    orders all = {0};
    if (s->parts->pinned_layers[s->parts->layers] == s->parts->layers)
        for (uint32_t i = 0; i < s->size_count; i++)
            lh_order_polish_split(polish, &(lh_found){.size = s->sizes[i]}, &s->best);
    find_orders(s, sites, LH_PART_GATEWAY, INFINITY, &all);
    for (uint32_t i = 0; i < all.count; i++)
        lh_order_polish_split(polish, &all.items[i], &s->best);
    for (uint32_t site = 0; site < s->map->site_count && !has_pins(s); site++) {
        orders alone = {0};
        find_orders(s, sites, site, s->best.value * NEARLY, &alone);
        if (alone.count > 0)
            lh_order_polish_split(polish, &alone.items[0], &s->best);
    }
    if (!s->is_quick)
        lh_order_polish_move(polish, &s->best);
}

static lh_status search_sites(search *s, lh_error *error) {
    lh_site_search *sites = NULL;
    lh_order_polish polish = {0};
    lh_status status = lh_site_search_create(s->parts, &sites, error);
    if (status == LH_OK)
        status = lh_order_polish_init(&polish, s->parts, s->aim, error);
    if (status == LH_OK)
        search_orders(s, sites, &polish);
    lh_order_polish_reset(&polish);
    lh_site_search_destroy(sites);
    return status;
}

/* ---- All ---- */

/* Whether the room for keys and values keeps a machine from more layers. */
static bool has_layers_bound(const search *s) {
    for (uint32_t m = 0; m < s->parts->machine_count; m++)
        if (s->parts->machines[m].layers_max < s->parts->layers)
            return true;
    return false;
}

static lh_status refuse(const search *s, lh_error *error) {
    const lh_map_layers all = {0, s->map->model.layers};
    uint64_t memory = 0;
    for (uint32_t m = 0; m < s->parts->machine_count; m++)
        memory += s->parts->machines[m].memory_bytes;
    if (s->aim->goal == LH_GOAL_THROUGHPUT && s->aim->token_us_max > 0)
        return lh_fail(error, LH_ERR_LIMIT,
                       "no plan was found whose time per token is within %.1f ms; raise the bound, "
                       "or see with the objective tpot what is possible",
                       s->aim->token_us_max / 1000);
    return lh_fail(error, LH_ERR_LIMIT,
                   "the model needs %llu MiB for weights, and the %u machines that can hold a "
                   "layer offer %llu MiB%s: no plan was found that fits them, their links and pins",
                   (unsigned long long)(lh_layout_stage_bytes(&s->map->model, all) >> 20),
                   s->parts->machine_count, (unsigned long long)(memory >> 20),
                   has_layers_bound(s) ? ", some of them too little for keys and values" : "");
}

/* What was found for steps of one size may be better still with those of another. */
static void judge(search *s) {
    lh_part_ring ring = s->best.ring;
    for (uint32_t i = 0; i < s->size_count; i++) {
        lh_parts_price(s->parts, s->aim, &s->sizes[i]);
        lh_parts_measure(s->parts, &ring);
        double value = lh_aim_value(s->aim, &s->sizes[i], ring.ring_us, ring.busiest_us);
        if (value < s->best.value)
            s->best = (lh_found){value, ring, s->sizes[i]};
    }
}

static void finish(const search *s, lh_layout_plan *plan) {
    *plan = (lh_layout_plan){.layout = s->best.ring.layout,
                             .size = s->best.size,
                             .value = s->best.value,
                             .ring_us = s->best.ring.ring_us,
                             .busiest_us = s->best.ring.busiest_us,
                             .bound = s->bound,
                             .is_exact = can_be_exact(s),
                             .kv = s->parts->kv};
    lh_parts_resolve(s->parts, &plan->layout);
}

/* With the room that the parts want now; the best value stays INFINITY where there is no layout. */
static lh_status search_once(search *s, lh_error *error) {
    lh_status status = find_bounds(s, error);
    if (status == LH_OK)
        status = search_sites(s, error);
    if (status == LH_OK && can_be_exact(s))
        status = search_machines(s, error);
    return status;
}

/* With less room for keys and values, until there is a layout. */
static lh_status search_all(search *s, lh_error *error) {
    lh_kv_need need = s->parts->kv;
    lh_status status = search_once(s, error);
    while (status == LH_OK && isinf(s->best.value) && lh_kv_need_lower(&need)) {
        lh_parts_want(s->parts, &need);
        status = search_once(s, error);
    }
    return status;
}

static lh_status run(const lh_fleet_map *map, const lh_aim *aim, bool is_quick,
                     lh_layout_plan *plan, lh_error *error) {
    search *s = calloc(1, sizeof *s);
    assert(aim->goal != LH_GOAL_EVEN);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    *s = (search){.map = map, .aim = aim, .is_quick = is_quick, .best.value = INFINITY};
    lh_status status = lh_fleet_map_check(map, error);
    if (status == LH_OK)
        status = lh_parts_create(map, &s->parts, error);
    if (status == LH_OK) {
        s->size_count = lh_aim_sizes(aim, s->sizes);
        status = search_all(s, error);
    }
    if (status == LH_OK && isinf(s->best.value))
        status = refuse(s, error);
    if (status == LH_OK) {
        judge(s);
        finish(s, plan);
    }
    lh_parts_destroy(s->parts);
    free(s);
    return status;
}

lh_status lh_layout_search(const lh_fleet_map *map, const lh_aim *aim, lh_layout_plan *plan,
                           lh_error *error) {
    return run(map, aim, false, plan, error);
}

lh_status lh_layout_search_quickly(const lh_fleet_map *map, const lh_aim *aim, lh_layout_plan *plan,
                                   lh_error *error) {
    return run(map, aim, true, plan, error);
}
