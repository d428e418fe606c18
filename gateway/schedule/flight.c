/* Steps in flight: a few dozen records, so that a linear search is the fastest. */
#include "gateway/schedule/flight.h"

#include <assert.h>
#include <stdlib.h>

struct lh_flight_table {
    uint32_t flights_max;
    uint32_t under_way[2], empties, total; /* in flight: by class, those without rows, and all */
    lh_flight_segment *segments;           /* [flights_max][segments_max] */
    lh_kv_holding **releases;              /* [flights_max][releases_max] */
    lh_flight flights[];
};

lh_status lh_flight_table_create(uint32_t flights_max, uint32_t segments_max, uint32_t releases_max,
                                 lh_flight_table **table, lh_error *error) {
    lh_flight_table *t = calloc(1, sizeof *t + flights_max * sizeof t->flights[0]);
    if (!t)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u steps", flights_max);
    t->flights_max = flights_max;
    t->segments = calloc((size_t)flights_max * segments_max, sizeof *t->segments);
    t->releases = calloc((size_t)flights_max * releases_max, sizeof *t->releases);
    if (!t->segments || !t->releases) {
        lh_flight_table_destroy(t);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u steps of %u sequences", flights_max,
                       segments_max);
    }
    for (uint32_t i = 0; i < flights_max; i++) {
        t->flights[i].segments = t->segments + (size_t)i * segments_max;
        t->flights[i].releases = t->releases + (size_t)i * releases_max;
    }
    *table = t;
    return LH_OK;
}

void lh_flight_table_destroy(lh_flight_table *table) {
    if (!table)
        return;
    free(table->segments);
    free(table->releases);
    free(table);
}

lh_flight *lh_flight_table_blank(lh_flight_table *table) {
    for (uint32_t i = 0; i < table->flights_max; i++) {
        lh_flight *flight = &table->flights[i];
        if (flight->step == 0) {
            *flight = (lh_flight){.segments = flight->segments, .releases = flight->releases};
            return flight;
        }
    }
    return NULL;
}

static uint32_t *counter_of(lh_flight_table *table, const lh_flight *flight) {
    return flight->rows == 0 ? &table->empties : &table->under_way[flight->step_class];
}

void lh_flight_table_launch(lh_flight_table *table, lh_flight *flight, uint64_t step, int64_t now_us) {
    assert(step != 0 && flight->step == 0);
    flight->step = step;
    flight->submitted_us = now_us;
    ++*counter_of(table, flight);
    table->total++;
}

void lh_flight_table_pass(lh_flight_table *table, lh_flight *flight) {
    assert(flight->drawn_count == flight->draws_due);
    if (flight->is_through)
        return;
    --*counter_of(table, flight);
    flight->is_through = true;
}

lh_flight *lh_flight_table_find(lh_flight_table *table, uint64_t step) {
    for (uint32_t i = 0; step != 0 && i < table->flights_max; i++)
        if (table->flights[i].step == step)
            return &table->flights[i];
    return NULL;
}

bool lh_flight_holds(const lh_flight *flight, const lh_sequence *sequence) {
    for (uint32_t i = 0; i < flight->segment_count; i++)
        if (flight->segments[i].sequence == sequence)
            return true;
    return false;
}

void lh_flight_table_detach(lh_flight_table *table, const lh_sequence *sequence) {
    for (uint32_t i = 0; i < table->flights_max; i++)
        for (uint32_t k = 0; table->flights[i].step != 0 && k < table->flights[i].segment_count; k++)
            if (table->flights[i].segments[k].sequence == sequence)
                table->flights[i].segments[k].sequence = NULL;
}

void lh_flight_table_land(lh_flight_table *table, lh_flight *flight) {
    assert(flight->step != 0);
    if (!flight->is_through)
        --*counter_of(table, flight);
    table->total--;
    flight->step = 0;
}

uint32_t lh_flight_table_count(const lh_flight_table *table, lh_step_class step_class) {
    return table->under_way[step_class];
}

uint32_t lh_flight_table_empties(const lh_flight_table *table) {
    return table->empties;
}

uint32_t lh_flight_table_total(const lh_flight_table *table) {
    return table->total;
}

lh_flight *lh_flight_table_next(lh_flight_table *table, const lh_flight *flight) {
    uint32_t i = flight ? (uint32_t)(flight - table->flights) + 1 : 0;
    for (; i < table->flights_max; i++)
        if (table->flights[i].step != 0)
            return &table->flights[i];
    return NULL;
}
