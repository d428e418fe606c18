/* Looks along the steps in the order of arrival: a few dozen at most. */
#include "worker/pipeline/pipeline_order.h"

/* Decode steps in a row while a prefill step is there (worker/api/PROTOCOL.md). More would let those that decode keep new
 * ones waiting, fewer would let prompts slow them down. */
#define OVERTAKES_MAX 4u

bool lh_pipeline_is_in_use_before(const lh_pipeline *pipeline, const lh_pipeline_step *step,
                                  uint64_t sequence) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &pipeline->steps, links) {
        if (earlier == step) {
            return false;
        }
        if (!earlier->ended && lh_pipeline_step_needs(earlier, sequence)) {
            return true;
        }
    }
    return false;
}

bool lh_pipeline_must_wait_to_begin(const lh_pipeline *pipeline, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &pipeline->steps, links) {
        if (earlier == step) {
            return false;
        }
        if (!earlier->ended && earlier->stage_step == NULL && earlier->batch.rows > 0 &&
            (earlier->decode == step->decode || lh_pipeline_step_shares(step, earlier))) {
            return true;
        }
        if (!earlier->ended && lh_pipeline_step_forks_from(step, earlier)) {
            return true;
        }
    }
    return false;
}

typedef enum prefill_state { NO_PREFILL, PREFILL_WAITS, PREFILL_HAS_BEGUN } prefill_state;

/* Of the first prefill step that is not over, in the order in which they begin. */
static prefill_state state_of_prefill(const lh_pipeline *pipeline) {
    const lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (!step->ended && !step->decode && step->batch.rows > 0) {
            return step->stage_step != NULL ? PREFILL_HAS_BEGUN : PREFILL_WAITS;
        }
    }
    return NO_PREFILL;
}

bool lh_pipeline_is_prefills_turn(const lh_pipeline *pipeline) {
    return pipeline->overtakes >= OVERTAKES_MAX;
}

bool lh_pipeline_has_panel(const lh_pipeline *pipeline, const lh_pipeline_step *step) {
    prefill_state prefill = state_of_prefill(pipeline);
    bool is_kept = step->decode ? prefill == PREFILL_WAITS && lh_pipeline_is_prefills_turn(pipeline)
                                : prefill == PREFILL_HAS_BEGUN;
    return pipeline->begun_count + (is_kept && pipeline->steps_max > 1) < pipeline->steps_max;
}

void lh_pipeline_count_overtakes(lh_pipeline *pipeline, const lh_pipeline_step *finished) {
    if (finished->batch.rows > 0) {
        bool has_overtaken = finished->decode && state_of_prefill(pipeline) != NO_PREFILL;
        pipeline->overtakes = has_overtaken ? pipeline->overtakes + 1 : 0;
    }
}

bool lh_pipeline_must_wait_to_finish(const lh_pipeline *pipeline, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &pipeline->steps, links) {
        if (earlier == step) {
            return false;
        }
        if (!earlier->ended && lh_pipeline_step_shares(step, earlier)) {
            return true;
        }
    }
    return false;
}

bool lh_pipeline_shares_with_doomed(const lh_pipeline *pipeline, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &pipeline->steps, links) {
        if (earlier == step) {
            return false;
        }
        if (earlier->doomed && lh_pipeline_step_shares(step, earlier)) {
            return true;
        }
    }
    return false;
}
