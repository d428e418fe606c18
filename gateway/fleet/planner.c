/* The split is found by dynamic programming over (workers, layers). */
#include "gateway/fleet/planner.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the prompt by which stages are compared. */
#define PROMPT_ROWS 512.0

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

/* ---- A split ---- */

typedef struct candidate {
    lh_plan_worker worker;
    uint32_t index, site_rank;
} candidate;

/* What a stage, or the slowest of some, takes. */
typedef struct cost {
    double prompt, token;
} cost;

/* A split of some first layers over some first workers, by its slowest stage, then by the sum of
 * squares, which evens out the stages that are not the slowest. */
typedef struct cover {
    bool is_there;
    cost slowest;
    double squares;
    uint32_t previous; /* where the last stage begins */
} cover;

static uint32_t site_rank(const char *sites, const char *site) {
    size_t length = strlen(site);
    uint32_t rank = 0;
    for (const char *at = sites ? sites : ""; *at; rank++) {
        size_t part = strcspn(at, ",");
        if (part == length && memcmp(at, site, length) == 0)
            return rank;
        at += part + (at[part] == ',');
    }
    return UINT32_MAX;
}

static int by_place(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->site_rank != b->site_rank)
        return a->site_rank < b->site_rank ? -1 : 1;
    int order = strcmp(a->worker.site, b->worker.site);
    return order ? order : strcmp(a->worker.name, b->worker.name);
}

static int by_speed(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->worker.speed.prompt_us != b->worker.speed.prompt_us)
        return a->worker.speed.prompt_us < b->worker.speed.prompt_us ? -1 : 1;
    return by_place(left, right);
}

static int by_memory(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->worker.memory_bytes != b->worker.memory_bytes)
        return a->worker.memory_bytes > b->worker.memory_bytes ? -1 : 1;
    return by_place(left, right);
}

static cost stage_cost(const lh_model_profile *model, const lh_plan_worker *worker,
                       uint64_t row_bytes, bool is_last) {
    double layers = (double)row_bytes, head = is_last ? (double)model->head_bytes : 0;
    return (cost){layers * worker->speed.prompt_us * PROMPT_ROWS + head * worker->speed.token_us,
                  (layers + head) * worker->speed.token_us};
}

static bool is_better(const cover *a, const cover *b) {
    if (!b->is_there || a->slowest.prompt != b->slowest.prompt)
        return !b->is_there || a->slowest.prompt < b->slowest.prompt;
    if (a->slowest.token != b->slowest.token)
        return a->slowest.token < b->slowest.token;
    return a->squares < b->squares;
}

static cover extend(const cover *before, cost stage, uint32_t first) {
    return (cover){.is_there = true,
                   .slowest = {fmax(before->slowest.prompt, stage.prompt),
                               fmax(before->slowest.token, stage.token)},
                   .squares = before->squares + stage.prompt * stage.prompt,
                   .previous = first};
}

/* Of some layers: what they hold, and what a row meets of it, which is what they cost. */
typedef struct layer_sum {
    uint64_t held, row;
} layer_sum;

static layer_sum add_layer(const lh_model_profile *model, layer_sum sum, uint32_t layer) {
    return (layer_sum){sum.held + model->layer_bytes[layer], sum.row + model->row_bytes[layer]};
}

/* Whether the worker has the memory for so many bytes, and the room for keys and values. */
static bool fits(const lh_plan_worker *worker, const lh_kv_need *kv, bool is_first,
                 uint64_t held_bytes, uint32_t layers) {
    const uint64_t extra = is_first ? worker->first_extra_bytes : 0;
    return held_bytes <= worker->memory_bytes && extra <= worker->memory_bytes - held_bytes &&
           layers <= lh_kv_need_layers_max(kv, worker->kv_bytes);
}

/* Of a stage: the layers' bytes, and whether it is the first or the last. */
static uint64_t held_bytes(const lh_model_profile *model, uint64_t layer_bytes, bool is_first,
                           bool is_last) {
    return layer_bytes + (is_first ? model->embedding_bytes : 0) +
           (is_last ? model->head_bytes : 0);
}

static layer_sum sum_layers(const lh_model_profile *model, uint32_t first, uint32_t last) {
    layer_sum sum = {0};
    for (uint32_t i = first; i < last; i++)
        sum = add_layer(model, sum, i);
    return sum;
}

