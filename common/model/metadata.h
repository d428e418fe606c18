/* Hyper-parameters by their suffix: "ARCHITECTURE.suffix" of a file's metadata, checked as it is
 * read. Errors name the key. For common/model/ alone. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "common/model/architecture.h"

typedef struct lh_metadata {
    const lh_gguf *gguf;
    const lh_architecture *architecture;
    lh_error *error; /* not NULL */
} lh_metadata;

#define LH_METADATA_KEY_BYTES 96

/* The whole key; returns `key`. */
const char *lh_metadata_key(const lh_metadata *metadata, const char *suffix,
                            char key[LH_METADATA_KEY_BYTES]);
/* Any number, or a bool as 0 or 1. LH_ERR_NOT_FOUND leaves no message; LH_ERR_MALFORMED. */
lh_status lh_metadata_number(const lh_metadata *metadata, const char *suffix, double *value);
/* An integer in [1, maximum]; `fallback` stands for an absent key, 0: it must be there.
 * LH_ERR_MALFORMED, LH_ERR_LIMIT. */
lh_status lh_metadata_count(const lh_metadata *metadata, const char *suffix, uint32_t maximum,
                            uint32_t fallback, uint32_t *value);
/* A positive, finite number; `fallback` as above. LH_ERR_MALFORMED. */
lh_status lh_metadata_positive(const lh_metadata *metadata, const char *suffix, double fallback,
                               double *value);
