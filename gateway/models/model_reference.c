/* hf:OWNER/REPO:QUANT, or a URL. */
#include "gateway/models/model_reference.h"

#include <stdio.h>
#include <string.h>

static const char word_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/* word: `length` bytes of text. */
static bool take_word(const char *text, size_t length, char word[LH_REFERENCE_WORD_BYTES]) {
    if (length == 0 || length >= LH_REFERENCE_WORD_BYTES || text[0] == '.' ||
        strspn(text, word_characters) < length)
        return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

static bool parse_hub(const char *text, lh_model_reference *reference) {
    size_t owner = strcspn(text, "/");
    if (!text[owner])
        return false;
    const char *repository = text + owner + 1;
    size_t length = strcspn(repository, ":");
    if (!take_word(text, owner, reference->owner) ||
        !take_word(repository, length, reference->repository))
        return false;
    const char *quantization = repository + length;
    return !quantization[0] ||
           take_word(quantization + 1, strlen(quantization + 1), reference->quantization);
}

lh_status lh_model_reference_parse(const char *text, lh_model_reference *reference,
                                   lh_error *error) {
    *reference = (lh_model_reference){.is_hub = strncmp(text, "hf:", 3) == 0};
    if (reference->is_hub) {
        if (parse_hub(text + 3, reference))
            return LH_OK;
        return lh_fail(
            error, LH_ERR_INVALID,
            "%.150s is no model of a hub: hf:OWNER/REPO or hf:OWNER/REPO:QUANT is wanted", text);
    }
    reference->url = text;
    if (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID,
                   "%.150s is neither a URL (https://...) nor a model of a hub (hf:OWNER/REPO)",
                   text);
}

bool lh_model_name_is_safe(const char *name) {
    size_t length = strlen(name);
    if (length <= 5 || length >= LH_MODEL_NAME_BYTES || name[0] == '.' ||
        strcmp(name + length - 5, ".gguf") != 0)
        return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || strchr("/\\\"", *c))
            return false;
    return true;
}

/* Where the last segment of the path begins, and its length. */
static size_t last_segment(const char *url, size_t *length) {
    const char *host = strstr(url, "://");
    size_t from = host ? (size_t)(host - url) + 3 : 0;
    size_t end = from + strcspn(url + from, "?#"), begin = end;
    while (begin > from && url[begin - 1] != '/')
        begin--;
    *length = begin > from ? end - begin : 0; /* a host alone has none */
    return begin;
}

lh_status lh_model_name_of_url(const char *url, char name[LH_MODEL_NAME_BYTES], lh_error *error) {
    size_t length, begin = last_segment(url, &length);
    if (strlen(url) >= LH_MODEL_URL_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "the URL is over %d bytes", LH_MODEL_URL_BYTES - 1);
    snprintf(name, LH_MODEL_NAME_BYTES, "%.*s", (int)length, url + begin);
    if (length < LH_MODEL_NAME_BYTES && lh_model_name_is_safe(name))
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "%.200s does not end in the name of a .gguf file", url);
}

lh_status lh_model_url_beside(const char *url, const char *name, char other[LH_MODEL_URL_BYTES],
                              lh_error *error) {
    size_t length, begin = last_segment(url, &length);
    if (snprintf(other, LH_MODEL_URL_BYTES, "%.*s%s%s", (int)begin, url, name,
                 url + begin + length) < LH_MODEL_URL_BYTES)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "the URL is over %d bytes", LH_MODEL_URL_BYTES - 1);
}
