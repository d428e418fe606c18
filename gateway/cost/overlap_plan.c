/* The planner: searches anew for each prompt, but keeps to what it has chosen before where that is
 * as good. */
#include "gateway/cost/overlap_plan.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"
#include "gateway/cost/overlap_search.h"
#include "gateway/cost/prediction_watch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* While nothing is measured. */
#define DEFAULT_CHUNK_ROWS 64u

/* Another shape is taken when what it would have saved adds up to this share: at once, or over some
 * prompts (the cumulative sum of E. S. Page, "Continuous Inspection Schemes", 1954). What the least
 * of many predictions that err saves is no saving. */
#define SAVED_ENOUGH    0.04
#define SAVED_BY_ERRING 0.01

/* Inputs that changed by this factor make plans in progress stale: well over what noise does, and
 * little enough that what is left of a prompt gains from a new plan. */
#define REVISION_FACTOR 1.5

/* What is left of a prompt is cut anew for no less than this share: predictions are known to about
 * as much. */
#define RENEWAL_SAVING 0.05

/* Of sums of times, as a share. */
#define ROUNDING 1e-9

/* Two for each doubling of the prompt's length: within a class one shape fits all. */
#define CLASSES 64u

typedef struct choice {
    bool is_made;
    lh_overlap_shape shape;
    double missed; /* what others would have saved, as parts of a prompt's time */
    bool is_off;   /* prompts that have the chain for themselves go without overlap all the same */
} choice;

/* What the last prompts of a class took, each beside what was predicted for it; 0: not yet. One
 * alone may have been held up by something else. */
typedef struct account {
    double ratios[2];
} account;

struct lh_overlap_planner {
    uint32_t rows_max, depth_max;
    uint32_t revision;
    bool is_measured;
    lh_cost_chain chain;
    lh_cost_chain revised; /* when the revision last changed */
    lh_error lacks;
    choice choices[CLASSES];
    account chosen[CLASSES], off[CLASSES]; /* since the revision last changed */
    lh_overlap_totals totals;
    lh_prediction_watch watch;
    lh_overlap_search *search;
};

/* ---- Life ---- */

lh_status lh_overlap_planner_create(uint32_t rows_max, uint32_t depth_max,
                                    lh_overlap_planner **planner, lh_error *error) {
    lh_overlap_planner *p = calloc(1, sizeof *p);
    lh_overlap_search *search = calloc(1, sizeof *search);
    if (!p || !search) {
        free(p);
        free(search);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the overlap planner");
    }
    assert(rows_max > 0 && depth_max > 0);
    p->rows_max = rows_max;
    p->depth_max = depth_max;
    p->search = search;
    lh_overlap_planner_update(p, &p->chain);
    *planner = p;
    return LH_OK;
}

void lh_overlap_planner_destroy(lh_overlap_planner *planner) {
    if (!planner)
        return;
    free(planner->search);
    free(planner);
}

/* ---- Inputs ---- */

static bool differs(double a, double b) {
    return a > b * REVISION_FACTOR || b > a * REVISION_FACTOR;
}

/* In what decides: the time of a default chunk on each stage, the rate and delay of each hop. */
static bool has_drifted(const lh_cost_chain *a, const lh_cost_chain *b) {
    if (a->stage_count != b->stage_count)
        return true;
    for (uint32_t s = 0; s < a->stage_count; s++)
        if (differs(lh_cost_stage_us(&a->stages[s], 0, DEFAULT_CHUNK_ROWS),
                    lh_cost_stage_us(&b->stages[s], 0, DEFAULT_CHUNK_ROWS)))
            return true;
    for (uint32_t h = 1; h < a->stage_count; h++)
        if (differs(a->hops[h].bytes_per_us, b->hops[h].bytes_per_us) ||
            differs(a->hops[h].delay_us + 1000, b->hops[h].delay_us + 1000))
            return true;
    return false;
}

