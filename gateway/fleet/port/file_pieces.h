/* Pieces of a file that lie at equal distances, one after the other, as a file of its own: what a
 * worker needs of each of many experts comes in one answer. Pure; thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_file_pieces {
    uint64_t offset, bytes, stride, count; /* `count` > 0 of `bytes` > 0, `stride` >= bytes apart */
} lh_file_pieces;

/* Bytes that lie together in the file. */
typedef struct lh_piece_extent {
    uint64_t offset, bytes;
} lh_piece_extent;

/* "OFFSET-BYTES-STRIDE-COUNT" in decimal digits, nothing behind it. LH_ERR_MALFORMED; LH_ERR_LIMIT:
 * they do not lie within file_bytes, or on each other. */
lh_status lh_file_pieces_parse(const char *text, uint64_t file_bytes, lh_file_pieces *pieces);
static inline uint64_t lh_file_pieces_size(const lh_file_pieces *pieces) {
    return pieces->bytes * pieces->count;
}
/* Where byte `position` < size lies, and how many of the `length` > 0 from there on follow it in
 * the file. */
lh_piece_extent lh_file_pieces_at(const lh_file_pieces *pieces, uint64_t position, uint64_t length);
