/* Deals are compared by how many chains are complete, then by value. */
#include "gateway/plan/layout_deal.h"

#include "gateway/plan/part_costs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Searches for better deals, for each chain. */
#define SEARCHES_PER_REPLICA       40u
#define QUICK_SEARCHES_PER_REPLICA 4u

typedef struct dealing {
    const lh_fleet_map *map;
    const lh_aim *aim;
    bool is_quick;
    lh_parts *parts; /* for the order of machines, and their costs for steps of one size */
    uint32_t replicas;
    lh_fleet_map *own;  /* the map, with the machines of one chain */
    uint32_t *chain_of; /* [parts->machine_count], in the parts' order */
    uint32_t *order;    /* the same machines, those at sites near each other beside each other */
    lh_layout_plan plans[LH_DEAL_REPLICAS_MAX];
    double values[LH_DEAL_REPLICAS_MAX]; /* INFINITY: it cannot hold the model */
    uint32_t searches_left;
    lh_status status; /* the first failure that is none of the machines' */
    lh_error *error;
} dealing;

/* ---- The first deal ---- */

static double strength_of(const dealing *d, uint32_t machine) {
    return 1 / d->parts->machines[machine].mib_us;
}

/* The site of the strongest machines first, then always the one that is nearest to the last. */
static uint32_t next_site(const dealing *d, const bool *is_done, uint32_t from) {
    uint32_t next = UINT32_MAX;
    double least_us = INFINITY;
    for (uint32_t m = 0; m < d->parts->machine_count; m++) {
        uint32_t site = d->parts->machines[m].site;
        double us = lh_part_hop_us(&d->parts->hops[from][site]);
        if (!is_done[site] && (next == UINT32_MAX || us < least_us)) {
            next = site;
            least_us = us;
        }
    }
    return next;
}

static void list_by_sites(dealing *d) {
    bool is_done[LH_MAP_SITES_MAX] = {false};
    uint32_t count = 0, from = LH_PART_GATEWAY;
    while (count < d->parts->machine_count) {
        from = next_site(d, is_done, from);
        assert(from < LH_MAP_SITES_MAX);
        is_done[from] = true;
        for (uint32_t m = 0; m < d->parts->machine_count; m++)
            if (d->parts->machines[m].site == from)
                d->order[count++] = m;
    }
}

static void deal_greedily(dealing *d) {
    const lh_map_layers all = {0, d->parts->layers};
    double needed = (double)lh_layout_stage_bytes(&d->map->model, all), strength = 0, bytes = 0,
           own_strength = 0;
    uint32_t chain = 0;
    for (uint32_t m = 0; m < d->parts->machine_count; m++)
        strength += strength_of(d, m);
    for (uint32_t i = 0; i < d->parts->machine_count; i++) {
        uint32_t machine = d->order[i];
        assert(machine < d->parts->machine_count && chain < d->replicas);
        d->chain_of[machine] = chain;
        bytes += (double)d->parts->machines[machine].memory_bytes;
        own_strength += strength_of(d, machine);
        if (bytes >= needed && own_strength >= strength / d->replicas * (1 - 1e-9) &&
            chain + 1 < d->replicas) {
            chain++;
            bytes = own_strength = 0;
        }
    }
}

/* ---- Values ---- */

static double plan_chain(dealing *d, uint32_t chain, lh_layout_plan *plan) {
    lh_error error = {0};
    for (uint32_t m = 0; m < d->map->machine_count; m++)
        d->own->machines[m].is_excluded = true;
    for (uint32_t m = 0; m < d->parts->machine_count; m++)
        if (d->chain_of[m] == chain)
            d->own->machines[d->parts->machines[m].index].is_excluded = false;
    lh_status status = d->is_quick ? lh_layout_search_quickly(d->own, d->aim, plan, &error)
                                   : lh_layout_search(d->own, d->aim, plan, &error);
    if (status != LH_OK && status != LH_ERR_LIMIT && d->status == LH_OK)
        d->status = lh_fail(d->error, status, "%s", error.message);
    return status == LH_OK ? plan->value : INFINITY;
}

/* Of all chains. */
static double add_up(const dealing *d, const double *values) {
    double greatest = 0, rate = 0;
    for (uint32_t r = 0; r < d->replicas; r++) {
        greatest = fmax(greatest, values[r]);
        rate += 1 / values[r];
    }
    return d->aim->goal == LH_GOAL_THROUGHPUT ? 1 / rate : greatest;
}

