/* Nine bytes, then as many as they say. */
#include "common/http2/frame_scanner.h"

#include <string.h>

void lh_h2_frame_scanner_init(lh_h2_frame_scanner *scanner, uint32_t preface_bytes) {
    *scanner = (lh_h2_frame_scanner){.skip = preface_bytes};
}

static size_t take(const uint8_t **bytes, size_t *length, size_t wanted) {
    size_t taken = wanted < *length ? wanted : *length;
    *bytes += taken;
    *length -= taken;
    return taken;
}

bool lh_h2_frame_scanner_next(lh_h2_frame_scanner *scanner, const uint8_t **bytes, size_t *length,
                              lh_h2_frame_header *header) {
    uint8_t *h = scanner->header;
    scanner->skip -= (uint32_t)take(bytes, length, scanner->skip);
    if (scanner->skip > 0)
        return false;
    const uint8_t *from = *bytes;
    size_t taken = take(bytes, length, sizeof scanner->header - scanner->have);
    memcpy(h + scanner->have, from, taken);
    scanner->have += (uint32_t)taken;
    if (scanner->have < sizeof scanner->header)
        return false;
    scanner->have = 0;
    scanner->skip = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
    *header = (lh_h2_frame_header){.length = scanner->skip, .type = h[3], .flags = h[4]};
    return true;
}
