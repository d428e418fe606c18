/* The expressions, as the models' tokenizer.json files have them, for PCRE2. Some models have
 * several: what the first one cuts is cut by the next, and so on. Three things are spelled out:
 *
 * - `\s` is the White_Space property; PCRE2's own also has U+180E, which left it with Unicode 6.3.
 * - `\p{L}` and its like get the characters of Unicode 15 and 16 where an older PCRE2 (Debian 12:
 *   Unicode 14) lacks them. Without these, a new script's words would be cut like punctuation,
 *   other than the model's own tokenizer does.
 * - "Digits, then GPT-2", two passes elsewhere, is one expression: a digit ends the piece before
 *   it, so spaces in front of one stay together (`\s+(?=digit)`). */
#include "gateway/text/pre_tokenizer.h"

#include "common/base/nearest_name.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contents of character classes. */
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define NEW_UPPER "\\x{1c89}\\x{a7cb}\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"
#define NEW_LOWER "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"
#define NEW_CASELESS                                                                               \
    "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4f}\\x{10d6f}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{"      \
    "11240}"                                                                                       \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}" \
    "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}"          \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}\\x{"     \
    "18cff}"                                                                                       \
    "\\x{1b132}\\x{1b155}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{"      \
    "1e5f0}"                                                                                       \
    "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEW_MARKS                                                                                  \
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-\\x{"  \
    "113c0}"                                                                                       \
    "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}\\x{113e2}" \
    "\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}" \
    "\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}\\x{"      \
    "1e5ef}"
#define NEW_PUNCTUATION                                                                            \
    "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}"             \
    "\\x{11b00}-\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"
#define NEW_SYMBOLS                                                                                \
    "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{10d8e}-\\x{10d8f}"      \
    "\\x{1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}"                    \
    "\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}"                    \
    "\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}"                    \
    "\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}"          \
    "\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"
#define MARK        "\\p{M}" NEW_MARKS
#define PUNCTUATION "\\p{P}" NEW_PUNCTUATION
#define SYMBOL      "\\p{S}" NEW_SYMBOLS
#define LETTER      "\\p{L}" NEW_UPPER NEW_LOWER NEW_CASELESS
#define DIGIT                                                                                      \
    "\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"   \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"         \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"
/* The pass that isolates digits follows Unicode 17. */
#define LONE_DIGIT DIGIT "\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}"

#define SPACES_BEFORE_WORD "[" SPACE "]+(?![^" SPACE "])"
#define LINE_ENDS          "[" SPACE "]*[\\r\\n]+"
#define CONTRACTIONS       "'s|'t|'re|'ve|'m|'ll|'d"

static const char gpt2[] = CONTRACTIONS "| ?[" LETTER "]+| ?[" DIGIT "]+| ?[^" SPACE LETTER DIGIT
                                        "]+|" SPACES_BEFORE_WORD "|[" SPACE "]+";

static const char digits_then_gpt2[] =
    CONTRACTIONS "| ?[" LETTER "]+|[" LONE_DIGIT "]| ?[^" SPACE LETTER LONE_DIGIT "]+|[" SPACE
                 "]+(?=[" LONE_DIGIT "])|" SPACES_BEFORE_WORD "|[" SPACE "]+";

#define LLAMA3_LIKE(digits)                                                                        \
    "(?i:" CONTRACTIONS ")|[^\\r\\n" LETTER DIGIT "]?[" LETTER "]+|" digits                        \
    "| ?[^" SPACE LETTER DIGIT "]+[\\r\\n]*|" LINE_ENDS "|" SPACES_BEFORE_WORD "|[" SPACE "]+"

static const char llama3[] = LLAMA3_LIKE("[" DIGIT "]{1,3}");
static const char qwen2[] = LLAMA3_LIKE("[" DIGIT "]");

#define UPPER   "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NEW_UPPER NEW_CASELESS NEW_MARKS
#define LOWER   "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NEW_LOWER NEW_CASELESS NEW_MARKS
#define LEADING "[^\\r\\n" LETTER DIGIT "]?"