static uint32_t count_complete(const dealing *d, const double *values) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < d->replicas; r++)
        count += isfinite(values[r]) ? 1 : 0;
    return count;
}

/* Where the slowest counts, a faster other one is better than nothing. */
static bool is_better(const dealing *d, const double *values) {
    uint32_t complete = count_complete(d, values), before = count_complete(d, d->values);
    double value = add_up(d, values), value_before = add_up(d, d->values), sum = 0, sum_before = 0;
    if (complete != before)
        return complete > before;
    if (value < value_before * (1 - 1e-9))
        return true;
    for (uint32_t r = 0; r < d->replicas; r++) {
        sum += isfinite(values[r]) ? values[r] : 0;
        sum_before += isfinite(d->values[r]) ? d->values[r] : 0;
    }
    return value <= value_before && sum < sum_before * (1 - 1e-9);
}

/* After machines have changed between two chains. True: it stays so. */
static bool keep_if_better(dealing *d, uint32_t a, uint32_t b) {
    lh_layout_plan plans[2];
    double values[LH_DEAL_REPLICAS_MAX];
    assert(a != b && a < d->replicas && b < d->replicas);
    memcpy(values, d->values, sizeof values);
    values[a] = plan_chain(d, a, &plans[0]);
    values[b] = plan_chain(d, b, &plans[1]);
    d->searches_left -= d->searches_left < 2 ? d->searches_left : 2;
    if (d->status != LH_OK || !is_better(d, values))
        return false;
    memcpy(d->values, values, sizeof values);
    d->plans[a] = plans[0];
    d->plans[b] = plans[1];
    return true;
}

/* ---- Changes ---- */

static bool has_stage(const dealing *d, uint32_t chain, uint32_t machine) {
    const lh_layout *layout = &d->plans[chain].layout;
    for (uint32_t s = 0; isfinite(d->values[chain]) && s < layout->stage_count; s++)
        if (layout->stages[s].machine == d->parts->machines[machine].index)
            return true;
    return false;
}

static uint32_t slowest_chain(const dealing *d) {
    uint32_t slowest = 0;
    assert(d->replicas > 0);
    for (uint32_t r = 1; r < d->replicas; r++)
        if (d->values[r] > d->values[slowest])
            slowest = r;
    return slowest;
}

/* Of machines that are the same at the same site one stands for all. */
static bool is_another_of(const dealing *d, uint32_t machine) {
    if (machine == 0)
        return false;
    const lh_part_machine *a = &d->parts->machines[machine - 1], *b = &d->parts->machines[machine];
    return a->site == b->site && a->mib_us == b->mib_us && a->memory_bytes == b->memory_bytes &&
           a->first_extra_bytes == b->first_extra_bytes && a->layers_max == b->layers_max &&
           a->fixed_us == b->fixed_us && d->chain_of[machine - 1] == d->chain_of[machine] &&
           has_stage(d, d->chain_of[machine], machine - 1) ==
               has_stage(d, d->chain_of[machine], machine);
}

/* Those without a stage first: they cost the other chain nothing. */
static bool try_gifts(dealing *d, uint32_t to) {
    for (uint32_t with_stage = 0; with_stage < 2; with_stage++)
        for (uint32_t m = 0; m < d->parts->machine_count && d->searches_left > 0; m++) {
            uint32_t from = d->chain_of[m];
            if (from == to || has_stage(d, from, m) != (with_stage == 1) || is_another_of(d, m))
                continue;
            d->chain_of[m] = to;
            if (keep_if_better(d, from, to))
                return true;
            d->chain_of[m] = from;
        }
    return false;
}

static bool try_swaps(dealing *d, uint32_t to) {
    for (uint32_t m = 0; m < d->parts->machine_count; m++)
        for (uint32_t n = 0; n < d->parts->machine_count && d->searches_left > 0; n++) {
            uint32_t from = d->chain_of[n];
            if (d->chain_of[m] != to || from == to || is_another_of(d, m) || is_another_of(d, n))
                continue;
            d->chain_of[m] = from;
            d->chain_of[n] = to;
            if (keep_if_better(d, from, to))
                return true;
            d->chain_of[m] = to;
            d->chain_of[n] = from;
        }
    return false;
}

static void improve(dealing *d) {
    d->searches_left =
        (d->is_quick ? QUICK_SEARCHES_PER_REPLICA : SEARCHES_PER_REPLICA) * d->replicas;
    while (d->searches_left > 0 && d->status == LH_OK) {
        uint32_t slowest = slowest_chain(d);
        if (!try_gifts(d, slowest) && !try_swaps(d, slowest))
            return;
    }
}

