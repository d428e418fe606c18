/* Special tokens are cut out first. The text between them goes through the pre-tokenizer, word by
 * word, to BPE, or as it is to SentencePiece's. */
#include "gateway/text/tokenizer.h"

#include "common/base/log.h"
#include "common/base/text_buffer.h"
#include "common/base/utf8.h"
#include "gateway/text/bpe.h"
#include "gateway/text/end_tokens.h"
#include "gateway/text/fill_marks.h"
#include "gateway/text/nfc.h"
#include "gateway/text/pre_tokenizer.h"
#include "gateway/text/special_tokens.h"
#include "gateway/text/spm.h"
#include "gateway/text/vocabulary.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STOP_TOKENS_MAX 32

struct lh_tokenizer {
    lh_vocabulary *vocabulary;
    lh_spm *spm;           /* or */
    lh_pre_tokenizer *pre; /* with */
    lh_bpe *bpe;
    lh_special_tokens *special;
    int64_t bos, eos, pad;
    int64_t fill_marks[LH_FILL_MARKS]; /* -1: there is none */
    bool adds_bos;
    uint32_t stop_tokens[STOP_TOKENS_MAX];
    uint32_t stop_token_count;
};

static bool text_is(lh_text text, const char *wanted) {
    return text.length == strlen(wanted) && memcmp(text.bytes, wanted, text.length) == 0;
}

static lh_status read_spelling(const lh_gguf *gguf, lh_spelling *spelling, lh_error *error) {
    lh_text model;
    lh_status status = lh_gguf_get_text(gguf, "tokenizer.ggml.model", &model, error);
    if (status == LH_ERR_NOT_FOUND)
        return lh_fail(error, LH_ERR_MALFORMED, "the file has no tokenizer.ggml.model");
    if (status)
        return status;
    if (!text_is(model, "gpt2") && !text_is(model, "llama"))
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "tokenizer.ggml.model \"%.*s\" is not supported, only \"gpt2\" (byte-level "
                       "BPE) and \"llama\" (SentencePiece) are",
                       (int)(model.length < 64 ? model.length : 64), model.bytes);
    *spelling = text_is(model, "llama") ? LH_SPELLING_SENTENCEPIECE : LH_SPELLING_BYTE_LEVEL;
    return LH_OK;
}

static lh_status create_pre(lh_tokenizer *tokenizer, const lh_gguf *gguf, lh_error *error) {
    lh_text name = {"default", 7};
    lh_status status = lh_gguf_get_text(gguf, "tokenizer.ggml.pre", &name, error);
    if (status && status != LH_ERR_NOT_FOUND)
        return status;
    if (status)
        lh_log(LH_LOG_WARN, "tokenizer", "the file has no tokenizer.ggml.pre, taken as default");
    return lh_pre_tokenizer_create(name.bytes, name.length, &tokenizer->pre, error);
}

/* An id in the metadata; -1 where the key is absent. */
static lh_status read_id(const lh_tokenizer *tokenizer, const lh_gguf *gguf, const char *key,
                         int64_t *id, lh_error *error) {
    uint64_t value;
    *id = -1;
    lh_status status = lh_gguf_get_u64(gguf, key, &value, error);
    if (status)
        return status == LH_ERR_NOT_FOUND ? LH_OK : status;
    if (value >= lh_vocabulary_count(tokenizer->vocabulary))
        return lh_fail(error, LH_ERR_MALFORMED, "%s is %llu, the vocabulary has %u tokens", key,
                       (unsigned long long)value, lh_vocabulary_count(tokenizer->vocabulary));
    *id = (int64_t)value;
    return LH_OK;
}

static void add_stop_token(lh_tokenizer *tokenizer, int64_t id) {
    if (id < 0 || tokenizer->stop_token_count == STOP_TOKENS_MAX)
        return;
    for (uint32_t i = 0; i < tokenizer->stop_token_count; i++)
        if (tokenizer->stop_tokens[i] == id)
            return;
    tokenizer->stop_tokens[tokenizer->stop_token_count++] = (uint32_t)id;
}

/* What the file does not name as an end, but is one. */
static void add_stop_tokens_by_name(lh_tokenizer *tokenizer) {
    for (uint32_t token = 0; token < lh_vocabulary_count(tokenizer->vocabulary); token++)
        if (lh_vocabulary_type(tokenizer->vocabulary, token) == LH_TOKEN_CONTROL &&
            lh_end_token_has_name(lh_vocabulary_name(tokenizer->vocabulary, token)))
            add_stop_token(tokenizer, token);
}

