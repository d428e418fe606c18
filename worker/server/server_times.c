/* One record a step, filled as it goes. */
#include "worker/server/server_times.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_server_times {
    lh_step_times record;
    uint64_t handed_bytes;
    uint64_t given_ends[LH_STEP_TIMES_SHARDS_MAX]; /* handed_bytes when each shard was */
    uint32_t handed_count, left_count;             /* of the shards given */
    uint8_t *behind;                               /* frames of the workers behind this one; NULL: none */
    size_t behind_bytes;
};

lh_server_times *lh_server_times_create(const char *worker, int64_t first_byte_us) {
    lh_server_times *times = calloc(1, sizeof(*times));
    if (times == NULL) {
        return NULL;
    }
    lh_step_times *record = &times->record;
    snprintf(record->worker, sizeof(record->worker), "%s", worker);
    record->base_us = (uint64_t)first_byte_us;
    record->manifest_us = record->body_end_us = record->begin_us = record->begun_us = LH_STEP_TIMES_NEVER;
    record->finish_us = record->finished_us = record->submitted_us = record->sent_us = LH_STEP_TIMES_NEVER;
    record->passed_us = record->answered_us = LH_STEP_TIMES_NEVER;
    return times;
}

void lh_server_times_destroy(lh_server_times *times) {
    if (times != NULL) {
        free(times->behind);
        free(times);
    }
}

static uint32_t offset(const lh_server_times *times, int64_t now_us) {
    return lh_step_times_offset(times->record.base_us, now_us);
}

void lh_server_times_note(lh_server_times *times, lh_server_moment moment) {
    if (times == NULL) {
        return;
    }
    lh_step_times *record = &times->record;
    uint32_t *const fields[] = {[LH_MOMENT_MANIFEST] = &record->manifest_us,
                                [LH_MOMENT_BODY_END] = &record->body_end_us,
                                [LH_MOMENT_SUBMITTED] = &record->submitted_us,
                                [LH_MOMENT_PASSED] = &record->passed_us,
                                [LH_MOMENT_ANSWERED] = &record->answered_us};
    *fields[moment] = offset(times, lh_clock_us());
}

void lh_server_times_came(lh_server_times *times, const lh_step_shard_header *shard) {
    if (times == NULL) {
        return;
    }
    uint32_t index = times->record.taken_count++;
    if (index < LH_STEP_TIMES_SHARDS_MAX) {
        times->record.taken[index] = (lh_step_shard_taken){.first_row = shard->first_row,
                                                           .rows = shard->rows,
                                                           .first_column = shard->first_column,
                                                           .columns = shard->columns,
                                                           .bytes = shard->payload_bytes,
                                                           .came_us = offset(times, lh_clock_us()),
                                                           .accept_us = LH_STEP_TIMES_NEVER,
                                                           .accepted_us = LH_STEP_TIMES_NEVER};
    }
}

static void note_accept(lh_server_times *times, const lh_pipeline_span *span) {
    for (uint32_t i = 0; i < times->record.taken_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        lh_step_shard_taken *shard = &times->record.taken[i];
        if (shard->first_row == span->first_row && shard->first_column == span->first_column) {
            shard->accept_us = offset(times, span->begin_us);
            shard->accepted_us = offset(times, span->end_us);
            return;
        }
    }
}

static void note_emission(lh_server_times *times, const lh_pipeline_span *span) {
    uint32_t index = times->record.given_count++;
    if (index < LH_STEP_TIMES_SHARDS_MAX) {
        times->record.given[index] = (lh_step_shard_given){.first_row = span->first_row,
                                                           .rows = span->rows,
                                                           .first_column = span->first_column,
                                                           .columns = span->columns,
                                                           .emitted_us = offset(times, span->end_us),
                                                           .handed_us = LH_STEP_TIMES_NEVER,
                                                           .left_us = LH_STEP_TIMES_NEVER};
    }
}

void lh_server_times_worked(lh_server_times *times, const lh_pipeline_span *span) {
    if (times == NULL) {
        return;
    }
    switch (span->work) {
    case LH_PIPELINE_ACCEPT:
        note_accept(times, span);
        break;
    case LH_PIPELINE_EMIT:
        note_emission(times, span);
        break;
    case LH_PIPELINE_BEGIN:
        times->record.begin_us = offset(times, span->begin_us);
        times->record.begun_us = offset(times, span->end_us);
        break;
    case LH_PIPELINE_FINISH:
        times->record.finish_us = offset(times, span->begin_us);
        times->record.finished_us = offset(times, span->end_us);
        break;
    }
}

void lh_server_times_handed(lh_server_times *times, size_t bytes) {
    if (times == NULL) {
        return;
    }
    times->handed_bytes += bytes;
    uint32_t index = times->handed_count;
    if (index < LH_STEP_TIMES_SHARDS_MAX && index < times->record.given_count) {
        times->record.given[index].bytes = (uint32_t)bytes;
        times->record.given[index].handed_us = offset(times, lh_clock_us());
        times->given_ends[index] = times->handed_bytes;
        times->handed_count++;
    }
}

void lh_server_times_queued(lh_server_times *times, size_t queued_bytes, bool is_all) {
    if (times == NULL) {
        return;
    }
    while (times->left_count < times->handed_count &&
           times->given_ends[times->left_count] + queued_bytes <= times->handed_bytes) {
        times->record.given[times->left_count++].left_us = offset(times, lh_clock_us());
    }
    if (is_all && queued_bytes == 0 && times->record.sent_us == LH_STEP_TIMES_NEVER) {
        times->record.sent_us = offset(times, lh_clock_us());
    }
}

void lh_server_times_passed(lh_server_times *times, const uint8_t *frames, size_t length) {
    if (times == NULL || times->behind != NULL) {
        return;
    }
    size_t most = LH_STEP_TIMES_BODY_BYTES_MAX - LH_STEP_TIMES_BYTES_MAX - 16u; /* room for one's own frame */
    size_t fitting = lh_step_times_fitting(frames, length, most);
    times->behind = fitting > 0 ? malloc(fitting) : NULL;
    if (times->behind != NULL) {
        memcpy(times->behind, frames, fitting);
        times->behind_bytes = fitting;
    }
}

uint8_t *lh_server_times_render(lh_server_times *times, size_t *length) {
    size_t capacity = lh_step_times_bytes(&times->record) + times->behind_bytes;
    uint8_t *body = malloc(capacity);
    if (body == NULL || lh_step_times_encode(&times->record, body, capacity, length, NULL) != LH_OK) {
        free(body);
        return NULL;
    }
    if (times->behind_bytes > 0) {
        memcpy(body + *length, times->behind, times->behind_bytes);
        *length += times->behind_bytes;
    }
    return body;
}
