/* What waits for the readers of one kind: in turns, client by client, so that whoever has lately
 * used least of their time goes first; each client's own go in the order in which they came. Plain
 * data, which says who goes and runs nothing. Thread: its owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_reader_client lh_reader_client;

/* Embedded in what waits, and zeroed before. */
typedef struct lh_reader_place {
    lh_reader_client *owner; /* while it waits */
    struct lh_reader_place *next, *previous;
    size_t bytes; /* that it holds */
} lh_reader_place;

typedef struct lh_reader_line {
    uint32_t running_max; /* at a time of one client */
    lh_reader_client *clients;
    size_t count, bytes; /* of what waits */
} lh_reader_line;

/* What of a client waits in the line. */
typedef struct lh_reader_waiting {
    size_t count, bytes;
} lh_reader_waiting;

/* An empty one is {.running_max = N}. turn_us: when all that the client has used will have settled
 * (reading_ledger.h); of several clients the one with the least goes first. False: no memory. */
bool lh_reader_line_push(lh_reader_line *line, uint64_t client, int64_t turn_us,
                         lh_reader_place *place);
/* It waits no longer, in whatever line it did. */
void lh_reader_line_remove(lh_reader_place *place);
/* Whose turn it is, which waits no longer and runs; NULL: nobody's. */
lh_reader_place *lh_reader_line_take(lh_reader_line *line, uint64_t *client);
/* One that was taken has run. */
void lh_reader_line_end(lh_reader_line *line, uint64_t client);
/* The client has used more. */
void lh_reader_line_set_turn(lh_reader_line *line, uint64_t client, int64_t turn_us);
/* Whatever of the client waits, waits in another line from now on, behind what waits of it there.
 * False: nothing has moved, since nothing waits, or something of it still runs and needs its place
 * in the list. */
bool lh_reader_line_move(lh_reader_line *from, lh_reader_line *to, uint64_t client);
lh_reader_waiting lh_reader_line_waiting(const lh_reader_line *line, uint64_t client);
