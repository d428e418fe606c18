/* A mask over a vocabulary, one bit for each token (set: the token may be drawn), in few bytes for
 * the wire. A code is one byte that names its form, and then
 *
 *   0  bits       the mask itself: token t is bit t % 8 of byte t / 8; bits past the vocabulary 0
 *   1  allowed    the tokens whose bit is set, ascending, each as its distance from the one after
 *                 the token before (the first one: from 0)
 *   2  forbidden  the same with the tokens whose bit is not set
 *
 * A distance takes seven bits to a byte, the lowest first, the highest bit of a byte saying that
 * another one follows (LEB128): at most three bytes. So a state of a grammar that leaves ten
 * tokens, or all but ten, takes some twenty bytes where the bits of 150,000 tokens take 18,750.
 * Bits are the shortest of the three where more than one token in eight is listed either way.
 *
 * A mask allows at least one token. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define LH_MASK_VOCABULARY_MAX 262144u

/* Words of 64 tokens: token t is bit t % 64 of word t / 64. */
size_t lh_mask_code_words(uint32_t vocabulary);
/* No code is longer. */
size_t lh_mask_code_bytes_max(uint32_t vocabulary);

/* words[lh_mask_code_words(vocabulary)] -> bytes[], with room for lh_mask_code_bytes_max; the
 * length. Bits past the vocabulary are 0. */
size_t lh_mask_encode(const uint64_t *words, uint32_t vocabulary, uint8_t *bytes);

/* bytes[length] -> words[lh_mask_code_words(vocabulary)]; words NULL: it is only checked. What a
 * peer sent is not believed. LH_ERR_LIMIT: the vocabulary is empty or over LH_MASK_VOCABULARY_MAX;
 * LH_ERR_MALFORMED: another form, a length that the form does not have, a token outside of the
 * vocabulary, or no token is allowed. */
lh_status lh_mask_decode(const uint8_t *bytes, size_t length, uint32_t vocabulary, uint64_t *words,
                         lh_error *error);
