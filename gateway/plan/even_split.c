/* Chooses which machines serve, and their order; order_split.h divides the layers among them. */
#include "gateway/plan/even_split.h"

#include "common/base/arithmetic.h"
#include "gateway/plan/order_split.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A plan in which only spares load may have a slowest stage this many times as slow as that of the
 * best split. */
#define SLOWER_MAX 1.2

/* Machines whose times are this close are taken for equal. Where machines are shared, the same one
 * is measured half as fast now and then; and between two that differ by a quarter an uneven split
 * would gain an eighth. */
#define EQUAL_FACTOR 1.25

/* Without a measurement: what a core takes for each MiB, for a row of many, and how many times as
 * much a row alone costs, since many share each read of the weights. */
#define CORE_MIB_US  20.0
#define ALONE_DEARER 6.0

/* ---- Speeds ---- */

static bool are_measured(const lh_map_machine *machines, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!lh_machine_speed_is_known(&machines[i].start))
            return false;
    return true;
}

/* Returns the least time that is at least `from`; INFINITY: there is none. */
static double find_least(const double *us, uint32_t count, double from) {
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        if (us[i] >= from)
            least = fmin(least, us[i]);
    return least;
}

/* Gives the time of the fastest machine to it and to all that are close to it; then does the same
 * with the rest. */
static void even_out(double *us, uint32_t count) {
    double least = find_least(us, count, 0);
    while (isfinite(least)) {
        const double most = least * EQUAL_FACTOR;
        assert(most > least);
        for (uint32_t i = 0; i < count; i++)
            if (us[i] >= least && us[i] < most)
                us[i] = least;
        least = find_least(us, count, most);
    }
}

static void compare_measured(lh_map_machine *machines, uint32_t count) {
    double prompt_us[LH_MAP_MACHINES_MAX], token_us[LH_MAP_MACHINES_MAX];
    assert(count <= LH_MAP_MACHINES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        prompt_us[i] = machines[i].start.prompt_us;
        token_us[i] = machines[i].start.token_us;
    }
    even_out(prompt_us, count);
    even_out(token_us, count);
    for (uint32_t i = 0; i < count; i++)
        machines[i].start = (lh_machine_speed){prompt_us[i], token_us[i]};
}

static void compare_threads(lh_map_machine *machines, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const double threads = machines[i].threads ? machines[i].threads : 1;
        machines[i].start =
            (lh_machine_speed){CORE_MIB_US / threads, ALONE_DEARER * CORE_MIB_US / threads};
    }
}

void lh_even_compare_speeds(lh_map_machine *machines, uint32_t count) {
    if (are_measured(machines, count))
        compare_measured(machines, count);
    else
        compare_threads(machines, count);
    for (uint32_t i = 0; i < count; i++)
        lh_map_machine_set_speed(&machines[i], &machines[i].start);
}

/* ---- Sites ---- */

static uint32_t rank_of(const char *order, const char *site) {
    const size_t length = strlen(site);
    uint32_t rank = 0;
    for (const char *at = order ? order : ""; *at; rank++) {
        size_t part = strcspn(at, ",");
        if (part == length && memcmp(at, site, length) == 0)
            return rank;
        at += part + (at[part] == ',');
    }
    return UINT32_MAX;
}

typedef struct placed {
    const char *site;
    uint32_t rank;
    lh_map_machine *machine;
} placed;

static int by_rank(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->site, b->site);
}

void lh_even_order_sites(lh_map_machine *machines, const char *const *sites, uint32_t count,
                         const char *order) {
    placed all[LH_MAP_MACHINES_MAX];
    uint32_t number = 0;
    assert(count <= LH_MAP_MACHINES_MAX);
    for (uint32_t i = 0; i < count; i++)
        all[i] = (placed){sites[i], rank_of(order, sites[i]), &machines[i]};
    qsort(all, count, sizeof *all, by_rank);
    for (uint32_t i = 0; i < count; i++) {
        number += i > 0 && strcmp(all[i].site, all[i - 1].site) != 0;
        all[i].machine->site = number;
    }
}

