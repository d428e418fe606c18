/* Headers of an answer. */
#include "gateway/http/reply.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

void lh_http_reply_add(lh_http_reply *reply, const char *name, const char *format, ...) {
    assert(reply->header_count < LH_HTTP_REPLY_HEADERS_MAX);
    char *value = reply->headers[reply->header_count].value;
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof reply->headers[0].value, format, args);
    va_end(args);
    for (; *value; value++)
        if ((unsigned char)*value < 0x20 || (unsigned char)*value >= 0x7f)
            *value = '?';
    reply->headers[reply->header_count++].name = name;
}
