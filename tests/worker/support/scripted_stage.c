#include "tests/worker/support/scripted_stage.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_stage {
    int unused;
};

struct lh_stage_step {
    uint32_t name, accepted;
    lh_batch batch;
    uint32_t sampled[8];
    lh_sampling sampling[8];
    uint32_t sampled_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    char text[4096], copy[4096];
    bool hold, hold_after_first, held;
    char failing_call[16];
    uint32_t failing_step, shards_needed, shards_emitted;
    lh_status failing_status;
} script;

static void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    size_t length = strlen(script.text);
    vsnprintf(script.text + length, sizeof(script.text) - length, format, arguments);
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

static lh_status scripted_status(const char *call, uint32_t step, lh_error *error) {
    pthread_mutex_lock(&lock);
    lh_status status = script.failing_step == step && strcmp(script.failing_call, call) == 0
                           ? script.failing_status
                           : LH_OK;
    pthread_mutex_unlock(&lock);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "scripted failure of step %u", step);
}

void scripted_stage_reset(void) {
    pthread_mutex_lock(&lock);
    memset(&script, 0, sizeof(script));
    pthread_mutex_unlock(&lock);
}

lh_stage *scripted_stage_make(void) {
    return calloc(1, sizeof(lh_stage));
}

void scripted_stage_hold(bool hold) {
    pthread_mutex_lock(&lock);
    script.hold = hold;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void scripted_stage_hold_after_first_shard(bool hold) {
    pthread_mutex_lock(&lock);
    script.hold_after_first = hold;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void scripted_stage_wait_held(void) {
    pthread_mutex_lock(&lock);
    while (!script.held)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void scripted_stage_fail(const char *call, uint32_t step, lh_status status) {
    pthread_mutex_lock(&lock);
    snprintf(script.failing_call, sizeof(script.failing_call), "%s", call);
    script.failing_step = step;
    script.failing_status = status;
    pthread_mutex_unlock(&lock);
}

void scripted_stage_need_shards(uint32_t shards) {
    pthread_mutex_lock(&lock);
    script.shards_needed = shards;
    pthread_mutex_unlock(&lock);
}

void scripted_stage_emit(uint32_t shards) {
    pthread_mutex_lock(&lock);
    script.shards_emitted = shards;
    pthread_mutex_unlock(&lock);
}

const char *scripted_stage_log(void) {
    pthread_mutex_lock(&lock);
    memcpy(script.copy, script.text, sizeof(script.copy));
    pthread_mutex_unlock(&lock);
    return script.copy;
}

/* ---- worker/compute/stage/stage.h ---- */

void lh_stage_use_pool(lh_stage *stage, lh_thread_pool *pool) {
    (void)stage;
    (void)pool;
}

void lh_stage_lead(lh_stage *stage, const lh_stage_leading *leading) {
    (void)stage;
    (void)leading;
}

void lh_stage_limit_kv(lh_stage *stage, size_t pages) {
    (void)stage;
    (void)pages;
}

void lh_stage_destroy(lh_stage *stage) {
    if (!stage)
        return;
    note("destroy, ");
    free(stage);
}

void lh_stage_truncate(lh_stage *stage, uint64_t sequence, uint32_t length) {
    (void)stage;
    if (length == 0)
        note("free %llu, ", (unsigned long long)sequence);
    else
        note("truncate %llu to %u, ", (unsigned long long)sequence, length);
}

void lh_stage_reset(lh_stage *stage) {
    (void)stage;
    note("reset, ");
}

lh_status lh_stage_resync_kv(lh_stage *stage, const lh_step_truncation *resync, uint32_t count,
                             lh_error *error) {
    (void)stage;
    for (uint32_t i = 0; i < count; i++)
        note("name %llu at %u, ", (unsigned long long)resync[i].sequence, resync[i].length);
    note("forget the rest, ");
    return scripted_status("roll", count, error);
}

lh_status lh_stage_take_masks(lh_stage *stage, const lh_step_masks *masks, lh_error *error) {
    (void)stage;
    for (uint32_t i = 0; i < masks->drop_count; i++)
        note("drop mask %llu, ", (unsigned long long)masks->drops[i]);
    for (uint32_t i = 0; i < masks->count; i++)
        note("keep mask %llu: %u, ", (unsigned long long)masks->list[i].number,
             masks->list[i].code_bytes > 0 ? masks->list[i].code[0] : 0);
    return masks->count > 0 ? scripted_status("mask", 0, error) : LH_OK;
}

void lh_stage_drop_masks(lh_stage *stage) {
    (void)stage;
    note("drop all masks, ");
}

lh_status lh_stage_begin(lh_stage *stage, const lh_batch *batch, lh_stage_step **step,
                         lh_error *error) {
    (void)stage;
    note("begin %u, ", batch->tokens[0]);
    lh_status status = scripted_status("begin", batch->tokens[0], error);
    if (status != LH_OK)
        return status;
    lh_stage_step *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "scripted stage: out of memory");
    made->name = batch->tokens[0];
    for (uint32_t i = 0; i < batch->segment_count; i++)
        if (batch->segments[i].ask.draws) {
            made->sampling[made->sampled_count] = batch->segments[i].ask.sampling;
            made->sampled[made->sampled_count++] = i;
        }
    *step = made;
    return LH_OK;
}

lh_status lh_stage_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error) {
    note("accept %u, ", step->name);
    step->accepted += shard->values[0] == shard->values[0];
    return scripted_status("accept", step->name, error);
}

bool lh_stage_is_ready(const lh_stage_step *step) {
    pthread_mutex_lock(&lock);
    bool ready = step->accepted >= script.shards_needed;
    pthread_mutex_unlock(&lock);
    return ready;
}

static void hold_while(const bool *hold) {
    pthread_mutex_lock(&lock);
    script.held = true;
    pthread_cond_broadcast(&changed);
    while (*hold)
        pthread_cond_wait(&changed, &lock);
    script.held = false;
    pthread_mutex_unlock(&lock);
}

lh_status lh_stage_finish(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    note("finish %u, ", step->name);
    hold_while(&script.hold);
    if (output->is_cancelled(output->context))
        return lh_fail(error, LH_ERR_CANCELLED, "cancelled in the stage");
    pthread_mutex_lock(&lock);
    uint32_t shards = script.shards_emitted;
    pthread_mutex_unlock(&lock);
    float values[32] = {0};
    for (uint32_t i = 0; i < shards; i++) {
        lh_stage_shard shard = {.rows = 1, .first_column = 32 * i, .columns = 32, .values = values};
        output->on_shard(output->context, &shard);
        if (i == 0)
            hold_while(&script.hold_after_first);
    }
    for (uint32_t i = 0; i < step->sampled_count; i++) {
        const lh_sampling *sampling = &step->sampling[i];
        lh_row_answer result = {.token = sampling->bias_count > 0 ? sampling->biases[0].token
                                                                  : 1000 + step->name};
        output->on_answer(output->context, step->sampled[i], &result);
    }
    return scripted_status("finish", step->name, error);
}

uint32_t lh_stage_gather_times(const lh_stage *stage, lh_gather_times *times, uint32_t count) {
    (void)stage;
    assert(count >= 2);
    times[0] = (lh_gather_times){.bytes = 10};
    times[1] = (lh_gather_times){.bytes = 20};
    return 2;
}

void lh_stage_end(lh_stage_step *step) {
    note("end %u, ", step->name);
    free(step);
}

/* The rest of the seam, so that the linker does not take the real stage: a script makes its stage
 * itself. */
lh_status lh_stage_create(const lh_gguf *gguf, const lh_model_config *config,
                          const lh_weight_source *source, const lh_stage_options *options,
                          void (*on_progress)(void *, uint64_t, uint64_t), void *progress_context,
                          lh_stage **stage, lh_error *error) {
    (void)gguf;
    (void)config;
    (void)source;
    (void)options;
    (void)on_progress;
    (void)progress_context;
    (void)stage;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "scripted stage: made by scripted_stage_make");
}

const lh_kv_cache *lh_stage_kv(const lh_stage *stage) {
    (void)stage;
    return NULL;
}

const lh_stage_options *lh_stage_made_with(const lh_stage *stage) {
    (void)stage;
    return NULL;
}

const lh_model_config *lh_stage_config(const lh_stage *stage) {
    (void)stage;
    return NULL;
}

size_t lh_stage_weight_bytes(const lh_stage *stage) {
    (void)stage;
    return 0;
}

size_t lh_stage_exchange_bytes_max(const lh_stage *stage) {
    (void)stage;
    return 0;
}
