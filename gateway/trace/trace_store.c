/* A ring of requests under one lock, which is held for no longer than a copy takes. */
#include "gateway/trace/trace_store.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct record {
    uint64_t number; /* 0: free */
    lh_trace trace;
    size_t entry_capacity, bytes;
    /* of the entries behind the first ones: where the next one goes once they are all taken */
    uint32_t oldest_last;
} record;

struct lh_trace_store {
    pthread_mutex_t mutex;
    uint32_t requests_max;
    size_t bytes_max, bytes;
    uint64_t next_number;
    record records[]; /* number % requests_max */
};

lh_status lh_trace_store_create(uint32_t requests_max, size_t bytes_max, lh_trace_store **store,
                                lh_error *error) {
    assert(requests_max > 0);
    lh_trace_store *made = calloc(1, sizeof *made + requests_max * sizeof made->records[0]);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u traces", requests_max);
    pthread_mutex_init(&made->mutex, NULL);
    made->requests_max = requests_max;
    made->bytes_max = bytes_max;
    made->next_number = 1;
    *store = made;
    return LH_OK;
}

static void clear(lh_trace_store *store, record *r) {
    for (uint32_t i = 0; i < r->trace.entry_count; i++)
        lh_trace_step_release(r->trace.entries[i].step);
    free(r->trace.entries);
    assert(store->bytes >= r->bytes);
    store->bytes -= r->bytes;
    *r = (record){0};
}

