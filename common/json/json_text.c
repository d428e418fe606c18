/* Strings and rendering. */
#include "common/json/json_text.h"

#include "common/base/text_decoder.h"
#include "common/base/utf8.h"

#define FLOAT_DIGITS 9 /* tell every float from the next */

json_t *lh_json_text(const char *bytes, size_t length) {
    if (lh_utf8_valid_prefix(bytes, length) == length)
        return json_stringn_nocheck(length ? bytes : "", length);
    lh_text_decoder decoder;
    lh_text_buffer text = {0};
    json_t *value = NULL;
    lh_text_decoder_init(&decoder);
    if (!lh_text_decoder_push(&decoder, bytes, length, &text, NULL) &&
        !lh_text_decoder_finish(&decoder, &text, NULL))
        value = json_stringn_nocheck(text.bytes, text.length);
    lh_text_buffer_reset(&text);
    return value;
}

/* The whole, or NULL where it could not be completed. */
static json_t *keep(json_t *whole, int failed) {
    if (!failed)
        return whole;
    json_decref(whole);
    return NULL;
}

json_t *lh_json_append(json_t *list, json_t *value) {
    return keep(list, json_array_append_new(list, value));
}

json_t *lh_json_set(json_t *object, const char *key, json_t *value) {
    return keep(object, json_object_set_new(object, key, value));
}

/* jansson does not hear of it where a member's name could not be written: so it is noted here. */
typedef struct rendering {
    lh_text_buffer *out;
    bool has_failed;
} rendering;

static int append(const char *bytes, size_t length, void *context) {
    rendering *r = context;
    r->has_failed = r->has_failed || lh_text_buffer_append(r->out, bytes, length, NULL) != LH_OK;
    return r->has_failed ? -1 : 0;
}

lh_status lh_json_render(json_t *value, lh_text_buffer *out) {
    rendering r = {.out = out};
    if (!value)
        return LH_ERR_NO_MEMORY;
    int code = json_dump_callback(
        value, append, &r, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(FLOAT_DIGITS));
    json_decref(value);
    return code || r.has_failed ? LH_ERR_NO_MEMORY : LH_OK;
}