uint64_t lh_planner_stage_bytes(const lh_model_profile *model, uint32_t first_layer,
                                uint32_t last_layer) {
    return held_bytes(model, sum_layers(model, first_layer, last_layer).held, first_layer == 0,
                      last_layer == model->layers);
}

static double slowest_of(const lh_model_profile *model, const lh_kv_need *kv,
                         const lh_plan_worker *workers, const lh_layout *plan) {
    double slowest = 0;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        const lh_layout_stage *stage = &plan->stages[i];
        const lh_plan_worker *worker = &workers[stage->machine];
        layer_sum layers = sum_layers(model, stage->layers.first, stage->layers.last);
        bool is_first = stage->layers.first == 0, is_last = stage->layers.last == model->layers;
        if (!fits(worker, kv, is_first, held_bytes(model, layers.held, is_first, is_last),
                  stage->layers.last - stage->layers.first))
            return INFINITY;
        slowest = fmax(slowest, stage_cost(model, worker, layers.row, is_last).prompt);
    }
    return slowest;
}

double lh_planner_slowest(const lh_model_profile *model, const lh_plan_worker *workers,
                          const lh_layout *plan) {
    const lh_kv_need least = {.position_bytes = model->kv.position_bytes};
    return slowest_of(model, &least, workers, plan);
}

/* One call's work. */
typedef struct splitting {
    const lh_model_profile *model;
    lh_kv_need kv;           /* for which stages are to have room now */
    layer_sum *before_layer; /* [layers + 1] */
    candidate *candidates;   /* [count], those that may have a layer first */
    uint32_t count;
    cover *covers; /* [workers + 1][layers + 1]: the best split of the first layers over the first
                    * workers */
    lh_layout *plan;
} splitting;

/* Over the first `count` candidates, as they stand. */
static bool split(const splitting *s, uint32_t count) {
    const candidate *workers = s->candidates;
    uint32_t layers = s->model->layers, row = layers + 1;
    cover *covers = s->covers;
    for (uint32_t i = 0; i < (count + 1) * row; i++)
        covers[i].is_there = false;
    covers[0] = (cover){.is_there = true};
    for (uint32_t w = 0; w < count; w++) {
        for (uint32_t last = w + 1; last + (count - w - 1) <= layers; last++) {
            for (uint32_t first = w; first < last; first++) {
                const cover *before = &covers[w * row + first];
                uint64_t layer_bytes = s->before_layer[last].held - s->before_layer[first].held,
                         row_bytes = s->before_layer[last].row - s->before_layer[first].row;
                bool is_last = last == layers;
                uint64_t held = held_bytes(s->model, layer_bytes, first == 0, is_last);
                if (!before->is_there ||
                    !fits(&workers[w].worker, &s->kv, first == 0, held, last - first))
                    continue;
                cover made = extend(
                    before, stage_cost(s->model, &workers[w].worker, row_bytes, is_last), first);
                cover *best = &covers[(w + 1) * row + last];
                if (is_better(&made, best))
                    *best = made;
            }
        }
    }
    if (!covers[count * row + layers].is_there)
        return false;
    s->plan->stage_count = count;
    uint32_t last = layers;
    for (uint32_t w = count; w-- > 0;) {
        uint32_t first = covers[(w + 1) * row + last].previous;
        s->plan->stages[w] = (lh_layout_stage){workers[w].index, {first, last}};
        last = first;
    }
    assert(last == 0);
    return true;
}

/* Those with room for the keys and values of a layer come first; returns how many there are. */
static uint32_t select_usable(const splitting *s) {
    uint32_t usable = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const candidate kept = s->candidates[i];
        if (lh_kv_need_layers_max(&s->kv, kept.worker.kv_bytes) == 0)
            continue;
        s->candidates[i] = s->candidates[usable];
        s->candidates[usable++] = kept;
    }
    return usable;
}

/* Tries the fastest; where their memory is short, the ones with the most memory, fewer and
 * fewer: a worker that cannot even hold a layer must not spoil the plan. */