void lh_trace_store_destroy(lh_trace_store *store) {
    if (!store)
        return;
    for (uint32_t i = 0; i < store->requests_max; i++)
        clear(store, &store->records[i]);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static record *find(lh_trace_store *store, uint64_t number) {
    record *r = &store->records[number % store->requests_max];
    return number != 0 && r->number == number ? r : NULL;
}

uint64_t lh_trace_store_open(lh_trace_store *store, const char *id, const char *request_id,
                             int64_t received_us) {
    pthread_mutex_lock(&store->mutex);
    uint64_t number = store->next_number++;
    record *r = &store->records[number % store->requests_max];
    clear(store, r);
    r->number = number;
    r->trace.received_us = received_us;
    snprintf(r->trace.id, sizeof r->trace.id, "%s", id);
    snprintf(r->trace.request_id, sizeof r->trace.request_id, "%s", request_id);
    pthread_mutex_unlock(&store->mutex);
    return number;
}

void lh_trace_store_note_tokens(lh_trace_store *store, uint64_t trace, uint32_t prompt_tokens,
                                int64_t now_us) {
    pthread_mutex_lock(&store->mutex);
    record *r = find(store, trace);
    if (r) {
        r->trace.prompt_tokens = prompt_tokens;
        r->trace.tokenized_us = now_us;
    }
    pthread_mutex_unlock(&store->mutex);
}

void lh_trace_store_note_end(lh_trace_store *store, uint64_t trace, int64_t now_us) {
    pthread_mutex_lock(&store->mutex);
    record *r = find(store, trace);
    if (r)
        r->trace.ended_us = now_us;
    pthread_mutex_unlock(&store->mutex);
}

/* ---- Steps ---- */

/* Forgets the oldest requests, but for `keep`, until there is room for `bytes` more. False: there
 * is none. */
static bool make_room(lh_trace_store *store, const record *keep, size_t bytes) {
    uint64_t oldest =
        store->next_number > store->requests_max ? store->next_number - store->requests_max : 1;
    for (uint64_t number = oldest;
         number < store->next_number && store->bytes + bytes > store->bytes_max; number++) {
        record *r = find(store, number);
        if (r && r != keep)
            clear(store, r);
    }
    return store->bytes + bytes <= store->bytes_max;
}

/* Where the next entry goes, empty: the oldest of the last steps makes way for it. NULL: there is
 * no memory. */
static lh_trace_entry *place_entry(lh_trace_store *store, record *r) {
    lh_trace *trace = &r->trace;
    if (trace->entry_count < LH_TRACE_STEPS_FIRST + LH_TRACE_STEPS_LAST) {
        if (!lh_growing_array_reserve(&trace->entries, &r->entry_capacity, trace->entry_count + 1,
                                      sizeof *trace->entries))
            return NULL;
        return &trace->entries[trace->entry_count++];
    }
    lh_trace_entry *entry = &trace->entries[LH_TRACE_STEPS_FIRST + r->oldest_last];
    r->oldest_last = (r->oldest_last + 1) % LH_TRACE_STEPS_LAST;
    size_t bytes = lh_trace_step_bytes(entry->step);
    assert(r->bytes >= bytes && store->bytes >= bytes);
    r->bytes -= bytes;
    store->bytes -= bytes;
    trace->dropped_count++;
    lh_trace_step_release(entry->step);
    return entry;
}

static void note_token(lh_trace *trace, const lh_trace_part *part, const lh_trace_step *step) {
    if (part->draws == 0 || step->results_us == 0)
        return;
    trace->token_count += part->draws;
    if (trace->first_token_us == 0 || step->results_us < trace->first_token_us)
        trace->first_token_us = step->results_us;
    if (step->results_us > trace->last_token_us)
        trace->last_token_us = step->results_us;
}

static void add_entry(lh_trace_store *store, record *r, const lh_trace_part *part,
                      lh_trace_step *step) {
    size_t bytes = step ? lh_trace_step_bytes(step) : 0;
    lh_trace_entry *entry = step && make_room(store, r, bytes) ? place_entry(store, r) : NULL;
    if (!entry) {
        r->trace.dropped_count++;
        return;
    }
    *entry = (lh_trace_entry){lh_trace_step_acquire(step), part->first_position, part->rows,
                              part->draws, part->shared};
    r->bytes += bytes;
    store->bytes += bytes;
}

static void admit(lh_trace *trace, const lh_trace_part *part, int64_t now_us) {
    trace->admitted_us = now_us;
    trace->predicted_us = part->predicted_us;
    memcpy(trace->plan, part->plan, sizeof trace->plan);
}

void lh_trace_store_begin_step(lh_trace_store *store, const lh_trace_part *parts, uint32_t count,
                               int64_t now_us) {
    pthread_mutex_lock(&store->mutex);
    for (uint32_t i = 0; i < count; i++) {
        record *r = find(store, parts[i].trace);
        if (!r)
            continue;
        r->trace.open_steps++;
        if (r->trace.admitted_us == 0)
            admit(&r->trace, &parts[i], now_us);
    }
    pthread_mutex_unlock(&store->mutex);
}

void lh_trace_store_end_step(lh_trace_store *store, const lh_trace_part *parts, uint32_t count,
                             lh_trace_step *step) {
    pthread_mutex_lock(&store->mutex);
    for (uint32_t i = 0; i < count; i++) {
        record *r = find(store, parts[i].trace);
        if (!r)
            continue;
        assert(r->trace.open_steps > 0);
        r->trace.open_steps--;
        if (step)
            note_token(&r->trace, &parts[i], step);
        add_entry(store, r, &parts[i], step);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* ---- Reading ---- */

bool lh_trace_store_is_settled(lh_trace_store *store, uint64_t trace) {
    pthread_mutex_lock(&store->mutex);
    const record *r = find(store, trace);
    bool is_settled = !r || r->trace.open_steps == 0;
    pthread_mutex_unlock(&store->mutex);
    return is_settled;
}

/* In the order in which they ended: the last ones are a ring. */
static lh_trace *copy(const record *r) {
    lh_trace *trace = malloc(sizeof *trace);
    uint32_t count = r->trace.entry_count;
    lh_trace_entry *entries = calloc(count + 1, sizeof *entries);
    if (!trace || !entries) {
        free(trace);
        free(entries);
        return NULL;
    }
    *trace = r->trace;
    trace->entries = entries;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = i < LH_TRACE_STEPS_FIRST
                            ? i
                            : LH_TRACE_STEPS_FIRST + (i - LH_TRACE_STEPS_FIRST + r->oldest_last) %
                                                         (count - LH_TRACE_STEPS_FIRST);
        entries[i] = r->trace.entries[from];
        lh_trace_step_acquire(entries[i].step);
    }
    return trace;
}

lh_trace *lh_trace_store_get(lh_trace_store *store, uint64_t number) {
    pthread_mutex_lock(&store->mutex);
    const record *r = find(store, number);
    lh_trace *trace = r ? copy(r) : NULL;
    pthread_mutex_unlock(&store->mutex);
    return trace;
}

/* The newest one, where a client has used an id twice. */
lh_trace *lh_trace_store_find(lh_trace_store *store, const char *id) {
    pthread_mutex_lock(&store->mutex);
    const record *found = NULL;
    for (uint32_t i = 0; i < store->requests_max; i++) {
        const record *r = &store->records[i];
        if (r->number && (strcmp(r->trace.id, id) == 0 || strcmp(r->trace.request_id, id) == 0) &&
            (!found || r->number > found->number))
            found = r;
    }
    lh_trace *trace = found ? copy(found) : NULL;
    pthread_mutex_unlock(&store->mutex);
    return trace;
}

void lh_trace_destroy(lh_trace *trace) {
    if (!trace)
        return;
    for (uint32_t i = 0; i < trace->entry_count; i++)
        lh_trace_step_release(trace->entries[i].step);
    free(trace->entries);
    free(trace);
}
