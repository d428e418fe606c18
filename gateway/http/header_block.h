/* Looks at the memory of a parsed header block for what the parser let through without a word.
 * libmicrohttpd 0.9.75 takes a bare LF for the end of a line, joins folded lines, and gives C
 * strings, so that a NUL hides what stands behind it; each of them is something that a proxy in
 * front may read in another way. It parses in place, though, and overwrites each CR and LF with
 * NUL: in a block without such tricks the pieces it tells of, put in order, fill the block to the
 * last byte. Thread: any. */
#pragma once

#include "gateway/http/request.h"

typedef struct lh_http_piece {
    const char *bytes;
    size_t length;
} lh_http_piece;

typedef struct lh_http_header_block {
    const char *start; /* of the request line */
    size_t bytes;      /* to the end of the empty line */
    lh_http_piece target, version;
    size_t header_count;
    lh_http_piece names[LH_HTTP_HEADERS_MAX], values[LH_HTTP_HEADERS_MAX]; /* as on the wire */
} lh_http_header_block;

/* Whether every line ends with CRLF, none is folded, and no NUL came over the wire. */
bool lh_http_header_block_is_plain(const lh_http_header_block *block);