void lh_overlap_planner_update(lh_overlap_planner *planner, const lh_cost_chain *chain) {
    bool was_measured = planner->is_measured;
    if (chain != &planner->chain)
        planner->chain = *chain;
    planner->is_measured = lh_cost_chain_check(chain, &planner->lacks) == LH_OK;
    if (planner->is_measured &&
        (!was_measured || has_drifted(&planner->chain, &planner->revised))) {
        planner->revised = planner->chain;
        planner->revision++;
        memset(planner->chosen, 0, sizeof planner->chosen);
        memset(planner->off, 0, sizeof planner->off);
    }
}

void lh_overlap_planner_forget(lh_overlap_planner *planner, uint32_t stage_count) {
    memset(planner->choices, 0, sizeof planner->choices);
    planner->chain = (lh_cost_chain){.stage_count = stage_count};
    lh_overlap_planner_update(planner, &planner->chain);
}

uint32_t lh_overlap_planner_revision(const lh_overlap_planner *planner) {
    return planner->revision;
}

const char *lh_overlap_planner_lacks(const lh_overlap_planner *planner) {
    return planner->is_measured ? NULL : planner->lacks.message;
}

const lh_cost_chain *lh_overlap_planner_chain(const lh_overlap_planner *planner) {
    return &planner->chain;
}

const lh_cost_chain *lh_overlap_planner_costs(const lh_overlap_planner *planner) {
    return planner->is_measured ? &planner->chain : NULL;
}

/* ---- The choice ---- */

static uint32_t class_of(uint32_t rows) {
    assert(rows > 0);
    uint32_t octave = 31 - (uint32_t)__builtin_clz(rows);
    uint32_t middle = octave > 0 ? (3u << (octave - 1)) : UINT32_MAX;
    return 2 * octave + (rows >= middle);
}

static lh_overlap_search *start_search(const lh_overlap_planner *planner, uint32_t position,
                                       uint32_t rows) {
    lh_overlap_search *search = planner->search;
    search->chain = &planner->chain;
    search->position = position;
    search->rows = rows;
    search->rows_max = planner->rows_max;
    search->depth_max = planner->depth_max;
    return search;
}

/* The kept shape, or the best one where that is enough better. The search has run. */
static lh_overlap_shape settle(lh_overlap_search *search, choice *kept) {
    double before = kept->is_made ? lh_overlap_search_score(search, &kept->shape) : -1;
    if (before >= 0)
        kept->missed = fmax(0, kept->missed + 1 - search->best_score / before - SAVED_BY_ERRING);
    if (before < 0 || kept->missed >= SAVED_ENOUGH)
        *kept = (choice){.is_made = true, .shape = search->best};
    return kept->shape;
}

/* ---- What prompts took ---- */

/* By which predictions are too short, at least; 1 while that is not known. */
static double ratio_of(const account *a) {
    return a->ratios[1] > 0 ? fmin(a->ratios[0], a->ratios[1]) : 1;
}

static bool is_worse_than_off(const lh_overlap_planner *planner, const lh_overlap_plan *plan) {
    uint32_t class = class_of(plan->rows);
    const account *chosen = &planner->chosen[class];
    return chosen->ratios[1] > 0 &&
           ratio_of(chosen) * plan->predicted_us > ratio_of(&planner->off[class]) * plan->off_us;
}

static void add_to_totals(lh_overlap_totals *totals, const lh_overlap_plan *plan, double took_us) {
    totals->prompts++;
    totals->measured_us += took_us;
    totals->predicted_us += plan->predicted_us;
    totals->bound_us += plan->bound_us;
    totals->off_us += plan->off_us;
}

lh_overlap_totals lh_overlap_planner_totals(const lh_overlap_planner *planner) {
    return planner->totals;
}

static void watch(lh_overlap_planner *planner, const lh_overlap_plan *plan, double took_us) {
    lh_prediction_watch window;
    if (lh_prediction_watch_note(&planner->watch, took_us, plan->predicted_us, &window))
        lh_log(LH_LOG_WARN, "overlap",
               "what was measured is far from what was predicted: a machine or a link is not what "
               "was measured of it prompts=%u measured_ms=%.1f predicted_ms=%.1f times=%.2f",
               window.prompts, window.measured_us / 1e3, window.predicted_us / 1e3,
               window.measured_us / window.predicted_us);
}

