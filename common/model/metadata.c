/* Every reader takes the value, then says what is wrong with it. */
#include "common/model/metadata.h"

#include <math.h>
#include <stdio.h>

const char *lh_metadata_key(const lh_metadata *metadata, const char *suffix,
                            char key[LH_METADATA_KEY_BYTES]) {
    snprintf(key, LH_METADATA_KEY_BYTES, "%s.%s", metadata->architecture->name, suffix);
    return key;
}

lh_status lh_metadata_number(const lh_metadata *metadata, const char *suffix, double *value) {
    char key[LH_METADATA_KEY_BYTES];
    lh_metadata_key(metadata, suffix, key);
    uint64_t integer;
    bool flag = false;
    lh_status status = lh_gguf_get_f64(metadata->gguf, key, value, metadata->error);
    if (status != LH_ERR_MALFORMED)
        return status;
    if (lh_gguf_get_u64(metadata->gguf, key, &integer, metadata->error) == LH_OK) {
        *value = (double)integer;
        return LH_OK;
    }
    status = lh_gguf_get_bool(metadata->gguf, key, &flag, metadata->error);
    *value = flag;
    return status;
}

lh_status lh_metadata_count(const lh_metadata *metadata, const char *suffix, uint32_t maximum,
                            uint32_t fallback, uint32_t *value) {
    char key[LH_METADATA_KEY_BYTES];
    uint64_t wide = fallback;
    lh_status status = lh_gguf_get_u64(metadata->gguf, lh_metadata_key(metadata, suffix, key),
                                       &wide, metadata->error);
    if (status == LH_ERR_NOT_FOUND && fallback == 0)
        return lh_fail(metadata->error, LH_ERR_MALFORMED, "GGUF metadata: %s is missing", key);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    if (wide == 0 || wide > maximum) {
        return lh_fail(metadata->error, LH_ERR_LIMIT, "GGUF metadata: %s = %llu is not in 1..%u",
                       key, (unsigned long long)wide, maximum);
    }
    *value = (uint32_t)wide;
    return LH_OK;
}

lh_status lh_metadata_positive(const lh_metadata *metadata, const char *suffix, double fallback,
                               double *value) {
    char key[LH_METADATA_KEY_BYTES];
    double number = fallback;
    lh_status status = lh_metadata_number(metadata, suffix, &number);
    lh_metadata_key(metadata, suffix, key);
    if (status == LH_ERR_NOT_FOUND && fallback == 0)
        return lh_fail(metadata->error, LH_ERR_MALFORMED, "GGUF metadata: %s is missing", key);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    if (!(number > 0) || !isfinite(number)) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s = %g is not a positive number", key, number);
    }
    *value = number;
    return LH_OK;
}
