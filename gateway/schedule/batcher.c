/* Forms steps.
 *
 * A chain is a pipeline: it is fast when each of its stages always has a step to compute. One
 * sequence alone cannot do that, since its next token is known only when the last one has come
 * around the ring. Several can: their rows are dealt over as many steps as the pipeline is deep,
 * and whenever one step's tokens return, the same rows leave again with the next step, while the
 * others are on their way:
 *
 *      stage 1  | A B C | D E | A B C | D E |        five sequences, two groups
 *      stage 2          | A B C | D E | A B C | ...
 *
 * A prompt is cut into chunks that follow each other without waiting for anything (row shards), so
 * that it fills the pipeline by itself; only the last chunk samples a token. How it is cut is the
 * planner's (overlap_plan.h), when its first rows leave, and once more for the rest of it where the
 * chain has changed much meanwhile. Decode steps are of a class that overtakes prefill steps on
 * each hop; but a stage finishes what it has begun. So while others' tokens are sampled, chunks are
 * cut further, to what the slowest stage can do within a budget (step_budget.h): a token waits for
 * one such piece at each stage at most. */
#include "gateway/schedule/batcher.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/decode_groups.h"
#include "gateway/cost/overlap_shape.h"
#include "gateway/cost/pipeline_depth.h"
#include "gateway/cost/step_budget.h"
#include "gateway/schedule/fair_share.h"
#include "gateway/schedule/sequence_ask.h"
#include "gateway/schedule/step_builder.h"

#include <assert.h>
#include <stdlib.h>

/* Steps that decode groups are good for: costs and positions change slowly. */
#define DEAL_STEPS 32u

/* While a prompt of another is under way, whose turn is before that of the tenant that has most of
 * the chain, the rows of that one leave once in four steps of prompts. */
#define CROWD_SHARE 4u

/* Rows of a step that prompts which go whole share: more of them would hold up the first one's
 * token. */
#define SHARED_ROWS_MAX 64u

/* Every eighth chunk is of the prompt that was let in first. */
#define ELDEST_SHARE 8u

/* Of an answer that is computed again: the most rows of a step, and what it may take at the slowest
 * stage. Who comes to the chain waits for a layer of such a step at most. */
#define AGAIN_ROWS_MAX 64u
#define AGAIN_STEP_US  10000

struct lh_batcher {
    lh_batcher_options options;
    lh_step_builder builder;
    uint32_t epoch, stages, lost_stages;
    lh_batcher_figures figures;

    uint32_t dealt_sequences; /* that the groups were chosen for; 0: none yet */
    uint64_t dealt_at;        /* figures.steps then */

    /* The prompt that has had the chain for itself since its first rows left, at `alone_since_us`;
     * 0: none has. */
    uint64_t alone_sequence;
    int64_t alone_since_us;

    /* chunks of others since the prompt that was let in first had one */
    uint32_t prefills_since_eldest;
    /* steps of prompts since rows left of who has most of the chain */
    uint32_t prompts_since_crowd;

    /* Of the step that is being formed: a cut for each hop between workers, and how far it goes. */
    uint32_t cut_count, hop_limit;
    lh_step_cut cuts[LH_STEP_CUTS_MAX];
    lh_step_truncation resync[LH_STEP_TRUNCATIONS_MAX];
};

lh_status lh_batcher_create(const lh_batcher_options *options, lh_batcher **batcher,
                            lh_error *error) {
    lh_batcher *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the batcher");
    made->options = *options;
    if (!lh_step_builder_init(&made->builder, options->store, options->masks, options->vocabulary,
                              options->rows_max, options->segments_max)) {
        lh_batcher_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a step of %u rows",
                       options->rows_max);
    }
    *batcher = made;
    return LH_OK;
}

void lh_batcher_destroy(lh_batcher *batcher) {
    if (!batcher)
        return;
    lh_step_builder_reset(&batcher->builder);
    free(batcher);
}

