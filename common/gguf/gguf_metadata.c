/* Metadata of a parsed GGUF by key. */
#include "common/gguf/gguf_entries.h"

#include <stdlib.h>
#include <string.h>

static lh_status fail_type(const lh_gguf *gguf, const gguf_entry *e, const char *wanted,
                           lh_error *error) {
    return lh_fail(error, LH_ERR_MALFORMED,
                   "GGUF: metadata '%.*s' at offset %zu: %s%s, but %s is wanted",
                   gguf_shown(e->key), e->key.bytes, (size_t)(e->value - gguf->bytes),
                   lh_gguf_value_types[e->type].name, e->is_array ? " array" : "", wanted);
}

static lh_status find(const lh_gguf *gguf, const char *key, bool is_array, const char *wanted,
                      const gguf_entry **found, lh_error *error) {
    const gguf_entry probe = {.key = {key, strlen(key)}};
    *found =
        bsearch(&probe, gguf->entries, gguf->entry_count, sizeof probe, lh_gguf_compare_entries);
    if (!*found)
        return lh_fail(error, LH_ERR_NOT_FOUND, "GGUF: metadata '%s' is not in the file", key);
    return (*found)->is_array == is_array ? LH_OK : fail_type(gguf, *found, wanted, error);
}

#define LOAD(type, from)                                                                           \
    __extension__({                                                                                \
        type loaded;                                                                               \
        memcpy(&loaded, from, sizeof loaded);                                                      \
        loaded;                                                                                    \
    })

/* An integer of any width as sign and 64 bits: false for another type. */
static bool load_integer(gguf_value_type type, const uint8_t *value, bool *negative,
                         uint64_t *bits) {
    int64_t number = 0;
    *negative = false;
    switch (type) {
    case GGUF_U8:
        *bits = *value;
        return true;
    case GGUF_U16:
        *bits = LOAD(uint16_t, value);
        return true;
    case GGUF_U32:
        *bits = LOAD(uint32_t, value);
        return true;
    case GGUF_U64:
        *bits = LOAD(uint64_t, value);
        return true;
    case GGUF_I8:
        number = LOAD(int8_t, value);
        break;
    case GGUF_I16:
        number = LOAD(int16_t, value);
        break;
    case GGUF_I32:
        number = LOAD(int32_t, value);
        break;
    case GGUF_I64:
        number = LOAD(int64_t, value);
        break;
    default:
        return false;
    }
    *negative = number < 0;
    *bits = (uint64_t)number;
    return true;
}

static bool load_float(gguf_value_type type, const uint8_t *value, double *number) {
    if (type == GGUF_F32)
        *number = (double)LOAD(float, value);
    else if (type == GGUF_F64)
        *number = LOAD(double, value);
    return type == GGUF_F32 || type == GGUF_F64;
}

lh_status lh_gguf_get_u64(const lh_gguf *gguf, const char *key, uint64_t *value, lh_error *error) {
    const gguf_entry *e;
    bool negative;
    uint64_t bits;
    lh_status status = find(gguf, key, false, "an integer", &e, error);
    if (status != LH_OK)
        return status;
    if (!load_integer(e->type, e->value, &negative, &bits))
        return fail_type(gguf, e, "an integer", error);
    if (negative)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: %lld is negative", key,
                       (size_t)(e->value - gguf->bytes), (long long)bits);
    *value = bits;
    return LH_OK;
}

lh_status lh_gguf_get_f64(const lh_gguf *gguf, const char *key, double *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, "a float", &e, error);
    if (status != LH_OK)
        return status;
    return load_float(e->type, e->value, value) ? LH_OK : fail_type(gguf, e, "a float", error);
}

lh_status lh_gguf_get_bool(const lh_gguf *gguf, const char *key, bool *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, "a BOOL", &e, error);
    if (status != LH_OK)
        return status;
    if (e->type != GGUF_BOOL)
        return fail_type(gguf, e, "a BOOL", error);
    *value = *e->value != 0;
    return LH_OK;
}

/* The string at *value, which is moved behind it. */
static lh_text next_text(const uint8_t **value) {
    lh_text text = {(const char *)*value + sizeof(uint64_t), (size_t)LOAD(uint64_t, *value)};
    *value += sizeof(uint64_t) + text.length;
    return text;
}

lh_status lh_gguf_get_text(const lh_gguf *gguf, const char *key, lh_text *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, "a STRING", &e, error);
    if (status != LH_OK)
        return status;
    if (e->type != GGUF_TEXT)
        return fail_type(gguf, e, "a STRING", error);
    const uint8_t *cursor = e->value;
    *value = next_text(&cursor);
    if (value->length && memchr(value->bytes, 0, value->length))
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: the string holds a NUL", key,
                       (size_t)(e->value - gguf->bytes));
    return LH_OK;
}

lh_status lh_gguf_get_array(const lh_gguf *gguf, const char *key, size_t *count, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, true, "an array", &e, error);
    if (status == LH_OK)
        *count = e->count;
    return status;
}

/* The array of `key` if it holds at least `count` elements. */
static lh_status find_array(const lh_gguf *gguf, const char *key, size_t count, const char *wanted,
                            const gguf_entry **e, lh_error *error) {
    lh_status status = find(gguf, key, true, wanted, e, error);
    if (status == LH_OK && count > (*e)->count)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: %zu elements, but %zu are wanted", key,
                       (size_t)((*e)->value - gguf->bytes), (*e)->count, count);
    return status;
}

lh_status lh_gguf_array_text(const lh_gguf *gguf, const char *key, lh_text *values, size_t count,
                             lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, "an array of STRING", &e, error);
    if (status != LH_OK)
        return status;
    if (e->type != GGUF_TEXT)
        return fail_type(gguf, e, "an array of STRING", error);
    const uint8_t *cursor = e->value;
    for (size_t i = 0; i < count; i++)
        values[i] = next_text(&cursor);
    return LH_OK;
}

lh_status lh_gguf_array_i64(const lh_gguf *gguf, const char *key, int64_t *values, size_t count,
                            lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, "an array of integers", &e, error);
    for (size_t i = 0; status == LH_OK && i < count; i++) {
        bool negative;
        uint64_t bits;
        const uint8_t *value = e->value + i * lh_gguf_value_types[e->type].bytes;
        if (!load_integer(e->type, value, &negative, &bits))
            return fail_type(gguf, e, "an array of integers", error);
        if (!negative && bits > INT64_MAX)
            return lh_fail(error, LH_ERR_MALFORMED,
                           "GGUF: metadata '%s' at offset %zu: element %zu is too large", key,
                           (size_t)(value - gguf->bytes), i);
        values[i] = (int64_t)bits;
    }
    return status;
}

lh_status lh_gguf_array_f64(const lh_gguf *gguf, const char *key, double *values, size_t count,
                            lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, "an array of floats", &e, error);
    for (size_t i = 0; status == LH_OK && i < count; i++)
        if (!load_float(e->type, e->value + i * lh_gguf_value_types[e->type].bytes, &values[i]))
            return fail_type(gguf, e, "an array of floats", error);
    return status;
}