/* ---- All ---- */

static void deal_once(dealing *d) {
    deal_greedily(d);
    for (uint32_t r = 0; r < d->replicas && d->status == LH_OK; r++)
        d->values[r] = plan_chain(d, r, &d->plans[r]);
    improve(d);
}

/* As many as are wanted, or fewer. */
static lh_status deal_most(dealing *d, uint32_t wanted) {
    lh_status status = LH_OK;
    for (d->replicas = wanted; d->replicas > 0 && d->status == LH_OK; d->replicas--) {
        deal_once(d);
        if (d->status == LH_OK && count_complete(d, d->values) == d->replicas)
            return LH_OK;
    }
    if (d->status != LH_OK)
        return d->status;
    status = lh_layout_search(d->map, d->aim, &d->plans[0], d->error);
    return status == LH_OK ? lh_fail(d->error, LH_ERR_LIMIT, "no chain could be dealt") : status;
}

static lh_status allocate(dealing *d, lh_error *error) {
    lh_status status = lh_parts_create(d->map, &d->parts, error);
    if (status != LH_OK)
        return status;
    d->own = malloc(sizeof *d->own);
    d->chain_of = calloc((size_t)d->parts->machine_count + 1, sizeof *d->chain_of);
    d->order = calloc((size_t)d->parts->machine_count + 1, sizeof *d->order);
    lh_map_machine *machines = calloc(d->map->machine_count, sizeof *machines);
    if (!d->own || !d->chain_of || !d->order || !machines) {
        free(machines);
        free(d->own);
        d->own = NULL;
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to deal %u machines",
                       d->map->machine_count);
    }
    *d->own = *d->map;
    memcpy(machines, d->map->machines, d->map->machine_count * sizeof *machines);
    d->own->machines = machines;
    return LH_OK;
}

static void reset(dealing *d) {
    if (d->own)
        free(d->own->machines);
    free(d->own);
    free(d->order);
    free(d->chain_of);
    lh_parts_destroy(d->parts);
}

static void finish(const dealing *d, uint32_t *replica_of, lh_layout_deal *deal) {
    assert(d->replicas > 0);
    deal->replicas = d->replicas;
    deal->value = add_up(d, d->values);
    memcpy(deal->plans, d->plans, sizeof deal->plans);
    for (uint32_t m = 0; m < d->map->machine_count; m++)
        replica_of[m] = LH_DEAL_NOBODY;
    for (uint32_t m = 0; m < d->parts->machine_count; m++)
        replica_of[d->parts->machines[m].index] = d->chain_of[m];
}

static lh_status make(const lh_fleet_map *map, const lh_aim *aim, uint32_t replicas, bool is_quick,
                      uint32_t *replica_of, lh_layout_deal *deal, lh_error *error) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    lh_status status = lh_fleet_map_check(map, error);
    assert(replicas > 0 && replicas <= LH_DEAL_REPLICAS_MAX);
    for (uint32_t m = 0; m < map->machine_count && status == LH_OK; m++)
        if (map->machines[m].pinned.first < map->machines[m].pinned.last)
            status = lh_fail(error, LH_ERR_UNSUPPORTED, "%s is pinned: pins are for one chain",
                             map->machines[m].name);
    if (status != LH_OK)
        return status;
    dealing *d = calloc(1, sizeof *d);
    if (!d)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to deal machines");
    *d = (dealing){.map = map, .aim = aim, .is_quick = is_quick, .error = error};
    status = allocate(d, error);
    if (status == LH_OK) {
        lh_aim_sizes(aim, sizes);
        lh_parts_price(d->parts, aim, &sizes[0]);
        list_by_sites(d);
        status = deal_most(d, replicas);
    }
    if (status == LH_OK)
        finish(d, replica_of, deal);
    reset(d);
    free(d);
    return status;
}

lh_status lh_layout_deal_make(const lh_fleet_map *map, const lh_aim *aim, uint32_t replicas,
                              uint32_t *replica_of, lh_layout_deal *deal, lh_error *error) {
    return make(map, aim, replicas, false, replica_of, deal, error);
}

lh_status lh_layout_deal_make_quickly(const lh_fleet_map *map, const lh_aim *aim, uint32_t replicas,
                                      uint32_t *replica_of, lh_layout_deal *deal, lh_error *error) {
    return make(map, aim, replicas, true, replica_of, deal, error);
}
