/* Bytes are the first symbols; a hash table of the merges ranks their pairs. */
#include "gateway/text/bpe.h"

#include "gateway/text/byte_alphabet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct bpe_merge {
    uint32_t left, right, result;
} bpe_merge;

struct lh_bpe {
    const lh_vocabulary *vocabulary;
    bool whole_words;
    int64_t byte_tokens[256];
    bpe_merge *merges; /* [count], by rank */
    uint32_t count;
    uint32_t *slots; /* [slot_mask + 1]: rank + 1 by pair, 0 for an empty slot */
    size_t slot_mask;
};

static size_t slot_of(const lh_bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15U; /* Fibonacci hashing */
    return (size_t)(key >> 32) & bpe->slot_mask;
}

static uint32_t rank_of(const lh_bpe *bpe, uint32_t left, uint32_t right) {
    size_t slot = slot_of(bpe, left, right);
    for (; bpe->slots[slot]; slot = (slot + 1) & bpe->slot_mask) {
        uint32_t rank = bpe->slots[slot] - 1;
        if (bpe->merges[rank].left == left && bpe->merges[rank].right == right)
            return rank;
    }
    return LH_MERGE_NEVER;
}

static lh_status insert(lh_bpe *bpe, uint32_t rank, lh_error *error) {
    assert(rank < bpe->count && rank < bpe->slot_mask);
    const bpe_merge *merge = &bpe->merges[rank];
    uint32_t twin = rank_of(bpe, merge->left, merge->right);
    if (twin != LH_MERGE_NEVER)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tokenizer.ggml.merges[%u] is the same as merges[%u]", rank, twin);
    size_t slot = slot_of(bpe, merge->left, merge->right);
    while (bpe->slots[slot])
        slot = (slot + 1) & bpe->slot_mask;
    bpe->slots[slot] = rank + 1;
    return LH_OK;
}

/* Parses "left right", both in GPT-2's alphabet, into token ids; `bytes` is room for text.length
 * bytes. */
static lh_status parse_merge(const lh_bpe *bpe, lh_text text, char *bytes, bpe_merge *merge,
                             lh_error *error) {
    const char *space = text.length ? memchr(text.bytes, ' ', text.length) : NULL;
    if (!space || space == text.bytes || space + 1 == text.bytes + text.length)
        return lh_fail(error, LH_ERR_MALFORMED, "is not two symbols with a space between");
    size_t left_length = (size_t)(space - text.bytes), left_bytes, right_bytes;
    lh_status status = lh_byte_alphabet_decode(text.bytes, left_length, bytes, &left_bytes, error);
    if (!status)
        status = lh_byte_alphabet_decode(space + 1, text.length - left_length - 1,
                                         bytes + left_bytes, &right_bytes, error);
    if (status)
        return status;
    int64_t left = lh_vocabulary_find(bpe->vocabulary, bytes, left_bytes);
    int64_t right = lh_vocabulary_find(bpe->vocabulary, bytes + left_bytes, right_bytes);
    int64_t result = lh_vocabulary_find(bpe->vocabulary, bytes, left_bytes + right_bytes);
    if (left < 0 || right < 0 || result < 0)
        return lh_fail(error, LH_ERR_MALFORMED, "has a %s that is not in the vocabulary",
                       left < 0    ? "left symbol"
                       : right < 0 ? "right symbol"
                                   : "result");
    merge->left = (uint32_t)left;
    merge->right = (uint32_t)right;
    merge->result = (uint32_t)result;
    return LH_OK;
}

static lh_status parse_merges(lh_bpe *bpe, const lh_text *texts, char *bytes, lh_error *error) {
    for (uint32_t rank = 0; rank < bpe->count; rank++) {
        lh_error cause;
        lh_status status = parse_merge(bpe, texts[rank], bytes, &bpe->merges[rank], &cause);
        if (status)
            return lh_fail(error, status, "tokenizer.ggml.merges[%u] %s", rank, cause.message);
        if ((status = insert(bpe, rank, error)))
            return status;
    }
    return LH_OK;
}

