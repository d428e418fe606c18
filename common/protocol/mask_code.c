/* Lists of distances, or the bits where those are shorter. */
#include "common/protocol/mask_code.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are copied as bytes");

typedef enum mask_form { FORM_BITS = 0, FORM_ALLOWED = 1, FORM_FORBIDDEN = 2 } mask_form;

#define DISTANCE_BYTES_MAX 3u

size_t lh_mask_code_words(uint32_t vocabulary) {
    return ((size_t)vocabulary + 63) / 64;
}

static size_t bits_bytes(uint32_t vocabulary) {
    return ((size_t)vocabulary + 7) / 8;
}

size_t lh_mask_code_bytes_max(uint32_t vocabulary) {
    return 1 + bits_bytes(vocabulary);
}

/* Those of word `index` that are tokens. */
static uint64_t word_of_all(uint32_t vocabulary, size_t index) {
    uint64_t left = vocabulary - index * 64;
    return left < 64 ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
}

/* ---- Encode ---- */

static uint32_t count_allowed(const uint64_t *words, uint32_t vocabulary) {
    uint32_t count = 0;
    for (size_t i = 0; i < lh_mask_code_words(vocabulary); i++)
        count += (uint32_t)__builtin_popcountll(words[i]);
    return count;
}

static size_t put_distance(uint8_t *bytes, uint32_t distance) {
    size_t length = 0;
    for (; distance >= 0x80; distance >>= 7)
        bytes[length++] = (uint8_t)(distance | 0x80);
    bytes[length++] = (uint8_t)distance;
    return length;
}

/* The list of the tokens whose bit differs from `flip`'s; 0: it is no shorter than the bits. */
static size_t put_list(const uint64_t *words, uint32_t vocabulary, uint64_t flip, uint8_t *bytes) {
    size_t length = 1, limit = bits_bytes(vocabulary);
    uint32_t after = 0;
    for (size_t i = 0; i < lh_mask_code_words(vocabulary); i++) {
        uint64_t left = (words[i] ^ flip) & word_of_all(vocabulary, i);
        for (; left != 0; left &= left - 1) {
            uint32_t token = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(left);
            if (length + DISTANCE_BYTES_MAX > limit)
                return 0;
            length += put_distance(bytes + length, token - after);
            after = token + 1;
        }
    }
    return length;
}

size_t lh_mask_encode(const uint64_t *words, uint32_t vocabulary, uint8_t *bytes) {
    bool by_allowed = count_allowed(words, vocabulary) <= vocabulary / 2;
    size_t length = put_list(words, vocabulary, by_allowed ? 0 : UINT64_MAX, bytes);
    bytes[0] = by_allowed ? FORM_ALLOWED : FORM_FORBIDDEN;
    if (length > 0)
        return length;
    bytes[0] = FORM_BITS;
    memcpy(bytes + 1, words, bits_bytes(vocabulary));
    return lh_mask_code_bytes_max(vocabulary);
}

/* ---- Decode ---- */

static lh_status get_bits(const uint8_t *bytes, size_t length, uint32_t vocabulary, uint64_t *words,
                          lh_error *error) {
    if (length != bits_bytes(vocabulary))
        return lh_fail(error, LH_ERR_MALFORMED, "mask: %zu bytes for the bits of %u tokens", length,
                       vocabulary);
    uint8_t any = 0, past = vocabulary % 8 ? (uint8_t)(0xffu << vocabulary % 8) : 0;
    for (size_t i = 0; i < length; i++)
        any |= bytes[i];
    if (any == 0 || (bytes[length - 1] & past) != 0)
        return lh_fail(error, LH_ERR_MALFORMED, "mask: %s",
                       any == 0 ? "no token is allowed" : "a bit past the vocabulary");
    if (words) {
        words[lh_mask_code_words(vocabulary) - 1] = 0;
        memcpy(words, bytes, length);
    }
    return LH_OK;
}

/* Reads a distance; false: it is cut or too long. */
static bool get_distance(const uint8_t *bytes, size_t length, size_t *at, uint32_t *distance) {
    *distance = 0;
    for (uint32_t i = 0; i < DISTANCE_BYTES_MAX && *at < length; i++) {
        uint8_t byte = bytes[(*at)++];
        *distance |= (uint32_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Flips the bits of the tokens that are listed; *count is how many they are. */
static lh_status get_list(const uint8_t *bytes, size_t length, uint32_t vocabulary, uint64_t *words,
                          uint32_t *count, lh_error *error) {
    uint32_t after = 0, distance;
    *count = 0;
    for (size_t at = 0; at < length; ++*count) {
        if (!get_distance(bytes, length, &at, &distance) || distance >= vocabulary - after)
            return lh_fail(error, LH_ERR_MALFORMED,
                           "mask: item %u of its list is cut or outside of the vocabulary of %u",
                           *count, vocabulary);
        uint32_t token = after + distance;
        if (words)
            words[token / 64] ^= (uint64_t)1 << token % 64;
        after = token + 1;
    }
    return LH_OK;
}

static void fill(uint64_t *words, uint32_t vocabulary, bool allowed) {
    for (size_t i = 0; i < lh_mask_code_words(vocabulary); i++)
        words[i] = allowed ? word_of_all(vocabulary, i) : 0;
}

lh_status lh_mask_decode(const uint8_t *bytes, size_t length, uint32_t vocabulary, uint64_t *words,
                         lh_error *error) {
    if (vocabulary == 0 || vocabulary > LH_MASK_VOCABULARY_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "mask: over %u tokens; 1 to %u are possible",
                       vocabulary, LH_MASK_VOCABULARY_MAX);
    if (length == 0 || bytes[0] > FORM_FORBIDDEN)
        return lh_fail(error, LH_ERR_MALFORMED, "mask: %s",
                       length == 0 ? "an empty code" : "a form that is not one of ours");
    if (bytes[0] == FORM_BITS)
        return get_bits(bytes + 1, length - 1, vocabulary, words, error);
    bool lists_allowed = bytes[0] == FORM_ALLOWED;
    uint32_t count;
    if (words)
        fill(words, vocabulary, !lists_allowed);
    lh_status status = get_list(bytes + 1, length - 1, vocabulary, words, &count, error);
    if (status == LH_OK && count == (lists_allowed ? 0 : vocabulary))
        status = lh_fail(error, LH_ERR_MALFORMED, "mask: no token is allowed");
    return status;
}
