/* Parses GGUF in one pass: every field is taken by take(), which knows how many bytes are left. */
#include "common/gguf/gguf_entries.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read in place as little-endian");

#define MAGIC             0x46554747u /* "GGUF" */
#define DEFAULT_ALIGNMENT 32u
#define ALIGNMENT_MAX     (1u << 20) /* larger ones are no page size: padding would be unbounded */
#define KEY_BYTES_MAX     65535u     /* the format's own limits, of keys ... */
#define NAME_BYTES_MAX    64u        /* ... and of tensor names */
#define ENTRIES_MAX       (1u << 16) /* real files hold some dozens */
#define TENSORS_MAX       (1u << 20) /* real files hold some thousands */
#define ENTRY_BYTES_MIN   (8 + 1 + 4 + 1) /* key length, key, type, value */
#define TENSOR_BYTES_MIN                                                                           \
    (8 + 1 + 4 + 8 + 4 + 8) /* name length, name, dimensions, shape, type, offset */
#define DIMENSIONS_MAX 4u

const gguf_value_info lh_gguf_value_types[GGUF_VALUE_TYPES] = {
    [GGUF_U8] = {"UINT8", 1},    [GGUF_I8] = {"INT8", 1},    [GGUF_U16] = {"UINT16", 2},
    [GGUF_I16] = {"INT16", 2},   [GGUF_U32] = {"UINT32", 4}, [GGUF_I32] = {"INT32", 4},
    [GGUF_F32] = {"FLOAT32", 4}, [GGUF_BOOL] = {"BOOL", 1},  [GGUF_TEXT] = {"STRING", 0},
    [GGUF_ARRAY] = {"ARRAY", 0}, [GGUF_U64] = {"UINT64", 8}, [GGUF_I64] = {"INT64", 8},
    [GGUF_F64] = {"FLOAT64", 8},
};

/* ---- Taking fields from the front of what is left ---- */

typedef struct reader {
    const uint8_t *bytes;
    size_t length, offset;
    char subject[112]; /* which part of the file the next fields belong to */
    lh_error *error;
} reader;