static const char tekken[] = LEADING
    "[" UPPER "]*[" LOWER "]+|" LEADING "[" UPPER "]+[" LOWER "]*|[" DIGIT
    "]| ?[^" SPACE LETTER DIGIT "]+[\\r\\n/]*|" LINE_ENDS "|" SPACES_BEFORE_WORD "|[" SPACE "]+";

/* Words with their contractions, cased and not; runs of three digits. */
#define O200K_ENDING "(?i:" CONTRACTIONS ")?"
static const char o200k[] =
    LEADING "[" UPPER "]*[" LOWER "]+" O200K_ENDING "|" LEADING "[" UPPER "]+[" LOWER
            "]*" O200K_ENDING "|[" DIGIT "]{1,3}| ?[^" SPACE LETTER DIGIT "]+[\\r\\n/]*|" LINE_ENDS
            "|" SPACES_BEFORE_WORD "|[" SPACE "]+";

/* Without [\\r\\n]* after punctuation. */
static const char seed_coder[] =
    "(?i:" CONTRACTIONS ")|[^\\r\\n" LETTER DIGIT "]?[" LETTER "]+|[" DIGIT
    "]| ?[^" SPACE LETTER DIGIT "]+|" LINE_ENDS "|" SPACES_BEFORE_WORD "|[" SPACE "]+";

/* What stands between the signs that end a sentence or a part of it, in several scripts. */
static const char sentence_parts[] =
    " ?[^" SPACE "()|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}]+";

/* Letters that have two cases, but for Georgian and Armenian small ones, as deepseek-llm lists
 * them. */
#define DEEPSEEK_CASED                                                                             \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"          \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"         \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"                  \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"      \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_CJK "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"

