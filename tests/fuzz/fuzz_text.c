/* What answers and prompts go through as text: the streaming decoder, the stop matcher, the reader
 * of chat templates, and, where LONGHAUL_TEST_MODEL names a model, its tokenizer. The first byte
 * says how long the pieces are, the second where the input is cut into stop strings and text. */
#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "gateway/text/chat_template.h"
#include "gateway/text/stop_matcher.h"
#include "gateway/text/tokenizer.h"
#include "tests/support/mapped_file.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds) {
    if (!holds)
        abort();
}

static lh_text_buffer decode(const char *bytes, size_t length, size_t piece) {
    lh_text_decoder decoder;
    lh_text_decoder_init(&decoder);
    lh_text_buffer out = {0};
    for (size_t at = 0; at < length; at += piece) {
        size_t before = out.length, take = length - at < piece ? length - at : piece;
        require(lh_text_decoder_push(&decoder, bytes + at, take, &out, NULL) == LH_OK);
        size_t fresh = out.length - before;
        require(fresh == 0 || lh_utf8_valid_prefix(out.bytes + before, fresh) == fresh);
    }
    require(lh_text_decoder_finish(&decoder, &out, NULL) == LH_OK);
    return out;
}

static void check_decoder(const char *bytes, size_t length, size_t piece) {
    lh_text_buffer whole = decode(bytes, length, length ? length : 1),
                   pieces = decode(bytes, length, piece);
    require(whole.length == pieces.length);
    require(whole.length == 0 || memcmp(whole.bytes, pieces.bytes, whole.length) == 0);
    if (lh_utf8_valid_prefix(bytes, length) == length)
        require(whole.length == length && (length == 0 || memcmp(whole.bytes, bytes, length) == 0));
    lh_text_buffer_reset(&whole);
    lh_text_buffer_reset(&pieces);
}

/* Lines of head[head_length] are the stop strings. */
static size_t split_lines(const char *head, size_t head_length, lh_stop_string *stops) {
    size_t count = 0, begin = 0;
    for (size_t i = 0; i <= head_length && count < LH_STOP_STRINGS_MAX; i++)
        if (i == head_length || head[i] == '\n') {
            if (i > begin)
                stops[count++] = (lh_stop_string){head + begin, i - begin};
            begin = i + 1;
        }
    return count;
}

/* The first end, of those the first begin. */
static size_t first_stop(const char *text, size_t length, const lh_stop_string *stops, size_t count,
                         int *which) {
    size_t begin = length;
    *which = -1;
    for (size_t end = 1; end <= length && *which < 0; end++)
        for (size_t i = 0; i < count; i++)
            if (stops[i].length <= end && end - stops[i].length < begin &&
                memcmp(text + end - stops[i].length, stops[i].bytes, stops[i].length) == 0) {
                begin = end - stops[i].length;
                *which = (int)i;
            }
    return begin;
}

static void check_stops(const char *head, size_t head_length, const char *text, size_t length,
                        size_t piece) {
    lh_stop_string stops[LH_STOP_STRINGS_MAX];
    size_t count = split_lines(head, head_length, stops);
    lh_stop_matcher *matcher;
    require(lh_stop_matcher_create(stops, count, &matcher, NULL) == LH_OK);
    lh_text_buffer out = {0};
    bool stopped = false;
    for (size_t at = 0; at < length; at += piece) {
        size_t take = length - at < piece ? length - at : piece;
        require(lh_stop_matcher_push(matcher, text + at, take, &out, &stopped, NULL) == LH_OK);
    }
    require(lh_stop_matcher_finish(matcher, &out, NULL) == LH_OK);
    int which;
    size_t wanted = first_stop(text, length, stops, count, &which);
    require(out.length == wanted && (wanted == 0 || memcmp(out.bytes, text, wanted) == 0));
    require(stopped == (which >= 0));
    lh_text_buffer_reset(&out);
    lh_stop_matcher_destroy(matcher);
}

static void check_template(const char *text, size_t length) {
    lh_chat_template *chat_template;
    if (lh_chat_template_parse(text, length, &chat_template, NULL) == LH_OK)
        lh_chat_template_destroy(chat_template);
}

static lh_tokenizer *tokenizer;
static bool has_byte[256]; /* a vocabulary need not hold them all */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *path = getenv("LONGHAUL_TEST_MODEL");
    lh_mapped_file *file;
    lh_gguf *gguf;
    if (!path || lh_mapped_file_open(path, &file, NULL))
        return 0;
    size_t size = lh_mapped_file_size(file);
    require(lh_gguf_parse(lh_mapped_file_bytes(file), size, size, &gguf, NULL) == LH_OK);
    require(lh_tokenizer_create(gguf, &tokenizer, NULL) == LH_OK);
    lh_gguf_destroy(gguf);
    lh_mapped_file_close(file);
    for (uint32_t token = 0; token < lh_tokenizer_vocabulary(tokenizer); token++) {
        const char *bytes;
        size_t length;
        require(lh_tokenizer_token_bytes(tokenizer, token, &bytes, &length) == LH_OK);
        if (length == 1)
            has_byte[(uint8_t)*bytes] = true;
    }
    return 0;
}

/* The tokens' bytes are the text's, less those that the vocabulary lacks. */
static void check_tokenizer(const char *text, size_t length) {
    length = lh_utf8_valid_prefix(text, length);
    lh_tokens tokens = {0};
    require(lh_tokenizer_encode(tokenizer, text, length, false, &tokens, NULL) == LH_OK);
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const char *bytes;
        size_t count;
        require(lh_tokenizer_token_bytes(tokenizer, tokens.ids[i], &bytes, &count) == LH_OK &&
                count > 0);
        for (size_t k = 0; k < count; k++) {
            while (at < length && !has_byte[(uint8_t)text[at]])
                at++;
            require(at < length && text[at] == bytes[k]);
            at++;
        }
    }
    while (at < length && !has_byte[(uint8_t)text[at]])
        at++;
    require(at == length);
    free(tokens.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 2;
    size_t length = size - 2, piece = 1 + data[0] % 16, head = length ? data[1] % length : 0;
    check_decoder(text, length, piece);
    check_stops(text, head, text + head, length - head, piece);
    check_template(text, length);
    if (tokenizer)
        check_tokenizer(text, length);
    return 0;
}