/* Whether a stop token has this name; *at is its place. */
static bool find_stop_token(const lh_tokenizer *tokenizer, const char *name, uint32_t *at) {
    for (*at = 0; *at < tokenizer->stop_token_count; ++*at)
        if (text_is(lh_vocabulary_name(tokenizer->vocabulary, tokenizer->stop_tokens[*at]), name))
            return true;
    return false;
}

/* With channels an answer has several messages, and what ends a message does not end it. */
static void keep_messages_together(lh_tokenizer *tokenizer) {
    uint32_t at;
    if (!find_stop_token(tokenizer, "<|return|>", &at) ||
        !find_stop_token(tokenizer, "<|call|>", &at) ||
        !find_stop_token(tokenizer, "<|end|>", &at)) {
        return;
    }
    tokenizer->stop_tokens[at] = tokenizer->stop_tokens[--tokenizer->stop_token_count];
}

/* By the file's ids, or by the names that are known of them. */
static lh_status read_fill_marks(lh_tokenizer *tokenizer, const lh_gguf *gguf, lh_error *error) {
    static const char *const keys[LH_FILL_MARKS] = {"tokenizer.ggml.fim_pre_token_id",
                                                    "tokenizer.ggml.fim_suf_token_id",
                                                    "tokenizer.ggml.fim_mid_token_id"};
    for (int i = 0; i < LH_FILL_MARKS; i++) {
        lh_status status = read_id(tokenizer, gguf, keys[i], &tokenizer->fill_marks[i], error);
        if (status)
            return status;
    }
    for (uint32_t token = 0; token < lh_vocabulary_count(tokenizer->vocabulary); token++) {
        lh_token_type type = lh_vocabulary_type(tokenizer->vocabulary, token);
        lh_fill_mark mark =
            type == LH_TOKEN_CONTROL || type == LH_TOKEN_USER_DEFINED
                ? lh_fill_mark_named(lh_vocabulary_name(tokenizer->vocabulary, token))
                : LH_FILL_MARKS;
        if (mark != LH_FILL_MARKS && tokenizer->fill_marks[mark] < 0)
            tokenizer->fill_marks[mark] = token;
    }
    return LH_OK;
}

static lh_status read_ids(lh_tokenizer *tokenizer, const lh_gguf *gguf, lh_error *error) {
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.padding_token_id"};
    int64_t ids[5];
    lh_status status = LH_OK;
    for (size_t i = 0; i < 5 && !status; i++)
        status = read_id(tokenizer, gguf, keys[i], &ids[i], error);
    if (status)
        return status;
    tokenizer->bos = ids[0];
    tokenizer->eos = ids[1];
    tokenizer->pad = ids[4];
    for (size_t i = 1; i < 4; i++)
        add_stop_token(tokenizer, ids[i]);
    add_stop_tokens_by_name(tokenizer);
    keep_messages_together(tokenizer);
    tokenizer->adds_bos = tokenizer->spm || lh_pre_tokenizer_traits(tokenizer->pre).adds_bos;
    status = lh_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &tokenizer->adds_bos, error);
    if (status && status != LH_ERR_NOT_FOUND)
        return status;
    tokenizer->adds_bos = tokenizer->adds_bos && tokenizer->bos >= 0;
    return LH_OK;
}

static lh_status create_encoder(lh_tokenizer *tokenizer, const lh_gguf *gguf, lh_error *error) {
    lh_spelling spelling = LH_SPELLING_BYTE_LEVEL;
    lh_status status = read_spelling(gguf, &spelling, error);
    if (!status && spelling == LH_SPELLING_BYTE_LEVEL)
        status = create_pre(tokenizer, gguf, error);
    if (status || (status = lh_vocabulary_create(gguf, spelling, &tokenizer->vocabulary, error)))
        return status;
    if (spelling == LH_SPELLING_SENTENCEPIECE)
        return lh_spm_create(gguf, tokenizer->vocabulary, &tokenizer->spm, error);
    return lh_bpe_create(gguf, tokenizer->vocabulary,
                         lh_pre_tokenizer_traits(tokenizer->pre).whole_words, &tokenizer->bpe,
                         error);
}