static const char deepseek_v3[] =
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n" LETTER PUNCTUATION SYMBOL "]?[" LETTER MARK
    "]+| ?[" PUNCTUATION SYMBOL "]+[\\r\\n]*|" LINE_ENDS "|" SPACES_BEFORE_WORD "|[" SPACE "]+";

#define HAN                                                                                        \
    "\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}\\x{3007}"                  \
    "\\x{3021}-\\x{3029}\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}"                 \
    "\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}"               \
    "\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b739}\\x{2b740}-\\x{2b81d}\\x{2b820}-\\x{2cea1}"         \
    "\\x{2ceb0}-\\x{2ebe0}\\x{2ebf0}-\\x{2ee5d}\\x{2f800}-\\x{2fa1d}\\x{30000}-\\x{3134a}"         \
    "\\x{31350}-\\x{323af}"
/* As o200k, but no word has Han letters: UPPER*LOWER+ and UPPER+LOWER* without them, written so
 * that nothing is taken back, since a long word of groups leaves no room for that. What both have
 * is BOTH: the first one ends at a letter of it, or goes on with small letters. */
#define KIMI_CAPITAL "[\\p{Lu}\\p{Lt}" NEW_UPPER "]"
#define KIMI_SMALL   "[\\p{Ll}" NEW_LOWER "]"
#define KIMI_BOTH    "(?:(?![" HAN "])[\\p{Lm}\\p{Lo}" MARK NEW_CASELESS "])"
#define KIMI_LOWER   KIMI_CAPITAL "*+" KIMI_SMALL "(?:(?![" HAN "])[" LOWER "])*+"
static const char kimi[] =
    "[" HAN "]+|" LEADING "(?:(?:" KIMI_CAPITAL "*+" KIMI_BOTH "++)++(?:" KIMI_LOWER
    ")?|" KIMI_LOWER ")" O200K_ENDING "|" LEADING KIMI_CAPITAL "++" O200K_ENDING "|[" DIGIT
    "]{1,3}| ?[^" SPACE LETTER DIGIT "]+[\\r\\n]*|" LINE_ENDS "|" SPACES_BEFORE_WORD "|[" SPACE
    "]+";

/* As qwen2, but that it takes nothing back, and what stands before line ends. */
static const char bailing[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n" LETTER DIGIT "]?+[" LETTER
                              "]+|[" DIGIT "]| ?[^" SPACE LETTER DIGIT "]++[\\r\\n]*|[" SPACE
                              "]*[\\r\\n]|" SPACES_BEFORE_WORD "|[" SPACE "]+";

/* Words and the single spaces between them, as long as it goes. */
static const char exaone_moe[] =
    "(?i:" CONTRACTIONS ")|[^\\r\\n" LETTER DIGIT "]?(?:[" LETTER "][" MARK "]*+(?: [" LETTER
    "][" MARK "]*+)*+)++|[" DIGIT "]| ?[^" SPACE LETTER DIGIT "]+[\\r\\n/]?|[" SPACE
    "]*[\\r\\n]|" SPACES_BEFORE_WORD "|[" SPACE "]+";

#define PASSES_MAX 6

typedef struct pre_kind {
    const char *name;
    const char *passes[PASSES_MAX]; /* NULL after the last */
    lh_pre_traits traits;
} pre_kind;

static const pre_kind kinds[] = {
    {"default", {gpt2}, {false, false, false}},
    {"gpt-2", {gpt2}, {false, false, false}},
    {"mpt", {gpt2}, {false, false, false}},
    {"mellum", {gpt2}, {false, false, false}},
    {"trillion", {gpt2}, {false, false, false}},
    {"phi-2", {gpt2}, {false, false, false}},
    {"olmo", {gpt2}, {false, false, false}},
    {"jais", {gpt2}, {false, false, false}},
    {"gigachat", {gpt2}, {false, false, false}},
    {"a.x-4.0", {gpt2}, {false, false, false}},
    {"exaone4", {gpt2}, {false, false, false}},
    {"granite-docling", {gpt2}, {false, false, false}},
    {"smollm", {digits_then_gpt2}, {false, false, false}},
    {"starcoder", {digits_then_gpt2}, {false, false, false}},
    {"refact", {digits_then_gpt2}, {false, false, false}},
    {"minerva-7b", {digits_then_gpt2}, {false, false, false}},
    {"command-r", {digits_then_gpt2}, {false, false, false}},
    {"codeshell", {digits_then_gpt2}, {false, false, false}},
    {"exaone", {digits_then_gpt2}, {false, false, false}},
    {"mellum2", {digits_then_gpt2}, {false, false, false}},
    {"llama-bpe", {llama3}, {true, true, false}},
    {"llama3", {llama3}, {true, true, false}},
    {"llama-v3", {llama3}, {true, true, false}},
    {"falcon3", {llama3}, {true, true, false}},
    {"pixtral", {llama3}, {true, true, false}},
    {"midm-2.0", {llama3}, {true, true, false}},
    {"smaug-bpe", {llama3}, {false, false, false}},
    {"dbrx", {llama3}, {false, false, false}},
    {"chatglm-bpe", {llama3}, {false, false, false}},
    {"glm4", {llama3}, {true, false, false}},
    {"glm5", {llama3}, {true, false, false}},
    {"qwen2", {qwen2}, {false, false, true}},
    {"deepseek-r1-qwen", {qwen2}, {false, false, false}},
    {"megrez", {qwen2}, {false, false, false}},
    {"kormo", {qwen2}, {false, false, false}},
    {"stablelm2", {qwen2}, {false, false, false}},
    {"hunyuan", {qwen2}, {false, false, false}},
    {"solar-open", {qwen2}, {false, false, false}},
    {"grok-2", {qwen2}, {false, false, false}},
    {"viking", {sentence_parts, "[" LONE_DIGIT "]"}, {false, false, false}},
    {"seed-coder", {seed_coder}, {false, false, false}},
    {"deepseek-coder",
     {"[\\r\\n]", "[" SPACE "]?[" LETTER "]+", "[" SPACE "]?[" PUNCTUATION "]+", DEEPSEEK_CJK,
      "[" LONE_DIGIT "]"},
     {false, false, false}},
    {"deepseek-llm",
     {"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_CASED "]+",
      "[" SPACE "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-"
      "\\x{3002}]+",
      "[" SPACE "]+$", DEEPSEEK_CJK, "[" LONE_DIGIT "]"},
     {false, false, false}},
    {"deepseek-v3",
     {"[" DIGIT "]{1,3}", "[\\x{3040}-\\x{30ff}\\x{4e00}-\\x{9fa5}]+", deepseek_v3},
     {false, false, false}},
    {"hunyuan-dense",
     {"[" DIGIT "]{1,3}", "[\\x{3040}-\\x{30ff}\\x{4e00}-\\x{9fa5}]+", deepseek_v3},
     {false, false, false}},
    {"joyai-llm",
     {"[" DIGIT "]{1,3}", "[\\x{3040}-\\x{30ff}\\x{4e00}-\\x{9fa5}]+", deepseek_v3},
     {false, false, false}},
    {"kimi-k2", {kimi}, {false, false, false}},
    {"bailingmoe", {bailing}, {false, false, false}},
    {"bailingmoe2", {bailing}, {false, false, false}},
    {"llada-moe", {bailing}, {false, false, false}},
    {"exaone-moe", {exaone_moe}, {false, false, false}},
    {"minicpm5", {"[" DIGIT "]{1,3}", llama3}, {true, false, false}},
    {"tekken", {tekken}, {true, true, false}},
    {"gpt-4o", {o200k}, {false, false, false}},
    {"llama4", {o200k}, {false, false, false}},
    {"kanana2", {o200k}, {false, false, false}},
    {"minimax-m2", {o200k}, {false, false, false}},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

struct lh_pre_tokenizer {
    const pre_kind *kind;
    size_t passes;
    pcre2_code *codes[PASSES_MAX];
    pcre2_match_context *context;
};

/* What one pass is to cut, and how far it is. */
typedef struct pass {
    const char *text;
    size_t length, at;
    bool is_open; /* more text will follow */
} pass;

struct lh_word_scan {
    const lh_pre_tokenizer *pre;
    pcre2_match_data *match;
    pass passes[PASSES_MAX]; /* each works on a word of the one before */
};

static const pre_kind *find_kind(const char *name, size_t length) {
    for (size_t i = 0; i < KINDS; i++)
        if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, name, length) == 0)
            return &kinds[i];
    return NULL;
}

