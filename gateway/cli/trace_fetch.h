/* One GET over HTTP, for the trace command. Thread: one at a time. */
#pragma once

#include "common/base/text_buffer.h"

/* url: "http://HOST:PORT" of the API, with or without a final "/" or "/v1"; id: of the request;
 * key: "" for none. *http_status and body are the answer's. LH_ERR_INVALID: the URL;
 * LH_ERR_UNAVAILABLE: no connection; LH_ERR_TIMEOUT; LH_ERR_LIMIT: the answer is over 64 MiB;
 * LH_ERR_NO_MEMORY. */
lh_status lh_trace_fetch(const char *url, const char *id, const char *key, long *http_status,
                         lh_text_buffer *body, lh_error *error);
