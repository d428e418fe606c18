/* Tickets for sequences. */
#include "gateway/engine/front_desk.h"

#include <pthread.h>
#include <stdlib.h>

/* Of all places, those that nobody who has a name may take alone: a queue that one fills is not closed to the others. */
#define KEPT_SHARE 8u

typedef struct ticket {
    uint64_t handle; /* 0: the place is free */
    uint32_t *held;  /* the counter that it is in */
    lh_sequence_on_event *on_event;
    void *context;
    bool is_silent;                  /* cancelled: no further event */
    bool wants_cancel;               /* in the list of cancels */
    uint32_t next_cancel, next_free; /* place + 1; 0 ends */
} ticket;

struct lh_front_desk {
    pthread_mutex_t mutex;
    pthread_cond_t delivered;
    uint32_t places, context_positions;
    void (*wake)(void *);
    void *wake_context;

    /* Under the mutex. */
    ticket *tickets; /* [places] */
    uint32_t
        *held; /* [counters]: places of the tenants whose hash it is; two that share one share their bound */
    uint32_t counters; /* a power of two */
    uint32_t count, first_free, first_cancel;
    uint64_t next_round; /* handles are round * places + place, so that none comes twice */
    lh_sequence_list submissions;
    uint64_t delivering; /* the handle whose on_event is being called */
    int64_t open_until_us;
    uint64_t positions;
    const char *refusal;
};

lh_status lh_front_desk_create(uint32_t places, uint32_t context_positions, void (*wake)(void *),
                               void *wake_context, lh_front_desk **desk, lh_error *error) {
    lh_front_desk *d = calloc(1, sizeof *d);
    uint32_t counters = 64;
    while (counters < places)
        counters *= 2;
    if (d) {
        d->tickets = calloc(places, sizeof *d->tickets);
        d->held = calloc(counters, sizeof *d->held);
    }
    if (!d || !d->tickets || !d->held) {
        if (d) {
            free(d->tickets);
            free(d->held);
        }
        free(d);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u sequences", places);
    }
    d->counters = counters;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->delivered, NULL);
    d->places = places;
    d->context_positions = context_positions;
    d->wake = wake;
    d->wake_context = wake_context;
    d->next_round = 1;
    d->positions = UINT64_MAX;
    d->refusal = "the gateway is starting";
    for (uint32_t i = places; i > 0; i--) {
        d->tickets[i - 1].next_free = d->first_free;
        d->first_free = i;
    }
    *desk = d;
    return LH_OK;
}

static void drop_submissions(lh_front_desk *desk) {
    while (desk->submissions.first) {
        lh_sequence *sequence = desk->submissions.first;
        lh_sequence_list_remove(&desk->submissions, sequence);
        lh_sequence_destroy(sequence);
    }
}

void lh_front_desk_destroy(lh_front_desk *desk) {
    if (!desk)
        return;
    drop_submissions(desk);
    pthread_cond_destroy(&desk->delivered);
    pthread_mutex_destroy(&desk->mutex);
    free(desk->tickets);
    free(desk->held);
    free(desk);
}

static uint32_t *held_by(lh_front_desk *desk, uint64_t tenant) {
    return &desk->held[(tenant * 0x9e3779b97f4a7c15u >> 32) & (desk->counters - 1)];
}

static ticket *find(lh_front_desk *desk, uint64_t handle) {
    ticket *t = &desk->tickets[handle % desk->places];
    return handle != 0 && t->handle == handle ? t : NULL;
}

static uint64_t issue(lh_front_desk *desk, const lh_sequence_request *request) {
    uint32_t place = desk->first_free - 1;
    ticket *t = &desk->tickets[place];
    desk->first_free = t->next_free;
    desk->count++;
    uint32_t *held = held_by(desk, request->tenant);
    ++*held;
    *t = (ticket){.handle = desk->next_round++ * desk->places + place,
                  .held = held,
                  .on_event = request->on_event,
                  .context = request->context};
    return t->handle;
}

