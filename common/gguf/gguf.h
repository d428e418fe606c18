/* Reads a GGUF file (github.com/ggml-org/ggml/docs/gguf.md, versions 2 and 3) from memory.
 * Everything is checked before it is believed: counts, lengths, types, alignment, offsets, and
 * every product for overflow. An error names the field and the offset in the file.
 *
 * An lh_gguf points into the caller's bytes, which must outlive it. Read-only after parsing: any
 * thread. */
#pragma once

#include "common/base/dtype.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_gguf lh_gguf;

typedef struct lh_text {
    const char *bytes; /* not terminated */
    size_t length;
} lh_text;

typedef struct lh_gguf_tensor {
    lh_text name;
    uint32_t type;       /* GGML's number */
    uint32_t dimensions; /* 1 .. 4 */
    uint64_t shape[4];   /* GGML's order: shape[0] is the row length; absent ones are 1 */
    uint64_t offset;     /* of the data, in the file */
    uint64_t bytes;      /* 0 when the type is not in our table (lh_dtype_lookup) */
} lh_gguf_tensor;

/* Parses the header, metadata and tensor list in bytes[length]. file_bytes is the size of the whole
 * file, against which tensor extents are checked; bytes may hold just the front of it (at least up
 * to the data section). LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (version, big endian), LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_status lh_gguf_parse(const void *bytes, size_t length, uint64_t file_bytes, lh_gguf **gguf,
                        lh_error *error);
void lh_gguf_destroy(lh_gguf *gguf);

/* Offset of the tensor data: a copy of the bytes before it can be parsed again. */
uint64_t lh_gguf_data_offset(const lh_gguf *gguf);
size_t lh_gguf_tensor_count(const lh_gguf *gguf);
const lh_gguf_tensor *lh_gguf_tensor_at(const lh_gguf *gguf, size_t index);
/* NULL when there is none. */
const lh_gguf_tensor *lh_gguf_tensor_find(const lh_gguf *gguf, const char *name);

/* Metadata by key. LH_ERR_NOT_FOUND: no such key; LH_ERR_MALFORMED: another type. Integers of every
 * width are taken where they fit. Keys and names never hold control characters; a text never holds
 * a NUL, but an element of an array of texts may. */
lh_status lh_gguf_get_u64(const lh_gguf *gguf, const char *key, uint64_t *value, lh_error *error);
lh_status lh_gguf_get_f64(const lh_gguf *gguf, const char *key, double *value, lh_error *error);
/* A float or an integer of either sign; integers beyond 2^53 are rounded. */
lh_status lh_gguf_get_number(const lh_gguf *gguf, const char *key, double *value, lh_error *error);
lh_status lh_gguf_get_bool(const lh_gguf *gguf, const char *key, bool *value, lh_error *error);
lh_status lh_gguf_get_text(const lh_gguf *gguf, const char *key, lh_text *value, lh_error *error);
/* Arrays: the count, then the first `count` elements in one pass (LH_ERR_MALFORMED: there are
 * fewer). */
lh_status lh_gguf_get_array(const lh_gguf *gguf, const char *key, size_t *count, lh_error *error);
lh_status lh_gguf_array_text(const lh_gguf *gguf, const char *key, lh_text *values, size_t count,
                             lh_error *error);
lh_status lh_gguf_array_i64(const lh_gguf *gguf, const char *key, int64_t *values, size_t count,
                            lh_error *error);
lh_status lh_gguf_array_f64(const lh_gguf *gguf, const char *key, double *values, size_t count,
                            lh_error *error);
lh_status lh_gguf_array_bool(const lh_gguf *gguf, const char *key, bool *values, size_t count,
                             lh_error *error);
