/* The members of one stage in one process: what each posts lies in memory for the others. A link
 * can be played: what is posted is there after the time that it would take. */
#pragma once

#include "worker/compute/stage/gather.h"

typedef struct member_link {
    double bytes_per_us; /* of each member, to all others together; 0: no link */
    int64_t delay_us;    /* one way */
} member_link;

typedef struct member_exchange member_exchange;

/* Aborts when out of memory. */
member_exchange *member_exchange_create(uint32_t members, member_link link);
void member_exchange_destroy(member_exchange *exchange);
/* A step begins: nothing is posted, and nobody has failed. No member may be in a call. */
void member_exchange_begin(member_exchange *exchange);
/* Of one member, for that step; lives as long as the exchange. */
const lh_gather *member_exchange_gather(const member_exchange *exchange, uint32_t member);
/* The step cannot go on: all calls of all members end with this status. Any thread. */
void member_exchange_fail(member_exchange *exchange, lh_status status);
/* In steps from now on this member loses its connection as it opens gather `number`. */
void member_exchange_lose(member_exchange *exchange, uint32_t member, uint32_t number);

typedef struct member_posted {
    uint64_t count, bytes; /* each counted once, however many it went to */
} member_posted;

/* All that a member has posted so far. */
member_posted member_exchange_posted(const member_exchange *exchange, uint32_t member);
