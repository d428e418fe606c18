/* Records of metadata are copied as they are; those of tensors are written anew, since their
 * offsets change. */
#include "common/gguf/gguf_merge.h"

#include "common/base/text_buffer.h"
#include "common/gguf/gguf_entries.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char split_keys[] = "split.";

static bool is_split_key(lh_text key) {
    size_t length = sizeof split_keys - 1;
    return key.length >= length && memcmp(key.bytes, split_keys, length) == 0;
}

/* ---- Whether they belong together ---- */

lh_status lh_gguf_part_count(const lh_gguf *gguf, uint32_t *count, lh_error *error) {
    uint64_t number = 1;
    lh_status status = lh_gguf_get_u64(gguf, "split.count", &number, error);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    if (number > UINT16_MAX)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF: metadata 'split.count' is %" PRIu64, number);
    *count = number ? (uint32_t)number : 1;
    return LH_OK;
}

static lh_status check_numbers(const lh_gguf *part, uint32_t index, uint32_t count,
                               lh_error *error) {
    uint64_t number;
    uint32_t own_count;
    lh_status status = lh_gguf_part_count(part, &own_count, error);
    if (status == LH_OK && own_count == 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "part %u of %u says of itself that it is a whole model (its metadata has no "
                       "split.count)",
                       index + 1, count);
    if (status == LH_OK && own_count != count)
        return lh_fail(error, LH_ERR_INVALID, "part %u of %u says that there are %u parts",
                       index + 1, count, own_count);
    if (status == LH_OK)
        status = lh_gguf_get_u64(part, "split.no", &number, error);
    if (status == LH_OK && number != index)
        return lh_fail(error, LH_ERR_INVALID,
                       "part %u of %u says that it is part %" PRIu64
                       ": has a file been renamed, or copied over another?",
                       index + 1, count, number + 1);
    return status;
}

/* What a later part says of the model, too, is what the first one says. */
static lh_status check_metadata(const lh_gguf *first, const lh_gguf *part, uint32_t index,
                                lh_error *error) {
    for (size_t i = 0; i < part->entry_count; i++) {
        const gguf_entry *own = &part->entries[i];
        const gguf_entry *other = bsearch(own, first->entries, first->entry_count,
                                          sizeof *first->entries, lh_gguf_compare_entries);
        if (!other || is_split_key(own->key) ||
            (own->record_bytes == other->record_bytes &&
             memcmp(own->record, other->record, own->record_bytes) == 0))
            continue;
        return lh_fail(error, LH_ERR_INVALID,
                       "parts 1 and %u are of different models: their metadata '%.*s' differ",
                       index + 1, gguf_shown(own->key), own->key.bytes);
    }
    return LH_OK;
}

/* Every part says how many tensors all of them have. */
static lh_status check_tensor_counts(const lh_gguf *const *parts, uint32_t count, size_t total,
                                     lh_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number;
        lh_status status = lh_gguf_get_u64(parts[i], "split.tensors.count", &number, error);
        if (status == LH_OK && number != total)
            status = lh_fail(error, LH_ERR_INVALID,
                             "the %u parts have %zu tensors, part %u says %" PRIu64
                             ": are they of different models?",
                             count, total, i + 1, number);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

static lh_status check_parts(const lh_gguf *const *parts, uint32_t count, size_t *total,
                             lh_error *error) {
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        lh_status status = check_numbers(parts[i], i, count, error);
        if (status == LH_OK)
            status = check_metadata(parts[0], parts[i], i, error);
        if (status != LH_OK)
            return status;
        *total += parts[i]->tensor_count;
    }
    return check_tensor_counts(parts, count, *total, error);
}

/* ---- The tensors of all parts ---- */

typedef struct merged_tensor {
    const lh_gguf_tensor *tensor;
    lh_gguf_place place;
} merged_tensor;

static int compare_names(const void *a, const void *b) {
    return lh_gguf_compare_texts(((const merged_tensor *)a)->tensor->name,
                                 ((const merged_tensor *)b)->tensor->name);
}

static lh_status check_names(merged_tensor *sorted, size_t total, lh_error *error) {
    qsort(sorted, total, sizeof *sorted, compare_names);
    for (size_t i = 1; i < total; i++) {
        const merged_tensor *a = &sorted[i - 1], *b = &sorted[i];
        lh_text name = a->tensor->name;
        if (compare_names(a, b) == 0)
            return lh_fail(error, LH_ERR_INVALID, "tensor '%.*s' is in parts %u and %u",
                           gguf_shown(name), name.bytes,
                           (a->place.part < b->place.part ? a : b)->place.part + 1,
                           (a->place.part < b->place.part ? b : a)->place.part + 1);
    }
    return LH_OK;
}

static void collect(const lh_gguf *const *parts, uint32_t count, merged_tensor *tensors) {
    for (uint32_t i = 0; i < count; i++)
        for (size_t j = 0; j < parts[i]->tensor_count; j++) {
            const lh_gguf_tensor *tensor = &parts[i]->tensors[j];
            *tensors++ = (merged_tensor){tensor, {i, tensor->offset}};
        }
}

/* ---- The header ---- */

static lh_status append(lh_text_buffer *header, const void *bytes, size_t length, lh_error *error) {
    return lh_text_buffer_append(header, bytes, length, error);
}

static lh_status append_u32(lh_text_buffer *header, uint32_t number, lh_error *error) {
    return append(header, &number, sizeof number, error);
}

