/* Orders out of frames. What a stage says of an order is for the most part what the first member's
 * says of it too, so that both have failed alike and go on: a shard that is refused, a step that is
 * stale. What can only have happened here ends the mesh. */
#include "worker/team/follower.h"

#include "worker/mesh/mesh_gather.h"
#include "worker/team/order_code.h"

#include <assert.h>
#include <stdlib.h>

/* A step by the first member's number. */
typedef struct led_step {
    lh_stage_step *step; /* NULL: none has this number */
    void *batch;         /* what its asks point to */
    bool has_finished;
} led_step;

typedef struct follower {
    lh_stage *stage;
    lh_mesh_step finishing;
    uint32_t finished; /* steps that were ordered to finish */
    uint32_t steps_max;
    led_step *steps; /* [steps_max] */
    bool rests;
} follower;

/* ---- Results, which the first member reports ---- */

static void ignore_shard(void *context, const lh_stage_shard *shard) {
    (void)context, (void)shard;
}

static void ignore_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    (void)context, (void)segment, (void)part;
}

/* ---- Orders ---- */

static lh_status begin(follower *f, led_step *led, lh_decoded_order *decoded, lh_error *error) {
    if (led->step)
        return lh_fail(error, LH_ERR_PROTOCOL, "order: step %u begins before it has ended",
                       decoded->order.step);
    lh_status status = lh_stage_begin(f->stage, decoded->order.batch, &led->step, error);
    if (status != LH_OK)
        return status;
    led->batch = decoded->memory;
    led->has_finished = false;
    decoded->memory = NULL;
    return LH_OK;
}

/* These the first member's stage has met as well. */
static bool is_shared(lh_status status) {
    return status == LH_OK || status == LH_ERR_INVALID || status == LH_ERR_CANCELLED;
}

static lh_status finish(follower *f, led_step *led, lh_error *error) {
    if (led->has_finished || !lh_stage_is_ready(led->step))
        return lh_fail(error, LH_ERR_PROTOCOL, "order: a step finishes that is not ready");
    f->finishing.step = f->finished++;
    led->has_finished = true;
    const lh_gather gather = lh_mesh_gather(&f->finishing);
    const lh_stage_output output = {
        .on_shard = ignore_shard, .on_answer = ignore_answer, .gather = &gather};
    lh_status status = lh_stage_finish(led->step, &output, error);
    return is_shared(status) ? LH_OK : status;
}

static void end(led_step *led) {
    if (led->step)
        lh_stage_end(led->step);
    free(led->batch);
    *led = (led_step){0};
}

static lh_status obey_for_step(follower *f, lh_decoded_order *decoded, lh_error *error) {
    const lh_stage_order *order = &decoded->order;
    led_step *led = order->step < f->steps_max ? &f->steps[order->step] : NULL;
    if (!led || (!led->step && order->kind != LH_ORDER_BEGIN))
        return lh_fail(error, LH_ERR_PROTOCOL, "order: there is no step %u", order->step);
    switch (order->kind) {
    case LH_ORDER_BEGIN:
        return begin(f, led, decoded, error);
    case LH_ORDER_ACCEPT:
        if (led->has_finished)
            return lh_fail(error, LH_ERR_PROTOCOL, "order: a shard of a step that has finished");
        lh_stage_accept(led->step, order->shard, NULL); /* what is refused here is so there */
        return LH_OK;
    case LH_ORDER_FINISH:
        return finish(f, led, error);
    default:
        assert(order->kind == LH_ORDER_END);
        end(led);
        return LH_OK;
    }
}

static bool has_steps(const follower *f) {
    for (uint32_t i = 0; i < f->steps_max; i++)
        if (f->steps[i].step)
            return true;
    return false;
}

/* Of a new epoch: no step may be under way. */
static lh_status start_anew(follower *f, const lh_stage_order *order, lh_error *error) {
    if (has_steps(f))
        return lh_fail(error, LH_ERR_PROTOCOL, "order: a new epoch while steps are under way");
    if (order->kind == LH_ORDER_RESET)
        lh_stage_reset(f->stage);
    else
        lh_stage_resync_kv(f->stage, order->sequences, order->sequence_count, NULL);
    return LH_OK;
}

static lh_status obey(follower *f, lh_decoded_order *decoded, lh_error *error) {
    const lh_stage_order *order = &decoded->order;
    switch (order->kind) {
    case LH_ORDER_TRUNCATE:
        lh_stage_truncate(f->stage, order->sequences->sequence, order->sequences->length);
        return LH_OK;
    case LH_ORDER_TAKE_MASKS:
        lh_stage_take_masks(f->stage, order->masks, NULL);
        return LH_OK;
    case LH_ORDER_DROP_MASKS:
        lh_stage_drop_masks(f->stage);
        return LH_OK;
    case LH_ORDER_RESET:
    case LH_ORDER_RESYNC_KV:
        return start_anew(f, order, error);
    case LH_ORDER_REST:
        f->rests = true;
        return has_steps(f)
                   ? lh_fail(error, LH_ERR_PROTOCOL, "order: rest while steps are under way")
                   : LH_OK;
    default:
        return obey_for_step(f, decoded, error);
    }
}

static lh_status obey_next(follower *f, lh_error *error) {
    const void *bytes;
    size_t length;
    lh_decoded_order decoded;
    lh_status status = lh_mesh_take_order(f->finishing.mesh, &bytes, &length, error);
    if (status == LH_OK)
        status = lh_order_decode(bytes, length, &decoded, error);
    if (status != LH_OK)
        return status;
    status = obey(f, &decoded, error);
    free(decoded.memory);
    return status;
}

/* In any order: without the others the KV cache is of no use. */
static void end_all(follower *f) {
    for (uint32_t i = 0; i < f->steps_max; i++)
        end(&f->steps[i]);
    free(f->steps);
}

lh_status lh_follower_run(lh_stage *stage, lh_mesh *mesh, lh_error *error) {
    follower f = {.stage = stage,
                  .finishing = {.mesh = mesh},
                  .steps_max = lh_stage_made_with(stage)->steps_max};
    lh_status status = LH_OK;
    assert(lh_mesh_own(mesh) > 0);
    f.steps = calloc(f.steps_max, sizeof *f.steps);
    if (!f.steps)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "team: out of memory");
    while (status == LH_OK && !f.rests)
        status = obey_next(&f, error);
    if (status != LH_OK)
        lh_mesh_end(mesh);
    if (f.steps)
        end_all(&f);
    return status;
}
