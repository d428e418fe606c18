/* The inside of lh_gguf, shared by the parser (gguf.c), the look-up by key (gguf_metadata.c) and
 * what makes one header of several (gguf_merge.c) alone. */
#pragma once

#include "common/gguf/gguf.h"

/* The format's numbers of value types. */
typedef enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES
} gguf_value_type;

typedef struct gguf_value_info {
    const char *name;
    size_t bytes; /* of one value; 0 where that depends on the value */
} gguf_value_info;

extern const gguf_value_info lh_gguf_value_types[GGUF_VALUE_TYPES];

/* One metadata value, in place and checked. */
typedef struct gguf_entry {
    lh_text key;
    gguf_value_type type; /* of the value, or of each element */
    bool is_array;
    size_t count;          /* of elements; 1 unless is_array */
    const uint8_t *value;  /* the first element: bytes, or u64 length and bytes for GGUF_TEXT */
    const uint8_t *record; /* [record_bytes]: key, type and value as they stand in the file */
    size_t record_bytes;
} gguf_entry;

struct lh_gguf {
    const uint8_t *bytes;
    uint64_t data_offset, alignment;
    size_t entry_count, tensor_count;
    gguf_entry *entries;            /* [entry_count], sorted by key */
    lh_gguf_tensor *tensors;        /* [tensor_count], in the file's order */
    const lh_gguf_tensor **by_name; /* [tensor_count], sorted by name */
};

int lh_gguf_compare_texts(lh_text a, lh_text b);
/* Orders gguf_entry by key, for qsort and bsearch. */
int lh_gguf_compare_entries(const void *a, const void *b);

/* How much of a name a message shows. */
static inline int gguf_shown(lh_text text) {
    return text.length < 80 ? (int)text.length : 80;
}