static bool try_all(const splitting *s, uint32_t wanted) {
    uint32_t usable = select_usable(s);
    wanted = lh_min_u32(wanted, usable);
    qsort(s->candidates, usable, sizeof *s->candidates, by_speed);
    qsort(s->candidates, wanted, sizeof *s->candidates, by_place);
    if (split(s, wanted))
        return true;
    for (uint32_t tried = wanted; tried > 0; tried--) {
        qsort(s->candidates, usable, sizeof *s->candidates, by_memory);
        qsort(s->candidates, tried, sizeof *s->candidates, by_place);
        if (split(s, tried))
            return true;
    }
    return false;
}

static lh_status refuse(const splitting *s, lh_error *error) {
    const lh_model_profile *model = s->model;
    const uint64_t layer_bytes = s->before_layer[model->layers].held;
    uint64_t memory = 0, kv_layers = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const lh_plan_worker *worker = &s->candidates[i].worker;
        kv_layers += lh_kv_need_layers_max(&s->kv, worker->kv_bytes);
        if (__builtin_add_overflow(memory, worker->memory_bytes, &memory))
            memory = UINT64_MAX;
    }
    if (kv_layers < model->layers)
        return lh_fail(error, LH_ERR_LIMIT,
                       "a layer keeps %llu KiB of keys and values for each page of %u positions, "
                       "and %u workers have room for those of %llu of the model's %u layers: "
                       "raise their --kv-bytes, or give the gateway a smaller --kv-type",
                       (unsigned long long)(lh_kv_need_layer_bytes(&s->kv) >> 10), LH_KV_NEED_PAGE,
                       s->count, (unsigned long long)kv_layers, model->layers);
    return lh_fail(
        error, LH_ERR_LIMIT,
        "the model needs %llu MiB for weights and %u workers offer %llu MiB: no split fits; add "
        "workers, lower their --kv-bytes or raise their --memory-bytes",
        (unsigned long long)((layer_bytes + model->embedding_bytes + model->head_bytes) >> 20),
        s->count, (unsigned long long)(memory >> 20));
}

static void sum_all_layers(const splitting *s) {
    s->before_layer[0] = (layer_sum){0};
    for (uint32_t i = 0; i < s->model->layers; i++)
        s->before_layer[i + 1] = add_layer(s->model, s->before_layer[i], i);
}

/* *met: the room for keys and values that each stage has. */
static lh_status split_all(const lh_model_profile *model, const lh_plan_worker *workers,
                           uint32_t count, const lh_planner_options *options, lh_layout *plan,
                           lh_kv_need *met, lh_error *error) {
    if (count == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "no worker is registered");
    uint32_t wanted = lh_min_u32(lh_min_u32(options->stages ? options->stages : count, count),
                                 LH_LAYOUT_STAGES_MAX);
    wanted = lh_min_u32(wanted, model->layers);
    splitting s = {.model = model, .kv = model->kv, .count = count, .plan = plan};
    lh_status status = LH_OK;
    s.candidates = malloc(count * sizeof *s.candidates);
    s.before_layer = malloc(((size_t)model->layers + 1) * sizeof *s.before_layer);
    s.covers = malloc(((size_t)wanted + 1) * ((size_t)model->layers + 1) * sizeof *s.covers);
    if (!s.candidates || !s.before_layer || !s.covers) {
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u workers", count);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++)
        s.candidates[i] = (candidate){workers[i], i, site_rank(options->sites, workers[i].site)};
    sum_all_layers(&s);
    bool is_split = try_all(&s, wanted);
    while (!is_split && lh_kv_need_lower(&s.kv))
        is_split = try_all(&s, wanted);
    *met = s.kv;
    if (!is_split)
        status = refuse(&s, error);
done:
    free(s.covers);
    free(s.before_layer);
    free(s.candidates);
    return status;
}

lh_status lh_planner_split(const lh_model_profile *model, const lh_plan_worker *workers,
                           uint32_t count, const lh_planner_options *options, lh_layout *plan,
                           lh_error *error) {
    lh_kv_need met;
    return split_all(model, workers, count, options, plan, &met, error);
}

/* ---- A split that disturbs little ---- */

static bool is_used(const lh_layout *plan, uint32_t worker) {
    for (uint32_t i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].machine == worker)
            return true;
    return false;
}