static lh_status refuse(const char *name, size_t length, lh_error *error) {
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, name, length);
    for (size_t i = 0; i < KINDS; i++)
        lh_nearest_name_try(&nearest, kinds[i].name);
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "tokenizer.ggml.pre \"%.*s\" is not supported (docs/OPERATING.md names the %zu "
                   "that are%s%s)",
                   (int)(length < 64 ? length : 64), name, KINDS,
                   nearest.name ? "; the nearest is " : "", nearest.name ? nearest.name : "");
}

static lh_status compile_pass(lh_pre_tokenizer *pre, const char *pattern, lh_error *error) {
    int code;
    PCRE2_SIZE offset;
    pcre2_code *made = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!made) {
        char text[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return lh_fail(error, LH_ERR_INTERNAL, "expression of \"%s\", offset %zu: %s",
                       pre->kind->name, offset, text);
    }
    /* Without it the interpreter does the same, slower. */
    (void)pcre2_jit_compile(made, PCRE2_JIT_COMPLETE);
    pre->codes[pre->passes++] = made;
    return LH_OK;
}

static lh_status compile(lh_pre_tokenizer *pre, lh_error *error) {
    lh_status status = LH_OK;
    while (pre->passes < PASSES_MAX && pre->kind->passes[pre->passes] && !status)
        status = compile_pass(pre, pre->kind->passes[pre->passes], error);
    if (status)
        return status;
    pre->context = pcre2_match_context_create(NULL);
    if (!pre->context)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a pre-tokenizer");
    /* The limits guard against expressions that explode; ours are linear in a word, and words may
     * be long. */
    pcre2_set_match_limit(pre->context, UINT32_MAX);
    return LH_OK;
}

lh_status lh_pre_tokenizer_create(const char *name, size_t length, lh_pre_tokenizer **pre,
                                  lh_error *error) {
    const pre_kind *kind = find_kind(name, length);
    if (!kind)
        return refuse(name, length, error);
    lh_pre_tokenizer *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a pre-tokenizer");
    made->kind = kind;
    lh_status status = compile(made, error);
    if (status) {
        lh_pre_tokenizer_destroy(made);
        return status;
    }
    *pre = made;
    return LH_OK;
}