/* "GGUF: metadata 'k', type at offset 24: " and why. */
__attribute__((format(printf, 5, 6))) static lh_status refuse(const reader *r, lh_status status,
                                                              const char *field, size_t offset,
                                                              const char *format, ...) {
    char why[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return lh_fail(r->error, status, "GGUF: %s, %s at offset %zu: %s", r->subject, field, offset,
                   why);
}

static lh_status take(reader *r, uint64_t count, const char *field, const uint8_t **bytes) {
    size_t left = r->length - r->offset;
    if (count > left)
        return refuse(r, LH_ERR_MALFORMED, field, r->offset,
                      "%llu bytes are announced, %zu are left; is the file cut?",
                      (unsigned long long)count, left);
    *bytes = r->bytes + r->offset;
    r->offset += (size_t)count;
    return LH_OK;
}

static lh_status take_number(reader *r, const char *field, void *number, size_t size) {
    const uint8_t *bytes = NULL;
    lh_status status = take(r, size, field, &bytes);
    if (status == LH_OK)
        memcpy(number, bytes, size);
    return status;
}

static lh_status take_text(reader *r, const char *field, lh_text *text) {
    uint64_t length = 0;
    const uint8_t *bytes = NULL;
    lh_status status = take_number(r, field, &length, sizeof length);
    if (status == LH_OK)
        status = take(r, length, field, &bytes);
    if (status == LH_OK)
        *text = (lh_text){(const char *)bytes, (size_t)length};
    return status;
}

/* A key or tensor name: not empty, not too long, no control character (so that messages can show
 * it). */
static lh_status take_name(reader *r, const char *field, size_t bytes_max, lh_text *name) {
    size_t offset = r->offset;
    lh_status status = take_text(r, field, name);
    if (status != LH_OK)
        return status;
    if (name->length == 0)
        return refuse(r, LH_ERR_MALFORMED, field, offset, "empty");
    if (name->length > bytes_max)
        return refuse(r, LH_ERR_LIMIT, field, offset, "%zu bytes long, at most %zu", name->length,
                      bytes_max);
    for (size_t i = 0; i < name->length; i++) {
        unsigned char c = (unsigned char)name->bytes[i];
        if (c < 0x20 || c == 0x7f)
            return refuse(r, LH_ERR_MALFORMED, field, offset, "holds the control character 0x%02x",
                          c);
    }
    return LH_OK;
}

/* A count of items that take at least item_bytes each: over the limit, or more than the rest can
 * hold, is refused before anything is allocated for them. */
static lh_status take_count(reader *r, const char *field, uint64_t limit, size_t item_bytes,
                            size_t *count) {
    uint64_t value = 0;
    size_t offset = r->offset;
    lh_status status = take_number(r, field, &value, sizeof value);
    if (status != LH_OK)
        return status;
    if (value > limit)
        return refuse(r, LH_ERR_LIMIT, field, offset, "%llu, at most %llu",
                      (unsigned long long)value, (unsigned long long)limit);
    if (value > (r->length - r->offset) / item_bytes)
        return refuse(r, LH_ERR_MALFORMED, field, offset,
                      "%llu do not fit into the %zu bytes left; is the file cut?",
                      (unsigned long long)value, r->length - r->offset);
    *count = (size_t)value;
    return LH_OK;
}

/* ---- Names ---- */

int lh_gguf_compare_texts(lh_text a, lh_text b) {
    int order = memcmp(a.bytes, b.bytes, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

int lh_gguf_compare_entries(const void *a, const void *b) {
    return lh_gguf_compare_texts(((const gguf_entry *)a)->key, ((const gguf_entry *)b)->key);
}

static int compare_tensor_names(const void *a, const void *b) {
    return lh_gguf_compare_texts((*(const lh_gguf_tensor *const *)a)->name,
                                 (*(const lh_gguf_tensor *const *)b)->name);
}

static int compare_tensor_offsets(const void *a, const void *b) {
    const lh_gguf_tensor *x = *(const lh_gguf_tensor *const *)a,
                         *y = *(const lh_gguf_tensor *const *)b;
    if (x->offset != y->offset)
        return x->offset > y->offset ? 1 : -1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static lh_status fail_duplicate(reader *r, const char *what, lh_text a, lh_text b) {
    size_t first = (size_t)((const uint8_t *)a.bytes - r->bytes);
    size_t second = (size_t)((const uint8_t *)b.bytes - r->bytes);
    return lh_fail(r->error, LH_ERR_MALFORMED,
                   "GGUF: %s '%.*s' is there twice, at offsets %zu and %zu", what, gguf_shown(a),
                   a.bytes, first < second ? first : second, first < second ? second : first);
}

/* ---- Metadata ---- */

static lh_status take_type(reader *r, const char *field, gguf_value_type *type) {
    uint32_t number = 0;
    size_t offset = r->offset;
    lh_status status = take_number(r, field, &number, sizeof number);
    if (status == LH_OK && number >= GGUF_VALUE_TYPES)
        return refuse(r, LH_ERR_MALFORMED, field, offset, "%u is no type of a value", number);
    *type = (gguf_value_type)number;
    return status;
}

static lh_status check_bools(reader *r, const uint8_t *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] > 1)
            return refuse(r, LH_ERR_MALFORMED, "value", (size_t)(values - r->bytes) + i,
                          "%u is not a BOOL (0 or 1)", values[i]);
    return LH_OK;
}

/* `count` values of a type; count * bytes cannot overflow: take_count compared it with what is
 * left. */
static lh_status take_values(reader *r, gguf_value_type type, size_t count,
                             const uint8_t **values) {
    if (type == GGUF_TEXT) {
        *values = r->bytes + r->offset;
        for (size_t i = 0; i < count; i++) {
            lh_text text;
            lh_status status = take_text(r, "string", &text);
            if (status != LH_OK)
                return status;
        }
        return LH_OK;
    }
    lh_status status = take(r, (uint64_t)count * lh_gguf_value_types[type].bytes, "value", values);
    if (status == LH_OK && type == GGUF_BOOL)
        status = check_bools(r, *values, count);
    return status;
}

static lh_status take_array(reader *r, gguf_entry *e) {
    size_t offset = r->offset;
    lh_status status = take_type(r, "element type", &e->type);
    if (status != LH_OK)
        return status;
    if (e->type == GGUF_ARRAY)
        return refuse(r, LH_ERR_UNSUPPORTED, "element type", offset, "arrays in arrays");
    size_t element_bytes =
        e->type == GGUF_TEXT ? sizeof(uint64_t) : lh_gguf_value_types[e->type].bytes;
    e->is_array = true;
    status = take_count(r, "element count", UINT64_MAX, element_bytes, &e->count);
    return status == LH_OK ? take_values(r, e->type, e->count, &e->value) : status;
}

static lh_status take_entry(reader *r, size_t index, gguf_entry *e) {
    snprintf(r->subject, sizeof r->subject, "metadata %zu", index);
    lh_status status = take_name(r, "key", KEY_BYTES_MAX, &e->key);
    if (status != LH_OK)
        return status;
    snprintf(r->subject, sizeof r->subject, "metadata '%.*s'", gguf_shown(e->key), e->key.bytes);
    status = take_type(r, "type", &e->type);
    if (status != LH_OK)
        return status;
    if (e->type == GGUF_ARRAY)
        return take_array(r, e);
    e->count = 1;
    return take_values(r, e->type, 1, &e->value);
}

static lh_status take_metadata(reader *r, lh_gguf *gguf) {
    for (size_t i = 0; i < gguf->entry_count; i++) {
        gguf_entry *e = &gguf->entries[i];
        e->record = r->bytes + r->offset;
        lh_status status = take_entry(r, i, e);
        if (status != LH_OK)
            return status;
        e->record_bytes = (size_t)(r->bytes + r->offset - e->record);
    }
    qsort(gguf->entries, gguf->entry_count, sizeof *gguf->entries, lh_gguf_compare_entries);
    for (size_t i = 1; i < gguf->entry_count; i++)
        if (lh_gguf_compare_entries(&gguf->entries[i - 1], &gguf->entries[i]) == 0)
            return fail_duplicate(r, "metadata", gguf->entries[i - 1].key, gguf->entries[i].key);
    return LH_OK;
}

/* ---- Tensors ---- */

static lh_status take_shape(reader *r, lh_gguf_tensor *tensor, uint64_t *elements) {
    size_t offset = r->offset;
    lh_status status = take_number(r, "dimensions", &tensor->dimensions, sizeof tensor->dimensions);
    if (status != LH_OK)
        return status;
    if (tensor->dimensions == 0 || tensor->dimensions > DIMENSIONS_MAX)
        return refuse(r, LH_ERR_MALFORMED, "dimensions", offset, "%u is not in 1..%u",
                      tensor->dimensions, DIMENSIONS_MAX);
    *elements = 1;
    for (uint32_t i = 0; i < DIMENSIONS_MAX; i++) {
        tensor->shape[i] = 1;
        offset = r->offset;
        if (i < tensor->dimensions &&
            (status = take_number(r, "shape", &tensor->shape[i], sizeof tensor->shape[i])) != LH_OK)
            return status;
        if (tensor->shape[i] == 0)
            return refuse(r, LH_ERR_MALFORMED, "shape", offset, "a dimension is 0");
        if (__builtin_mul_overflow(*elements, tensor->shape[i], elements) || *elements > INT64_MAX)
            return refuse(r, LH_ERR_MALFORMED, "shape", offset, "the number of elements overflows");
    }
    return LH_OK;
}

/* bytes stays 0 for a type that we do not hold: only who needs the tensor refuses it. */
static lh_status take_tensor_type(reader *r, lh_gguf_tensor *tensor, uint64_t elements) {
    size_t offset = r->offset;
    lh_status status = take_number(r, "type", &tensor->type, sizeof tensor->type);
    const lh_dtype_info *info = status == LH_OK ? lh_dtype_lookup(tensor->type) : NULL;
    if (!info)
        return status;
    if (tensor->shape[0] % info->block_elements)
        return refuse(r, LH_ERR_MALFORMED, "type", offset,
                      "rows of %llu elements are no whole blocks of %s (%u)",
                      (unsigned long long)tensor->shape[0], info->name, info->block_elements);
    tensor->bytes = lh_dtype_bytes(info, elements);
    if (tensor->bytes == 0)
        return refuse(r, LH_ERR_MALFORMED, "type", offset, "the size in bytes overflows");
    return LH_OK;
}

static lh_status take_tensor(reader *r, size_t index, lh_gguf_tensor *tensor) {
    uint64_t elements = 0;
    snprintf(r->subject, sizeof r->subject, "tensor %zu", index);
    lh_status status = take_name(r, "name", NAME_BYTES_MAX, &tensor->name);
    if (status != LH_OK)
        return status;
    snprintf(r->subject, sizeof r->subject, "tensor '%.*s'", gguf_shown(tensor->name),
             tensor->name.bytes);
    status = take_shape(r, tensor, &elements);
    if (status == LH_OK)
        status = take_tensor_type(r, tensor, elements);
    return status == LH_OK ? take_number(r, "offset", &tensor->offset, sizeof tensor->offset)
                           : status;
}

/* Turns an offset in the data section into one in the file, and checks the extent against the
 * file's end. */
static lh_status place_tensor(reader *r, lh_gguf_tensor *tensor, uint64_t data_offset,
                              uint64_t alignment, uint64_t file_bytes) {
    uint64_t relative = tensor->offset, end;
    if (relative % alignment)
        return lh_fail(r->error, LH_ERR_MALFORMED,
                       "GGUF: tensor '%.*s': offset %llu is not a multiple of the alignment %llu",
                       gguf_shown(tensor->name), tensor->name.bytes, (unsigned long long)relative,
                       (unsigned long long)alignment);
    if (__builtin_add_overflow(data_offset, relative, &tensor->offset) ||
        __builtin_add_overflow(tensor->offset, tensor->bytes, &end) || end > file_bytes)
        return lh_fail(r->error, LH_ERR_MALFORMED,
                       "GGUF: tensor '%.*s': %llu bytes at offset %llu of the data (which begins "
                       "at %llu) end after the file's %llu bytes; is the file cut?",
                       gguf_shown(tensor->name), tensor->name.bytes,
                       (unsigned long long)tensor->bytes, (unsigned long long)relative,
                       (unsigned long long)data_offset, (unsigned long long)file_bytes);
    return LH_OK;
}

/* by_name is the scratch of both checks; sorted by name it stays. */
static lh_status index_tensors(reader *r, lh_gguf *gguf) {
    const lh_gguf_tensor **sorted = gguf->by_name;
    for (size_t i = 0; i < gguf->tensor_count; i++)
        sorted[i] = &gguf->tensors[i];
    qsort(sorted, gguf->tensor_count, sizeof *sorted, compare_tensor_offsets);
    for (size_t i = 1; i < gguf->tensor_count; i++)
        if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes)
            return lh_fail(r->error, LH_ERR_MALFORMED,
                           "GGUF: tensors '%.*s' and '%.*s' overlap at offset %llu",
                           gguf_shown(sorted[i - 1]->name), sorted[i - 1]->name.bytes,
                           gguf_shown(sorted[i]->name), sorted[i]->name.bytes,
                           (unsigned long long)sorted[i]->offset);
    qsort(sorted, gguf->tensor_count, sizeof *sorted, compare_tensor_names);
    for (size_t i = 1; i < gguf->tensor_count; i++)
        if (compare_tensor_names(&sorted[i - 1], &sorted[i]) == 0)
            return fail_duplicate(r, "tensor", sorted[i - 1]->name, sorted[i]->name);
    return LH_OK;
}

static lh_status read_alignment(reader *r, const lh_gguf *gguf, uint64_t *alignment) {
    *alignment = DEFAULT_ALIGNMENT;
    lh_status status = lh_gguf_get_u64(gguf, "general.alignment", alignment, r->error);
    if (status == LH_ERR_NOT_FOUND)
        return LH_OK;
    if (status != LH_OK)
        return status;
    if (*alignment == 0 || *alignment > ALIGNMENT_MAX || (*alignment & (*alignment - 1)))
        return lh_fail(r->error, LH_ERR_MALFORMED,
                       "GGUF: metadata 'general.alignment': %llu is not a power of two up to %u",
                       (unsigned long long)*alignment, ALIGNMENT_MAX);
    return LH_OK;
}

static lh_status take_tensors(reader *r, lh_gguf *gguf, uint64_t file_bytes) {
    uint64_t alignment;
    lh_status status = read_alignment(r, gguf, &alignment);
    gguf->alignment = alignment;
    for (size_t i = 0; status == LH_OK && i < gguf->tensor_count; i++)
        status = take_tensor(r, i, &gguf->tensors[i]);
    if (status != LH_OK)
        return status;
    gguf->data_offset = ((uint64_t)r->offset + alignment - 1) & ~(alignment - 1);
    if (gguf->tensor_count == 0 && gguf->data_offset > file_bytes)
        gguf->data_offset = file_bytes; /* a file of metadata alone needs no padding */
    for (size_t i = 0; status == LH_OK && i < gguf->tensor_count; i++)
        status = place_tensor(r, &gguf->tensors[i], gguf->data_offset, alignment, file_bytes);
    return status == LH_OK ? index_tensors(r, gguf) : status;
}

/* ---- The whole ---- */

static lh_status take_head(reader *r, lh_gguf *gguf) {
    uint32_t magic = 0, version = 0;
    lh_status status = take_number(r, "magic", &magic, sizeof magic);
    if (status != LH_OK)
        return status;
    if (magic != MAGIC)
        return refuse(r, LH_ERR_MALFORMED, "magic", 0, "not a GGUF file");
    if ((status = take_number(r, "version", &version, sizeof version)) != LH_OK)
        return status;
    if (version != 0 && (version & 0xffff) == 0)
        return refuse(r, LH_ERR_UNSUPPORTED, "version", 4,
                      "the file is big-endian; convert it to little-endian");
    if (version != 2 && version != 3)
        return refuse(r, LH_ERR_UNSUPPORTED, "version", 4, "version %u; 2 and 3 are read", version);
    status = take_count(r, "tensor count", TENSORS_MAX, TENSOR_BYTES_MIN, &gguf->tensor_count);
    return status == LH_OK
               ? take_count(r, "metadata count", ENTRIES_MAX, ENTRY_BYTES_MIN, &gguf->entry_count)
               : status;
}

/* calloc that gives memory for none, too. */
static void *allocate(size_t count, size_t bytes) {
    return calloc(count ? count : 1, bytes);
}

lh_status lh_gguf_parse(const void *bytes, size_t length, uint64_t file_bytes, lh_gguf **gguf,
                        lh_error *error) {
    reader r = {.bytes = bytes, .length = length, .subject = "header", .error = error};
    if (length > file_bytes)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: the header has %zu bytes, the file only %llu", length,
                       (unsigned long long)file_bytes);
    lh_gguf *parsed = calloc(1, sizeof *parsed);
    if (!parsed)
        return lh_fail(error, LH_ERR_NO_MEMORY, "GGUF: out of memory");
    parsed->bytes = bytes;
    lh_status status = take_head(&r, parsed);
    if (status != LH_OK)
        goto fail;
    parsed->entries = allocate(parsed->entry_count, sizeof *parsed->entries);
    parsed->tensors = allocate(parsed->tensor_count, sizeof *parsed->tensors);
    parsed->by_name = allocate(parsed->tensor_count, sizeof *parsed->by_name);
    if (!parsed->entries || !parsed->tensors || !parsed->by_name) {
        status = lh_fail(error, LH_ERR_NO_MEMORY,
                         "GGUF: out of memory for %zu metadata entries and %zu tensors",
                         parsed->entry_count, parsed->tensor_count);
        goto fail;
    }
    if ((status = take_metadata(&r, parsed)) != LH_OK ||
        (status = take_tensors(&r, parsed, file_bytes)) != LH_OK)
        goto fail;
    *gguf = parsed;
    return LH_OK;
fail:
    lh_gguf_destroy(parsed);
    return status;
}

void lh_gguf_destroy(lh_gguf *gguf) {
    if (!gguf)
        return;
    free(gguf->by_name);
    free(gguf->tensors);
    free(gguf->entries);
    free(gguf);
}

uint64_t lh_gguf_data_offset(const lh_gguf *gguf) {
    return gguf->data_offset;
}

size_t lh_gguf_tensor_count(const lh_gguf *gguf) {
    return gguf->tensor_count;
}

const lh_gguf_tensor *lh_gguf_tensor_at(const lh_gguf *gguf, size_t index) {
    assert(index < gguf->tensor_count);
    return &gguf->tensors[index];
}

const lh_gguf_tensor *lh_gguf_tensor_find(const lh_gguf *gguf, const char *name) {
    const lh_gguf_tensor wanted = {.name = {name, strlen(name)}}, *key = &wanted;
    const lh_gguf_tensor **found = bsearch(&key, gguf->by_name, gguf->tensor_count,
                                           sizeof *gguf->by_name, compare_tensor_names);
    return found ? *found : NULL;
}