/* ---- A split ---- */

typedef struct candidate {
    const lh_map_machine *machine;
    uint32_t part; /* index into the parts */
    double mib_us;
} candidate;

struct lh_even_split {
    const lh_model_profile *model;
    const lh_map_machine *machines; /* [count] */
    const lh_aim *aim;
    uint32_t count;
    lh_parts *prompt, *token; /* of the same machines: those that have the memory for a layer */
    uint32_t *part_of;        /* [count]; LH_LAYOUT_NOBODY: it is none of them */
    candidate *candidates;    /* [count]: of one search, those that may have a layer */
    lh_order_split program;
};

static int by_place(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->machine->site != b->machine->site)
        return a->machine->site < b->machine->site ? -1 : 1;
    return strcmp(a->machine->name, b->machine->name);
}

static int by_speed(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->mib_us != b->mib_us)
        return a->mib_us < b->mib_us ? -1 : 1;
    return by_place(left, right);
}

static int by_memory(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->machine->memory_bytes != b->machine->memory_bytes)
        return a->machine->memory_bytes > b->machine->memory_bytes ? -1 : 1;
    return by_place(left, right);
}

static uint32_t stages_max(const lh_even_split *s, uint32_t count) {
    const uint32_t wanted = s->aim->stages > 0 ? lh_min_u32(s->aim->stages, count) : count;
    return lh_min_u32(lh_min_u32(wanted, LH_LAYOUT_STAGES_MAX), s->model->layers);
}

static lh_status allocate(lh_even_split *s, lh_error *error) {
    lh_status status = lh_parts_create_unlinked(s->model, s->machines, s->count, &s->prompt, error);
    if (status == LH_OK)
        status = lh_parts_create_unlinked(s->model, s->machines, s->count, &s->token, error);
    if (status == LH_OK)
        status =
            lh_order_split_init(&s->program, s->prompt, s->token, stages_max(s, s->count), error);
    s->part_of = calloc((size_t)s->count + 1, sizeof *s->part_of);
    s->candidates = calloc((size_t)s->count + 1, sizeof *s->candidates);
    if (status == LH_OK && (!s->part_of || !s->candidates))
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines", s->count);
    return status;
}

static void price(lh_even_split *s) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    const uint32_t count = lh_aim_sizes(&(lh_aim){.goal = LH_GOAL_EVEN}, sizes);
    assert(count == 2 && s->prompt->machine_count == s->token->machine_count);
    lh_parts_price_machines(s->prompt, &sizes[0]);
    lh_parts_price_machines(s->token, &sizes[1]);
    for (uint32_t i = 0; i < s->count; i++)
        s->part_of[i] = LH_LAYOUT_NOBODY;
    for (uint32_t part = 0; part < s->prompt->machine_count; part++) {
        assert(s->token->machines[part].index == s->prompt->machines[part].index);
        s->part_of[s->prompt->machines[part].index] = part;
    }
}

lh_status lh_even_split_create(const lh_model_profile *model, const lh_map_machine *machines,
                               uint32_t count, const lh_aim *aim, lh_even_split **split,
                               lh_error *error) {
    lh_even_split *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines", count);
    s->model = model;
    s->machines = machines;
    s->count = count;
    s->aim = aim;
    lh_status status = allocate(s, error);
    if (status != LH_OK) {
        lh_even_split_destroy(s);
        return status;
    }
    price(s);
    *split = s;
    return LH_OK;
}

void lh_even_split_destroy(lh_even_split *split) {
    if (!split)
        return;
    lh_order_split_reset(&split->program);
    lh_parts_destroy(split->prompt);
    lh_parts_destroy(split->token);
    free(split->part_of);
    free(split->candidates);
    free(split);
}

/* Lists the members with room for a layer and its keys and values; returns their number. */
static uint32_t list_usable(const lh_even_split *s, const uint32_t *members, uint32_t count) {
    uint32_t usable = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t part = s->part_of[members[i]];
        assert(members[i] < s->count);
        if (part == LH_LAYOUT_NOBODY || s->prompt->machines[part].layers_max == 0)
            continue;
        s->candidates[usable++] =
            (candidate){&s->machines[members[i]], part, s->prompt->machines[part].mib_us};
    }
    return usable;
}

