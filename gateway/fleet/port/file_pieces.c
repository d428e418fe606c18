/* Four numbers. */
#include "gateway/fleet/port/file_pieces.h"

#include <assert.h>

/* Digits at *text and the character behind them; false: there are none, or they do not fit. */
static bool read_number(const char **text, char end, uint64_t *value) {
    const char *at = *text;
    for (*value = 0; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
            return false;
    const bool is_number = at > *text && *at == end;
    *text = at + (end ? 1 : 0);
    return is_number;
}

static bool lie_within(const lh_file_pieces *pieces, uint64_t file_bytes) {
    uint64_t last;
    return pieces->bytes > 0 && pieces->count > 0 && pieces->stride >= pieces->bytes &&
           !__builtin_mul_overflow(pieces->count - 1, pieces->stride, &last) &&
           !__builtin_add_overflow(last, pieces->offset, &last) &&
           !__builtin_add_overflow(last, pieces->bytes, &last) && last <= file_bytes;
}

lh_status lh_file_pieces_parse(const char *text, uint64_t file_bytes, lh_file_pieces *pieces) {
    if (!read_number(&text, '-', &pieces->offset) || !read_number(&text, '-', &pieces->bytes) ||
        !read_number(&text, '-', &pieces->stride) || !read_number(&text, 0, &pieces->count))
        return LH_ERR_MALFORMED;
    return lie_within(pieces, file_bytes) ? LH_OK : LH_ERR_LIMIT;
}

lh_piece_extent lh_file_pieces_at(const lh_file_pieces *pieces, uint64_t position,
                                  uint64_t length) {
    assert(position < lh_file_pieces_size(pieces) && length > 0);
    const uint64_t within = position % pieces->bytes, left = pieces->bytes - within;
    return (lh_piece_extent){pieces->offset + position / pieces->bytes * pieces->stride + within,
                             length < left ? length : left};
}