void lh_overlap_planner_note(lh_overlap_planner *planner, const lh_overlap_plan *plan,
                             double took_us) {
    uint32_t class = class_of(plan->rows);
    account *a = plan->is_serial ? &planner->off[class] : &planner->chosen[class];
    bool is_comparable = plan->predicted_us > 0 && plan->revision == planner->revision;
    if (is_comparable && took_us > 0) {
        add_to_totals(&planner->totals, plan, took_us);
        watch(planner, plan, took_us);
    }
    if (!is_comparable || !(plan->is_chosen || plan->is_serial) || !(took_us > 0))
        return;
    a->ratios[1] = a->ratios[0];
    a->ratios[0] = took_us / plan->predicted_us;
    lh_log(LH_LOG_DEBUG, "overlap", "took rows=%u ms=%.1f predicted_ms=%.1f without_overlap=%d",
           plan->rows, took_us / 1e3, plan->predicted_us / 1e3, plan->is_serial);
}

/* ---- Plans ---- */

static void set_chunks(lh_overlap_plan *plan, const lh_overlap_shape *shape, uint32_t rows_max) {
    uint32_t chunks[LH_COST_CHUNKS_MAX];
    if (!lh_overlap_shape_chunks(shape, plan->rows, rows_max, chunks, &plan->chunk_count))
        plan->chunk_count = 0;
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        plan->chunks[i] = (uint16_t)chunks[i];
    for (uint32_t h = 0; h < plan->cut_count; h++)
        plan->cuts[h] = lh_overlap_cut_shards(shape->cuts[h]) > 1 ? shape->cuts[h] : 0;
}

/* Where nothing is searched: off, by hand, while nothing is measured, and on one stage, to which no
 * other could be busy meanwhile. */
static lh_overlap_shape fixed_shape(const lh_overlap_planner *planner,
                                    const lh_overlap_spec *spec) {
    lh_overlap_shape shape = {.body_rows = spec->mode == LH_OVERLAP_MANUAL ? spec->rows
                                                                           : DEFAULT_CHUNK_ROWS};
    if (spec->mode == LH_OVERLAP_OFF ||
        (spec->mode == LH_OVERLAP_AUTO && planner->chain.stage_count == 1))
        shape.body_rows = 0;
    if (spec->mode == LH_OVERLAP_MANUAL)
        memset(shape.cuts, (int)spec->columns, sizeof shape.cuts);
    return shape;
}

/* One chunk for each stage keeps every stage busy, another one each hop; two are on their way back.
 */
static uint32_t default_depth(const lh_overlap_planner *planner) {
    return lh_min_u32(2 * planner->chain.stage_count + 2, planner->depth_max);
}

/* What keeps the busiest part busy with chunks like these, of this prompt or of others: Little's
 * law. */
static uint32_t steady_depth(const lh_overlap_planner *planner, const lh_overlap_plan *plan) {
    uint32_t rows = 1;
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        rows = lh_max_u32(plan->chunks[i], rows);
    double ring_us = lh_cost_off_us(&planner->chain, plan->position, rows, rows);
    double busiest_us = lh_cost_busiest_us(&planner->chain, plan->position, rows);
    double depth = busiest_us > 0 ? ring_us / busiest_us + 1 : 1;
    return depth < planner->depth_max ? (uint32_t)depth : planner->depth_max;
}

static uint32_t depth_of(const lh_overlap_planner *planner, lh_overlap_search *search,
                         const lh_overlap_shape *shape, const lh_overlap_plan *plan) {
    uint32_t alone = lh_overlap_search_depth(search, shape), steady = steady_depth(planner, plan);
    uint32_t depth = lh_max_u32(alone, steady);
    return lh_min_u32(depth + depth / 2 + 2, planner->depth_max);
}

/* Chunks of exactly so many rows, the last one being what is left. */
static void set_exact_chunks(lh_overlap_plan *plan, uint32_t length, uint32_t rows_max) {
    length = lh_min_u32(length, rows_max);
    plan->chunk_count = 0;
    for (uint32_t done = 0; done < plan->rows && plan->chunk_count < LH_COST_CHUNKS_MAX;
         done += length)
        plan->chunks[plan->chunk_count++] = (uint16_t)lh_min_u32(plan->rows - done, length);
}