lh_status lh_tokenizer_create(const lh_gguf *gguf, lh_tokenizer **tokenizer, lh_error *error) {
    lh_tokenizer *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a tokenizer");
    lh_status status;
    if ((status = create_encoder(made, gguf, error)) ||
        (status = lh_special_tokens_create(made->vocabulary, &made->special, error)) ||
        (status = read_ids(made, gguf, error)) || (status = read_fill_marks(made, gguf, error))) {
        lh_tokenizer_destroy(made);
        return status;
    }
    *tokenizer = made;
    return LH_OK;
}

void lh_tokenizer_destroy(lh_tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    lh_special_tokens_destroy(tokenizer->special);
    lh_bpe_destroy(tokenizer->bpe);
    lh_spm_destroy(tokenizer->spm);
    lh_vocabulary_destroy(tokenizer->vocabulary);
    lh_pre_tokenizer_destroy(tokenizer->pre);
    free(tokenizer);
}

uint32_t lh_tokenizer_vocabulary(const lh_tokenizer *tokenizer) {
    return lh_vocabulary_count(tokenizer->vocabulary);
}

int64_t lh_tokenizer_bos(const lh_tokenizer *tokenizer) {
    return tokenizer->bos;
}

int64_t lh_tokenizer_eos(const lh_tokenizer *tokenizer) {
    return tokenizer->eos;
}

bool lh_tokenizer_fills(const lh_tokenizer *tokenizer) {
    bool fills = true;
    for (int i = 0; i < LH_FILL_MARKS; i++)
        fills &= tokenizer->fill_marks[i] >= 0;
    return fills;
}

uint32_t lh_tokenizer_fill_mark(const lh_tokenizer *tokenizer, lh_fill_mark mark) {
    assert(mark < LH_FILL_MARKS && tokenizer->fill_marks[mark] >= 0);
    return (uint32_t)tokenizer->fill_marks[mark];
}

int64_t lh_tokenizer_pad(const lh_tokenizer *tokenizer) {
    return tokenizer->pad;
}

bool lh_tokenizer_adds_bos(const lh_tokenizer *tokenizer) {
    return tokenizer->adds_bos;
}

const uint32_t *lh_tokenizer_stop_tokens(const lh_tokenizer *tokenizer, uint32_t *count) {
    *count = tokenizer->stop_token_count;
    return tokenizer->stop_tokens;
}

/* One call of encode. */
typedef struct encode_call {
    const lh_tokenizer *tokenizer;
    lh_word_scan *scan;      /* for BPE */
    lh_merge_list list;      /* for BPE */
    lh_text_buffer composed; /* for BPE */
    lh_spm_work work;        /* for SentencePiece's */
    bool begins;             /* the text goes on after nothing, or after a special token */
    bool is_inside;          /* the text is a part of another: nothing is composed */
    bool is_open;            /* more text will follow the last part */
    lh_tokens *tokens;
} encode_call;

static lh_status encode_words(encode_call *call, const char *text, size_t length, bool is_open,
                              lh_error *error) {
    lh_status status;
    if (!call->is_inside && lh_pre_tokenizer_traits(call->tokenizer->pre).composes &&
        (status = lh_nfc_compose(text, length, &call->composed, &text, &length, error)))
        return status;
    lh_word_scan_begin(call->scan, text, length, is_open);
    const char *word;
    size_t word_length;
    while (!(status = lh_word_scan_next(call->scan, &word, &word_length, error)))
        if ((status = lh_bpe_encode_word(call->tokenizer->bpe, &call->list, word, word_length,
                                         call->tokens, error)))
            return status;
    return status == LH_AGAIN ? LH_OK : status;
}

static lh_status encode_plain(encode_call *call, const char *text, size_t length, bool is_open,
                              lh_error *error) {
    if (length == 0)
        return LH_OK;
    bool begins = call->begins;
    call->begins = false;
    return call->scan ? encode_words(call, text, length, is_open, error)
                      : lh_spm_encode(call->tokenizer->spm, &call->work, text, length, begins,
                                      call->tokens, error);
}

/* Where in the text special tokens are parsed: the segments, laid end to end. */
typedef struct special_span {
    const lh_text_segment *segment, *last; /* the next segment, the end of the list */
    /* of the span; the text at begin .. end may hold special tokens */
    size_t begin, end;
} special_span;

/* Moves the span on until it ends after `at`: bytes from `at` in which a special token may lie, 0
 * outside. */
static size_t special_length(special_span *span, size_t at) {
    while (span->end <= at && span->segment < span->last) {
        bool goes_on = span->segment->parse_special;
        span->begin = span->end;
        while (span->segment < span->last && span->segment->parse_special == goes_on)
            span->end += (span->segment++)->length;
        if (!goes_on)
            span->begin = span->end;
    }
    assert(span->begin <= span->end);
    return at >= span->begin && at < span->end ? span->end - at : 0;
}

