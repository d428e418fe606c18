/* The tokenizer on small vocabularies of the test's own: hostile files, special tokens, segments, merging
 * against the definition. Equality with the `tokenizers` library on a real one is test_tokenizer_vectors. */
#include "gateway/tokenizer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_MAX 512
#define MERGES_MAX 128

/* What a file says. */
typedef struct small_file {
    const char *model, *pre; /* NULL: the key is not there */
    const char *tokens[TOKENS_MAX];
    int32_t types[TOKENS_MAX];
    size_t token_count, type_count;
    const char *merges[MERGES_MAX];
    size_t merge_count;
    int64_t bos, eos, eot, eom; /* -1: not there */
    int add_bos;                /* -1: not there */
} small_file;

static char letters[256][4]; /* GPT-2's alphabet, for the 256 bytes */

static void fill_letters(void) {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        uint32_t code = printable ? byte : next++;
        if (code < 0x80) {
            letters[byte][0] = (char)code;
        } else {
            letters[byte][0] = (char)(0xC0 | code >> 6);
            letters[byte][1] = (char)(0x80 | (code & 63));
        }
    }
}

static void add_token(small_file *file, const char *text, int32_t type) {
    file->tokens[file->token_count++] = text;
    file->types[file->type_count++] = type;
}

/* Tokens 0 .. 255 are the bytes. */
static small_file byte_file(void) {
    small_file file = {
        .model = "gpt2", .pre = "gpt-2", .bos = -1, .eos = -1, .eot = -1, .eom = -1, .add_bos = -1};
    for (size_t byte = 0; byte < 256; byte++)
        add_token(&file, letters[byte], 1);
    return file;
}

/* 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " w", then special tokens:
 * 261 <s> control, 262 <s>x control, 263 [ud] user-defined, 264 <unk> unknown, 265 <x> unused, 266 "  "
 * user-defined. */
static small_file rich_file(void) {
    small_file file = byte_file();
    add_token(&file, "he", 1);
    add_token(&file, "ll", 1);
    add_token(&file, "hell", 1);
    add_token(&file, "hello", 1);
    add_token(&file, "\u0120w", 1);
    add_token(&file, "<s>", 3);
    add_token(&file, "<s>x", 3);
    add_token(&file, "[ud]", 4);
    add_token(&file, "<unk>", 2);
    add_token(&file, "<x>", 5);
    add_token(&file, "  ", 4);
    static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\u0120 w"};
    for (size_t i = 0; i < 5; i++)
        file.merges[file.merge_count++] = merges[i];
    return file;
}

static void write_id(gguf_writer *writer, const char *key, int64_t id) {
    if (id >= 0)
        gguf_writer_u32(writer, key, (uint32_t)id);
}

static uint8_t *write_file(const small_file *file, size_t *length) {
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "general.architecture", "llama");
    if (file->model)
        gguf_writer_text(writer, "tokenizer.ggml.model", file->model);
    if (file->pre)
        gguf_writer_text(writer, "tokenizer.ggml.pre", file->pre);
    gguf_writer_text_array(writer, "tokenizer.ggml.tokens", file->tokens, file->token_count);
    gguf_writer_text_array(writer, "tokenizer.ggml.merges", file->merges, file->merge_count);
    if (file->type_count)
        gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", file->types, file->type_count);
    write_id(writer, "tokenizer.ggml.bos_token_id", file->bos);
    write_id(writer, "tokenizer.ggml.eos_token_id", file->eos);
    write_id(writer, "tokenizer.ggml.eot_token_id", file->eot);
    write_id(writer, "tokenizer.ggml.eom_token_id", file->eom);
    if (file->add_bos >= 0)
        gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", file->add_bos);
    uint8_t *bytes = gguf_writer_finish(writer, length);
    gguf_writer_destroy(writer);
    return bytes;
}

static lh_status create(const small_file *file, lh_tokenizer **tokenizer, lh_error *error) {
    size_t length;
    uint8_t *bytes = write_file(file, &length);
    lh_gguf *gguf;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, error), LH_OK);
    *tokenizer = NULL;
    lh_status status = lh_tokenizer_create(gguf, tokenizer, error);
    lh_gguf_destroy(gguf);
    free(bytes); /* nothing of the file may be needed any more */
    return status;
}

static lh_tokenizer *create_sound(const small_file *file) {
    lh_tokenizer *tokenizer;
    lh_error error;
    if (create(file, &tokenizer, &error))
        fail_msg("%s", error.message);
    return tokenizer;
}