void lh_batcher_begin_chain(lh_batcher *batcher, uint32_t epoch, uint32_t stages,
                            uint32_t lost_stages) {
    assert(stages > 0 && lost_stages <= stages);
    if (lh_overlap_planner_chain(batcher->options.planner)->stage_count != stages)
        lh_overlap_planner_forget(batcher->options.planner, stages);
    batcher->epoch = epoch;
    batcher->stages = stages;
    batcher->lost_stages = lost_stages;
    batcher->dealt_sequences = 0;
    batcher->alone_sequence = 0;
    batcher->figures.groups = (lh_decode_groups){0};
}

lh_batcher_figures lh_batcher_current_figures(const lh_batcher *batcher) {
    return batcher->figures;
}

/* The rows are in the step that is being formed. */
static void add_rows(lh_batcher *batcher, lh_sequence *sequence, uint32_t rows,
                     lh_step_class step_class) {
    batcher->figures.replayed_rows += lh_sequence_kv_replayed(&sequence->kv, rows);
    if (sequence->record)
        lh_answer_record_note_sent(sequence->record, batcher->options.chain_name, batcher->epoch);
    lh_step_builder_add(&batcher->builder, sequence, rows);
    if (lh_sequence_pending(sequence) == 0)
        lh_running_set_sample(batcher->options.running, sequence, step_class);
}

/* ---- Decode: which sequences' next rows leave together, and in how many steps ---- */

/* Walks those that have something under way or to send. */
static const lh_sequence *next_active(const lh_batcher *batcher, const lh_sequence *sequence) {
    sequence = lh_running_set_next(batcher->options.running, sequence);
    return sequence && sequence->schedule.state != LH_SEQUENCE_STALLED ? sequence : NULL;
}

/* Of those that decode, on average. */
static uint32_t mean_position(const lh_batcher *batcher) {
    uint64_t sum = 0;
    for (const lh_sequence *sequence = NULL; (sequence = next_active(batcher, sequence));)
        if (sequence->schedule.state != LH_SEQUENCE_PREFILL)
            sum += sequence->length;
    return (uint32_t)(sum / lh_running_set_decoding(batcher->options.running));
}

/* The number of steps that the sequences are dealt into. */
static uint32_t deal(lh_batcher *batcher, uint32_t sequences) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(batcher->options.planner);
    if (sequences == 0 || !costs)
        return lh_decode_depth_unmeasured(batcher->stages);
    if (batcher->dealt_sequences != sequences ||
        batcher->figures.steps - batcher->dealt_at >= DEAL_STEPS) {
        batcher->dealt_sequences = sequences;
        batcher->dealt_at = batcher->figures.steps;
        batcher->figures.groups =
            lh_decode_groups_choose(costs, mean_position(batcher), sequences, LH_DECODE_DEPTH_MAX,
                                    batcher->options.rows_max);
    }
    return batcher->figures.groups.count;
}

/* Of the tenant that has most of the chain; NULL: none has. */
static const lh_share *find_crowd(const lh_batcher *batcher) {
    for (const lh_sequence *sequence = NULL; (sequence = next_active(batcher, sequence));)
        if (lh_share_crowds(sequence->schedule.share))
            return sequence->schedule.share;
    return NULL;
}

static bool is_prompt(const lh_sequence_schedule *schedule) {
    return schedule->state == LH_SEQUENCE_PREFILL || schedule->sampling_class == LH_STEP_PREFILL;
}

/* Where a prompt is on the chain of one whose turn is before that of the crowd: workers do decode
 * steps first, so those of the crowd would hold up the other's prompt, however few. So no more than
 * one is under way then, and not always one. */
static bool has_to_yield(const lh_batcher *batcher, const lh_share *crowd) {
    const lh_sequence *sequence = NULL;
    while (crowd && (sequence = next_active(batcher, sequence))) {
        const lh_sequence_schedule *schedule = &sequence->schedule;
        if (schedule->share != crowd && is_prompt(schedule) &&
            lh_share_precedes(schedule->share, crowd))
            return true;
    }
    return false;
}

/* The rows of each ready sequence, one as a rule and more where tokens were forced; but no more
 * sequences than their share of the pipeline: the others are to fill the other steps. What does not
 * fit the largest step goes in several. */
