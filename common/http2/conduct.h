/* What a peer does wrong, undoes, or does for nothing costs us work and it next to none (rapid
 * reset, CVE-2023-44487; MadeYouReset, CVE-2025-8671; floods of PING, SETTINGS, PRIORITY, empty
 * DATA: CVE-2019-9511 to 9518): so there are budgets.
 *
 * Faults and resets: the budget grows with the streams that end well.
 *
 * Idle frames, that is, frames which carry nothing for a stream (conduct.c has the list): a bucket
 * of a thousand, into which come a hundred each second, one for each 256 bytes of a body that we
 * sent to the peer, since it opens its windows for them, and one for each HEADERS, which may be
 * reset. Those who mean well stay far below: a PING twice a second; a WINDOW_UPDATE where half of a
 * window is used up, which is thousands of bytes even for small windows; a SETTINGS or two.
 *
 * Header fields are counted as they are decoded, since a byte on the wire may stand for thousands:
 * one that names an entry of HPACK's dynamic table is the whole entry again (RFC 7541, 6.1). We
 * allow no such table, but a peer may use one of 4096 bytes until it has acknowledged our SETTINGS,
 * and it may never do that. A block that passes its limit ends the connection there, in the middle
 * of the block. All blocks together take from a bucket of 256 KiB, into which comes 2 MiB each
 * second: six thousand requests of ours.
 *
 * Nobody sees the fields of a block that nghttp2 ignores, since it refused the stream or met a
 * forbidden field. Decoding them costs time all the same (25 ns a byte), so such a block takes
 * eight times its bytes from the bucket.
 *
 * Private to session.c. Thread: the session's. */
#pragma once

#include "common/base/status.h"
#include "common/http2/frame_scanner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros is a peer that has done nothing yet. */
typedef struct lh_h2_conduct {
    uint64_t faults;     /* invalid frames, and streams that we had to reset because of the peer */
    uint64_t resets;     /* of streams, by the peer */
    uint64_t completed;  /* streams that ended well: the owner counts them */
    uint64_t idle;       /* frames, less what has come into the bucket */
    uint64_t sent_bytes; /* for which nothing has come into it yet */
    /* Names, values and 32 for each field (RFC 9113, 6.5.2): of the present block, and of all
     * blocks, less what has come into the bucket. */
    uint64_t block_bytes, header_bytes;
    uint64_t unseen_bytes; /* the part of header_bytes that the present block gives back at its end,
                            * unless nghttp2 ignores it */
} lh_h2_conduct;

/* One more. LH_ERR_LIMIT with what it was: it is one too many, the connection must end. */
lh_status lh_h2_conduct_count_fault(lh_h2_conduct *conduct, lh_error *error);
lh_status lh_h2_conduct_count_reset(lh_h2_conduct *conduct, lh_error *error);
/* Any frame of the peer. */
lh_status lh_h2_conduct_count_frame(lh_h2_conduct *conduct, const lh_h2_frame_header *frame,
                                    lh_error *error);

/* A frame that holds `length` bytes of a header block is about to be decoded. begins_block: it is
 * the first one of its block. LH_ERR_LIMIT as above. */
lh_status lh_h2_conduct_count_block_frame(lh_h2_conduct *conduct, bool begins_block, size_t length,
                                          lh_error *error);
/* The block has come to its end, and was not ignored. */
void lh_h2_conduct_end_block(lh_h2_conduct *conduct);
/* A field of the present block has been decoded; the block may have block_bytes_max. */
lh_status lh_h2_conduct_count_field(lh_h2_conduct *conduct, size_t name_length, size_t value_length,
                                    size_t block_bytes_max, lh_error *error);

/* Bytes of bodies left for the peer. */
void lh_h2_conduct_note_sent(lh_h2_conduct *conduct, size_t bytes);
/* Time has passed. */
void lh_h2_conduct_note_time(lh_h2_conduct *conduct, uint64_t passed_ms);
