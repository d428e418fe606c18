/* Walks the block from piece to piece. */
#include "gateway/http/header_block.h"

#include <assert.h>

/* How far into the block a piece begins; the block's size where it lies elsewhere. */
static size_t offset_of(const lh_http_header_block *block, const char *bytes) {
    uintptr_t start = (uintptr_t)block->start, at = (uintptr_t)bytes;
    return at >= start && at - start < block->bytes ? (size_t)(at - start) : block->bytes;
}

static bool is_end_of_line(const lh_http_header_block *block, size_t at) {
    return at + 2 <= block->bytes && block->start[at] == '\0' && block->start[at + 1] == '\0';
}

static bool is_blank(const lh_http_header_block *block, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (block->start[i] != ' ' && block->start[i] != '\t')
            return false;
    return true;
}

/* One header whose name has to begin at *at: name, NUL where the colon was, blanks, value, end of
 * line. */
static bool walk_header(const lh_http_header_block *block, size_t index, size_t *at) {
    if (offset_of(block, block->names[index].bytes) != *at)
        return false;
    size_t after_colon = *at + block->names[index].length + 1;
    size_t value = offset_of(block, block->values[index].bytes);
    if (value < after_colon || value >= block->bytes || !is_blank(block, after_colon, value))
        return false;
    size_t end = value + block->values[index].length;
    if (!is_end_of_line(block, end))
        return false;
    *at = end + 2;
    assert(*at <= block->bytes);
    return true;
}

bool lh_http_header_block_is_plain(const lh_http_header_block *block) {
    assert(block->start && block->header_count <= LH_HTTP_HEADERS_MAX);
    size_t target = offset_of(block, block->target.bytes),
           version = offset_of(block, block->version.bytes);
    if (target >= block->bytes || version != target + block->target.length + 1)
        return false;
    size_t at = version + block->version.length;
    if (!is_end_of_line(block, at))
        return false;
    at += 2;
    for (size_t i = 0; i < block->header_count; i++)
        if (!walk_header(block, i, &at))
            return false;
    return is_end_of_line(block, at) && at + 2 == block->bytes;
}