static void expect(const lh_tokenizer *tokenizer, const char *text, bool parse_special, const char *wanted) {
    lh_tokens tokens = {0};
    char got[512] = "";
    assert_int_equal(lh_tokenizer_encode(tokenizer, text, strlen(text), parse_special, &tokens, NULL), LH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i ? " " : "", tokens.ids[i]);
    assert_string_equal(got, wanted);
    free(tokens.ids);
}

static void expect_refusal(const small_file *file, lh_status wanted, const char *words) {
    lh_tokenizer *tokenizer;
    lh_error error;
    lh_status status = create(file, &tokenizer, &error);
    if (status != wanted)
        fail_msg("%s, not %s (%s)", lh_status_name(status), lh_status_name(wanted), words);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(tokenizer);
}

static void merges_and_decodes(void **state) {
    (void)state;
    small_file file = rich_file();
    lh_tokenizer *tokenizer = create_sound(&file);
    assert_int_equal(lh_tokenizer_vocabulary(tokenizer), 267);
    expect(tokenizer, "hello", false, "259");
    expect(tokenizer, "hell hello", false, "258 32 259");
    expect(tokenizer, "helhello w", false, "256 108 259 260");
    expect(tokenizer, "", false, "");
    expect(tokenizer, "\xC3\xA9", false, "195 169");
    const char *bytes;
    size_t length;
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 260, &bytes, &length), LH_OK);
    assert_true(length == 2 && memcmp(bytes, " w", 2) == 0);
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 0, &bytes, &length), LH_OK);
    assert_true(length == 1 && bytes[0] == 0);
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 266, &bytes, &length), LH_OK);
    assert_true(length == 2 && memcmp(bytes, "  ", 2) == 0);
    for (uint32_t special = 261; special <= 265; special++) {
        assert_int_equal(lh_tokenizer_token_bytes(tokenizer, special, &bytes, &length), LH_OK);
        assert_int_equal(length, special == 263 ? 4 : 0);
        assert_int_equal(lh_tokenizer_token_name(tokenizer, special, &bytes, &length), LH_OK);
        assert_string_equal(bytes, file.tokens[special]);
    }
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 267, &bytes, &length), LH_ERR_LIMIT);
    assert_int_equal(lh_tokenizer_token_name(tokenizer, UINT32_MAX, &bytes, &length), LH_ERR_LIMIT);
    lh_tokenizer_destroy(tokenizer);
}

static void special_tokens_are_for_templates(void **state) {
    (void)state;
    small_file file = rich_file();
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "<s>", true, "261");
    expect(tokenizer, "<s>", false, "60 115 62");
    expect(tokenizer, "<s>x<s>y<s", true, "262 261 121 60 115"); /* the longest, and not a part */
    expect(tokenizer, "<unk><x>", true, "264 60 120 62");        /* an unused token is never found */
    expect(tokenizer, "<unk>", false, "60 117 110 107 62");
    expect(tokenizer, "a[ud]hello", false, "97 263 259"); /* user-defined tokens are text */
    expect(tokenizer, "a[ud]hello", true, "97 263 259");
    expect(tokenizer, "a   b", false, "97 266 32 98");
    lh_tokenizer_destroy(tokenizer);
}

