/* A slot for each place. A sequence holds one from its submission to its last event, or until the
 * engine has taken its cancellation. */
#include "gateway/engine/submission_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* One in so many places cannot be taken by a tenant who holds all the others: so a queue that one
 * tenant fills is not closed to the rest. */
#define RESERVED_SHARE 8u

typedef struct slot {
    uint64_t handle; /* 0: the slot is free */
    uint32_t *held;  /* the counter of its tenant */
    lh_sequence_on_event *on_event;
    void *context;
    /* Cancelled by one who waits for silence: no further event. */
    bool is_silent;
    /* In the list of cancellations. */
    bool wants_cancel;
    /* Indices + 1; 0 ends a list. */
    uint32_t next_cancel, next_free;
} slot;

struct lh_submission_queue {
    pthread_mutex_t mutex;
    pthread_cond_t delivered;
    uint32_t places, context_positions;
    void (*wake)(void *);
    void *wake_context;

    /* Under the mutex. */
    slot *slots; /* [places] */
    /* [counters], a power of two: slots held by the tenants whose hash it is. Two tenants of one
     * counter share their bound. */
    uint32_t *held;
    uint32_t counters;
    uint32_t count, first_free, first_cancel;
    /* Handles are round * places + index, so that none comes twice. */
    uint64_t next_round;
    lh_sequence_list submissions;
    /* The handle whose on_event is being called; 0: none. */
    uint64_t delivering;
    int64_t open_until_us;
    uint64_t positions;
    lh_error refusal;
};

lh_status lh_submission_queue_create(uint32_t places, uint32_t context_positions,
                                     void (*wake)(void *), void *wake_context,
                                     lh_submission_queue **submissions, lh_error *error) {
    assert(places > 0);
    lh_submission_queue *q = calloc(1, sizeof *q);
    if (!q)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for submissions");
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->delivered, NULL);
    for (q->counters = 64; q->counters < places;)
        q->counters *= 2;
    q->slots = calloc(places, sizeof *q->slots);
    q->held = calloc(q->counters, sizeof *q->held);
    if (!q->slots || !q->held) {
        lh_submission_queue_destroy(q);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u sequences", places);
    }
    q->places = places;
    q->context_positions = context_positions;
    q->wake = wake;
    q->wake_context = wake_context;
    q->next_round = 1;
    q->positions = UINT64_MAX;
    lh_fail(&q->refusal, LH_ERR_UNAVAILABLE, "the gateway is starting");
    for (uint32_t i = places; i > 0; i--) {
        q->slots[i - 1].next_free = q->first_free;
        q->first_free = i;
    }
    *submissions = q;
    return LH_OK;
}

void lh_submission_queue_destroy(lh_submission_queue *submissions) {
    if (!submissions)
        return;
    for (lh_sequence *sequence; (sequence = submissions->submissions.first);) {
        lh_sequence_list_remove(&submissions->submissions, sequence);
        lh_sequence_destroy(sequence);
    }
    pthread_cond_destroy(&submissions->delivered);
    pthread_mutex_destroy(&submissions->mutex);
    free(submissions->slots);
    free(submissions->held);
    free(submissions);
}

static uint32_t *counter_of(lh_submission_queue *submissions, uint64_t tenant) {
    return &submissions->held[(tenant * 0x9e3779b97f4a7c15u >> 32) & (submissions->counters - 1)];
}

static slot *find(lh_submission_queue *submissions, uint64_t handle) {
    slot *s = &submissions->slots[handle % submissions->places];
    return handle != 0 && s->handle == handle ? s : NULL;
}

static uint64_t take_slot(lh_submission_queue *submissions, const lh_sequence_request *request) {
    assert(submissions->first_free > 0 && submissions->count < submissions->places);
    uint32_t index = submissions->first_free - 1;
    slot *s = &submissions->slots[index];
    assert(s->handle == 0);
    submissions->first_free = s->next_free;
    submissions->count++;
    uint32_t *held = counter_of(submissions, request->tenant);
    ++*held;
    *s = (slot){.handle = submissions->next_round++ * submissions->places + index,
                .held = held,
                .on_event = request->on_event,
                .context = request->context};
    return s->handle;
}

