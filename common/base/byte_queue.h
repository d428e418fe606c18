/* Bytes that wait to be sent: pieces appended at one end, taken at the other in any lengths.
 * Unbounded; the owner watches `bytes`. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_byte_piece lh_byte_piece;

/* All zeros is an empty queue. */
typedef struct lh_byte_queue {
    lh_byte_piece *first, *last;
    size_t bytes;
} lh_byte_queue;

/* Appends a copy. LH_ERR_NO_MEMORY. */
lh_status lh_byte_queue_push(lh_byte_queue *queue, const void *bytes, size_t length);
/* Appends bytes from malloc, which belong to the queue from now on, also when this fails.
 * LH_ERR_NO_MEMORY. */
lh_status lh_byte_queue_push_owned(lh_byte_queue *queue, void *bytes, size_t length);
/* Moves `length` bytes, which must not be more than queue->bytes, to `target`. */
void lh_byte_queue_pop(lh_byte_queue *queue, uint8_t *target, size_t length);
/* Drops all bytes. */
void lh_byte_queue_reset(lh_byte_queue *queue);
