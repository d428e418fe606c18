/* Metadata of a parsed GGUF by key. */
#include "common/gguf/gguf_entries.h"

#include <stdlib.h>
#include <string.h>

/* What a caller takes: texts for a single value and for an array, and a bit for each type. */
typedef struct kind {
    const char *one, *many;
    uint32_t types;
} kind;

#define BIT(type) (UINT32_C(1) << (type))
#define SIGNED    (BIT(GGUF_I8) | BIT(GGUF_I16) | BIT(GGUF_I32) | BIT(GGUF_I64))
#define UNSIGNED  (BIT(GGUF_U8) | BIT(GGUF_U16) | BIT(GGUF_U32) | BIT(GGUF_U64))

static const kind integers = {"an integer", "an array of integers", SIGNED | UNSIGNED};
static const kind floats = {"a float", "an array of floats", BIT(GGUF_F32) | BIT(GGUF_F64)};
static const kind numbers = {"a number", "an array of numbers",
                             SIGNED | UNSIGNED | BIT(GGUF_F32) | BIT(GGUF_F64)};
static const kind texts = {"a STRING", "an array of STRING", BIT(GGUF_TEXT)};
static const kind bools = {"a BOOL", "an array of BOOL", BIT(GGUF_BOOL)};
static const kind anything = {"a value", "an array", UINT32_MAX};

static size_t offset_of(const lh_gguf *gguf, const uint8_t *value) {
    return (size_t)(value - gguf->bytes);
}

static lh_status find(const lh_gguf *gguf, const char *key, bool is_array, const kind *wanted,
                      const gguf_entry **found, lh_error *error) {
    const gguf_entry probe = {.key = {key, strlen(key)}};
    const gguf_entry *e =
        bsearch(&probe, gguf->entries, gguf->entry_count, sizeof probe, lh_gguf_compare_entries);
    if (!e)
        return lh_fail(error, LH_ERR_NOT_FOUND, "GGUF: metadata '%s' is not in the file", key);
    if (e->is_array != is_array || !(wanted->types & BIT(e->type)))
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%.*s' at offset %zu: %s%s, but %s is wanted",
                       gguf_shown(e->key), e->key.bytes, offset_of(gguf, e->value),
                       lh_gguf_value_types[e->type].name, e->is_array ? " array" : "",
                       is_array ? wanted->many : wanted->one);
    *found = e;
    return LH_OK;
}

/* An array of at least `count` elements. */
static lh_status find_array(const lh_gguf *gguf, const char *key, size_t count, const kind *wanted,
                            const gguf_entry **e, lh_error *error) {
    lh_status status = find(gguf, key, true, wanted, e, error);
    if (status == LH_OK && count > (*e)->count)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: %zu elements, but %zu are wanted", key,
                       offset_of(gguf, (*e)->value), (*e)->count, count);
    return status;
}

#define LOAD(type, from)                                                                           \
    __extension__({                                                                                \
        type loaded;                                                                               \
        memcpy(&loaded, from, sizeof loaded);                                                      \
        loaded;                                                                                    \
    })

/* An integer of any width as 64 bits, its sign extended. */
static uint64_t load_integer(gguf_value_type type, const uint8_t *value) {
    switch (type) {
    case GGUF_U8:
        return *value;
    case GGUF_U16:
        return LOAD(uint16_t, value);
    case GGUF_U32:
        return LOAD(uint32_t, value);
    case GGUF_I8:
        return (uint64_t)LOAD(int8_t, value);
    case GGUF_I16:
        return (uint64_t)LOAD(int16_t, value);
    case GGUF_I32:
        return (uint64_t)LOAD(int32_t, value);
    default:
        return LOAD(uint64_t, value);
    }
}

static double load_float(gguf_value_type type, const uint8_t *value) {
    return type == GGUF_F32 ? (double)LOAD(float, value) : LOAD(double, value);
}

