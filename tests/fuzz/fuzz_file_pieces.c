/* What comes behind pieces_url: whatever is taken lies within the file, and each byte of it where
 * the four numbers say. */
#include "gateway/fleet/port/file_pieces.h"

#include <stdlib.h>
#include <string.h>

#define FILE_BYTES UINT64_C(1000003)

static void need(bool condition) {
    if (!condition)
        abort();
}

static void walk(const lh_file_pieces *pieces) {
    const uint64_t size = lh_file_pieces_size(pieces);
    uint64_t position = 0, end = 0;
    need(size > 0 && size <= FILE_BYTES);
    for (uint32_t i = 0; i < 100 && position < size; i++) {
        const lh_piece_extent extent = lh_file_pieces_at(pieces, position, size - position);
        need(extent.bytes > 0 && extent.bytes <= size - position);
        need(extent.offset >= end && extent.offset + extent.bytes <= FILE_BYTES);
        end = extent.offset + extent.bytes;
        position += extent.bytes;
    }
    const lh_piece_extent last = lh_file_pieces_at(pieces, size - 1, 1);
    need(last.bytes == 1 && last.offset < FILE_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    lh_file_pieces pieces;
    need(text);
    memcpy(text, data, size);
    text[size] = 0;
    if (lh_file_pieces_parse(text, FILE_BYTES, &pieces) == LH_OK)
        walk(&pieces);
    free(text);
    return 0;
}
