/* {"tensors": {"NAME": "sha256 hex", ...}} */
#include "worker/weights/weight_digests.h"

#include <jansson.h>
#include <string.h>

#define TENSOR_BYTES  (64 + 64 + 16) /* of the document: name, digest, punctuation ... */
#define ESCAPE_FACTOR 6              /* ... where every character may be written as \u00xx */

size_t lh_weight_digests_limit(const lh_gguf *gguf) {
    return 4096 + lh_gguf_tensor_count(gguf) * (ESCAPE_FACTOR * TENSOR_BYTES);
}

static lh_status read_digests(const json_t *tensors, const lh_gguf *gguf, lh_tensor_digest *digests,
                              lh_error *error) {
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        lh_text name = lh_gguf_tensor_at(gguf, i)->name;
        char key[256] = "";
        if (name.length >= sizeof key)
            return lh_fail(error, LH_ERR_LIMIT, "tensor digests: a tensor's name has %zu bytes",
                           name.length);
        memcpy(key, name.bytes, name.length);
        const json_t *value = json_object_get(tensors, key);
        digests[i].present = value;
        if (value && (!json_is_string(value) ||
                      !lh_sha256_parse(json_string_value(value), digests[i].sha256)))
            return lh_fail(error, LH_ERR_MALFORMED,
                           "tensor digests: tensors.%s is not 64 hex digits", key);
    }
    return LH_OK;
}

lh_status lh_weight_digests_parse(const char *text, size_t length, const lh_gguf *gguf,
                                  lh_tensor_digest *digests, lh_error *error) {
    json_error_t problem;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (!document && json_error_code(&problem) == json_error_out_of_memory)
        return lh_fail(error, LH_ERR_NO_MEMORY, "tensor digests: out of memory");
    if (!document)
        return lh_fail(error, LH_ERR_MALFORMED, "tensor digests: line %d, column %d: %s",
                       problem.line, problem.column, problem.text);
    lh_status status;
    const json_t *tensors = json_object_get(document, "tensors");
    if (json_is_object(tensors))
        status = read_digests(tensors, gguf, digests, error);
    else
        status = lh_fail(error, LH_ERR_MALFORMED, "tensor digests: there is no object \"tensors\"");
    json_decref(document);
    return status;
}
