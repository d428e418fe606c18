/* HTTP/2 in the clear with libcurl, over connections that serve several requests. */
#pragma once

#include <stdbool.h>

/* Prepares a CURL handle for a request to a server that speaks HTTP/2 from the first byte. is_kept:
 * the handle's last request succeeded, so that its connection is likely to serve this one, too.
 * False: libcurl refuses an option.
 *
 * libcurl 7.88 (Debian 12) begins HTTP/2 a second time on a kept connection where prior knowledge
 * is asked for, which ends it (curl issue 10634); asked for HTTP/2 in general it goes on with what
 * the connection speaks. A new connection would then begin with HTTP/1.1, so none is opened: where
 * the kept one is gone the request fails at once and has to be sent again with is_kept false. */
bool lh_clear_http2_prepare(void *easy, bool is_kept);
