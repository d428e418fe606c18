/* One record a step, filled as it goes. */
#include "worker/serve/step_record.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_step_record {
    lh_step_times times;
    uint64_t handed_bytes;
    uint64_t given_ends[LH_STEP_TIMES_SHARDS_MAX]; /* handed_bytes when each shard was */
    uint32_t handed_count, left_count;             /* of the shards given */
    /* frames of the workers behind this one; NULL: none */
    uint8_t *behind;
    size_t behind_bytes;
};

lh_step_record *lh_step_record_create(const char *worker, int64_t first_byte_us) {
    lh_step_record *record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    lh_step_times *times = &record->times;
    snprintf(times->worker, sizeof times->worker, "%s", worker);
    times->base_us = (uint64_t)first_byte_us;
    times->manifest_us = times->body_end_us = times->begin_us = times->begun_us =
        LH_STEP_TIMES_NEVER;
    times->finish_us = times->finished_us = times->submitted_us = times->sent_us =
        LH_STEP_TIMES_NEVER;
    times->passed_us = times->answered_us = LH_STEP_TIMES_NEVER;
    return record;
}

void lh_step_record_destroy(lh_step_record *record) {
    if (record) {
        free(record->behind);
        free(record);
    }
}

static uint32_t offset(const lh_step_record *record, int64_t now_us) {
    return lh_step_times_offset(record->times.base_us, now_us);
}

void lh_step_record_note_moment(lh_step_record *record, lh_step_moment moment) {
    if (!record)
        return;
    lh_step_times *times = &record->times;
    uint32_t *const fields[] = {[LH_MOMENT_MANIFEST] = &times->manifest_us,
                                [LH_MOMENT_BODY_END] = &times->body_end_us,
                                [LH_MOMENT_SUBMITTED] = &times->submitted_us,
                                [LH_MOMENT_PASSED] = &times->passed_us,
                                [LH_MOMENT_ANSWERED] = &times->answered_us};
    *fields[moment] = offset(record, lh_clock_us());
}

void lh_step_record_note_shard(lh_step_record *record, const lh_step_shard_header *shard) {
    if (!record)
        return;
    uint32_t index = record->times.taken_count++;
    if (index < LH_STEP_TIMES_SHARDS_MAX) {
        record->times.taken[index] = (lh_step_shard_taken){.first_row = shard->first_row,
                                                           .rows = shard->rows,
                                                           .first_column = shard->first_column,
                                                           .columns = shard->columns,
                                                           .bytes = shard->payload_bytes,
                                                           .came_us = offset(record, lh_clock_us()),
                                                           .accept_us = LH_STEP_TIMES_NEVER,
                                                           .accepted_us = LH_STEP_TIMES_NEVER};
    }
}

static void note_accept(lh_step_record *record, const lh_pipeline_span *span) {
    for (uint32_t i = 0; i < record->times.taken_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        lh_step_shard_taken *shard = &record->times.taken[i];
        if (shard->first_row == span->first_row && shard->first_column == span->first_column) {
            shard->accept_us = offset(record, span->begin_us);
            shard->accepted_us = offset(record, span->end_us);
            return;
        }
    }
}

static void note_emission(lh_step_record *record, const lh_pipeline_span *span) {
    uint32_t index = record->times.given_count++;
    if (index < LH_STEP_TIMES_SHARDS_MAX) {
        record->times.given[index] =
            (lh_step_shard_given){.first_row = span->first_row,
                                  .rows = span->rows,
                                  .first_column = span->first_column,
                                  .columns = span->columns,
                                  .emitted_us = offset(record, span->end_us),
                                  .handed_us = LH_STEP_TIMES_NEVER,
                                  .left_us = LH_STEP_TIMES_NEVER};
    }
}

static void note_gathers(lh_step_record *record, const lh_pipeline_span *span) {
    record->times.gather_count = span->gather_count;
    for (uint32_t i = 0; i < span->gather_count && i < LH_STEP_TIMES_GATHERS_MAX; i++) {
        const lh_gather_times *gather = &span->gathers[i];
        record->times.gathers[i] = (lh_step_gather){.bytes = gather->bytes,
                                                    .posted_us = offset(record, gather->posted_us),
                                                    .there_us = offset(record, gather->there_us),
                                                    .taken_us = offset(record, gather->taken_us),
                                                    .waited_us = (uint32_t)gather->waited_us};
    }
}

void lh_step_record_note_work(lh_step_record *record, const lh_pipeline_span *span) {
    if (!record)
        return;
    switch (span->work) {
    case LH_PIPELINE_ACCEPT:
        note_accept(record, span);
        break;
    case LH_PIPELINE_EMIT:
        note_emission(record, span);
        break;
    case LH_PIPELINE_BEGIN:
        record->times.begin_us = offset(record, span->begin_us);
        record->times.begun_us = offset(record, span->end_us);
        break;
    case LH_PIPELINE_FINISH:
        record->times.finish_us = offset(record, span->begin_us);
        record->times.finished_us = offset(record, span->end_us);
        note_gathers(record, span);
        break;
    }
}

void lh_step_record_note_handed(lh_step_record *record, size_t bytes) {
    if (!record)
        return;
    record->handed_bytes += bytes;
    uint32_t index = record->handed_count;
    if (index < LH_STEP_TIMES_SHARDS_MAX && index < record->times.given_count) {
        record->times.given[index].bytes = (uint32_t)bytes;
        record->times.given[index].handed_us = offset(record, lh_clock_us());
        record->given_ends[index] = record->handed_bytes;
        record->handed_count++;
    }
}

void lh_step_record_note_queued(lh_step_record *record, size_t queued_bytes, bool is_all) {
    if (!record)
        return;
    while (record->left_count < record->handed_count &&
           record->given_ends[record->left_count] + queued_bytes <= record->handed_bytes) {
        record->times.given[record->left_count++].left_us = offset(record, lh_clock_us());
    }
    if (is_all && queued_bytes == 0 && record->times.sent_us == LH_STEP_TIMES_NEVER)
        record->times.sent_us = offset(record, lh_clock_us());
}

void lh_step_record_note_behind(lh_step_record *record, const uint8_t *frames, size_t length) {
    if (!record || record->behind)
        return;
    /* room for one's own frame */
    size_t most = LH_STEP_TIMES_BODY_BYTES_MAX - LH_STEP_TIMES_BYTES_MAX - 16u;
    size_t fitting = lh_step_times_fitting(frames, length, most);
    record->behind = fitting > 0 ? malloc(fitting) : NULL;
    if (record->behind) {
        memcpy(record->behind, frames, fitting);
        record->behind_bytes = fitting;
    }
}

uint8_t *lh_step_record_render(lh_step_record *record, size_t *length) {
    size_t capacity = lh_step_times_bytes(&record->times) + record->behind_bytes;
    uint8_t *body = malloc(capacity);
    if (!body || lh_step_times_encode(&record->times, body, capacity, length, NULL) != LH_OK) {
        free(body);
        return NULL;
    }
    if (record->behind_bytes > 0) {
        memcpy(body + *length, record->behind, record->behind_bytes);
        *length += record->behind_bytes;
    }
    return body;
}
