/* A list by names. */
#include "gateway/fleet/misconduct.h"

#include "common/base/arithmetic.h"

#include <stdio.h>
#include <string.h>

/* Faults further apart are chance: a machine without error correction flips a bit in months. */
#define SPAN_US 600000000
/* Long enough that the others form a chain and serve; short enough that a worker whose memory has
 * been mended is soon back. */
#define PAUSE_US     30000000
#define PAUSE_MAX_US 3600000000

const char *lh_worker_fault_name(lh_worker_fault fault) {
    static const char *const names[] = {"bad_result", "no_result", "wrong_answer", "refusal"};
    return names[fault];
}

const char *lh_worker_standing_name(lh_worker_standing standing) {
    static const char *const names[] = {"trusted", "watched", "suspended", "on_trial"};
    return names[standing];
}

lh_worker_standing lh_misconduct_standing(const lh_misconduct_record *record, int64_t now_us) {
    if (!record)
        return LH_STANDING_TRUSTED;
    if (now_us < record->until_us)
        return LH_STANDING_SUSPENDED;
    if (record->until_us > 0 && record->steps < LH_MISCONDUCT_TRIAL_STEPS)
        return LH_STANDING_ON_TRIAL;
    return record->recent > 0 && now_us - record->recent_since_us < SPAN_US ? LH_STANDING_WATCHED
                                                                            : LH_STANDING_TRUSTED;
}

/* The count of records: there is none of this worker. */
static uint32_t index_of(const lh_misconduct *misconduct, const char *worker) {
    uint32_t i = 0;
    while (i < misconduct->count && strcmp(misconduct->records[i].worker, worker) != 0)
        i++;
    return i;
}

static lh_misconduct_record *record_of(lh_misconduct *misconduct, const char *worker) {
    const uint32_t index = index_of(misconduct, worker);
    return index < misconduct->count ? &misconduct->records[index] : NULL;
}

static lh_misconduct_record *new_record(lh_misconduct *misconduct, const char *worker) {
    lh_misconduct_record *record = &misconduct->records[0];
    if (misconduct->count < LH_MISCONDUCT_RECORDS_MAX)
        record = &misconduct->records[misconduct->count++];
    else
        for (uint32_t i = 1; i < misconduct->count; i++)
            if (misconduct->records[i].last_us < record->last_us)
                record = &misconduct->records[i];
    *record = (lh_misconduct_record){0};
    snprintf(record->worker, sizeof record->worker, "%s", worker);
    return record;
}

/* For twice as long as before, where the last suspension has not been over for long. */
static void suspend(lh_misconduct_record *record, int64_t now_us) {
    bool is_again = record->until_us > 0 && now_us < record->until_us + PAUSE_MAX_US;
    record->pause_us = is_again ? lh_min_i64(2 * record->pause_us, PAUSE_MAX_US) : PAUSE_US;
    record->until_us = now_us + record->pause_us;
    record->recent = record->steps = record->refusals = 0;
}

/* How many faults count for the next suspension, with this one. */
static void count_recent(lh_misconduct_record *record, int64_t now_us) {
    if (record->recent == 0 || now_us - record->recent_since_us >= SPAN_US) {
        record->recent = 0;
        record->recent_since_us = now_us;
    }
    record->recent++;
}

/* How many refusals are in a row, with this one. */
static void count_refusal(lh_misconduct_record *record) {
    if (record->apart >= LH_MISCONDUCT_REFUSALS_APART)
        record->refusals = 0;
    record->refusals++;
    record->apart = 0;
}

static bool is_too_much(lh_misconduct_record *record, lh_worker_fault fault, int64_t now_us) {
    if (fault == LH_WORKER_FAULT_REFUSAL) {
        count_refusal(record);
        return record->refusals >= LH_MISCONDUCT_REFUSALS_MAX;
    }
    count_recent(record, now_us);
    return record->recent >= LH_MISCONDUCT_FAULTS_MAX;
}

int64_t lh_misconduct_note_fault(lh_misconduct *misconduct, const char *worker,
                                 lh_worker_fault fault, const char *reason, int64_t now_us) {
    if (!misconduct)
        return 0;
    lh_misconduct_record *record = record_of(misconduct, worker);
    if (!record)
        record = new_record(misconduct, worker);
    lh_worker_standing standing = lh_misconduct_standing(record, now_us);
    record->faults[fault]++;
    record->last_us = now_us;
    record->last = fault;
    snprintf(record->reason, sizeof record->reason, "%s", reason);
    if (standing == LH_STANDING_SUSPENDED) {
        record->until_us = now_us + record->pause_us; /* it is used, since it is needed */
        record->suspended_for = fault;
        return record->until_us;
    }
    if (is_too_much(record, fault, now_us) || standing == LH_STANDING_ON_TRIAL) {
        suspend(record, now_us);
        record->suspended_for = fault;
    }
    return now_us < record->until_us ? record->until_us : 0;
}

/* So many steps or draws speak for a worker that is on trial. */
static void note_sound(lh_misconduct_record *record, uint32_t count, int64_t now_us) {
    if (lh_misconduct_standing(record, now_us) == LH_STANDING_ON_TRIAL)
        record->steps += count;
}

void lh_misconduct_note_agreement(lh_misconduct *misconduct, const char *worker, uint32_t draws,
                                  int64_t now_us) {
    note_sound(misconduct ? record_of(misconduct, worker) : NULL, draws, now_us);
}

void lh_misconduct_note_step(lh_misconduct *misconduct, const char *worker, bool sent_results,
                             int64_t now_us) {
    lh_misconduct_record *record = misconduct ? record_of(misconduct, worker) : NULL;
    if (!record)
        return;
    record->apart = lh_min_u32(record->apart, LH_MISCONDUCT_REFUSALS_APART) + 1;
    if (record->suspended_for == LH_WORKER_FAULT_REFUSAL ||
        (sent_results && record->suspended_for != LH_WORKER_FAULT_WRONG_ANSWER))
        note_sound(record, 1, now_us);
}

const lh_misconduct_record *lh_misconduct_find(const lh_misconduct *misconduct,
                                               const char *worker) {
    const uint32_t index = misconduct ? index_of(misconduct, worker) : 0;
    return misconduct && index < misconduct->count ? &misconduct->records[index] : NULL;
}

int64_t lh_misconduct_suspended_until_us(const lh_misconduct *misconduct, const char *worker,
                                         int64_t now_us) {
    const lh_misconduct_record *record = lh_misconduct_find(misconduct, worker);
    return record && now_us < record->until_us ? record->until_us : 0;
}
