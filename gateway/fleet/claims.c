/* A list by names; a review of a chain changes the entries of its workers. */
#include "gateway/fleet/claims.h"

#include "common/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The model is right to a tenth or two on machines that do nothing else. */
#define CHAIN_TIMES       1.5
#define CHAIN_TIMES_AGAIN 1.15
/* Whoever is wrong by more gets nothing to do either way. */
#define TIMES_MAX 100.0
/* How a stage compares with products that were made up differs between kinds of machines. */
#define MACHINE_TIMES 4.0
/* Less of a change is none. */
#define ENOUGH 1.2
/* Reports come every second or sooner, so they are corrected by what the last review found. */
#define REVIEW_US 3000000
/* From so many rows on a step says what a row of many takes. */
#define MANY_ROWS 16u

#define MIB 1048576.0

/* claims->count: there is none of this worker. */
static uint32_t index_of(const lh_claims *claims, const char *worker) {
    uint32_t i = 0;
    while (i < claims->count && strcmp(claims->claims[i].worker, worker) != 0)
        i++;
    return i;
}

const lh_claim *lh_claims_find(const lh_claims *claims, const char *worker) {
    const uint32_t index = index_of(claims, worker);
    return index < claims->count ? &claims->claims[index] : NULL;
}

static lh_claim claim_of(const lh_claims *claims, const char *worker) {
    const lh_claim *known = lh_claims_find(claims, worker);
    return known ? *known : (lh_claim){.steps = 1, .token = 1, .prompt = 1};
}

double lh_claims_times(const lh_claims *claims, const char *worker) {
    return claims ? claim_of(claims, worker).steps : 1;
}

static lh_claim *place_of(lh_claims *claims, const char *worker) {
    const uint32_t index = index_of(claims, worker);
    if (index < claims->count)
        return &claims->claims[index];
    if (claims->count < LH_CLAIMS_MAX)
        return &claims->claims[claims->count++];
    claims->oldest = (claims->oldest + 1) % LH_CLAIMS_MAX;
    return &claims->claims[claims->oldest];
}

/* By more than two reviews of the same worker do. */
static bool differ(double a, double b) {
    return a > b * ENOUGH || b > a * ENOUGH;
}

/* Nothing is kept of a worker that has always been believed. */
static void set_claim(lh_claims *claims, const char *worker, const lh_claim *found) {
    const lh_claim before = claim_of(claims, worker);
    if (!differ(found->steps, before.steps) && !differ(found->token, before.token) &&
        !differ(found->prompt, before.prompt))
        return;
    lh_claim *place = place_of(claims, worker);
    *place = *found;
    snprintf(place->worker, sizeof place->worker, "%s", worker);
    lh_log(LH_LOG_WARN, "fleet",
           "a worker's speed is not what it says worker=%s steps_times=%.2f token_times=%.2f "
           "prompt_times=%.2f",
           worker, found->steps, found->token, found->prompt);
}

void lh_claim_correct(const lh_claim *claim, lh_machine_speed *speed) {
    speed->token_us *= claim->steps * claim->token;
    speed->prompt_us *= claim->steps * claim->prompt;
}

/* ---- A review ---- */

static double mib_of(const lh_claim_view *view, uint32_t stage) {
    const uint64_t *bytes = view->model->row_bytes;
    const lh_chain_stage *layers = &view->chain->stages[stage];
    double sum = stage + 1 == view->chain->stage_count ? (double)view->model->head_bytes : 0;
    for (uint32_t i = layers->first_layer; i < layers->last_layer; i++)
        sum += (double)bytes[i];
    return sum / MIB;
}

/* What the stage takes for a row that draws a token, as it says. */
static double token_us(const lh_claim_view *view, uint32_t stage) {
    const lh_compute_profile *profile = &view->costs->stages[stage];
    bool is_last = stage + 1 == view->chain->stage_count;
    return lh_cost_stage_us(profile, 0, 1) + (is_last ? profile->draw_us : 0);
}

static double bounded(double times) {
    return fmin(fmax(times, 1), TIMES_MAX);
}

/* Those that are said to take less than this for each MiB take so much: then all together take what
 * was measured. Those who say that they take more are believed. */
static double level_us(const lh_claim_view *view, double measured_us) {
    double level = INFINITY, before;
    do {
        double us = measured_us, mib = 0;
        before = level;
        for (uint32_t i = 0; i < view->chain->stage_count; i++) {
            double own_mib = mib_of(view, i), own_us = token_us(view, i);
            bool is_raised = own_us < level * own_mib;
            mib += is_raised ? own_mib : 0;
            us -= is_raised ? 0 : own_us;
        }
        level = mib > 0 ? us / mib : 0;
    } while (level < before);
    return level;
}

/* Where a chain takes so many times as long as was said: what its stages take for a token. */
static double measured_us(const lh_claim_view *view, double times) {
    double us = (times - 1) * lh_cost_decode_step(view->costs, 0, 1).ring_us;
    for (uint32_t i = 0; i < view->chain->stage_count; i++)
        us += token_us(view, i);
    return us;
}