static void fill_decode(lh_batcher *batcher, lh_inflight_step *step) {
    const lh_share *crowd = find_crowd(batcher);
    bool yields = has_to_yield(batcher, crowd);
    bool crowd_stays = yields && batcher->prompts_since_crowd < CROWD_SHARE;
    uint32_t decoding = lh_running_set_decoding(batcher->options.running);
    uint32_t depth = yields ? 1 : deal(batcher, decoding);
    uint32_t group = lh_min_u32((decoding + depth - 1) / depth, batcher->options.rows_max);
    lh_step_builder_begin(&batcher->builder, step, LH_STEP_DECODE, batcher->options.rows_max);
    if (!lh_inflight_has_place(batcher->options.inflight, LH_STEP_DECODE, depth))
        return;
    for (lh_sequence *sequence = batcher->options.running->lists[LH_SEQUENCE_READY].first, *next;
         sequence && step->segment_count < group; sequence = next) {
        next = sequence->next;
        uint32_t rows = lh_sequence_pending(sequence);
        bool is_crowd = sequence->schedule.share == crowd;
        if (crowd_stays && is_crowd)
            continue;
        uint32_t room = lh_step_builder_room(&batcher->builder, sequence);
        if (!lh_step_builder_may_join(&batcher->builder, sequence) || room == 0 ||
            (room < rows && step->segment_count > 0))
            return;
        if (!lh_sequence_kv_grow(&sequence->kv, batcher->options.store, rows)) {
            lh_running_set_move(batcher->options.running, sequence, LH_SEQUENCE_STALLED);
            continue;
        }
        if (is_crowd)
            batcher->prompts_since_crowd = 0;
        add_rows(batcher, sequence, lh_min_u32(rows, room), LH_STEP_DECODE);
    }
}

/* ---- Prefill: the next chunk of a prompt, or several short prompts together ---- */

static const lh_overlap_spec *spec_of(const lh_batcher *batcher, const lh_sequence *sequence) {
    return sequence->request.has_overlap ? &sequence->request.overlap : &batcher->options.overlap;
}

/* Made when its first rows are to leave, and looked at once more for what is left where the chain
 * is not what it was. */
static const lh_overlap_plan *plan_of(lh_batcher *batcher, lh_sequence *sequence) {
    lh_overlap_planner *planner = batcher->options.planner;
    lh_sequence_schedule *schedule = &sequence->schedule;
    const lh_overlap_spec *spec = spec_of(batcher, sequence);
    bool follows = lh_inflight_count(batcher->options.inflight, LH_STEP_PREFILL) > 0;
    if (!schedule->has_plan) {
        lh_overlap_planner_plan(planner, spec, sequence->kv.computed, lh_sequence_pending(sequence),
                                follows, &schedule->plan);
        schedule->has_plan = true;
    } else if (schedule->plan.revision != lh_overlap_planner_revision(planner)) {
        lh_overlap_planner_renew(planner, spec, sequence->kv.computed,
                                 lh_sequence_pending(sequence), follows, &schedule->plan);
        batcher->alone_sequence = 0; /* what was predicted for it was for another chain */
    }
    return &schedule->plan;
}

static bool is_short(const lh_batcher *batcher, const lh_sequence *sequence) {
    return !sequence->kv.is_begun && spec_of(batcher, sequence)->mode == LH_OVERLAP_AUTO &&
           lh_sequence_pending(sequence) <= lh_min_u32(SHARED_ROWS_MAX, batcher->options.rows_max);
}

/* A step that long prompts and others' next tokens share a stage with must not take longer than the
 * budget. */
static uint32_t within_budget(const lh_batcher *batcher, const lh_sequence *sequence,
                              uint32_t rows) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(batcher->options.planner);
    if (lh_running_set_decoding(batcher->options.running) == 0 ||
        batcher->options.step_budget_us == 0 || !costs)
        return rows;
    return lh_step_budget_rows(costs, sequence->kv.computed, rows, batcher->options.step_budget_us);
}

