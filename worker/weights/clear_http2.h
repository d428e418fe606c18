/* HTTP/2 in the clear with libcurl, over connections that serve several requests. */
#pragma once

#include <stdbool.h>

/* The value of CURLOPT_HTTP_VERSION for a server that speaks HTTP/2 from the first byte. is_kept:
 * the handle's last request succeeded, so that its connection is likely to serve this one, too.
 *
 * libcurl 7.88 (Debian 12) begins HTTP/2 a second time on a kept connection where prior knowledge
 * is asked for, which ends it (curl issue 10634); asked for HTTP/2 in general it goes on with what
 * the connection speaks. Where the server has closed that connection meanwhile, such a request
 * fails and has to be sent again with is_kept false. */
long lh_clear_http2_version(bool is_kept);