static lh_status read_merges(lh_bpe *bpe, const lh_gguf *gguf, lh_error *error) {
    char *bytes = NULL;
    lh_text *texts = calloc(bpe->count ? bpe->count : 1, sizeof *texts);
    if (!texts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u merges", bpe->count);
    lh_status status = lh_gguf_array_text(gguf, "tokenizer.ggml.merges", texts, bpe->count, error);
    if (status)
        goto done;
    size_t longest = 1;
    for (uint32_t rank = 0; rank < bpe->count; rank++)
        if (texts[rank].length > longest)
            longest = texts[rank].length;
    bytes = malloc(longest);
    status = bytes
                 ? parse_merges(bpe, texts, bytes, error)
                 : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a merge of %zu bytes", longest);
done:
    free(bytes);
    free(texts);
    return status;
}

static lh_status allocate(lh_bpe *bpe, lh_error *error) {
    size_t slots = 2;
    while (slots < (size_t)bpe->count * 2)
        slots *= 2;
    bpe->slot_mask = slots - 1;
    bpe->merges = calloc(bpe->count ? bpe->count : 1, sizeof *bpe->merges);
    bpe->slots = calloc(slots, sizeof *bpe->slots);
    if (!bpe->merges || !bpe->slots)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u merges", bpe->count);
    return LH_OK;
}

lh_status lh_bpe_create(const lh_gguf *gguf, const lh_vocabulary *vocabulary, bool whole_words,
                        lh_bpe **bpe, lh_error *error) {
    size_t count;
    lh_status status = lh_gguf_get_array(gguf, "tokenizer.ggml.merges", &count, error);
    if (status)
        return status == LH_ERR_NOT_FOUND
                   ? lh_fail(error, LH_ERR_MALFORMED, "the file has no tokenizer.ggml.merges")
                   : status;
    if (count > UINT32_MAX / 4)
        return lh_fail(error, LH_ERR_LIMIT, "tokenizer.ggml.merges has %zu entries", count);
    lh_bpe *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the merges");
    made->vocabulary = vocabulary;
    made->whole_words = whole_words;
    made->count = (uint32_t)count;
    for (int byte = 0; byte < 256; byte++)
        made->byte_tokens[byte] = lh_vocabulary_find(vocabulary, &(char){(char)byte}, 1);
    if ((status = allocate(made, error)) || (status = read_merges(made, gguf, error))) {
        lh_bpe_destroy(made);
        return status;
    }
    *bpe = made;
    return LH_OK;
}

void lh_bpe_destroy(lh_bpe *bpe) {
    if (!bpe)
        return;
    free(bpe->slots);
    free(bpe->merges);
    free(bpe);
}

static uint32_t pair_rank(const void *source, const lh_merge_list *list, uint32_t position,
                          uint32_t *joined) {
    const lh_bpe *bpe = source;
    const lh_merge_symbol *symbol = &list->symbols[position];
    uint32_t rank = rank_of(bpe, symbol->token, list->symbols[symbol->next].token);
    if (rank != LH_MERGE_NEVER)
        *joined = bpe->merges[rank].result;
    return rank;
}

/* The symbols of the word's bytes; their number. */
static uint32_t split_bytes(const lh_bpe *bpe, lh_merge_list *list, const char *word,
                            size_t length) {
    uint32_t count = 0;
    assert(length <= list->capacity);
    for (size_t i = 0; i < length; i++) {
        int64_t token = bpe->byte_tokens[(uint8_t)word[i]];
        if (token < 0)
            continue;
        list->symbols[count] =
            (lh_merge_symbol){.token = (uint32_t)token, .previous = count - 1, .next = count + 1};
        count++;
    }
    if (count > 0)
        list->symbols[count - 1].next = LH_MERGE_NOWHERE;
    return count; /* symbols[0].previous wrapped round to NOWHERE */
}

lh_status lh_bpe_encode_word(const lh_bpe *bpe, lh_merge_list *list, const char *word,
                             size_t length, lh_tokens *tokens, lh_error *error) {
    int64_t whole = bpe->whole_words ? lh_vocabulary_find(bpe->vocabulary, word, length) : -1;
    if (whole >= 0)
        return lh_tokens_push(tokens, (uint32_t)whole, error);
    lh_status status = lh_merge_list_reserve(list, length, error);
    if (status || split_bytes(bpe, list, word, length) == 0)
        return status;
    lh_merge_list_run(list, pair_rank, bpe);
    for (uint32_t at = 0; at != LH_MERGE_NOWHERE && !status; at = list->symbols[at].next)
        status = lh_tokens_push(tokens, list->symbols[at].token, error);
    return status;
}