/* As planned; but short prompts that are not alone go whole: they fill the pipe by their number,
 * and sharing steps gets all of them through sooner than cutting each for itself. */
static uint32_t chunk_of(lh_batcher *batcher, lh_sequence *sequence, bool is_alone) {
    const lh_overlap_plan *plan = plan_of(batcher, sequence);
    const lh_sequence_kv *kv = &sequence->kv;
    uint32_t pending = lh_sequence_pending(sequence), rows = pending;
    if (is_alone || !is_short(batcher, sequence))
        rows = lh_min_u32(lh_overlap_plan_rows_at(plan, kv->computed, batcher->options.rows_max),
                          pending);
    if (lh_sequence_kv_is_restoring(kv))
        rows = lh_min_u32(rows, kv->restored - kv->computed);
    return within_budget(batcher, sequence, rows);
}

static bool is_whole(const lh_sequence *sequence, uint32_t chunk) {
    return !sequence->kv.is_begun && chunk == lh_sequence_pending(sequence);
}

/* Without overlap a chunk leaves when the one before it has come around. */
static bool waits_for_itself(const lh_batcher *batcher, const lh_sequence *sequence) {
    return sequence->schedule.plan.is_serial && sequence->kv.is_begun &&
           lh_inflight_holds(batcher->options.inflight, sequence);
}

static void use_cuts(lh_batcher *batcher, const lh_overlap_plan *plan) {
    for (uint32_t h = 0; h < plan->cut_count; h++)
        if (plan->cuts[h])
            batcher->cut_count = batcher->stages - 1;
    for (uint32_t h = 0; h < batcher->cut_count; h++)
        batcher->cuts[h] =
            lh_overlap_cut(h < plan->cut_count ? plan->cuts[h] : 0, batcher->options.width);
}

/* Whose chunk is next. Between tenants it is the turn of the one that has had the least; of a
 * tenant's own the lower priority goes first, then what is through the soonest. That every eighth
 * chunk is the eldest's keeps a long prompt from waiting for ever while shorter ones come.
 *
 * In a simulation (two equal stages, four of five prompts of 60 rows among ones of 1,500, 70 %
 * load) first tokens came after 249 ms on average and 2.9 times what the prompt takes alone; with a
 * chunk of each in turn after 421 ms and 6.7 times; first come first served after 666 ms and 18
 * times. The longest wait of a long prompt was 2.4, 3.0 and 2.0 s. */
static bool goes_before(const lh_sequence *a, const lh_sequence *b) {
    const lh_sequence_schedule *of_a = &a->schedule, *of_b = &b->schedule;
    if (of_a->share != of_b->share)
        return lh_share_precedes(of_a->share, of_b->share);
    if (a->request.priority != b->request.priority)
        return a->request.priority < b->request.priority;
    uint32_t rows_a = lh_sequence_pending(a), rows_b = lh_sequence_pending(b);
    return rows_a != rows_b ? rows_a < rows_b : of_a->id < of_b->id;
}

static lh_sequence *pick_prompt(const lh_batcher *batcher) {
    lh_sequence *eldest = batcher->options.running->lists[LH_SEQUENCE_PREFILL].first,
                *best = eldest;
    if (!eldest || batcher->prefills_since_eldest + 1 >= ELDEST_SHARE)
        return eldest;
    for (lh_sequence *other = eldest->next; other; other = other->next)
        if (goes_before(other, best))
            best = other;
    return best;
}

/* Further prompts that go whole, too. */
static void add_company(lh_batcher *batcher) {
    for (lh_sequence *sequence; (sequence = pick_prompt(batcher));) {
        if (!lh_step_builder_may_join(&batcher->builder, sequence) ||
            !is_whole(sequence, chunk_of(batcher, sequence, false)) ||
            lh_step_builder_room(&batcher->builder, sequence) < lh_sequence_pending(sequence))
            return;
        add_rows(batcher, sequence, lh_sequence_pending(sequence), LH_STEP_PREFILL);
    }
}

