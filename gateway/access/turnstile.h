/* When it is worth coming again where the house is full: by the rate at which sequences leave it, measured. Those who are turned away
 * stand in a line that nobody sees: each is told its own turn, so that they do not all come back at once, and the line is never longer
 * than the house takes to empty, since some never come back. Time that the house stood empty does not count.
 *
 * Sans-I/O: the time is an argument. Thread: its owner's. */
#pragma once

#include <stdint.h>

typedef struct lh_turnstile {
    uint32_t inside;
    int64_t last_us;     /* when somebody left, or came into an empty house */
    int64_t interval_us; /* between two who leave, the later the more it counts */
    uint32_t known;      /* of how many intervals, as far as it matters; 0: nobody has left */
    int64_t line_us;     /* when the last one in the line has its turn */
} lh_turnstile;

/* Sequences come in, and leave. */
void lh_turnstile_enter(lh_turnstile *turnstile, uint32_t count, int64_t now_us);
void lh_turnstile_leave(lh_turnstile *turnstile, uint32_t count, int64_t now_us);
/* Somebody who wants so many places is turned away: when to come again, from now on. Above 0. */
int64_t lh_turnstile_turn_us(lh_turnstile *turnstile, uint32_t count, int64_t now_us);