static void segments_are_one_text(void **state) {
    (void)state;
    small_file file = rich_file();
    lh_tokenizer *tokenizer = create_sound(&file);
    const struct {
        lh_text_segment segments[4];
        size_t count;
        const char *wanted;
    } cases[] = {
        {{{"he", 2, true}, {"ll", 2, false}, {"o", 1, true}}, 3, "259"},
        {{{"<s>", 3, true}, {"<s>", 3, false}, {"<s>", 3, true}}, 3, "261 60 115 62 261"},
        {{{"<s", 2, true}, {">", 1, false}}, 2, "60 115 62"},
        {{{"<s", 2, false}, {">", 1, true}}, 2, "60 115 62"},
        {{{"<s", 2, true}, {">x", 2, true}}, 2, "262"},
        {{{"<s>", 3, true}, {"x", 1, false}}, 2, "261 120"}, /* the longer one is not all of the template's */
        {{{"[u", 2, false}, {"d]", 2, true}}, 2, "263"},
        {{{"", 0, true}, {"<s>", 3, true}, {"", 0, false}, {"", 0, true}}, 4, "261"},
        {{{"a", 1, false}, {"", 0, true}, {"<s>", 3, false}, {"<s>", 3, true}}, 4, "97 60 115 62 261"},
        {{{NULL, 0, false}}, 1, ""},
        {{{NULL, 0, false}}, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_tokens tokens = {0};
        char got[256] = "";
        assert_int_equal(
            lh_tokenizer_encode_segments(tokenizer, cases[i].segments, cases[i].count, &tokens, NULL), LH_OK);
        for (size_t t = 0; t < tokens.count; t++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", t ? " " : "", tokens.ids[t]);
        assert_string_equal(got, cases[i].wanted);
        free(tokens.ids);
    }
    lh_tokenizer_destroy(tokenizer);
}

/* "ignore_merges": llama-bpe takes a word that is a token as it is, though no merge leads there. */
static void whole_words_first(void **state) {
    (void)state;
    small_file file = byte_file();
    add_token(&file, "abc", 1);
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "abc", false, "97 98 99");
    lh_tokenizer_destroy(tokenizer);
    file.pre = "llama-bpe";
    tokenizer = create_sound(&file);
    expect(tokenizer, "abc abcd", false, "256 32 97 98 99 100");
    lh_tokenizer_destroy(tokenizer);
}

/* By definition: as long as there is a pair in the list, the first of the lowest rank is merged. */
static size_t merge_slowly(const char (*merges)[2][16], size_t merge_count, char (*symbols)[16],
                           size_t count) {
    for (;;) {
        size_t best = merge_count, at = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t rank = 0; rank < best; rank++)
                if (strcmp(symbols[i], merges[rank][0]) == 0 &&
                    strcmp(symbols[i + 1], merges[rank][1]) == 0) {
                    best = rank;
                    at = i;
                }
        if (best == merge_count)
            return count;
        char right[16];
        memcpy(right, symbols[at + 1], sizeof right);
        strcat(symbols[at], right);
        memmove(symbols[at + 1], symbols[at + 2], (count - at - 2) * sizeof *symbols);
        count--;
    }
}

static bool is_new(const small_file *file, const char *text) {
    for (size_t i = 0; i < file->token_count; i++)
        if (strcmp(file->tokens[i], text) == 0)
            return false;
    return true;
}

static bool has_pair(const char (*merges)[2][16], size_t count, const char *left, const char *right) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(merges[i][0], left) == 0 && strcmp(merges[i][1], right) == 0)
            return true;
    return false;
}

static void merges_in_the_defined_order(void **state) {
    (void)state;
    uint64_t random = 9;
    for (int round = 0; round < 200; round++) {
        small_file file = byte_file();
        char merges[60][2][16], made[60][16], lines[60][34];
        size_t count = 0;
        while (count < 60) { /* symbols of up to 8 letters of "abc", the merges in any order */
            const char *parts[2];
            for (int k = 0; k < 2; k++) {
                uint64_t pick = test_random(&random) % (3 + count);
                parts[k] = pick < 3 ? letters['a' + pick] : made[pick - 3];
            }
            if (strlen(parts[0]) + strlen(parts[1]) > 8 ||
                has_pair((const char(*)[2][16])merges, count, parts[0], parts[1])) {
                if (test_random(&random) % 50 == 0)
                    break;
                continue;
            }
            snprintf(merges[count][0], 16, "%s", parts[0]);
            snprintf(merges[count][1], 16, "%s", parts[1]);
            snprintf(made[count], 16, "%.8s%.7s", merges[count][0], merges[count][1]);
            snprintf(lines[count], 34, "%s %s", merges[count][0], merges[count][1]);
            if (is_new(&file, made[count]))
                add_token(&file, made[count], 1);
            file.merges[file.merge_count++] = lines[count];
            count++;
        }
        lh_tokenizer *tokenizer = create_sound(&file);
        for (int word = 0; word < 40; word++) {
            char text[41] = "", symbols[41][16];
            size_t length = 1 + (size_t)(test_random(&random) % 40);
            for (size_t i = 0; i < length; i++) {
                text[i] = (char)('a' + test_random(&random) % 3);
                snprintf(symbols[i], 16, "%c", text[i]);
            }
            size_t left = merge_slowly((const char(*)[2][16])merges, count, symbols, length);
            lh_tokens tokens = {0};
            assert_int_equal(lh_tokenizer_encode(tokenizer, text, length, false, &tokens, NULL), LH_OK);
            assert_int_equal(tokens.count, left);
            for (size_t i = 0; i < left; i++)
                assert_string_equal(file.tokens[tokens.ids[i]], symbols[i]);
            free(tokens.ids);
        }
        lh_tokenizer_destroy(tokenizer);
    }
}

