/* The parts of a model in several files as one GGUF file: its header, and where each tensor's bytes
 * are. The header is the one that the file had before gguf-split cut it: the first part's metadata
 * without split.*, then all tensors in the order of the parts. So the model has one identity,
 * however it lies on disk. Thread: any. */
#pragma once

#include "common/gguf/gguf.h"

typedef struct lh_gguf_place {
    uint32_t part;
    uint64_t offset; /* in that part's file */
} lh_gguf_place;

typedef struct lh_gguf_merged {
    uint8_t *header; /* [header_bytes], to be parsed with lh_gguf_parse */
    size_t header_bytes;
    uint64_t file_bytes;
    lh_gguf_place *places; /* of each tensor, in the header's order */
} lh_gguf_merged;

/* How many files the model is in, as the metadata (split.count) says: 1 where it says nothing, or
 * 0, as in files that were merged again. LH_ERR_MALFORMED: it is no number of a sensible size. */
lh_status lh_gguf_part_count(const lh_gguf *gguf, uint32_t *count, lh_error *error);

/* parts[count] in their order, 2 at least; the caller resets *merged, also after an error.
 * LH_ERR_INVALID: they do not belong together: another number of parts or another order than
 * split.count and split.no say, metadata that contradicts that of the first part, a tensor that is
 * in two of them, more or fewer tensors than split.tensors.count; the message counts parts from 1.
 * LH_ERR_NOT_FOUND, LH_ERR_MALFORMED: split.* are not there, or no numbers; LH_ERR_LIMIT: too large
 * together; LH_ERR_NO_MEMORY. */
lh_status lh_gguf_merge(const lh_gguf *const *parts, uint32_t count, lh_gguf_merged *merged,
                        lh_error *error);
void lh_gguf_merged_reset(lh_gguf_merged *merged);