/* As planned; but while other tenants are about, the one that has most of the chain leaves no
 * chunks waiting at its stages, which theirs would come behind. */
static uint32_t depth_of(const lh_sequence_schedule *schedule) {
    uint32_t depth = schedule->plan.depth;
    return lh_share_crowds(schedule->share) ? lh_prefill_depth_lean(depth) : depth;
}

/* What others have sent since it got its pages need not be computed again. Not what is in the step
 * that is being formed: so never for company. */
static void share_more(lh_batcher *batcher, lh_sequence *sequence) {
    if (!sequence->kv.is_begun && lh_sequence_is_scored(sequence) &&
        lh_sequence_kv_share_more(&sequence->kv, batcher->options.store, sequence->history,
                                  sequence->length))
        sequence->schedule.has_plan = false;
}

/* How many rows the step of this chunk may have: further short prompts may share it. */
static uint32_t row_limit(const lh_batcher *batcher, const lh_sequence *first, uint32_t chunk) {
    if (!is_whole(first, chunk) || chunk >= SHARED_ROWS_MAX)
        return chunk;
    uint32_t limit =
        within_budget(batcher, first, lh_min_u32(SHARED_ROWS_MAX, batcher->options.rows_max));
    /* A budget cuts into even parts, so that of more rows fewer may be allowed. */
    return lh_max_u32(limit, chunk);
}

static bool may_leave(const lh_batcher *batcher, const lh_sequence *first) {
    return lh_inflight_has_place(batcher->options.inflight, LH_STEP_PREFILL,
                                 depth_of(&first->schedule)) &&
           !waits_for_itself(batcher, first) && lh_step_builder_room(&batcher->builder, first) > 0;
}

static void fill_prefill(lh_batcher *batcher, lh_inflight_step *step) {
    const lh_sequence_list *prompts = &batcher->options.running->lists[LH_SEQUENCE_PREFILL];
    lh_sequence *first = pick_prompt(batcher);
    if (!first) {
        lh_step_builder_begin(&batcher->builder, step, LH_STEP_PREFILL, 0);
        return;
    }
    share_more(batcher, first);
    bool is_alone =
        prompts->count == 1 && lh_inflight_count(batcher->options.inflight, LH_STEP_PREFILL) == 0;
    uint32_t chunk = chunk_of(batcher, first, is_alone);
    lh_step_builder_begin(&batcher->builder, step, LH_STEP_PREFILL,
                          row_limit(batcher, first, chunk));
    if (!may_leave(batcher, first))
        return;
    batcher->prompts_since_crowd++;
    batcher->prefills_since_eldest =
        first == prompts->first ? 0 : batcher->prefills_since_eldest + 1;
    use_cuts(batcher, &first->schedule.plan);
    batcher->hop_limit = lh_sequence_kv_is_restoring(&first->kv) ? batcher->lost_stages : 0;
    bool has_company = is_whole(first, chunk);
    add_rows(batcher, first, chunk, LH_STEP_PREFILL);
    if (has_company)
        add_company(batcher);
}

/* ---- An answer that is computed again, where nothing else is to be done ---- */

static uint32_t rows_again(const lh_batcher *batcher) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(batcher->options.planner);
    uint32_t most = lh_min_u32(AGAIN_ROWS_MAX, batcher->options.rows_max);
    if (!costs)
        return lh_min_u32(most, LH_RECOMPUTATION_DRAWS);
    return lh_step_budget_rows(costs, lh_recomputation_position(batcher->options.again), most,
                               AGAIN_STEP_US);
}

/* As many steps as there are stages keep all of them busy. */
static void fill_again(lh_batcher *batcher, lh_inflight_step *step) {
    lh_recomputation *again = batcher->options.again;
    if (!lh_recomputation_has_rows(again) ||
        !lh_inflight_has_place(batcher->options.inflight, LH_STEP_PREFILL, batcher->stages))
        return;
    uint32_t rows = rows_again(batcher);
    lh_step_builder_begin(&batcher->builder, step, LH_STEP_PREFILL, rows);
    lh_recomputation_add(again, &batcher->builder, rows);
    step->draws_often = true;
}