static void refuses_hostile_vocabularies(void **state) {
    (void)state;
    small_file file = rich_file();
    file.token_count = file.type_count = 0;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens is empty");
    file = rich_file();
    file.type_count--;
    expect_refusal(&file, LH_ERR_MALFORMED,
                   "tokenizer.ggml.token_type has 266 entries, tokenizer.ggml.tokens has 267");
    file = rich_file();
    file.types[7] = 9;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.token_type[7] is 9");
    file.types[7] = 0;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.token_type[7]");
    file = rich_file();
    file.tokens[258] = "he";
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[258] is the same as tokens[256]");
    file = rich_file();
    file.tokens[262] = "<s>";
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[262] is the same as tokens[261]");
    file = rich_file();
    file.tokens[257] = "a b";
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[257] holds U+0020");
    file.tokens[257] = "\u4E2D";
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[257] holds U+4E2D");
    file.tokens[257] = "\xFF";
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[257]");
    file = rich_file();
    file.types[65] = 6;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.tokens[65] is no name of a byte");
    file = rich_file();
    char *longest = calloc(300, 1);
    memset(longest, 'x', 257);
    file.tokens[261] = longest;
    expect_refusal(&file, LH_ERR_LIMIT, "tokenizer.ggml.tokens[261] has 257 bytes");
    free(longest);
}

static void refuses_hostile_merges(void **state) {
    (void)state;
    static const struct {
        const char *merge, *words;
    } cases[] = {
        {"zz a", "merges[2] has a left symbol that is not in the vocabulary"},
        {"a zz", "merges[2] has a right symbol that is not in the vocabulary"},
        {"z z", "merges[2] has a result that is not in the vocabulary"},
        {"h e", "merges[2] is the same as merges[0]"},
        {"hell", "merges[2] is not two symbols"},
        {" he", "merges[2] is not two symbols"},
        {"he ", "merges[2] is not two symbols"},
        {"", "merges[2] is not two symbols"},
        {"h e l", "merges[2] holds U+0020"},
        {"\u4E2D a", "merges[2] holds U+4E2D"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_file file = rich_file();
        file.merges[2] = cases[i].merge;
        expect_refusal(&file, LH_ERR_MALFORMED, cases[i].words);
    }
}

static void refuses_what_it_does_not_know(void **state) {
    (void)state;
    small_file file = rich_file();
    file.model = "llama";
    expect_refusal(&file, LH_ERR_UNSUPPORTED, "tokenizer.ggml.model \"llama\"");
    file.model = NULL;
    expect_refusal(&file, LH_ERR_MALFORMED, "tokenizer.ggml.model");
    file = rich_file();
    file.pre = "dbrx";
    expect_refusal(&file, LH_ERR_UNSUPPORTED, "tokenizer.ggml.pre \"dbrx\" is not one of default, gpt-2");
    static const char *const ids[] = {"bos", "eos", "eot", "eom"};
    for (size_t i = 0; i < 4; i++) {
        char words[64];
        file = rich_file();
        *(int64_t *[]){&file.bos, &file.eos, &file.eot, &file.eom}[i] = 267;
        snprintf(words, sizeof words, "tokenizer.ggml.%s_token_id is 267, the vocabulary has 267 tokens",
                 ids[i]);
        expect_refusal(&file, LH_ERR_MALFORMED, words);
    }
}

static void a_file_may_do_without(void **state) {
    (void)state;
    small_file file = rich_file();
    file.pre = NULL; /* taken as default */
    file.type_count = 0;
    file.tokens[266] = "\u0120\u0120"; /* without types, all are normal */
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "hello<s>", true, "259 60 115 62");
    uint32_t count;
    lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_int_equal(count, 0);
    assert_int_equal(lh_tokenizer_bos(tokenizer), -1);
    assert_int_equal(lh_tokenizer_eos(tokenizer), -1);
    lh_tokenizer_destroy(tokenizer);
}

