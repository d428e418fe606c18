/* When a client should come again where the engine is full: by the rate, measured, at which
 * sequences leave it. Refused clients form a virtual queue: each is told its own turn, so that they
 * do not all come back at once, and the queue is never longer than the engine takes to empty, since
 * some never come back. Time in which the engine was empty does not count.
 *
 * Sans-I/O: the time is an argument. Thread: its owner's. */
#pragma once

#include <stdint.h>

typedef struct lh_retry_estimator {
    uint32_t inside;     /* sequences */
    int64_t last_us;     /* when a sequence last left, or entered the empty engine */
    int64_t interval_us; /* between two that leave: a mean in which the later count more */
    uint32_t known;      /* intervals in the mean, up to its weight; 0: none has left */
    int64_t line_us;     /* the turn of the last client in the virtual queue */
} lh_retry_estimator;

/* Sequences enter the engine, and leave it. */
void lh_retry_estimator_enter(lh_retry_estimator *estimator, uint32_t count, int64_t now_us);
void lh_retry_estimator_leave(lh_retry_estimator *estimator, uint32_t count, int64_t now_us);
/* A request of `count` sequences is refused: after how long to come again. Above 0. */
int64_t lh_retry_estimator_wait_us(lh_retry_estimator *estimator, uint32_t count, int64_t now_us);
