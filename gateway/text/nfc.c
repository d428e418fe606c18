/* libunistring does it: it sorts a row of combining marks by merging, so that a hostile row costs
 * no quadratic time. */
#include "gateway/text/nfc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <uninorm.h>

/* Below U+0300 every character is composed and joins nothing in front of it. UTF-8 begins with 0xCC
 * from there on. */
static bool is_composed(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)text[i] >= 0xCC)
            return false;
    return true;
}

lh_status lh_nfc_compose(const char *text, size_t length, lh_text_buffer *out,
                         const char **composed, size_t *composed_length, lh_error *error) {
    *composed = text;
    *composed_length = length;
    if (is_composed(text, length))
        return LH_OK;
    size_t count;
    uint8_t *made = u8_normalize(UNINORM_NFC, (const uint8_t *)text, length, NULL, &count);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to compose a text of %zu bytes", length);
    out->length = 0;
    lh_status status = lh_text_buffer_append(out, (const char *)made, count, error);
    free(made);
    *composed = out->bytes;
    *composed_length = out->length;
    return status;
}