/* A byte token is text; a byte that the vocabulary lacks is dropped, and its neighbours meet. */
static void bytes_may_be_named_or_missing(void **state) {
    (void)state;
    small_file file = rich_file();
    file.tokens['q'] = "qqq";
    add_token(&file, "<0x0A>", 6);
    lh_tokenizer *tokenizer = create_sound(&file);
    expect(tokenizer, "qhqeqllqo", false, "259");
    expect(tokenizer, "qq", false, "");
    const char *bytes;
    size_t length;
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, 267, &bytes, &length), LH_OK);
    assert_true(length == 1 && bytes[0] == '\n');
    lh_tokenizer_destroy(tokenizer);
}

static void knows_the_ends(void **state) {
    (void)state;
    small_file file = rich_file();
    add_token(&file, "<|im_end|>", 3);    /* 267: by name */
    add_token(&file, "<|endoftext|>", 1); /* no control token: a word like others */
    add_token(&file, "<|eot_id|>", 3);    /* 269 */
    file.eos = 261;
    file.eot = 269;
    file.eom = 261; /* the same again */
    lh_tokenizer *tokenizer = create_sound(&file);
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    assert_int_equal(count, 3);
    assert_true(stops[0] == 261 && stops[1] == 269 && stops[2] == 267);
    assert_int_equal(lh_tokenizer_eos(tokenizer), 261);
    lh_tokenizer_destroy(tokenizer);
}

static void bos_is_as_the_file_says(void **state) {
    (void)state;
    static const struct {
        const char *pre;
        int64_t bos;
        int add_bos;
        bool wanted;
    } cases[] = {
        {"gpt-2", 261, -1, false},    {"gpt-2", 261, 1, true}, {"llama-bpe", 261, -1, true},
        {"llama-bpe", 261, 0, false}, {"gpt-2", -1, 1, false}, {"tekken", 261, -1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_file file = rich_file();
        file.pre = cases[i].pre;
        file.bos = cases[i].bos;
        file.add_bos = cases[i].add_bos;
        lh_tokenizer *tokenizer = create_sound(&file);
        assert_int_equal(lh_tokenizer_adds_bos(tokenizer), cases[i].wanted);
        assert_int_equal(lh_tokenizer_bos(tokenizer), cases[i].bos);
        lh_tokenizer_destroy(tokenizer);
    }
}

static void takes_utf8_only(void **state) {
    (void)state;
    small_file file = rich_file();
    lh_tokenizer *tokenizer = create_sound(&file);
    static const char *const texts[] = {"a\xFF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lh_tokens tokens = {0};
        lh_error error;
        assert_int_equal(lh_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), true, &tokens, &error),
                         LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, i ? "byte 0" : "byte 1"));
        assert_int_equal(tokens.count, 0);
    }
    lh_text_segment halves[] = {{"\xC3", 1, false}, {"\xA9", 1, false}}; /* the whole counts */
    lh_tokens tokens = {0};
    assert_int_equal(lh_tokenizer_encode_segments(tokenizer, halves, 2, &tokens, NULL), LH_OK);
    assert_int_equal(tokens.count, 2);
    free(tokens.ids);
    lh_tokenizer_destroy(tokenizer);
}

static void survives_no_memory(void **state) {
    (void)state;
    small_file file = rich_file();
    size_t length;
    uint8_t *bytes = write_file(&file, &length);
    lh_gguf *gguf;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    for (size_t n = 1;; n++) {
        lh_tokenizer *tokenizer = NULL;
        lh_tokens tokens = {0};
        lh_text_segment segments[] = {{"<s>he", 5, true}, {"llo w", 5, false}};
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = lh_tokenizer_create(gguf, &tokenizer, &error);
        if (!status)
            status = lh_tokenizer_encode_segments(tokenizer, segments, 2, &tokens, &error);
        bool failed = failing_malloc_disarm();
        free(tokens.ids);
        lh_tokenizer_destroy(tokenizer);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
        assert_true(error.message[0] != '\0');
    }
    lh_gguf_destroy(gguf);
    free(bytes);
}

int main(void) {
    fill_letters();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_and_decodes),
        cmocka_unit_test(special_tokens_are_for_templates),
        cmocka_unit_test(segments_are_one_text),
        cmocka_unit_test(whole_words_first),
        cmocka_unit_test(merges_in_the_defined_order),
        cmocka_unit_test(refuses_hostile_vocabularies),
        cmocka_unit_test(refuses_hostile_merges),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(a_file_may_do_without),
        cmocka_unit_test(bytes_may_be_named_or_missing),
        cmocka_unit_test(knows_the_ends),
        cmocka_unit_test(bos_is_as_the_file_says),
        cmocka_unit_test(takes_utf8_only),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