/* Not while it is in the list of cancellations, whose link it holds. */
static void free_slot(lh_submission_queue *submissions, slot *s) {
    assert(s->handle != 0 && !s->wants_cancel && *s->held > 0 && submissions->count > 0);
    s->handle = 0;
    --*s->held;
    s->next_free = submissions->first_free;
    submissions->first_free = (uint32_t)(s - submissions->slots) + 1;
    submissions->count--;
}

/* ---- Any thread ---- */

static lh_status admit(lh_submission_queue *submissions, const lh_sequence_request *requests,
                       uint32_t count, int64_t now_us, lh_error *error) {
    if (now_us >= submissions->open_until_us)
        return lh_fail(error, submissions->refusal.status, "%s", submissions->refusal.message);
    if (count > submissions->places - submissions->count)
        return lh_fail(error, LH_ERR_BUSY, "the queue is full: %u sequences are running or waiting",
                       submissions->count);
    /* Requests without a tenant may have all places. */
    uint32_t held = *counter_of(submissions, requests[0].tenant),
             kept = requests[0].tenant ? submissions->places / RESERVED_SHARE : 0;
    if (held + count > submissions->places - kept)
        return lh_fail(
            error, LH_ERR_BUSY,
            "%u sequences of this client are running or waiting: the last places are for others",
            held);
    for (uint32_t i = 0; i < count; i++)
        if ((uint64_t)requests[i].prompt_tokens + requests[i].max_tokens > submissions->positions)
            return lh_fail(error, LH_ERR_LIMIT,
                           "%u prompt tokens and %u more do not fit: the KV cache of the workers "
                           "holds %llu positions",
                           requests[i].prompt_tokens, requests[i].max_tokens,
                           (unsigned long long)submissions->positions);
    return LH_OK;
}

/* The first of those that were made, where the next one's answer begins as its. */
static const lh_sequence *twin_of(const lh_sequence_list *made, const lh_sequence_request *first,
                                  const lh_sequence_request *next) {
    bool is_alike = next->constraint && next->constraint == first->constraint &&
                    next->max_tokens == first->max_tokens;
    return is_alike ? made->first : NULL;
}

lh_status lh_submission_queue_submit(lh_submission_queue *submissions,
                                     const lh_sequence_request *requests, uint32_t count,
                                     int64_t now_us, uint64_t *handles, lh_error *error) {
    lh_sequence_list made = {0};
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        lh_sequence *sequence;
        status = lh_sequence_create_beside(&requests[i], twin_of(&made, requests, &requests[i]),
                                           submissions->context_positions, &sequence, error);
        if (status == LH_OK)
            lh_sequence_list_push(&made, sequence);
    }
    pthread_mutex_lock(&submissions->mutex);
    if (status == LH_OK)
        status = admit(submissions, requests, count, now_us, error);
    for (uint32_t i = 0; made.first; i++) {
        lh_sequence *sequence = made.first;
        lh_sequence_list_remove(&made, sequence);
        if (status == LH_OK) {
            sequence->handle = handles[i] = take_slot(submissions, &requests[i]);
            lh_sequence_list_push(&submissions->submissions, sequence);
        } else {
            lh_sequence_destroy(sequence);
        }
    }
    pthread_mutex_unlock(&submissions->mutex);
    if (status == LH_OK)
        submissions->wake(submissions->wake_context);
    return status;
}

static void cancel(lh_submission_queue *submissions, uint64_t handle, bool waits) {
    pthread_mutex_lock(&submissions->mutex);
    slot *s = find(submissions, handle);
    if (s)
        s->is_silent |= waits;
    if (s && !s->wants_cancel) {
        s->wants_cancel = true;
        s->next_cancel = submissions->first_cancel;
        submissions->first_cancel = (uint32_t)(s - submissions->slots) + 1;
    }
    while (waits && handle != 0 && submissions->delivering == handle)
        pthread_cond_wait(&submissions->delivered, &submissions->mutex);
    pthread_mutex_unlock(&submissions->mutex);
    if (s)
        submissions->wake(submissions->wake_context);
}

void lh_submission_queue_cancel(lh_submission_queue *submissions, uint64_t handle) {
    cancel(submissions, handle, true);
}

void lh_submission_queue_cancel_later(lh_submission_queue *submissions, uint64_t handle) {
    cancel(submissions, handle, false);
}