static lh_status append_u64(lh_text_buffer *header, uint64_t number, lh_error *error) {
    return append(header, &number, sizeof number, error);
}

static int compare_records(const void *a, const void *b) {
    const gguf_entry *x = a, *y = b;
    return (x->record > y->record) - (x->record < y->record);
}

/* In the file's order. */
static lh_status append_metadata(lh_text_buffer *header, const lh_gguf *first, lh_error *error) {
    size_t count = first->entry_count, kept = 0;
    gguf_entry *entries = calloc(count + 1, sizeof *entries);
    if (!entries)
        return lh_fail(error, LH_ERR_NO_MEMORY, "GGUF: out of memory");
    for (size_t i = 0; i < count; i++)
        if (!is_split_key(first->entries[i].key))
            entries[kept++] = first->entries[i];
    qsort(entries, kept, sizeof *entries, compare_records);
    lh_status status = append_u64(header, kept, error);
    for (size_t i = 0; status == LH_OK && i < kept; i++)
        status = append(header, entries[i].record, entries[i].record_bytes, error);
    free(entries);
    return status;
}

static lh_status append_tensor(lh_text_buffer *header, const lh_gguf_tensor *tensor,
                               uint64_t offset, lh_error *error) {
    lh_status status = append_u64(header, tensor->name.length, error);
    if (status == LH_OK)
        status = append(header, tensor->name.bytes, tensor->name.length, error);
    if (status == LH_OK)
        status = append_u32(header, tensor->dimensions, error);
    if (status == LH_OK)
        status = append(header, tensor->shape, tensor->dimensions * sizeof tensor->shape[0], error);
    if (status == LH_OK)
        status = append_u32(header, tensor->type, error);
    return status == LH_OK ? append_u64(header, offset, error) : status;
}

static uint64_t align(uint64_t offset, uint64_t alignment) {
    return (offset + alignment - 1) & ~(alignment - 1);
}

static lh_status append_tensors(lh_text_buffer *header, const merged_tensor *tensors, size_t total,
                                uint64_t alignment, uint64_t *data_bytes, lh_error *error) {
    lh_status status = LH_OK;
    *data_bytes = 0;
    for (size_t i = 0; status == LH_OK && i < total; i++) {
        status = append_tensor(header, tensors[i].tensor, *data_bytes, error);
        /* Each is within a file of less than 2^63 bytes, and so may not their sum be. */
        if (__builtin_add_overflow(*data_bytes, tensors[i].tensor->bytes, data_bytes) ||
            *data_bytes > INT64_MAX / 2)
            return lh_fail(error, LH_ERR_LIMIT, "GGUF: the parts are too large together");
        *data_bytes = align(*data_bytes, alignment);
    }
    return status;
}

static lh_status pad(lh_text_buffer *header, uint64_t alignment, lh_error *error) {
    static const char zeros[64];
    uint64_t end = align(header->length, alignment);
    lh_status status = LH_OK;
    while (status == LH_OK && header->length < end) {
        uint64_t left = end - header->length;
        status = append(header, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros, error);
    }
    return status;
}

static lh_status write_header(lh_text_buffer *header, const lh_gguf *first,
                              const merged_tensor *tensors, size_t total, uint64_t *file_bytes,
                              lh_error *error) {
    uint64_t data_bytes = 0;
    lh_status status =
        append(header, first->bytes, 2 * sizeof(uint32_t), error); /* magic, version */
    if (status == LH_OK)
        status = append_u64(header, total, error);
    if (status == LH_OK)
        status = append_metadata(header, first, error);
    if (status == LH_OK)
        status = append_tensors(header, tensors, total, first->alignment, &data_bytes, error);
    if (status == LH_OK)
        status = pad(header, first->alignment, error);
    *file_bytes = header->length + data_bytes;
    return status;
}

static lh_status merge(const lh_gguf *const *parts, uint32_t count, merged_tensor *tensors,
                       size_t total, lh_gguf_merged *merged, lh_error *error) {
    lh_text_buffer header = {0};
    collect(parts, count, tensors);
    lh_status status = check_names(tensors, total, error);
    if (status != LH_OK)
        return status;
    collect(parts, count, tensors);
    for (size_t i = 0; i < total; i++)
        merged->places[i] = tensors[i].place;
    status = write_header(&header, parts[0], tensors, total, &merged->file_bytes, error);
    merged->header = (uint8_t *)header.bytes;
    merged->header_bytes = header.length;
    return status;
}

lh_status lh_gguf_merge(const lh_gguf *const *parts, uint32_t count, lh_gguf_merged *merged,
                        lh_error *error) {
    size_t total = 0;
    assert(count >= 2);
    *merged = (lh_gguf_merged){0};
    lh_status status = check_parts(parts, count, &total, error);
    if (status != LH_OK)
        return status;
    merged_tensor *tensors = calloc(total + 1, sizeof *tensors);
    merged->places = calloc(total + 1, sizeof *merged->places);
    status = tensors && merged->places
                 ? merge(parts, count, tensors, total, merged, error)
                 : lh_fail(error, LH_ERR_NO_MEMORY, "GGUF: out of memory for %zu tensors", total);
    free(tensors);
    return status;
}

void lh_gguf_merged_reset(lh_gguf_merged *merged) {
    free(merged->header);
    free(merged->places);
    *merged = (lh_gguf_merged){0};
}
