/* One lock for all; a slot for each number that may be under way. */
#include "tests/worker/support/member_exchange.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"

#include <pthread.h>
#include <stdlib.h>

#define NOBODY UINT32_MAX

typedef struct posting {
    uint32_t number; /* that lies here; NOBODY: none */
    uint8_t *bytes;
    size_t length, room;
    int64_t there_us; /* for the others */
} posting;

typedef struct exchange_member {
    member_exchange *owner;
    uint32_t number;
    lh_gather gather;
    posting postings[LH_GATHERS_AHEAD];
    int64_t sends_until_us; /* its link is busy */
    member_posted posted;
} exchange_member;

struct member_exchange {
    uint32_t count;
    member_link link;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    lh_status status;
    uint32_t loser, lost_number;
    exchange_member members[LH_MEMBERS_MAX];
};

static posting *posting_of(exchange_member *member, uint32_t number) {
    return &member->postings[number % LH_GATHERS_AHEAD];
}

static lh_status give_up(member_exchange *exchange, lh_error *error) {
    return lh_fail(error, exchange->status, "the exchange has ended: %s",
                   lh_status_text(exchange->status));
}

static lh_status open_posting(void *context, uint32_t number, size_t length, void **bytes,
                              lh_error *error) {
    exchange_member *member = context;
    member_exchange *exchange = member->owner;
    posting *own = posting_of(member, number);
    lh_status status = LH_OK;
    pthread_mutex_lock(&exchange->lock);
    if (exchange->loser == member->number && exchange->lost_number == number)
        status = lh_fail(error, LH_ERR_CLOSED, "member %u has lost its connection", member->number);
    else if (exchange->status != LH_OK)
        status = give_up(exchange, error);
    own->number = NOBODY;
    pthread_mutex_unlock(&exchange->lock);
    if (own->room < length) {
        free(own->bytes);
        own->room = (length + 63) / 64 * 64;
        own->bytes = aligned_alloc(64, own->room);
        if (!own->bytes)
            abort();
    }
    own->length = length;
    *bytes = own->bytes;
    return status;
}

/* Goes to each other member, one after the other. */
static lh_status post(void *context, uint32_t number, lh_error *error) {
    exchange_member *member = context;
    member_exchange *exchange = member->owner;
    const member_link *link = &exchange->link;
    posting *own = posting_of(member, number);
    pthread_mutex_lock(&exchange->lock);
    member->posted.count++;
    member->posted.bytes += own->length;
    own->there_us = 0;
    if (link->bytes_per_us > 0) {
        member->sends_until_us =
            lh_max_i64(member->sends_until_us, lh_clock_us()) +
            (int64_t)((double)own->length * (exchange->count - 1) / link->bytes_per_us);
        own->there_us = member->sends_until_us + link->delay_us;
    }
    own->number = number;
    const lh_status status = exchange->status == LH_OK ? LH_OK : give_up(exchange, error);
    pthread_cond_broadcast(&exchange->changed);
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

static lh_status take(void *context, uint32_t number, uint32_t from, size_t length,
                      const void **bytes, lh_error *error) {
    exchange_member *member = context;
    member_exchange *exchange = member->owner;
    posting *theirs = posting_of(&exchange->members[from], number);
    pthread_mutex_lock(&exchange->lock);
    while (exchange->status == LH_OK && theirs->number != number)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    lh_status status = LH_OK;
    if (theirs->number != number)
        status = give_up(exchange, error);
    else if (theirs->length != length)
        status = lh_fail(error, LH_ERR_MALFORMED, "member %u posted %zu bytes, not %zu", from,
                         theirs->length, length);
    const int64_t there_us = status == LH_OK ? theirs->there_us : 0;
    *bytes = status == LH_OK ? theirs->bytes : NULL; /* else its owner may be at it */
    pthread_mutex_unlock(&exchange->lock);
    while (lh_clock_us() < there_us) /* shorter than a sleep */
        ;
    return status;
}

member_exchange *member_exchange_create(uint32_t members, member_link link) {
    member_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange || members > LH_MEMBERS_MAX)
        abort();
    exchange->count = members;
    exchange->link = link;
    exchange->loser = NOBODY;
    pthread_mutex_init(&exchange->lock, NULL);
    pthread_cond_init(&exchange->changed, NULL);
    for (uint32_t i = 0; i < members; i++) {
        exchange_member *member = &exchange->members[i];
        member->owner = exchange;
        member->number = i;
        member->gather = (lh_gather){member, open_posting, post, take};
    }
    member_exchange_begin(exchange);
    return exchange;
}

void member_exchange_destroy(member_exchange *exchange) {
    if (!exchange)
        return;
    for (uint32_t i = 0; i < exchange->count; i++)
        for (uint32_t j = 0; j < LH_GATHERS_AHEAD; j++)
            free(exchange->members[i].postings[j].bytes);
    pthread_cond_destroy(&exchange->changed);
    pthread_mutex_destroy(&exchange->lock);
    free(exchange);
}

void member_exchange_begin(member_exchange *exchange) {
    exchange->status = LH_OK;
    for (uint32_t i = 0; i < exchange->count; i++)
        for (uint32_t j = 0; j < LH_GATHERS_AHEAD; j++)
            exchange->members[i].postings[j].number = NOBODY;
}

const lh_gather *member_exchange_gather(const member_exchange *exchange, uint32_t member) {
    return &exchange->members[member].gather;
}

void member_exchange_fail(member_exchange *exchange, lh_status status) {
    pthread_mutex_lock(&exchange->lock);
    if (exchange->status == LH_OK)
        exchange->status = status;
    pthread_cond_broadcast(&exchange->changed);
    pthread_mutex_unlock(&exchange->lock);
}

void member_exchange_lose(member_exchange *exchange, uint32_t member, uint32_t number) {
    exchange->loser = member;
    exchange->lost_number = number;
}

member_posted member_exchange_posted(const member_exchange *exchange, uint32_t member) {
    return exchange->members[member].posted;
}
