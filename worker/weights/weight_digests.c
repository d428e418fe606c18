/* {"tensors": {"NAME": "sha256 hex", ...},
 *  "blocks": {"rows": N, "url": "...", "pieces_url": "...", "sha256": {"NAME": "...", ...}}} */
#include "worker/weights/weight_digests.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_BYTES  (2 * (64 + 64 + 16)) /* of the document: name, digest, punctuation ... */
#define ESCAPE_FACTOR 6                    /* ... where every character may be written as \u00xx */
/* A block is held in memory until it has been checked; some tens of times what is usual */
#define BLOCK_ROWS_MAX 1024

size_t lh_weight_digests_limit(const lh_gguf *gguf) {
    return 4096 + lh_gguf_tensor_count(gguf) * (ESCAPE_FACTOR * TENSOR_BYTES);
}

/* *present: it is there. */
static lh_status read_digest(const json_t *object, const char *where, const char *key,
                             bool *present, uint8_t *digest, lh_error *error) {
    const json_t *value = json_object_get(object, key);
    *present = value;
    return !value || (json_is_string(value) && lh_sha256_parse(json_string_value(value), digest))
               ? LH_OK
               : lh_fail(error, LH_ERR_MALFORMED, "tensor digests: %s.%s is not 64 hex digits",
                         where, key);
}

/* blocks: NULL where there is none. */
static lh_status read_digests(const json_t *tensors, const json_t *blocks, const lh_gguf *gguf,
                              lh_tensor_digest *digests, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf) && status == LH_OK; i++) {
        lh_text name = lh_gguf_tensor_at(gguf, i)->name;
        char key[256] = "";
        if (name.length >= sizeof key)
            return lh_fail(error, LH_ERR_LIMIT, "tensor digests: a tensor's name has %zu bytes",
                           name.length);
        memcpy(key, name.bytes, name.length);
        status =
            read_digest(tensors, "tensors", key, &digests[i].present, digests[i].sha256, error);
        if (status == LH_OK)
            status = read_digest(blocks, "blocks.sha256", key, &digests[i].has_blocks,
                                 digests[i].blocks_sha256, error);
    }
    return status;
}

/* Where the document has none, blocks->rows is 0. */
static lh_status read_blocks(const json_t *object, lh_block_list *blocks, lh_error *error) {
    const json_t *rows = json_object_get(object, "rows"), *url = json_object_get(object, "url"),
                 *pieces = json_object_get(object, "pieces_url");
    *blocks = (lh_block_list){0};
    if (!object)
        return LH_OK;
    if (!json_is_integer(rows) || json_integer_value(rows) < 1 ||
        json_integer_value(rows) > BLOCK_ROWS_MAX || !json_is_string(url) ||
        json_string_length(url) >= sizeof blocks->url ||
        (pieces &&
         (!json_is_string(pieces) || json_string_length(pieces) >= sizeof blocks->pieces_url)) ||
        !json_is_object(json_object_get(object, "sha256")))
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tensor digests: blocks has no rows of 1 to %d, no url or no sha256",
                       BLOCK_ROWS_MAX);
    blocks->rows = (uint32_t)json_integer_value(rows);
    snprintf(blocks->url, sizeof blocks->url, "%s", json_string_value(url));
    if (json_is_string(pieces))
        snprintf(blocks->pieces_url, sizeof blocks->pieces_url, "%s", json_string_value(pieces));
    return LH_OK;
}

lh_status lh_weight_digests_parse(const char *text, size_t length, const lh_gguf *gguf,
                                  lh_tensor_digest *digests, lh_block_list *blocks,
                                  lh_error *error) {
    json_error_t problem;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (!document && json_error_code(&problem) == json_error_out_of_memory)
        return lh_fail(error, LH_ERR_NO_MEMORY, "tensor digests: out of memory");
    if (!document)
        return lh_fail(error, LH_ERR_MALFORMED, "tensor digests: line %d, column %d: %s",
                       problem.line, problem.column, problem.text);
    lh_status status;
    const json_t *tensors = json_object_get(document, "tensors"),
                 *listed = json_object_get(document, "blocks");
    if (json_is_object(tensors))
        status = read_blocks(listed, blocks, error);
    else
        status = lh_fail(error, LH_ERR_MALFORMED, "tensor digests: there is no object \"tensors\"");
    if (status == LH_OK)
        status = read_digests(tensors, json_object_get(listed, "sha256"), gguf, digests, error);
    json_decref(document);
    return status;
}
