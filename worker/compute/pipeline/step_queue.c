/* Looks along the steps in the order of arrival: a few dozen at most. */
#include "worker/compute/pipeline/step_queue.h"

#include <assert.h>

/* Decode steps in a row while a prefill step is there (common/protocol/PROTOCOL.md). More would let
 * those that decode keep new ones waiting, fewer would let prompts slow them down. */
#define OVERTAKES_MAX 4u

void lh_step_queue_init(lh_step_queue *queue) {
    *queue = (lh_step_queue){0};
    TAILQ_INIT(&queue->steps);
}

/* ---- Turns ---- */

typedef enum prefill_state { NO_PREFILL, PREFILL_WAITS, PREFILL_HAS_BEGUN } prefill_state;

/* Of the first prefill step that is not over, in the order in which they begin. */
static prefill_state state_of_prefill(const lh_step_queue *queue) {
    const lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        if (!step->ended && !step->decode && step->batch.rows > 0)
            return step->stage_step ? PREFILL_HAS_BEGUN : PREFILL_WAITS;
    }
    return NO_PREFILL;
}

bool lh_step_queue_is_prefills_turn(const lh_step_queue *queue) {
    return queue->overtakes >= OVERTAKES_MAX;
}

void lh_step_queue_count_overtakes(lh_step_queue *queue, const lh_pipeline_step *finishing) {
    assert(!finishing->ended);
    if (finishing->batch.rows > 0) {
        bool has_overtaken = finishing->decode && state_of_prefill(queue) != NO_PREFILL;
        queue->overtakes = has_overtaken ? queue->overtakes + 1 : 0;
    }
}

/* ---- What comes next ---- */

static bool has_buffer(const lh_step_queue *queue, bool decode) {
    prefill_state prefill = state_of_prefill(queue);
    bool is_kept = decode ? prefill == PREFILL_WAITS && lh_step_queue_is_prefills_turn(queue)
                          : prefill == PREFILL_HAS_BEGUN;
    uint32_t begun = 0;
    const lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        begun += step->stage_step != NULL;
    }
    assert(begun <= queue->begun_max);
    return begun + (is_kept && queue->begun_max > 1) < queue->begun_max;
}

static bool must_wait_to_begin(const lh_step_queue *queue, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &queue->steps, links) {
        if (earlier == step)
            return false;
        if (!earlier->ended && !earlier->stage_step && earlier->batch.rows > 0 &&
            (earlier->decode == step->decode || lh_pipeline_step_shares(step, earlier))) {
            return true;
        }
        if (!earlier->ended && lh_pipeline_step_forks_from(step, earlier))
            return true;
    }
    return false;
}

lh_pipeline_step *lh_step_queue_next_to_begin(const lh_step_queue *queue, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        if (!step->ended && step->decode == decode && !step->stage_step && step->batch.rows > 0)
            return has_buffer(queue, decode) && !must_wait_to_begin(queue, step) ? step : NULL;
    }
    return NULL;
}

static bool must_wait_to_finish(const lh_step_queue *queue, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &queue->steps, links) {
        if (earlier == step)
            return false;
        if (!earlier->ended && lh_pipeline_step_shares(step, earlier))
            return true;
    }
    return false;
}

lh_pipeline_step *lh_step_queue_next_to_finish(const lh_step_queue *queue, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        if (!step->ended && step->decode == decode)
            return lh_pipeline_step_is_complete(step) && !must_wait_to_finish(queue, step) ? step
                                                                                           : NULL;
    }
    return NULL;
}

lh_pipeline_step *lh_step_queue_next_to_accept(const lh_step_queue *queue, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        if (!step->ended && step->decode == decode && step->stage_step && step->shards)
            return step;
    }
    return NULL;
}

/* ---- Ends ---- */

bool lh_step_queue_is_in_use_before(const lh_step_queue *queue, const lh_pipeline_step *step,
                                    uint64_t sequence) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &queue->steps, links) {
        if (earlier == step)
            return false;
        if (!earlier->ended && lh_pipeline_step_needs(earlier, sequence))
            return true;
    }
    return false;
}

static bool shares_with_doomed(const lh_step_queue *queue, const lh_pipeline_step *step) {
    const lh_pipeline_step *earlier;
    TAILQ_FOREACH(earlier, &queue->steps, links) {
        if (earlier == step)
            return false;
        if (earlier->doomed && lh_pipeline_step_shares(step, earlier))
            return true;
    }
    return false;
}

void lh_step_queue_doom(lh_step_queue *queue, lh_pipeline_step *failed) {
    assert(!failed->ended && !failed->doomed && failed->failure.status != LH_OK);
    failed->doomed = true;
    for (lh_pipeline_step *step = TAILQ_NEXT(failed, links); step; step = TAILQ_NEXT(step, links)) {
        if (!step->ended && step->stage_step && shares_with_doomed(queue, step)) {
            step->doomed = true;
            lh_fail(&step->failure, LH_ERR_INVALID,
                    "an earlier step of one of its sequences failed: %.200s",
                    failed->failure.message);
        }
    }
}

lh_pipeline_step *lh_step_queue_take_doomed(lh_step_queue *queue) {
    lh_pipeline_step *step;
    TAILQ_FOREACH_REVERSE(step, &queue->steps, lh_pipeline_steps, links) {
        if (step->doomed) {
            step->doomed = false;
            return step;
        }
    }
    return NULL;
}

lh_pipeline_step *lh_step_queue_remove_done(lh_step_queue *queue) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &queue->steps, links) {
        if (step->ended && step->forgotten && step->truncated) {
            assert(!step->stage_step && !step->shards && !step->doomed);
            TAILQ_REMOVE(&queue->steps, step, links);
            return step;
        }
    }
    return NULL;
}
