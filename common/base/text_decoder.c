/* Streaming UTF-8 decoding with replacement. */
#include "common/base/text_decoder.h"

#include "common/base/utf8.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void lh_text_decoder_init(lh_text_decoder *decoder) {
    *decoder = (lh_text_decoder){0};
}

static lh_status put_replacement(lh_text_buffer *out, lh_error *error) {
    return lh_text_buffer_append(out, replacement, sizeof replacement - 1, error);
}

/* Adds bytes to the held character until it is whole, broken, or the bytes are used up. *used
 * counts the bytes taken. */
static lh_status finish_held(lh_text_decoder *decoder, const char *bytes, size_t length,
                             size_t *used, lh_text_buffer *out, lh_error *error) {
    *used = 0;
    while (decoder->held_count > 0 && *used < length) {
        decoder->held[decoder->held_count] = bytes[*used];
        size_t size;
        lh_utf8_form form = lh_utf8_next(decoder->held, decoder->held_count + 1U, &size);
        if (form == LH_UTF8_BROKEN) { /* by the new byte, which then begins something of its own */
            decoder->held_count = 0;
            return put_replacement(out, error);
        }
        decoder->held_count++;
        ++*used;
        if (form == LH_UTF8_WHOLE) {
            decoder->held_count = 0;
            return lh_text_buffer_append(out, decoder->held, size, error);
        }
    }
    return LH_OK;
}

lh_status lh_text_decoder_push(lh_text_decoder *decoder, const char *bytes, size_t length,
                               lh_text_buffer *out, lh_error *error) {
    size_t at;
    lh_status status = finish_held(decoder, bytes, length, &at, out, error);
    while (!status && at < length) {
        size_t valid = lh_utf8_valid_prefix(bytes + at, length - at);
        status = lh_text_buffer_append(out, bytes + at, valid, error);
        at += valid;
        if (status || at == length)
            break;
        size_t size;
        if (lh_utf8_next(bytes + at, length - at, &size) == LH_UTF8_CUT) {
            memcpy(decoder->held, bytes + at, size);
            decoder->held_count = (uint8_t)size;
            break;
        }
        status = put_replacement(out, error);
        at += size;
    }
    return status;
}

lh_status lh_text_decoder_finish(lh_text_decoder *decoder, lh_text_buffer *out, lh_error *error) {
    if (decoder->held_count == 0)
        return LH_OK;
    decoder->held_count = 0;
    return put_replacement(out, error);
}