/* ---- What a prompt takes that has the chain for itself ---- */

/* The step is about to leave. */
static void watch_prompt(lh_batcher *batcher, const lh_inflight_step *step, int64_t now_us) {
    const lh_inflight *inflight = batcher->options.inflight;
    bool is_idle = lh_inflight_count(inflight, LH_STEP_DECODE) == 0 &&
                   lh_inflight_count(inflight, LH_STEP_PREFILL) == 0;
    uint64_t number = lh_block_table_number(step->segments[0].block_table);
    /* What scores cost beside is not the plan's. */
    if (step->segment_count != 1 || step->step_class != LH_STEP_PREFILL || batcher->hop_limit > 0 ||
        lh_row_due_is_of_prompt(&step->segments[0].due)) {
        batcher->alone_sequence = 0;
    } else if (step->segments[0].is_first) {
        batcher->alone_sequence = is_idle ? number : 0;
        batcher->alone_since_us = now_us;
    } else if (number != batcher->alone_sequence) {
        batcher->alone_sequence = 0;
    }
}

void lh_batcher_note_first_token(lh_batcher *batcher, const lh_sequence *sequence, int64_t now_us) {
    if (batcher->alone_sequence != lh_block_table_number(sequence->kv.table))
        return;
    lh_overlap_planner_note(batcher->options.planner, &sequence->schedule.plan,
                            (double)(now_us - batcher->alone_since_us));
    batcher->alone_sequence = 0;
}

/* ---- Steps ---- */

/* Truncations ride along, or go by themselves: not more than a few such steps at a time. */
static void add_truncations(lh_batcher *batcher, const lh_inflight_step *step) {
    if (step->rows > 0 || lh_inflight_empties(batcher->options.inflight) < LH_TRUNCATION_DEPTH)
        lh_step_builder_add_truncations(&batcher->builder);
}

static bool is_empty(const lh_inflight_step *step) {
    return step->rows == 0 && step->truncation_count == 0;
}

static void launch(lh_batcher *batcher, lh_inflight_step *step, int64_t now_us,
                   lh_step_manifest *manifest) {
    if (step->rows > 0)
        watch_prompt(batcher, step, now_us);
    lh_inflight_launch(batcher->options.inflight, step, now_us);
    batcher->figures.steps++;
    batcher->figures.rows += step->rows;
    if (batcher->hop_limit == 0 && step->rows > 0)
        lh_step_builder_add_mask_drops(&batcher->builder);
    *manifest = lh_step_builder_manifest(&batcher->builder, batcher->epoch);
}

/* It is of the class that nothing overtakes. */
void lh_batcher_resync(lh_batcher *batcher, int64_t now_us, lh_step_manifest *manifest) {
    lh_inflight_step *step = lh_inflight_blank(batcher->options.inflight);
    assert(lh_inflight_total(batcher->options.inflight) == 0);
    lh_step_builder_begin(&batcher->builder, step, LH_STEP_DECODE, 0);
    launch(batcher, step, now_us, manifest);
    manifest->resyncs = true;
    manifest->truncation_count =
        lh_kv_store_resync(batcher->options.store, batcher->resync, LH_STEP_TRUNCATIONS_MAX);
    manifest->truncations = batcher->resync;
}

bool lh_batcher_next(lh_batcher *batcher, int64_t now_us, lh_step_manifest *manifest) {
    lh_inflight_step *step = lh_inflight_blank(batcher->options.inflight);
    if (!step)
        return false;
    batcher->cut_count = batcher->hop_limit = 0;
    fill_decode(batcher, step);
    add_truncations(batcher, step);
    if (is_empty(step)) {
        fill_prefill(batcher, step);
        add_truncations(batcher, step);
    }
    if (is_empty(step))
        fill_again(batcher, step);
    if (is_empty(step))
        return false;
    launch(batcher, step, now_us, manifest);
    manifest->cut_count = batcher->cut_count;
    manifest->cuts = batcher->cuts;
    manifest->hop_limit = batcher->hop_limit;
    return true;
}
