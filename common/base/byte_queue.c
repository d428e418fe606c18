/* A singly linked list of pieces. Small copies fill up the last piece, so that many short writes
 * cost few allocations. */
#include "common/base/byte_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* capacity of a piece that holds copies: a page, less than an HTTP/2 frame */
enum { COPY_BYTES_MIN = 4096 };

struct lh_byte_piece {
    lh_byte_piece *next;
    uint8_t *bytes;
    /* capacity is `end` for owned bytes: nothing is appended to those */
    size_t begin, end, capacity;
};

lh_status lh_byte_queue_push_owned(lh_byte_queue *queue, void *bytes, size_t length) {
    lh_byte_piece *piece = length ? malloc(sizeof *piece) : NULL;
    if (!piece) {
        free(bytes);
        return length ? LH_ERR_NO_MEMORY : LH_OK;
    }
    *piece = (lh_byte_piece){.bytes = bytes, .end = length, .capacity = length};
    if (queue->last)
        queue->last->next = piece;
    else
        queue->first = piece;
    queue->last = piece;
    queue->bytes += length;
    return LH_OK;
}

lh_status lh_byte_queue_push(lh_byte_queue *queue, const void *bytes, size_t length) {
    if (length == 0)
        return LH_OK;
    lh_byte_piece *last = queue->last;
    if (last && last->capacity - last->end >= length) {
        memcpy(last->bytes + last->end, bytes, length);
        last->end += length;
        queue->bytes += length;
        return LH_OK;
    }
    size_t capacity = length > COPY_BYTES_MIN ? length : COPY_BYTES_MIN;
    uint8_t *copy = malloc(capacity);
    if (!copy)
        return LH_ERR_NO_MEMORY;
    memcpy(copy, bytes, length);
    lh_status status = lh_byte_queue_push_owned(queue, copy, length);
    if (status == LH_OK)
        queue->last->capacity = capacity;
    return status;
}

static void piece_drop_first(lh_byte_queue *queue) {
    lh_byte_piece *piece = queue->first;
    queue->first = piece->next;
    if (!queue->first)
        queue->last = NULL;
    free(piece->bytes);
    free(piece);
}

void lh_byte_queue_pop(lh_byte_queue *queue, uint8_t *target, size_t length) {
    assert(length <= queue->bytes);
    queue->bytes -= length;
    while (length) {
        lh_byte_piece *piece = queue->first;
        size_t there = piece->end - piece->begin;
        size_t part = there < length ? there : length;
        memcpy(target, piece->bytes + piece->begin, part);
        piece->begin += part;
        target += part;
        length -= part;
        if (piece->begin == piece->end)
            piece_drop_first(queue);
    }
}

void lh_byte_queue_reset(lh_byte_queue *queue) {
    while (queue->first)
        piece_drop_first(queue);
    queue->bytes = 0;
}
