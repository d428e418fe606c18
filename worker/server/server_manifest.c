/* What a step's manifest asks: whether the step may be computed here and now, its begin in the pipeline, and its way on
 * to the next hop. */
#include "worker/server/server_state.h"

#include "worker/server/server_batch.h"

#include <stdlib.h>

static lh_status check_epoch(const lh_server_step *step, const lh_step_manifest *manifest, lh_error *error) {
    uint32_t epoch = step->server->place.route.epoch;
    if (manifest->step != step->number) {
        return lh_fail(error, LH_ERR_MALFORMED, "the path names step %llu, the manifest step %llu",
                       (unsigned long long)step->number, (unsigned long long)manifest->step);
    }
    if (manifest->epoch < epoch) {
        return lh_fail(error, LH_ERR_STALE, "step %llu is of epoch %u; the chain is at %u",
                       (unsigned long long)step->number, manifest->epoch, epoch);
    }
    if (manifest->epoch > epoch) {
        return lh_fail(error, LH_ERR_UNAVAILABLE, "step %llu is of epoch %u; this worker is still at %u",
                       (unsigned long long)step->number, manifest->epoch, epoch);
    }
    if (!lh_step_window_admit(&step->server->window, step->number)) {
        return lh_fail(error, LH_ERR_STALE, "step %llu has come before", (unsigned long long)step->number);
    }
    return LH_OK;
}

/* A cache that was kept goes on only from what the gateway knows of it; and what has begun is not taken away again. */
static lh_status check_roll(const lh_server_step *step, const lh_step_manifest *manifest, lh_error *error) {
    lh_server *server = step->server;
    bool has_begun = server->has_begun;
    server->has_begun = true;
    if (manifest->calls_roll && has_begun) {
        return lh_fail(error, LH_ERR_INVALID, "step %llu calls the roll, but is not the first of its epoch",
                       (unsigned long long)step->number);
    }
    if (!manifest->calls_roll && server->awaits_roll) {
        return lh_fail(error, LH_ERR_INVALID,
                       "step %llu came without a roll call before it: this worker has kept its KV cache",
                       (unsigned long long)step->number);
    }
    return LH_OK;
}

static lh_status begin(lh_server_step *step, const lh_step_manifest *manifest, lh_error *error) {
    lh_pipeline_begin_options options = {.decode = manifest->step_class == LH_STEP_DECODE,
                                         .encoding = (uint32_t)step->server->place.route.wire,
                                         .release_count = manifest->release_count,
                                         .releases = (const lh_batch_release *)manifest->releases,
                                         .calls_roll = manifest->calls_roll && step->server->awaits_roll,
                                         .step_context = step};
    lh_batch_segment *segments = NULL;
    lh_status status = lh_server_batch(manifest, &options.batch, &segments, error);
    if (status == LH_OK) {
        status = lh_pipeline_begin(step->server->pipeline, &options, &step->pipeline_step, error);
    }
    if (status == LH_OK && options.calls_roll) {
        step->server->awaits_roll = false;
    }
    free(segments);
    return status;
}

lh_status lh_server_step_submit(lh_server_step *step, const lh_step_manifest *manifest, lh_error *error) {
    lh_server *server = step->server;
    lh_step_manifest onward = *manifest;
    if (onward.cut_count > 0) {
        onward.cuts++;
        onward.cut_count--;
    }
    onward.reach -= onward.reach > 0;
    lh_error cause = {.status = LH_OK};
    lh_status status = lh_worker_client_submit(server->next, &onward, step, &step->downstream, &cause);
    lh_server_times_note(step->times, LH_MOMENT_SUBMITTED);
    if (status != LH_OK) {
        step->hop_failed = true;
        lh_fail(error, status, "the next hop: %.280s", cause.message);
    }
    return status;
}

lh_status lh_server_step_on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    lh_server_step *step = context;
    step->epoch = manifest->epoch;
    step->has_manifest = true;
    step->step_class = manifest->step_class;
    step->ends_here = step->passed = manifest->reach == 1;
    lh_server_stopwatch_start(&step->stopwatch, manifest, step->server->place.route.is_last);
    if (manifest->timed) { /* without memory for it the answer tells less */
        step->times = lh_server_times_create(step->server->name, step->first_byte_us);
        lh_server_times_note(step->times, LH_MOMENT_MANIFEST);
    }
    lh_status status = check_epoch(step, manifest, error);
    if (status == LH_OK) {
        status = check_roll(step, manifest, error);
    }
    if (status == LH_OK) {
        status = begin(step, manifest, error); /* first, so that it computes while the manifest goes on */
    }
    if (status == LH_OK && !step->server->place.route.is_last && !step->ends_here) {
        status = lh_server_step_submit(step, manifest, error);
    }
    return status;
}
