/* Any bytes as a body in gzip: it expands within its bound, or is refused; what was expanded comes
 * back when it is compressed and expanded again. The same bytes as a header: it takes gzip or
 * not. */
#include "gateway/http/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (1u << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition) {
    if (!condition)
        abort();
}

static void check_back(const char *bytes, size_t length) {
    char *packed = NULL, *again = NULL;
    size_t packed_length = 0, again_length = 0;
    lh_error error = {0};
    lh_status status = lh_gzip_compress(bytes, length, &packed, &packed_length);
    need(status == LH_OK || status == LH_ERR_LIMIT);
    if (status)
        return;
    need(packed_length < length);
    need(lh_gzip_expand(packed, packed_length, BYTES_MAX, &again, &again_length, &error) == LH_OK);
    need(again_length == length && memcmp(again, bytes, length) == 0);
    free(packed);
    free(again);
}

static void check_body(const char *bytes, size_t length) {
    char *out = NULL;
    size_t out_length = 0;
    lh_error error = {0};
    lh_status status = lh_gzip_expand(bytes, length, BYTES_MAX, &out, &out_length, &error);
    need(status == LH_OK || status == LH_ERR_MALFORMED || status == LH_ERR_LIMIT);
    need(status == LH_OK || error.message[0]);
    if (status)
        return;
    need(out_length <= BYTES_MAX);
    check_back(out, out_length);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *header = malloc(size + 1);
    if (!header)
        return 0;
    if (size > 0)
        memcpy(header, data, size);
    header[size] = '\0';
    check_body(header, size);
    if (size > 0 && size <= BYTES_MAX)
        check_back(header, size);
    lh_gzip_is_accepted(header);
    free(header);
    return 0;
}