/* Divides the layers among the first `count` candidates, in the order of their places. */
static bool split_first(lh_even_split *s, uint32_t count, lh_layout *layout) {
    assert(count <= s->program.capacity);
    qsort(s->candidates, count, sizeof *s->candidates, by_place);
    for (uint32_t i = 0; i < count; i++)
        s->program.order[i] = s->candidates[i].part;
    s->program.count = count;
    if (!lh_order_split_evenly(&s->program, layout))
        return false;
    lh_parts_resolve(s->prompt, layout);
    return true;
}

/* Tries the fastest machines; where their memory is short, those with the most memory, fewer and
 * fewer of them: a machine that can hardly hold a layer must not spoil the plan. */
static bool try_all(lh_even_split *s, const uint32_t *members, uint32_t count, lh_layout *layout) {
    const uint32_t usable = list_usable(s, members, count),
                   wanted = lh_min_u32(stages_max(s, count), usable);
    qsort(s->candidates, usable, sizeof *s->candidates, by_speed);
    if (split_first(s, wanted, layout))
        return true;
    for (uint32_t tried = wanted; tried > 0; tried--) {
        qsort(s->candidates, usable, sizeof *s->candidates, by_memory);
        if (split_first(s, tried, layout))
            return true;
    }
    return false;
}

static lh_status refuse(const lh_even_split *s, const uint32_t *members, uint32_t count,
                        lh_error *error) {
    const lh_kv_need *kv = &s->prompt->kv;
    uint64_t memory = 0, kv_layers = 0;
    for (uint32_t i = 0; i < count; i++) {
        const lh_map_machine *machine = &s->machines[members[i]];
        kv_layers += lh_kv_need_layers_max(kv, machine->kv_bytes);
        if (__builtin_add_overflow(memory, machine->memory_bytes, &memory))
            memory = UINT64_MAX;
    }
    if (kv_layers < s->model->layers)
        return lh_fail(error, LH_ERR_LIMIT,
                       "a layer keeps %llu KiB of keys and values for each page of %u positions, "
                       "and %u workers have room for those of %llu of the model's %u layers: "
                       "raise their --kv-bytes, or give the gateway a smaller --kv-type",
                       (unsigned long long)(lh_kv_need_layer_bytes(kv) >> 10), LH_KV_NEED_PAGE,
                       count, (unsigned long long)kv_layers, s->model->layers);
    const lh_map_layers all = {0, s->model->layers};
    return lh_fail(
        error, LH_ERR_LIMIT,
        "the model needs %llu MiB for weights and %u workers offer %llu MiB: no split fits; add "
        "workers, lower their --kv-bytes or raise their --memory-bytes",
        (unsigned long long)(lh_layout_stage_bytes(s->model, all) >> 20), count,
        (unsigned long long)(memory >> 20));
}

/* When it returns, s->prompt->kv is the room for keys and values that each stage has. */
lh_status lh_even_split_find(lh_even_split *split, const uint32_t *members, uint32_t count,
                             lh_layout *layout, lh_error *error) {
    lh_kv_need need = split->model->kv;
    assert(count <= split->count);
    if (count == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "no worker is registered");
    lh_parts_want(split->prompt, &need);
    while (!try_all(split, members, count, layout)) {
        if (!lh_kv_need_lower(&need))
            return refuse(split, members, count, error);
        lh_parts_want(split->prompt, &need);
    }
    return LH_OK;
}

/* ---- A split that disturbs little ---- */