static void predict(const lh_overlap_planner *planner, lh_overlap_search *search,
                    const lh_overlap_shape *shape, lh_overlap_plan *plan) {
    plan->bound_us = lh_cost_bound_us(&planner->chain, plan->position, plan->rows);
    plan->off_us = lh_cost_off_us(&planner->chain, plan->position, plan->rows, planner->rows_max);
    if (plan->is_serial) {
        plan->predicted_us = plan->off_us;
        return;
    }
    double us = lh_overlap_search_predict(search, shape, planner->depth_max);
    plan->predicted_us = us > 0 ? us : 0;
    plan->depth = us > 0 ? depth_of(planner, search, shape, plan) : planner->depth_max;
    assert(us <= 0 || us >= plan->bound_us * (1 - ROUNDING));
}

/* Without overlap: what was chosen did worse. */
static void fall_back(const lh_overlap_planner *planner, lh_overlap_plan *plan) {
    plan->is_serial = true;
    plan->depth = default_depth(planner);
    plan->predicted_us = plan->off_us;
    memset(plan->cuts, 0, sizeof plan->cuts);
    set_exact_chunks(plan, planner->rows_max, planner->rows_max);
}

static void make(const lh_overlap_planner *planner, const lh_overlap_spec *spec, choice *kept,
                 uint32_t position, uint32_t rows, bool follows, lh_overlap_plan *plan) {
    lh_overlap_search *search = start_search(planner, position, rows);
    lh_overlap_shape shape = fixed_shape(planner, spec);
    bool searches =
        spec->mode == LH_OVERLAP_AUTO && planner->is_measured && planner->chain.stage_count > 1;
    *plan = (lh_overlap_plan){
        .position = position,
        .rows = rows,
        .cut_count = planner->chain.stage_count > 1 ? planner->chain.stage_count - 1 : 0,
        .depth = default_depth(planner),
        .is_serial = spec->mode == LH_OVERLAP_OFF,
        .is_chosen = searches,
        .revision = planner->revision};
    if (searches && lh_overlap_search_run(search))
        shape = settle(search, kept);
    if (follows)
        shape.head = 0;
    set_chunks(plan, &shape, planner->rows_max);
    if (!searches)
        set_exact_chunks(plan, shape.body_rows ? shape.body_rows : planner->rows_max,
                         planner->rows_max);
    if (planner->is_measured)
        predict(planner, search, &shape, plan);
    if (searches && !follows) {
        kept->is_off = is_worse_than_off(planner, plan);
        if (kept->is_off)
            fall_back(planner, plan);
    }
}

static bool is_same(const lh_overlap_shape *a, const lh_overlap_shape *b) {
    return a->body_rows == b->body_rows && a->head == b->head && a->tail == b->tail &&
           memcmp(a->cuts, b->cuts, sizeof a->cuts) == 0;
}

void lh_overlap_planner_plan(lh_overlap_planner *planner, const lh_overlap_spec *spec,
                             uint32_t position, uint32_t rows, bool follows,
                             lh_overlap_plan *plan) {
    choice *kept = &planner->choices[class_of(rows)], before = *kept;
    char text[160];
    make(planner, spec, kept, position, rows, follows, plan);
    bool is_first = !before.is_made && kept->is_made;
    bool is_other = before.is_made && !is_same(&before.shape, &kept->shape);
    bool is_given_up = kept->is_off && !before.is_off;
    /* The costs are measured anew with each step, so another cut is no news to an operator. */
    lh_log(is_first || is_given_up ? LH_LOG_INFO : LH_LOG_DEBUG, "overlap",
           "%s rows=%u plan=\"%s\" depth=%u predicted_ms=%.1f bound_ms=%.1f off_ms=%.1f",
           is_given_up ? "no overlap, with which prompts took longer"
           : is_first  ? "first cut"
           : is_other  ? "another cut"
                       : "cut",
           rows, lh_overlap_plan_text(plan, text, sizeof text), plan->depth,
           plan->predicted_us / 1e3, plan->bound_us / 1e3, plan->off_us / 1e3);
}