static lh_status encode_joined(encode_call *call, const char *text, size_t length,
                               special_span span, lh_error *error) {
    if (length > INT32_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "a text of %zu bytes is too long", length);
    size_t valid = length ? lh_utf8_valid_prefix(text, length) : 0;
    if (valid < length)
        return lh_fail(error, LH_ERR_MALFORMED, "the text is not UTF-8 at byte %zu", valid);
    size_t plain = 0, at = 0;
    lh_status status = LH_OK;
    while (at < length && !status) {
        size_t size;
        int64_t token = lh_special_tokens_match(call->tokenizer->special, text + at, length - at,
                                                special_length(&span, at), &size);
        if (token < 0) {
            at++;
            continue;
        }
        assert(size > 0 && size <= length - at);
        status = encode_plain(call, text + plain, at - plain, false, error);
        if (!status)
            status = lh_tokens_push(call->tokens, (uint32_t)token, error);
        call->begins = !call->is_inside;
        at += size;
        plain = at;
    }
    return status ? status : encode_plain(call, text + plain, length - plain, call->is_open, error);
}

/* Lays the segments end to end. */
static lh_status encode_segments(encode_call *call, const lh_text_segment *segments, size_t count,
                                 lh_error *error) {
    lh_text_buffer joined = {0};
    const lh_tokenizer *tokenizer = call->tokenizer;
    lh_status status =
        tokenizer->pre ? lh_word_scan_create(tokenizer->pre, &call->scan, error) : LH_OK;
    for (size_t i = 0; count > 1 && i < count && !status; i++) /* one is read where it lies */
        status = lh_text_buffer_append(&joined, segments[i].text, segments[i].length, error);
    const char *text = count == 1 ? segments[0].text : joined.bytes;
    size_t length = count == 1 ? segments[0].length : joined.length;
    if (!status)
        status = encode_joined(call, text, length, (special_span){segments, segments + count, 0, 0},
                               error);
    lh_text_buffer_reset(&joined);
    lh_spm_work_reset(&call->work);
    lh_merge_list_reset(&call->list);
    lh_text_buffer_reset(&call->composed);
    lh_word_scan_destroy(call->scan);
    return status;
}

lh_status lh_tokenizer_encode_segments(const lh_tokenizer *tokenizer,
                                       const lh_text_segment *segments, size_t count,
                                       lh_tokens *tokens, lh_error *error) {
    encode_call call = {.tokenizer = tokenizer, .begins = true, .tokens = tokens};
    return encode_segments(&call, segments, count, error);
}

lh_status lh_tokenizer_encode(const lh_tokenizer *tokenizer, const char *text, size_t length,
                              bool parse_special, lh_tokens *tokens, lh_error *error) {
    lh_text_segment segment = {text, length, parse_special};
    return lh_tokenizer_encode_segments(tokenizer, &segment, 1, tokens, error);
}

bool lh_tokenizer_has_words(const lh_tokenizer *tokenizer) {
    return tokenizer->pre != NULL;
}

lh_status lh_tokenizer_encode_inside(const lh_tokenizer *tokenizer, const char *text, size_t length,
                                     bool is_open, lh_tokens *tokens, lh_error *error) {
    encode_call call = {
        .tokenizer = tokenizer, .is_inside = true, .is_open = is_open, .tokens = tokens};
    return encode_segments(&call, &(lh_text_segment){text, length, false}, 1, error);
}

lh_status lh_tokenizer_token_bytes(const lh_tokenizer *tokenizer, uint32_t token,
                                   const char **bytes, size_t *length) {
    if (token >= lh_vocabulary_count(tokenizer->vocabulary))
        return LH_ERR_LIMIT;
    lh_text text = lh_vocabulary_bytes(tokenizer->vocabulary, token);
    *bytes = text.bytes;
    *length = text.length;
    return LH_OK;
}

lh_status lh_tokenizer_token_name(const lh_tokenizer *tokenizer, uint32_t token, const char **bytes,
                                  size_t *length) {
    if (token >= lh_vocabulary_count(tokenizer->vocabulary))
        return LH_ERR_LIMIT;
    lh_text text = lh_vocabulary_name(tokenizer->vocabulary, token);
    *bytes = text.bytes;
    *length = text.length;
    return LH_OK;
}
