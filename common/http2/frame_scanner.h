/* Finds the frames in what a peer sends, before anything is done with them: nghttp2 tells nobody of
 * those that it ignores, and they cost time all the same. Looks at their headers alone (RFC 9113,
 * 4.1). Private to common/http2. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_h2_frame_scanner {
    uint32_t skip; /* bytes before the next header */
    uint32_t have; /* of it */
    uint8_t header[9];
} lh_h2_frame_scanner;

typedef struct lh_h2_frame_header {
    uint32_t length; /* of the payload */
    uint8_t type, flags;
} lh_h2_frame_header;

/* preface_bytes: what comes before the first frame. */
void lh_h2_frame_scanner_init(lh_h2_frame_scanner *scanner, uint32_t preface_bytes);
/* Moves *bytes and *length on to behind the next header that ends in them, which it gives. False:
 * none does, and all are taken. */
bool lh_h2_frame_scanner_next(lh_h2_frame_scanner *scanner, const uint8_t **bytes, size_t *length,
                              lh_h2_frame_header *header);
