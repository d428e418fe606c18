/* The steps that are on their way through a chain: which sequences' rows each holds, which tokens are still
 * due, and which pages come back with it. Records are allocated at start. Thread: one at a time. */
#pragma once

#include "common/status.h"
#include "gateway/schedule/kv_store.h"
#include "gateway/schedule/sequence.h"
#include "worker/api/step.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_flight_segment {
    lh_sequence *sequence;           /* NULL: it has ended or was preempted, and nobody waits for the rows */
    lh_kv_holding *holding, *source; /* source: where the rows fork from, else NULL */
    uint32_t first_position, rows;
    bool sample, is_drawn;
    bool is_first; /* rows of its sequence since that got its pages */
} lh_flight_segment;

typedef struct lh_flight {
    uint64_t step; /* 0: the record is free */
    lh_step_class step_class;
    int64_t submitted_us, due_us; /* due: overdue from then on */
    double alone_us;              /* it would take on an empty chain; 0: not known */
    uint32_t rows, segment_count, release_count, draws_due /* segments that sample */, drawn_count;
    lh_flight_segment *segments; /* room for the table's segments_max */
    lh_kv_holding **releases;    /* room for the table's releases_max */
    bool is_through;             /* the whole chain has computed it */
    bool wants_cancel, is_cancelled;
    bool is_answered; /* cancelled, and its request is closed; kept until the workers have surely dropped it
                         too */
} lh_flight;

typedef struct lh_flight_table lh_flight_table;

lh_status lh_flight_table_create(uint32_t flights_max, uint32_t segments_max, uint32_t releases_max,
                                 lh_flight_table **table, lh_error *error);
void lh_flight_table_destroy(lh_flight_table *table);

/* A free record, not yet counted: lh_flight_table_launch does. NULL: all are in use. */
lh_flight *lh_flight_table_blank(lh_flight_table *table);
void lh_flight_table_launch(lh_flight_table *table, lh_flight *flight, uint64_t step, int64_t now_us);
/* NULL: not in flight. */
lh_flight *lh_flight_table_find(lh_flight_table *table, uint64_t step);
/* Whether it has rows of the sequence, which waits for them. */
bool lh_flight_holds(const lh_flight *flight, const lh_sequence *sequence);
/* The sequence waits for none of its rows any more. */
void lh_flight_table_detach(lh_flight_table *table, const lh_sequence *sequence);
void lh_flight_table_land(lh_flight_table *table, lh_flight *flight);
/* The step has come around the ring with all that it owed: its answer may still be on its way back, but it is no
 * longer under way. May be told more than once. */
void lh_flight_table_pass(lh_flight_table *table, lh_flight *flight);
/* Steps in flight: under way with rows of a class, without rows, and all, whose answer is due. */
uint32_t lh_flight_table_count(const lh_flight_table *table, lh_step_class step_class);
uint32_t lh_flight_table_empties(const lh_flight_table *table);
uint32_t lh_flight_table_total(const lh_flight_table *table);
/* Walks the steps in flight: NULL starts, NULL ends. The order is that of the records. */
lh_flight *lh_flight_table_next(lh_flight_table *table, const lh_flight *flight);