lh_status lh_gguf_get_u64(const lh_gguf *gguf, const char *key, uint64_t *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, &integers, &e, error);
    if (status != LH_OK)
        return status;
    uint64_t bits = load_integer(e->type, e->value);
    if ((SIGNED & BIT(e->type)) && bits > INT64_MAX)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: %lld is negative", key,
                       offset_of(gguf, e->value), (long long)bits);
    *value = bits;
    return LH_OK;
}

lh_status lh_gguf_get_f64(const lh_gguf *gguf, const char *key, double *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, &floats, &e, error);
    if (status == LH_OK)
        *value = load_float(e->type, e->value);
    return status;
}

lh_status lh_gguf_get_number(const lh_gguf *gguf, const char *key, double *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, &numbers, &e, error);
    if (status != LH_OK)
        return status;
    if (floats.types & BIT(e->type))
        *value = load_float(e->type, e->value);
    else if (SIGNED & BIT(e->type))
        *value = (double)(int64_t)load_integer(e->type, e->value);
    else
        *value = (double)load_integer(e->type, e->value);
    return LH_OK;
}

lh_status lh_gguf_get_bool(const lh_gguf *gguf, const char *key, bool *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, &bools, &e, error);
    if (status == LH_OK)
        *value = *e->value != 0;
    return status;
}

/* The string at *value, which is moved behind it. */
static lh_text next_text(const uint8_t **value) {
    lh_text text = {(const char *)*value + sizeof(uint64_t), (size_t)LOAD(uint64_t, *value)};
    *value += sizeof(uint64_t) + text.length;
    return text;
}

lh_status lh_gguf_get_text(const lh_gguf *gguf, const char *key, lh_text *value, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, false, &texts, &e, error);
    if (status != LH_OK)
        return status;
    const uint8_t *cursor = e->value;
    *value = next_text(&cursor);
    if (value->length && memchr(value->bytes, 0, value->length))
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: metadata '%s' at offset %zu: the string holds a NUL", key,
                       offset_of(gguf, e->value));
    return LH_OK;
}

lh_status lh_gguf_get_array(const lh_gguf *gguf, const char *key, size_t *count, lh_error *error) {
    const gguf_entry *e;
    lh_status status = find(gguf, key, true, &anything, &e, error);
    if (status == LH_OK)
        *count = e->count;
    return status;
}

lh_status lh_gguf_array_text(const lh_gguf *gguf, const char *key, lh_text *values, size_t count,
                             lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, &texts, &e, error);
    if (status != LH_OK)
        return status;
    const uint8_t *cursor = e->value;
    for (size_t i = 0; i < count; i++)
        values[i] = next_text(&cursor);
    return LH_OK;
}

lh_status lh_gguf_array_i64(const lh_gguf *gguf, const char *key, int64_t *values, size_t count,
                            lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, &integers, &e, error);
    for (size_t i = 0; status == LH_OK && i < count; i++) {
        const uint8_t *value = e->value + i * lh_gguf_value_types[e->type].bytes;
        uint64_t bits = load_integer(e->type, value);
        if (e->type == GGUF_U64 && bits > INT64_MAX)
            return lh_fail(error, LH_ERR_MALFORMED,
                           "GGUF: metadata '%s' at offset %zu: element %zu is too large", key,
                           offset_of(gguf, value), i);
        values[i] = (int64_t)bits;
    }
    return status;
}

lh_status lh_gguf_array_f64(const lh_gguf *gguf, const char *key, double *values, size_t count,
                            lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, &floats, &e, error);
    for (size_t i = 0; status == LH_OK && i < count; i++)
        values[i] = load_float(e->type, e->value + i * lh_gguf_value_types[e->type].bytes);
    return status;
}

lh_status lh_gguf_array_bool(const lh_gguf *gguf, const char *key, bool *values, size_t count,
                             lh_error *error) {
    const gguf_entry *e;
    lh_status status = find_array(gguf, key, count, &bools, &e, error);
    for (size_t i = 0; status == LH_OK && i < count; i++)
        values[i] = e->value[i] != 0;
    return status;
}