/* Whether the steps took what they are believed to take, or longer. */
static bool is_as_believed(const lh_claim_view *view, const lh_claims *claims, double times) {
    double ring_us = lh_cost_decode_step(view->costs, 0, 1).ring_us, believed_us = ring_us;
    for (uint32_t i = 0; i < view->chain->stage_count; i++)
        believed_us +=
            (lh_claims_times(claims, view->chain->stages[i].name) - 1) * token_us(view, i);
    return times * ring_us * ENOUGH >= believed_us;
}

/* How many times as slow as it says its steps show a stage to be. One that is not believed, and has
 * few layers by now, shows little: then less is enough, or that nothing contradicts it. */
static double review_steps(const lh_claim_view *view, const lh_claims *claims, double times,
                           uint32_t stage) {
    double before = lh_claims_times(claims, view->chain->stages[stage].name);
    if (times < (before > 1 ? CHAIN_TIMES_AGAIN : CHAIN_TIMES))
        return is_as_believed(view, claims, times) ? before : 1;
    double level = level_us(view, measured_us(view, times));
    double slower = level * mib_of(view, stage) / token_us(view, stage);
    return slower >= (before > 1 ? ENOUGH : LH_CLAIMS_TIMES) ? slower : 1;
}

/* What the stage takes of a row, as many times as the machine was said to take; 0: not known. */
static double of_machine(const lh_claim_view *view, const lh_claims *claims, uint32_t stage,
                         bool is_token) {
    const lh_worker *worker = lh_chain_worker(view->chain, view->registry, stage);
    const lh_compute_profile *profile = &view->costs->stages[stage];
    if (!worker || !lh_machine_speed_is_known(&worker->report.speed) ||
        (!is_token && profile->points[profile->point_count - 1].rows < MANY_ROWS))
        return 0;
    const lh_claim claim = claim_of(claims, worker->report.name);
    const lh_machine_speed *believed = &worker->report.speed;
    double row_us =
        is_token ? token_us(view, stage) : lh_cost_stage_us(profile, 0, MANY_ROWS) / MANY_ROWS;
    double said_us =
        is_token ? believed->token_us / claim.token : believed->prompt_us / claim.prompt;
    return row_us * claim.steps / (mib_of(view, stage) * said_us);
}

/* How many times as much that is as for the worker of which it is least. A machine that was quiet
 * when it was measured, and is busy now, has told no lie: what its steps took when its stage was
 * calibrated is compared. */
static double review_machine(const lh_claim_view *view, const lh_claims *claims, uint32_t stage,
                             bool is_token) {
    double own = of_machine(view, claims, stage, is_token) /
                 fmax(view->costs->stages[stage].calibrated_times, 1);
    double least = own;
    for (uint32_t i = 0; i < view->chain->stage_count && own > 0; i++) {
        double other = of_machine(view, claims, i, is_token);
        least = other > 0 ? fmin(least, other) : least;
    }
    return own > 0 && own >= MACHINE_TIMES * least ? own / least : 1;
}

static bool has_team(const lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].team.follower_count > 0)
            return true;
    return false;
}

/* What two reviews in agreement say of a machine. What a stage takes of many rows is measured
 * rarely, and a disturbance stands in it until the next prompt: so that is not believed to show a
 * lie where single rows, which are measured all the time, show none. */
static lh_claim agreed(const lh_claim *last, const lh_claim *now) {
    lh_claim claim = {.steps = now->steps,
                      .token = fmin(last->token, now->token),
                      .prompt = fmin(last->prompt, now->prompt)};
    if (claim.token == 1)
        claim.prompt = 1;
    return claim;
}

/* All are judged by what was believed of all before. */
static void review_chain(lh_claims *claims, lh_claim_review *review, const lh_claim_view *view) {
    lh_claim found[LH_LAYOUT_STAGES_MAX];
    for (uint32_t i = 0; i < view->chain->stage_count; i++)
        found[i] = (lh_claim){.steps = bounded(review_steps(view, claims, review->least, i)),
                              .token = bounded(review_machine(view, claims, i, true)),
                              .prompt = bounded(review_machine(view, claims, i, false))};
    for (uint32_t i = 0; i < view->chain->stage_count; i++) {
        const lh_claim nothing = {.steps = 1, .token = 1, .prompt = 1};
        const lh_claim claim = agreed(review->has_last ? &review->last[i] : &nothing, &found[i]);
        set_claim(claims, view->chain->stages[i].name, &claim);
        review->last[i] = found[i];
    }
    review->has_last = true;
}

void lh_claims_note_step(lh_claims *claims, lh_claim_review *review, const lh_claim_view *view,
                         double times, int64_t now_us) {
    if (view->chain->epoch != review->epoch)
        *review = (lh_claim_review){.epoch = view->chain->epoch};
    if (review->count == 0) {
        review->since_us = now_us;
        review->least = INFINITY;
    }
    review->count++;
    review->least = fmin(review->least, times);
    if (review->count < LH_CLAIMS_STEPS || now_us - review->since_us < REVIEW_US)
        return;
    review->count = 0;
    if (!has_team(view->chain) && lh_cost_chain_check(view->costs, NULL) == LH_OK)
        review_chain(claims, review, view);
}