/* How often the chain goes from one site to another: each time is a slow link. */
static uint32_t count_crossings(const lh_plan_worker *workers, const lh_layout *plan) {
    uint32_t crossings = 0;
    const char *site = NULL;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].machine == LH_LAYOUT_NOBODY)
            continue;
        const char *next = workers[plan->stages[i].machine].site;
        crossings += site && strcmp(site, next) != 0;
        site = next;
    }
    return crossings;
}

/* Of the spares the one with which the chain crosses sites least often, then the one that is
 * fastest there. */
static bool fill(const lh_model_profile *model, const lh_kv_need *kv, const lh_plan_worker *workers,
                 uint32_t count, lh_layout *plan, uint32_t stage) {
    uint32_t best = LH_LAYOUT_NOBODY, best_crossings = 0;
    double best_time = INFINITY;
    for (uint32_t spare = 0; spare < count; spare++) {
        if (is_used(plan, spare))
            continue;
        const lh_layout alone = {1, {{spare, plan->stages[stage].layers}}};
        double time = slowest_of(model, kv, workers, &alone);
        lh_layout tried = *plan;
        tried.stages[stage].machine = spare;
        uint32_t crossings = count_crossings(workers, &tried);
        if (isinf(time) ||
            (best != LH_LAYOUT_NOBODY &&
             (crossings > best_crossings || (crossings == best_crossings && time >= best_time))))
            continue;
        best = spare;
        best_crossings = crossings;
        best_time = time;
    }
    plan->stages[stage].machine = best;
    return best != LH_LAYOUT_NOBODY;
}

static bool fill_all(const lh_model_profile *model, const lh_kv_need *kv,
                     const lh_plan_worker *workers, uint32_t count, lh_layout *plan) {
    for (uint32_t i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].machine == LH_LAYOUT_NOBODY &&
            !fill(model, kv, workers, count, plan, i))
            return false;
    return true;
}

lh_status lh_planner_revise(const lh_model_profile *model, const lh_plan_worker *workers,
                            uint32_t count, const lh_planner_options *options,
                            const lh_layout *present, lh_layout *plan, lh_error *error) {
    lh_kv_need met;
    lh_status status = split_all(model, workers, count, options, plan, &met, error);
    if (status != LH_OK || present->stage_count == 0)
        return status;
    lh_layout filled = *present;
    bool is_allowed = options->stages == 0 || filled.stage_count <= options->stages;
    if (!is_allowed || !fill_all(model, &met, workers, count, &filled))
        return LH_OK;
    bool is_nearly_as_good = slowest_of(model, &met, workers, &filled) <=
                                 SLOWER_MAX * slowest_of(model, &met, workers, plan) &&
                             count_crossings(workers, &filled) <= count_crossings(workers, plan);
    if (is_nearly_as_good)
        *plan = filled;
    return LH_OK;
}

/* ---- Speeds ---- */

static bool are_measured(const lh_plan_worker *workers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!lh_machine_speed_is_known(&workers[i].speed))
            return false;
    return true;
}

static double *time_of(lh_plan_worker *worker, bool is_token) {
    return is_token ? &worker->speed.token_us : &worker->speed.prompt_us;
}

/* The least time that is at least `from`; INFINITY: there is none. */
static double find_least(lh_plan_worker *workers, uint32_t count, bool is_token, double from) {
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        if (*time_of(&workers[i], is_token) >= from)
            least = fmin(least, *time_of(&workers[i], is_token));
    return least;
}

/* From the fastest on: it, and all that are close to it, take its time; then the fastest of the
 * rest. */
static void even_out(lh_plan_worker *workers, uint32_t count, bool is_token) {
    double least = find_least(workers, count, is_token, 0);
    while (isfinite(least)) {
        double most = least * EQUAL_FACTOR;
        for (uint32_t i = 0; i < count; i++) {
            double *us = time_of(&workers[i], is_token);
            if (*us >= least && *us < most)
                *us = least;
        }
        least = find_least(workers, count, is_token, most);
    }
}

void lh_planner_compare_speeds(lh_plan_worker *workers, uint32_t count) {
    if (are_measured(workers, count)) {
        even_out(workers, count, false);
        even_out(workers, count, true);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        double threads = workers[i].threads ? workers[i].threads : 1;
        workers[i].speed =
            (lh_machine_speed){CORE_MIB_US / threads, ALONE_DEARER * CORE_MIB_US / threads};
    }
}