uint32_t lh_submission_queue_count(lh_submission_queue *submissions) {
    pthread_mutex_lock(&submissions->mutex);
    uint32_t count = submissions->count;
    pthread_mutex_unlock(&submissions->mutex);
    return count;
}

void lh_submission_queue_refusal(lh_submission_queue *submissions, lh_error *refusal) {
    pthread_mutex_lock(&submissions->mutex);
    *refusal = submissions->refusal;
    pthread_mutex_unlock(&submissions->mutex);
}

/* ---- The engine's thread ---- */

void lh_submission_queue_set_gate(lh_submission_queue *submissions, int64_t open_until_us,
                                  uint64_t positions, const lh_error *refusal) {
    pthread_mutex_lock(&submissions->mutex);
    submissions->open_until_us = open_until_us;
    submissions->positions = positions;
    submissions->refusal = *refusal;
    pthread_mutex_unlock(&submissions->mutex);
}

lh_sequence *lh_submission_queue_take_submission(lh_submission_queue *submissions) {
    pthread_mutex_lock(&submissions->mutex);
    lh_sequence *sequence = submissions->submissions.first;
    if (sequence)
        lh_sequence_list_remove(&submissions->submissions, sequence);
    pthread_mutex_unlock(&submissions->mutex);
    return sequence;
}

/* Drops a submission that the engine has not taken. False: it has taken it. */
static bool drop_submission(lh_submission_queue *submissions, uint64_t handle) {
    for (lh_sequence *sequence = submissions->submissions.first; sequence;
         sequence = sequence->next)
        if (sequence->handle == handle) {
            lh_sequence_list_remove(&submissions->submissions, sequence);
            lh_sequence_destroy(sequence);
            return true;
        }
    return false;
}

/* Frees the slot: whoever cancels wants to hear nothing more. What was submitted and cancelled
 * since the engine last took submissions never reaches it: the engine could not know yet what it is
 * to cancel. */
bool lh_submission_queue_take_cancel(lh_submission_queue *submissions, uint64_t *handle) {
    bool is_one = false;
    pthread_mutex_lock(&submissions->mutex);
    while (submissions->first_cancel && !is_one) {
        slot *s = &submissions->slots[submissions->first_cancel - 1];
        submissions->first_cancel = s->next_cancel;
        s->wants_cancel = false;
        *handle = s->handle;
        is_one = s->handle != 0 && !drop_submission(submissions, s->handle);
        if (s->handle != 0)
            free_slot(submissions, s);
    }
    pthread_mutex_unlock(&submissions->mutex);
    return is_one;
}

static void call_out(lh_submission_queue *submissions, const slot *s,
                     const lh_sequence_event *event) {
    assert(submissions->delivering == 0);
    submissions->delivering = s->handle;
    pthread_mutex_unlock(&submissions->mutex);
    s->on_event(s->context, event);
    pthread_mutex_lock(&submissions->mutex);
    submissions->delivering = 0;
    pthread_cond_broadcast(&submissions->delivered);
}

/* The slot is free before the last event is delivered: a client that has its answer and asks again
 * at once is not refused because of its own last request. */
void lh_submission_queue_deliver(lh_submission_queue *submissions, uint64_t handle,
                                 const lh_sequence_event *event) {
    pthread_mutex_lock(&submissions->mutex);
    slot *s = find(submissions, handle);
    if (s) {
        const slot copy = *s;
        if (lh_sequence_event_is_last(event) && !s->wants_cancel)
            free_slot(submissions, s);
        if (!copy.is_silent)
            call_out(submissions, &copy, event);
    }
    pthread_mutex_unlock(&submissions->mutex);
}

void lh_submission_queue_close(lh_submission_queue *submissions, lh_status status,
                               const char *message) {
    const lh_sequence_event event = {
        .kind = LH_SEQUENCE_FAILED, .status = status, .message = message};
    lh_error refusal;
    lh_fail(&refusal, status, "%s", message);
    lh_submission_queue_set_gate(submissions, 0, UINT64_MAX, &refusal);
    for (uint32_t place = 0; place < submissions->places; place++) {
        pthread_mutex_lock(&submissions->mutex);
        uint64_t handle = submissions->slots[place].handle;
        pthread_mutex_unlock(&submissions->mutex);
        lh_submission_queue_deliver(submissions, handle, &event);
    }
}
