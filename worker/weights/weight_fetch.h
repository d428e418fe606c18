/* HTTP by libcurl for weights: byte ranges and one whole document. A transfer that breaks off is
 * taken up again where it stopped, after a pause that doubles, until several tries in a row have
 * brought nothing. A server can make us take no byte more than was asked.
 *
 * Blocking; one thread at a time. Connections are kept between calls, but for HTTP/2 without TLS,
 * which libcurl 7.88.1 (Debian 12) cannot take up again (curl issue 10634). The program ignores
 * SIGPIPE. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_weight_fetch lh_weight_fetch;

/* PEM, for https; NULL: none, and the system's CAs. */
typedef struct lh_weight_certificates {
    const char *certificate_file, *key_file, *ca_file;
} lh_weight_certificates;

typedef struct lh_weight_fetch_options {
    lh_weight_certificates certificates; /* outlive the fetch */
    const _Atomic bool *cancelled;       /* may be NULL; outlives the fetch */
    int64_t stall_timeout_ms;            /* no byte for so long breaks a transfer off. 0: 10000 */
    int64_t retry_delay_ms;              /* the first pause. 0: 200 */
    uint64_t bytes_per_s_max;            /* no faster than this on average. 0: as fast as it goes */
    /* in a row without a byte, then it fails. 0: 12, half a minute where nobody answers at once */
    uint32_t tries;
} lh_weight_fetch_options;

typedef struct lh_weight_url {
    const char *url; /* http:// or https:// */
    /* HTTP/2 without TLS from the first byte; else HTTP/1.1, or what ALPN gives on https */
    bool prior_knowledge;
    /* on its fleet port: with https its certificate has to be the gateway's, whatever the host */
    bool is_gateway;
} lh_weight_url;

/* LH_ERR_NO_MEMORY. */
lh_status lh_weight_fetch_create(const lh_weight_fetch_options *options, lh_weight_fetch **fetch,
                                 lh_error *error);
/* NULL is allowed. */
void lh_weight_fetch_destroy(lh_weight_fetch *fetch);

/* Takes the next bytes of the range, in order, each once. A status that is not LH_OK ends the
 * transfer and is returned. */
typedef lh_status lh_weight_on_bytes(void *context, const uint8_t *bytes, size_t length,
                                     lh_error *error);

/* Gets bytes [offset, offset + length) (length > 0). LH_ERR_UNAVAILABLE (cannot connect, 5xx, 429,
 * broken off), LH_ERR_TIMEOUT (stalled), LH_ERR_NOT_FOUND (404), LH_ERR_UNSUPPORTED (no 206),
 * LH_ERR_MALFORMED (another range than asked, or more), LH_ERR_INVALID (URL, certificates),
 * LH_ERR_CANCELLED, LH_ERR_NO_MEMORY, on_bytes' own. */
lh_status lh_weight_fetch_range(lh_weight_fetch *fetch, lh_weight_url url, uint64_t offset,
                                uint64_t length, lh_weight_on_bytes *on_bytes, void *context,
                                lh_error *error);
/* Gets a whole document (200) of at most `limit` bytes (LH_ERR_LIMIT) into an empty buffer, which
 * the caller resets, also after an error. */
lh_status lh_weight_fetch_document(lh_weight_fetch *fetch, lh_weight_url url, size_t limit,
                                   lh_text_buffer *document, lh_error *error);