/* What these rows take from an empty chain when they go by a plan. */
static double predict_rest(lh_overlap_planner *planner, const lh_overlap_plan *plan,
                           uint32_t position, uint32_t rows) {
    lh_overlap_search *search = planner->search;
    lh_cost_schedule schedule = {
        .position = position, .rows = search->chunks, .cuts = search->cuts, .depth = plan->depth};
    if (plan->is_serial)
        return lh_cost_off_us(&planner->chain, position, rows, planner->rows_max);
    for (uint32_t done = 0; done < rows && schedule.count < LH_COST_CHUNKS_MAX;) {
        uint32_t chunk = lh_overlap_plan_rows_at(plan, position + done, planner->rows_max);
        search->chunks[schedule.count++] = lh_min_u32(chunk, rows - done);
        done += lh_min_u32(chunk, rows - done);
    }
    for (uint32_t h = 0; h < plan->cut_count; h++)
        search->cuts[h] = plan->cuts[h] ? lh_overlap_cut(plan->cuts[h], planner->chain.width)
                                        : (lh_step_cut){.count = 0};
    return lh_cost_predict_us(&planner->chain, &schedule, &search->work);
}

void lh_overlap_planner_renew(lh_overlap_planner *planner, const lh_overlap_spec *spec,
                              uint32_t position, uint32_t rows, bool follows,
                              lh_overlap_plan *plan) {
    lh_overlap_plan other;
    lh_overlap_planner_plan(planner, spec, position, rows, follows, &other);
    bool is_comparable = planner->is_measured && plan->cut_count == other.cut_count;
    if (is_comparable && predict_rest(planner, &other, position, rows) >
                             (1 - RENEWAL_SAVING) * predict_rest(planner, plan, position, rows))
        plan->revision = planner->revision;
    else
        *plan = other;
}

void lh_overlap_planner_show(const lh_overlap_planner *planner, uint32_t rows,
                             lh_overlap_plan *plan) {
    const lh_overlap_spec by_itself = {.mode = LH_OVERLAP_AUTO};
    choice kept = planner->choices[class_of(rows)];
    make(planner, &by_itself, &kept, 0, rows, false, plan);
}

/* ---- A plan's use ---- */

uint32_t lh_overlap_plan_rows_at(const lh_overlap_plan *plan, uint32_t position,
                                 uint32_t rows_max) {
    uint32_t begin = plan->position;
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        uint32_t end = begin + plan->chunks[i];
        if (position >= begin && position < end)
            return lh_min_u32(end - position, rows_max);
        begin = end;
    }
    return rows_max;
}

/* Appends within the capacity. */
static void append(char *text, size_t capacity, size_t *used, const char *format, unsigned a,
                   unsigned b) {
    int written = *used < capacity ? snprintf(text + *used, capacity - *used, format, a, b) : 0;
    *used += written > 0 ? (size_t)written : 0;
}

static void append_cut(char *text, size_t capacity, size_t *used, uint8_t code) {
    static const char *const marks[] = {"%u", "%u<", "%u>", "%u="};
    if (lh_overlap_cut_shards(code) == 1)
        append(text, capacity, used, "-", 0, 0);
    else
        append(text, capacity, used, marks[code / LH_OVERLAP_CUT_FIRST & 3],
               lh_overlap_cut_shards(code), 0);
}

const char *lh_overlap_plan_text(const lh_overlap_plan *plan, char *text, size_t capacity) {
    size_t used = 0;
    bool has_cuts = false;
    text[0] = 0;
    for (uint32_t i = 0, run; i < plan->chunk_count; i += run) {
        for (run = 1; i + run < plan->chunk_count && plan->chunks[i + run] == plan->chunks[i];)
            run++;
        append(text, capacity, &used, i ? "+" : "", 0, 0);
        if (run > 1)
            append(text, capacity, &used, "%ux%u", run, plan->chunks[i]);
        else
            append(text, capacity, &used, "%u", plan->chunks[i], 0);
    }
    for (uint32_t h = 0; h < plan->cut_count; h++)
        has_cuts |= plan->cuts[h] != 0;
    for (uint32_t h = 0; has_cuts && h < plan->cut_count; h++) {
        append(text, capacity, &used, h ? "," : " c", 0, 0);
        append_cut(text, capacity, &used, plan->cuts[h]);
    }
    return text;
}
