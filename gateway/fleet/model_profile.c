/* Bytes of each layer, from the names in the tensor list. */
#include "gateway/fleet/model_profile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool text_is(lh_text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

/* "blk.12.attn_q.weight": 12. -1: not a layer's tensor. */
static int64_t layer_of(lh_text name) {
    static const char prefix[] = "blk.";
    size_t at = sizeof prefix - 1, digits = at;
    if (name.length <= at || memcmp(name.bytes, prefix, at) != 0)
        return -1;
    int64_t layer = 0;
    for (; at < name.length && name.bytes[at] >= '0' && name.bytes[at] <= '9'; at++)
        if (layer <= LH_MODEL_LAYERS_MAX)
            layer = layer * 10 + (name.bytes[at] - '0');
    return at > digits && at < name.length && name.bytes[at] == '.' ? layer : -1;
}

static lh_status read_u32(const lh_gguf *gguf, const char *architecture, const char *name,
                          uint32_t *value, lh_error *error) {
    char key[128];
    uint64_t wide;
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    lh_status status = lh_gguf_get_u64(gguf, key, &wide, error);
    if (status == LH_ERR_NOT_FOUND)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF: the key %s is missing", key);
    if (status != LH_OK)
        return status;
    if (wide == 0 || wide > UINT32_MAX)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF: %s is %llu", key, (unsigned long long)wide);
    *value = (uint32_t)wide;
    return LH_OK;
}

static lh_status read_shape(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error) {
    lh_text text;
    char architecture[64];
    lh_status status = lh_gguf_get_text(gguf, "general.architecture", &text, error);
    if (status != LH_OK)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: the key general.architecture is missing or not a text");
    if (text.length == 0 || text.length >= sizeof architecture)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF: general.architecture is not a name");
    memcpy(architecture, text.bytes, text.length);
    architecture[text.length] = 0;
    if ((status = read_u32(gguf, architecture, "block_count", &profile->layers, error)) != LH_OK ||
        (status = read_u32(gguf, architecture, "context_length", &profile->context, error)) !=
            LH_OK ||
        (status = read_u32(gguf, architecture, "embedding_length", &profile->width, error)) !=
            LH_OK)
        return status;
    if (profile->layers > LH_MODEL_LAYERS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "GGUF: %u layers: at most %u are possible",
                       profile->layers, LH_MODEL_LAYERS_MAX);
    return LH_OK;
}

static lh_status add_tensor(lh_model_profile *profile, const lh_gguf_tensor *tensor,
                            lh_error *error) {
    int name_length = tensor->name.length < 128 ? (int)tensor->name.length : 128;
    if (tensor->bytes == 0)
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "GGUF: tensor %.*s has the type %s, which is not supported", name_length,
                       tensor->name.bytes, lh_dtype_ggml_name(tensor->type));
    int64_t layer = layer_of(tensor->name);
    if (layer >= (int64_t)profile->layers)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: tensor %.*s is of a layer that the model does not have", name_length,
                       tensor->name.bytes);
    if (layer >= 0)
        profile->layer_bytes[layer] += tensor->bytes;
    else if (text_is(tensor->name, "token_embd.weight"))
        profile->embedding_bytes += tensor->bytes;
    else
        profile->head_bytes += tensor->bytes;
    return LH_OK;
}

lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error) {
    *profile = (lh_model_profile){0};
    lh_status status = read_shape(gguf, profile, error);
    if (status != LH_OK)
        return status;
    const lh_gguf_tensor *embedding = lh_gguf_tensor_find(gguf, "token_embd.weight");
    if (!embedding || embedding->dimensions < 2 || embedding->shape[1] > UINT32_MAX)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF: tensor token_embd.weight is missing or not a matrix");
    profile->vocabulary = (uint32_t)embedding->shape[1];
    profile->layer_bytes = calloc(profile->layers, sizeof *profile->layer_bytes);
    if (!profile->layer_bytes)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u layers", profile->layers);
    for (size_t i = 0; status == LH_OK && i < lh_gguf_tensor_count(gguf); i++)
        status = add_tensor(profile, lh_gguf_tensor_at(gguf, i), error);
    for (uint32_t i = 0; status == LH_OK && i < profile->layers; i++)
        if (profile->layer_bytes[i] == 0)
            status = lh_fail(error, LH_ERR_MALFORMED, "GGUF: layer %u has no tensors", i);
    if (status != LH_OK) {
        lh_model_profile_reset(profile);
        return status;
    }
    if (!lh_gguf_tensor_find(gguf, "output.weight"))
        profile->head_bytes += profile->embedding_bytes;
    return LH_OK;
}

void lh_model_profile_reset(lh_model_profile *profile) {
    free(profile->layer_bytes);
    *profile = (lh_model_profile){0};
}