static double slowest_us(const lh_even_split *s, const lh_kv_need *kv, const lh_layout *layout) {
    double slowest = 0, busy_us;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_layout_stage *stage = &layout->stages[i];
        assert(stage->machine < s->count);
        const uint32_t part = s->part_of[stage->machine];
        if (part == LH_LAYOUT_NOBODY ||
            !lh_layout_stage_fits(s->model, &s->machines[stage->machine], stage->layers, kv))
            return INFINITY;
        slowest = fmax(slowest, lh_parts_stage_us(s->prompt, &s->prompt->machines[part],
                                                  stage->layers, &busy_us));
    }
    return slowest;
}

double lh_even_split_slowest_us(const lh_even_split *split, const lh_layout *layout) {
    const lh_kv_need least = {.position_bytes = split->model->kv.position_bytes};
    return slowest_us(split, &least, layout);
}

static bool is_used(const lh_layout *layout, uint32_t machine) {
    for (uint32_t i = 0; i < layout->stage_count; i++)
        if (layout->stages[i].machine == machine)
            return true;
    return false;
}

/* Counts how often the chain goes from one site to another: each time it takes a slow link. */
static uint32_t count_crossings(const lh_even_split *s, const lh_layout *layout) {
    uint32_t crossings = 0, site = UINT32_MAX;
    assert(layout->stage_count <= LH_LAYOUT_STAGES_MAX);
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        if (layout->stages[i].machine == LH_LAYOUT_NOBODY)
            continue;
        const uint32_t next = s->machines[layout->stages[i].machine].site;
        crossings += site != UINT32_MAX && site != next;
        site = next;
    }
    return crossings;
}

/* Gives the stage to the spare with which the chain crosses sites least often, and among those to
 * the fastest. */
static bool fill(const lh_even_split *s, lh_layout *layout, uint32_t stage) {
    uint32_t best = LH_LAYOUT_NOBODY, best_crossings = 0;
    double best_us = INFINITY;
    assert(stage < layout->stage_count && layout->stages[stage].machine == LH_LAYOUT_NOBODY);
    for (uint32_t spare = 0; spare < s->count; spare++) {
        if (is_used(layout, spare))
            continue;
        const lh_layout alone = {1, {{spare, layout->stages[stage].layers}}};
        const double us = slowest_us(s, &s->prompt->kv, &alone);
        lh_layout tried = *layout;
        tried.stages[stage].machine = spare;
        const uint32_t crossings = count_crossings(s, &tried);
        if (isinf(us) ||
            (best != LH_LAYOUT_NOBODY &&
             (crossings > best_crossings || (crossings == best_crossings && us >= best_us))))
            continue;
        best = spare;
        best_crossings = crossings;
        best_us = us;
    }
    layout->stages[stage].machine = best;
    return best != LH_LAYOUT_NOBODY;
}

static bool fill_all(const lh_even_split *s, lh_layout *layout) {
    for (uint32_t i = 0; i < layout->stage_count; i++)
        if (layout->stages[i].machine == LH_LAYOUT_NOBODY && !fill(s, layout, i))
            return false;
    return true;
}

lh_status lh_even_split_find_all(lh_even_split *split, lh_layout *layout, lh_error *error) {
    uint32_t members[LH_MAP_MACHINES_MAX];
    assert(split->count <= LH_MAP_MACHINES_MAX);
    for (uint32_t i = 0; i < split->count; i++)
        members[i] = i;
    return lh_even_split_find(split, members, split->count, layout, error);
}

lh_status lh_even_split_revise(lh_even_split *split, const lh_layout *present, lh_layout *layout,
                               lh_error *error) {
    lh_status status = lh_even_split_find_all(split, layout, error);
    if (status != LH_OK || present->stage_count == 0)
        return status;
    lh_layout filled = *present;
    bool is_allowed = split->aim->stages == 0 || filled.stage_count <= split->aim->stages;
    if (!is_allowed || !fill_all(split, &filled))
        return LH_OK;
    const lh_kv_need *kv = &split->prompt->kv;
    bool is_nearly_as_good =
        slowest_us(split, kv, &filled) <= SLOWER_MAX * slowest_us(split, kv, layout) &&
        count_crossings(split, &filled) <= count_crossings(split, layout);
    if (is_nearly_as_good)
        *layout = filled;
    return LH_OK;
}