static void free_ticket(lh_front_desk *desk, ticket *t) {
    t->handle = 0;
    --*t->held;
    t->next_free = desk->first_free;
    desk->first_free = (uint32_t)(t - desk->tickets) + 1;
    desk->count--;
}

/* ---- Any thread -------------------------------------------------------------------------------------------------- */

/* Places that a tenant may have; without names there is nobody to keep any for. */
static uint32_t places_of(const lh_front_desk *desk, uint64_t tenant) {
    return tenant ? desk->places - desk->places / KEPT_SHARE : desk->places;
}

static lh_status admit(lh_front_desk *desk, const lh_sequence_request *requests, uint32_t count,
                       int64_t now_us, lh_error *error) {
    if (now_us >= desk->open_until_us)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%s", desk->refusal);
    if (count > desk->places - desk->count)
        return lh_fail(error, LH_ERR_BUSY, "the queue is full: %u sequences are running or waiting",
                       desk->count);
    uint32_t held = *held_by(desk, requests[0].tenant), most = places_of(desk, requests[0].tenant);
    if (held + count > most)
        return lh_fail(error, LH_ERR_BUSY,
                       "%u sequences of this client are running or waiting: the last places are for others",
                       held);
    for (uint32_t i = 0; i < count; i++)
        if ((uint64_t)requests[i].prompt_tokens + requests[i].max_tokens > desk->positions)
            return lh_fail(
                error, LH_ERR_LIMIT,
                "%u prompt tokens and %u more do not fit: the KV cache of the workers holds %llu positions",
                requests[i].prompt_tokens, requests[i].max_tokens, (unsigned long long)desk->positions);
    return LH_OK;
}

lh_status lh_front_desk_submit(lh_front_desk *desk, const lh_sequence_request *requests, uint32_t count,
                               int64_t now_us, uint64_t *handles, lh_error *error) {
    lh_sequence_list made = {0};
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        lh_sequence *sequence;
        status = lh_sequence_create(&requests[i], 0, desk->context_positions, &sequence, error);
        if (status == LH_OK)
            lh_sequence_list_push(&made, sequence);
    }
    pthread_mutex_lock(&desk->mutex);
    if (status == LH_OK)
        status = admit(desk, requests, count, now_us, error);
    for (uint32_t i = 0; made.first; i++) {
        lh_sequence *sequence = made.first;
        lh_sequence_list_remove(&made, sequence);
        if (status == LH_OK) {
            sequence->handle = handles[i] = issue(desk, &requests[i]);
            lh_sequence_list_push(&desk->submissions, sequence);
        } else {
            lh_sequence_destroy(sequence);
        }
    }
    pthread_mutex_unlock(&desk->mutex);
    if (status == LH_OK)
        desk->wake(desk->wake_context);
    return status;
}

static void want_cancel(lh_front_desk *desk, ticket *t) {
    if (t->wants_cancel)
        return;
    t->wants_cancel = true;
    t->next_cancel = desk->first_cancel;
    desk->first_cancel = (uint32_t)(t - desk->tickets) + 1;
}

void lh_front_desk_cancel(lh_front_desk *desk, uint64_t handle) {
    pthread_mutex_lock(&desk->mutex);
    ticket *t = find(desk, handle);
    if (t) {
        t->is_silent = true;
        want_cancel(desk, t);
    }
    while (desk->delivering == handle && handle != 0)
        pthread_cond_wait(&desk->delivered, &desk->mutex);
    pthread_mutex_unlock(&desk->mutex);
    if (t)
        desk->wake(desk->wake_context);
}

void lh_front_desk_cancel_later(lh_front_desk *desk, uint64_t handle) {
    pthread_mutex_lock(&desk->mutex);
    ticket *t = find(desk, handle);
    if (t)
        want_cancel(desk, t);
    pthread_mutex_unlock(&desk->mutex);
    if (t)
        desk->wake(desk->wake_context);
}

