/* zlib's streams over whole buffers. */
#include "gateway/http/gzip.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define GZIP_WINDOW 31 /* 15 bits, and a header and trailer of gzip */
/* A server's thread does it between other clients' tokens: level 1 takes 5 ms for a MiB of JSON. */
#define LEVEL       1
#define MEMORY      8 /* zlib's own default */
#define FIRST_BYTES 16384u

static lh_status refuse(lh_status status, size_t bytes_max, lh_error *error) {
    if (status == LH_ERR_LIMIT)
        return lh_fail(error, status, "The body expands to more than %zu bytes.", bytes_max);
    if (status == LH_ERR_NO_MEMORY)
        return lh_fail(error, status, "There is no memory to expand the body.");
    return lh_fail(error, status, "The body is not valid gzip.");
}

/* Room for more, one byte above the most at the end, so that it can be seen that there is more. */
static lh_status grow(char **out, size_t used, size_t *capacity, size_t bytes_max) {
    if (used > bytes_max)
        return LH_ERR_LIMIT;
    size_t wanted = *capacity ? 2 * *capacity : FIRST_BYTES;
    if (wanted > bytes_max)
        wanted = bytes_max + 1;
    char *grown = realloc(*out, wanted);
    if (!grown)
        return LH_ERR_NO_MEMORY;
    *out = grown;
    *capacity = wanted;
    return LH_OK;
}

static lh_status expand(z_stream *stream, size_t bytes_max, char **out, size_t *used) {
    size_t capacity = 0;
    for (;;) {
        lh_status status = *used == capacity ? grow(out, *used, &capacity, bytes_max) : LH_OK;
        if (status)
            return status;
        stream->next_out = (Bytef *)*out + *used;
        stream->avail_out = (uInt)(capacity - *used);
        int code = inflate(stream, Z_NO_FLUSH);
        *used = capacity - stream->avail_out;
        if (code == Z_STREAM_END)
            return *used > bytes_max       ? LH_ERR_LIMIT
                   : stream->avail_in == 0 ? LH_OK
                                           : LH_ERR_MALFORMED;
        if (code == Z_MEM_ERROR)
            return LH_ERR_NO_MEMORY;
        if (code != Z_OK || (stream->avail_in == 0 && stream->avail_out > 0))
            return LH_ERR_MALFORMED;
    }
}

lh_status lh_gzip_expand(const char *bytes, size_t length, size_t bytes_max, char **out,
                         size_t *out_length, lh_error *error) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    *out = NULL;
    *out_length = 0;
    if (length > INT_MAX || bytes_max >= INT_MAX)
        return refuse(LH_ERR_LIMIT, bytes_max, error);
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return refuse(LH_ERR_NO_MEMORY, bytes_max, error);
    lh_status status = expand(&stream, bytes_max, out, out_length);
    inflateEnd(&stream);
    if (!status)
        return LH_OK;
    free(*out);
    *out = NULL;
    return refuse(status, bytes_max, error);
}

lh_status lh_gzip_compress(const char *bytes, size_t length, char **out, size_t *out_length) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    if (length > INT_MAX)
        return LH_ERR_LIMIT;
    char *made = malloc(length ? length : 1);
    if (!made)
        return LH_ERR_NO_MEMORY;
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(made);
        return LH_ERR_NO_MEMORY;
    }
    stream.next_out = (Bytef *)made;
    stream.avail_out = (uInt)length;
    int code = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    if (code != Z_STREAM_END || stream.avail_out == 0) {
        free(made);
        return LH_ERR_LIMIT;
    }
    *out = made;
    *out_length = length - stream.avail_out;
    return LH_OK;
}

/* "q=0", "q=0.0" and so on behind a coding. */
static bool is_refused(const char *parameters, size_t length) {
    const char *weight = memchr(parameters, 'q', length);
    if (!weight)
        return false;
    size_t rest = length - (size_t)(weight - parameters);
    return rest > 2 && weight[1] == '=' && strspn(weight + 2, "0.") >= rest - 2;
}

bool lh_gzip_is_accepted(const char *accept_encoding) {
    for (const char *at = accept_encoding; at && *at;) {
        at += strspn(at, ", \t");
        size_t length = strcspn(at, ","), name = strcspn(at, ",; \t");
        if (name == 4 && strncasecmp(at, "gzip", 4) == 0)
            return !is_refused(at + name, length - name);
        at += length;
    }
    return false;
}
