/* Lines of the log that wait to be written, in the order in which they came, in a memory of fixed
 * size. A line that finds no room is left out and counted; the count is told with the next line
 * that found room, or by itself where none has come since.
 *
 * Plain data over its owner's memory; thread: the owner's. Nothing is allocated. */
#pragma once

#include "common/base/log_line.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_log_queue {
    char *memory;
    size_t memory_bytes;
    size_t begin, used;          /* of the ring that the memory is */
    unsigned long long left_out; /* since the last line that found room */
} lh_log_queue;

/* For an initializer; `memory` is an array of at least LH_LOG_QUEUE_BYTES_MIN. */
#define LH_LOG_QUEUE(memory)   {memory, sizeof(memory), 0, 0, 0}
#define LH_LOG_QUEUE_BYTES_MIN (LH_LOG_LINE_BYTES + 16)

/* Copies a line of 1 to LH_LOG_LINE_BYTES bytes, or counts it. */
void lh_log_queue_push(lh_log_queue *queue, const char *line, size_t length);

/* Takes the oldest line and how many were left out just before it. *length is 0 where lines were
 * left out and none has come since. False: there is nothing to tell. */
bool lh_log_queue_pop(lh_log_queue *queue, char line[LH_LOG_LINE_BYTES], size_t *length,
                      unsigned long long *left_out);
