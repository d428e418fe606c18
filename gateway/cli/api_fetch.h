/* One request to a running gateway's API and its whole answer, for commands. Whoever cannot be
 * asked is told in plain words, with what is known of a gateway on this machine (running_api.h).
 * Thread: any, also several at once. */
#pragma once

#include "common/base/text_buffer.h"

/* url: "http://HOST:PORT" of the API, with or without a final "/" or "/v1"; path: "/readyz", or
 * "/trace/" before a word that may hold anything; key: "" for none.
 * *http_status and body are the answer's. LH_ERR_INVALID: the URL; LH_ERR_UNAVAILABLE: no
 * connection, or not to an API; LH_ERR_TIMEOUT; LH_ERR_LIMIT: the answer is over 64 MiB;
 * LH_ERR_NO_MEMORY. */
lh_status lh_api_fetch(const char *url, const char *path, const char *word, const char *key,
                       long *http_status, lh_text_buffer *body, lh_error *error);
/* The same for a POST of a JSON text; an answer may take ten minutes. */
lh_status lh_api_post(const char *url, const char *path, const char *json, const char *key,
                      long *http_status, lh_text_buffer *body, lh_error *error);