void lh_pre_tokenizer_destroy(lh_pre_tokenizer *pre) {
    if (!pre)
        return;
    pcre2_match_context_free(pre->context);
    for (size_t i = 0; i < pre->passes; i++)
        pcre2_code_free(pre->codes[i]);
    free(pre);
}

lh_pre_traits lh_pre_tokenizer_traits(const lh_pre_tokenizer *pre) {
    return pre->kind->traits;
}

lh_status lh_word_scan_create(const lh_pre_tokenizer *pre, lh_word_scan **scan, lh_error *error) {
    lh_word_scan *made = calloc(1, sizeof *made);
    if (made)
        made->match = pcre2_match_data_create(1, NULL);
    if (!made || !made->match) {
        lh_word_scan_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a scan of text");
    }
    made->pre = pre;
    *scan = made;
    return LH_OK;
}

void lh_word_scan_destroy(lh_word_scan *scan) {
    if (!scan)
        return;
    pcre2_match_data_free(scan->match);
    free(scan);
}

void lh_word_scan_begin(lh_word_scan *scan, const char *text, size_t length, bool is_open) {
    memset(scan->passes, 0, sizeof scan->passes);
    scan->passes[0] = (pass){text, length, 0, is_open};
}

/* Matches from own->at on. Of an open text, PCRE2 tells when what follows it might have been looked
 * at (PCRE2_ERROR_PARTIAL). The text was checked to be UTF-8 once; PCRE2 would check all of it for
 * every word. */
static int match(lh_word_scan *scan, const pass *own, const pcre2_code *code) {
    PCRE2_SPTR text = (PCRE2_SPTR)own->text;
    uint32_t options = PCRE2_NO_UTF_CHECK | (own->is_open ? PCRE2_PARTIAL_HARD : 0);
    int result =
        pcre2_match(code, text, own->length, own->at, options, scan->match, scan->pre->context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(code, text, own->length, own->at, options | PCRE2_NO_JIT, scan->match,
                             scan->pre->context);
    return result;
}

/* The next word of a pass that has text left. */
static lh_status cut(lh_word_scan *scan, size_t number, const char **word, size_t *length,
                     lh_error *error) {
    pass *own = &scan->passes[number];
    size_t begin = own->length, end = own->length; /* no match: the rest is one word */
    int result = match(scan, own, scan->pre->codes[number]);
    if (own->is_open && (result == PCRE2_ERROR_PARTIAL || result == PCRE2_ERROR_NOMATCH)) {
        own->at = own->length;
        return LH_AGAIN;
    }
    if (result == PCRE2_ERROR_NOMEMORY || result == PCRE2_ERROR_HEAPLIMIT)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to cut text into words");
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        return lh_fail(error, LH_ERR_INTERNAL,
                       "cutting text into words at byte %zu failed (PCRE2 error %d)", own->at,
                       result);
    if (result >= 0) {
        begin = pcre2_get_ovector_pointer(scan->match)[0];
        end = pcre2_get_ovector_pointer(scan->match)[1];
    }
    if (begin > own->at) /* what lies between two matches is a word too */
        end = begin;
    *word = own->text + own->at;
    *length = end - own->at;
    own->at = end;
    assert(*length > 0 && end <= own->length);
    return LH_OK;
}

lh_status lh_word_scan_next(lh_word_scan *scan, const char **word, size_t *length,
                            lh_error *error) {
    size_t number = scan->pre->passes;
    while (number > 0 && scan->passes[number - 1].at == scan->passes[number - 1].length)
        number--;
    if (number == 0)
        return LH_AGAIN;
    lh_status status = cut(scan, number - 1, word, length, error);
    for (; number < scan->pre->passes && !status; number++) {
        scan->passes[number] = (pass){*word, *length, 0, false};
        status = cut(scan, number, word, length, error);
    }
    return status;
}