uint32_t lh_front_desk_count(lh_front_desk *desk) {
    pthread_mutex_lock(&desk->mutex);
    uint32_t count = desk->count;
    pthread_mutex_unlock(&desk->mutex);
    return count;
}

/* ---- The engine's thread ----------------------------------------------------------------------------------------- */

void lh_front_desk_set_gate(lh_front_desk *desk, int64_t open_until_us, uint64_t positions,
                            const char *refusal) {
    pthread_mutex_lock(&desk->mutex);
    desk->open_until_us = open_until_us;
    desk->positions = positions;
    desk->refusal = refusal;
    pthread_mutex_unlock(&desk->mutex);
}

lh_sequence *lh_front_desk_take_submission(lh_front_desk *desk) {
    pthread_mutex_lock(&desk->mutex);
    lh_sequence *sequence = desk->submissions.first;
    if (sequence)
        lh_sequence_list_remove(&desk->submissions, sequence);
    pthread_mutex_unlock(&desk->mutex);
    return sequence;
}

/* False: it has been taken. */
static bool drop_submission(lh_front_desk *desk, uint64_t handle) {
    for (lh_sequence *sequence = desk->submissions.first; sequence; sequence = sequence->next)
        if (sequence->handle == handle) {
            lh_sequence_list_remove(&desk->submissions, sequence);
            lh_sequence_destroy(sequence);
            return true;
        }
    return false;
}

/* The place is free again: whoever cancels wants to hear nothing more. What was submitted and cancelled since the
 * engine last took submissions never reaches it: it would not know yet what it is to cancel. */
bool lh_front_desk_take_cancel(lh_front_desk *desk, uint64_t *handle) {
    bool is_one = false;
    pthread_mutex_lock(&desk->mutex);
    while (desk->first_cancel && !is_one) {
        ticket *t = &desk->tickets[desk->first_cancel - 1];
        desk->first_cancel = t->next_cancel;
        t->wants_cancel = false;
        *handle = t->handle;
        is_one = t->handle != 0 && !drop_submission(desk, t->handle);
        if (t->handle != 0)
            free_ticket(desk, t);
    }
    pthread_mutex_unlock(&desk->mutex);
    return is_one;
}

static void call_out(lh_front_desk *desk, const ticket *t, const lh_sequence_event *event) {
    desk->delivering = t->handle;
    pthread_mutex_unlock(&desk->mutex);
    t->on_event(t->context, event);
    pthread_mutex_lock(&desk->mutex);
    desk->delivering = 0;
    pthread_cond_broadcast(&desk->delivered);
}

/* The last event finds the place free already: a client that has its answer and asks again at once is not
 * refused for its own last request. */
void lh_front_desk_deliver(lh_front_desk *desk, uint64_t handle, const lh_sequence_event *event) {
    pthread_mutex_lock(&desk->mutex);
    ticket *t = find(desk, handle);
    if (t) {
        const ticket told = *t;
        if (event->kind != LH_SEQUENCE_TOKEN && !t->wants_cancel)
            free_ticket(desk, t);
        if (!told.is_silent)
            call_out(desk, &told, event);
    }
    pthread_mutex_unlock(&desk->mutex);
}

void lh_front_desk_close(lh_front_desk *desk, lh_status status, const char *message) {
    const lh_sequence_event event = {.kind = LH_SEQUENCE_FAILED, .status = status, .message = message};
    lh_front_desk_set_gate(desk, 0, UINT64_MAX, message);
    for (uint32_t place = 0; place < desk->places; place++) {
        pthread_mutex_lock(&desk->mutex);
        uint64_t handle = desk->tickets[place].handle;
        pthread_mutex_unlock(&desk->mutex);
        lh_front_desk_deliver(desk, handle, &event);
    }
}
