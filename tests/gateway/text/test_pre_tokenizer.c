/* The expressions on a few strings each, cut as the `tokenizers` library cuts them; on many more,
 * through whole tokenizers, test_tokenizer_vectors. */
#include "gateway/text/pre_tokenizer.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_pre_tokenizer *create(const char *name) {
    lh_pre_tokenizer *pre;
    lh_error error;
    if (lh_pre_tokenizer_create(name, strlen(name), &pre, &error))
        fail_msg("%s", error.message);
    return pre;
}

/* The words with a bar between. */
static void cut(const lh_pre_tokenizer *pre, const char *text, size_t length, char *out,
                size_t room) {
    lh_word_scan *scan;
    assert_int_equal(lh_word_scan_create(pre, &scan, NULL), LH_OK);
    lh_word_scan_begin(scan, text, length, false);
    size_t at = 0, word_length;
    const char *word;
    lh_status status;
    out[0] = '\0';
    while (!(status = lh_word_scan_next(scan, &word, &word_length, NULL))) {
        assert_ptr_equal(word, text + at); /* in order, no gaps */
        assert_int_not_equal(word_length, 0);
        snprintf(out + strlen(out), room - strlen(out), "%s%.*s", at ? "|" : "", (int)word_length,
                 word);
        at += word_length;
    }
    assert_int_equal(status, LH_AGAIN);
    assert_int_equal(at, length);
    lh_word_scan_destroy(scan);
}

/* `words` is the text with bars where it is to be cut. */
static void expect(const char *name, const char *words) {
    char text[256], got[512];
    size_t length = 0;
    for (const char *at = words; *at; at++)
        if (*at != '|')
            text[length++] = *at;
    lh_pre_tokenizer *pre = create(name);
    cut(pre, text, length, got, sizeof got);
    if (strcmp(got, words) != 0)
        fail_msg("%s: wanted \"%s\", got \"%s\"", name, words, got);
    lh_pre_tokenizer_destroy(pre);
}

static void expect_all(const char *name, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        expect(name, words[i]);
}

#define EXPECT_ALL(name, words) expect_all(name, words, sizeof words / sizeof words[0])

static void gpt2(void **state) {
    (void)state;
    static const char *const words[] = {
        "",
        "Hello| world",
        "it|'s| we|'ll| they|'ve|'d|'re|'m|'t|'|x",
        "IT|'|S| don|'|T", /* contractions in lower case only */
        "it|'s|x",
        "in| 2024|,| 12345|abc|67",
        "a| | b|   ",
        "a| | 1",
        "a|\r|\n|b",
        "a|\n|\n|b",
        "a| \r\n\r\n | b",
        "x|!?| !?|\t|y",
        "x|!?|\r\n|\n|y",
        "na\u00EFve| \u4E2D\u6587| \U0001F600",
        "a| !\u180E!|b", /* U+180E is no space, since Unicode 6.3 */
        "a| |\u3000|b",
        "Hello|\u00A0|World",
        "\u0661\u00BD\u2167", /* all of them numbers */
        "e|\u0301|a",
        "HTMLParser| camelCase| ABC",
        "\t|\t|if| x|:|\n\t\t|\t|return",
    };
    EXPECT_ALL("gpt-2", words);
    EXPECT_ALL("default", words);
    EXPECT_ALL("mpt", words);
    EXPECT_ALL("olmo", words);
    EXPECT_ALL("exaone4", words);
}

/* Every digit alone, and the spaces before one stay together. */
static void digits_then_gpt2(void **state) {
    (void)state;
    static const char *const words[] = {
        "in| |2|0|2|4|,| |1|2|3|4|5|abc|6|7",
        "  |1|2| |3",
        "a|  |1",
        "a| | b|   ",
        "\u0661|\u00BD|\u2167",
        "it|'s| we|'ll| they|'ve|'d|'re|'m|'t|'|x",
        "IT|'|S| don|'|T",
        "a|\r|\n|b",
        "x|!?|\r\n|\n|y",
        "a| !\u180E!|b",
        "\t|\t|if| x|:|\n\t\t|\t|return",
    };
    EXPECT_ALL("smollm", words);
    EXPECT_ALL("starcoder", words);
    EXPECT_ALL("refact", words);
    EXPECT_ALL("exaone", words);
    EXPECT_ALL("command-r", words);
}

/* What Llama 3, Qwen 2 and Tekken cut alike: line ends apart, and with a word the sign before it.
 */
static const char *const newer[] = {
    "Hello| world",
    "a| | b|   ",
    "a| | |1",
    "a|\r\n|b",
    "a|\n\n|b",
    "a|\r| b",
    "a| \r\n\r\n| | b",
    "x|!?| !?|\ty",
    "x|!?\r\n\n|y",
    "a| !\u180E!|b",
    "a| |\u3000b",
    "Hello|\u00A0World",
    "$x| (|y",
    "na\u00EFve| \u4E2D\u6587| \U0001F600",
    "\t|\tif| x|:\n|\t\t|\treturn",
};

static void llama3(void **state) {
    (void)state;
    static const char *const words[] = {
        "it|'s| we|'ll| they|'ve|'d|'re|'m|'t|'x",
        "IT|'S| don|'T",
        "it|'s|x| IT|'S|X| we|'RE|D", /* contractions in either case */
        "x|!\n|/a",
        "in| |202|4|,| |123|45|abc|67", /* by threes, from the left */
        " | |12| |3",
        "\u0661\u00BD\u2167",
        "e|\u0301a",
        "HTMLParser| camelCase| ABC",
        "a|/b|//|c| /|x|\n",
    };
    static const char *const names[] = {"llama-bpe", "llama3",     "llama-v3",  "falcon3",
                                        "pixtral",   "midm-2.0",   "smaug-bpe", "dbrx",
                                        "glm4",      "chatglm-bpe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_ALL(names[i], newer);
        EXPECT_ALL(names[i], words);
    }
}

static void qwen2(void **state) {
    (void)state;
    static const char *const words[] = {
        "it|'s| we|'ll| they|'ve|'d|'re|'m|'t|'x",
        "IT|'S| don|'T",
        "it|'s|x| IT|'S|X| we|'RE|D", /* contractions in either case */
        "x|!\n|/a",
        "in| |2|0|2|4|,| |1|2|3|4|5|abc|6|7",
        " | |1|2| |3",
        "\u0661|\u00BD|\u2167",
        "e|\u0301a",
        "HTMLParser| camelCase| ABC",
    };
    EXPECT_ALL("qwen2", newer);
    EXPECT_ALL("qwen2", words);
    EXPECT_ALL("deepseek-r1-qwen", words);
    EXPECT_ALL("stablelm2", words);
    EXPECT_ALL("hunyuan", words);
}

/* A change from lower to upper case is a border; marks belong to the letter before. */
static void tekken(void **state) {
    (void)state;
    static const char *const words[] = {
        "it|'s| we|'ll| they|'ve|'d|'re|'m|'t|'x",
        "in| |2|0|2|4|,| |1|2|3|4|5|abc|6|7",
        "HTMLParser| camel|Case| ABC",
        "it|'sx| IT|'SX", /* it knows no contractions */
        "x|!\n/|a",       /* a slash stays with the line end before it */
        "e\u0301a",
        "\u01C5a",
        "a|/b|//|c| /|x|\n",
    };
    EXPECT_ALL("tekken", newer);
    EXPECT_ALL("tekken", words);
}

/* Several expressions, one after the other: line ends, words, punctuation, CJK, digits. */
static void deepseek_llm(void **state) {
    (void)state;
    static const char *const words[] = {
        "",
        "Hello| world",
        "a| | b|  ",
        "it|'|s| IT|'|S",
        "x|\r|\n|\n| y",
        "in| |2|0|2|4|,| |1|2|abc|6",
        "x|!?| !?|\ty",
        "\u4E2D\u6587|abc| |\u4E2D\u6587| def|\u3042",
        "\uD55C\uAE00| |\uD55C",
    };
    EXPECT_ALL("deepseek-llm", words);
}

static void deepseek_v3(void **state) {
    (void)state;
    static const char *const words[] = {
        "",
        "Hello| world",
        "it|'s| IT|'S",
        "x|\r\n\n| y",
        "in| |202|4|,| |12|abc|6",
        "x|!?| !?|\ty",
        "\u4E2D\u6587|abc| |\u4E2D\u6587| def|\u3042",
        "f|(x|):\n|\treturn",
    };
    EXPECT_ALL("deepseek-v3", words);
    EXPECT_ALL("hunyuan-dense", words);
}

static void deepseek_coder(void **state) {
    (void)state;
    static const char *const words[] = {
        "",
        "Hello| world",
        "a| | b|  ",
        "it|'|s| IT|'|S",
        "x|\r|\n|\n| y",
        "in| |2|0|2|4|,| |1|2|abc|6",
        "x|!?| !?|\ty",
        "a| =| b|+|c",
        "\u4E2D\u6587|abc| |\u4E2D\u6587| def|\u3042",
        "\uD55C\uAE00| |\uD55C",
        "f|(|x|):|\n|\t| return",
    };
    EXPECT_ALL("deepseek-coder", words);
}

static void seed_coder(void **state) {
    (void)state;
    static const char *const words[] = {
        "x|!|\n|/a",
        "in| |2|0|2|4|,| |1|2",
        "IT|'S| don|'T",
    };
    EXPECT_ALL("seed-coder", words);
}

/* As gpt-4o, but Han stands alone, and a slash does not go with the line end before it. */
static void kimi(void **state) {
    (void)state;
    static const char *const words[] = {
        "it's| we'll| IT'S",
        "in| |202|4|,| |123|45|abc|678",
        "HTMLParser| camel|Case| ABC",
        "\u4E2D\u6587|abc| |\u4E2D\u6587| def\u3042|A|\u4E2D",
        "a\u3042|B|\u4E2D|b| \u3042|BC| Bc\u3042",
        "x|!\n|/a",
        "e\u0301|A| \u0301|A",
    };
    EXPECT_ALL("kimi-k2", words);
}

static void bailing(void **state) {
    (void)state;
    static const char *const words[] = {
        "it|'s| IT|'S| we|'ll",
        "in| |2|0|2|4|,| |1|2",
        "x|!\n|/a",
        "a|\n\n|b| \n \n|c",
    };
    EXPECT_ALL("bailingmoe", words);
    EXPECT_ALL("bailingmoe2", words);
}

/* Words go together. */
static void exaone_moe(void **state) {
    (void)state;
    static const char *const words[] = {
        "the tide is high|,| the boat| | |2|0|2|4",
        "it|'s| high",
        "a|\n\n|b",
        "x|!\n|\n|y",
        "e\u0301 a| | b",
    };
    EXPECT_ALL("exaone-moe", words);
}

/* Letters of Unicode 15 and 16 are letters, whatever PCRE2 was built with: U+1E4D0 Nag Mundari
 * (15.0), U+105C0 Todhri (16.0); U+1E4F0 is a digit (15.0). */
static void newer_scripts_are_words(void **state) {
    (void)state;
    expect("gpt-2", "a| \U0001E4D0\U0001E4D1| \U000105C0b|\U0001E4F0\U0001E4F1|!");
    expect("smollm", "a| \U0001E4D0\U0001E4D1| \U000105C0b|\U0001E4F0|\U0001E4F1|!");
    expect("llama-bpe", "(\U0001E4D0\U0001E4D1|\U0001E4F0\U0001E4F1|!");
}

/* A word longer than the matcher's own stack of backtracking points. */
static void words_may_be_long(void **state) {
    (void)state;
    static const char *const names[] = {"gpt-2",  "smollm",     "llama-bpe", "qwen2",
                                        "tekken", "seed-coder", "kimi-k2",   "bailingmoe"};
    size_t length = 300000;
    char *text = malloc(length);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lh_pre_tokenizer *pre = create(names[i]);
        lh_word_scan *scan;
        const char *word;
        size_t word_length;
        assert_int_equal(lh_word_scan_create(pre, &scan, NULL), LH_OK);
        for (const char *byte = "a! "; *byte; byte++) {
            memset(text, *byte, length);
            lh_word_scan_begin(scan, text, length, false); /* one scan, text after text */
            assert_int_equal(lh_word_scan_next(scan, &word, &word_length, NULL), LH_OK);
            assert_int_equal(word_length, length);
            assert_int_equal(lh_word_scan_next(scan, &word, &word_length, NULL), LH_AGAIN);
        }
        lh_word_scan_destroy(scan);
        lh_pre_tokenizer_destroy(pre);
    }
    free(text);
}

static void says_what_goes_with_a_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool whole_words, adds_bos, composes;
    } cases[] = {
        {"default", false, false, false},   {"gpt-2", false, false, false},
        {"smollm", false, false, false},    {"llama-bpe", true, true, false},
        {"smaug-bpe", false, false, false}, {"qwen2", false, false, true},
        {"tekken", true, true, false},      {"glm4", true, false, false},
        {"dbrx", false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_pre_tokenizer *pre = create(cases[i].name);
        assert_int_equal(lh_pre_tokenizer_traits(pre).whole_words, cases[i].whole_words);
        assert_int_equal(lh_pre_tokenizer_traits(pre).adds_bos, cases[i].adds_bos);
        assert_int_equal(lh_pre_tokenizer_traits(pre).composes, cases[i].composes);
        lh_pre_tokenizer_destroy(pre);
    }
}

static void refuses_other_names(void **state) {
    (void)state;
    static const char *const names[] = {"bert", "", "GPT-2", "gpt-", "gpt-2 ", "llama"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lh_pre_tokenizer *pre = NULL;
        lh_error error;
        assert_int_equal(lh_pre_tokenizer_create(names[i], strlen(names[i]), &pre, &error),
                         LH_ERR_UNSUPPORTED);
        assert_null(pre);
        assert_non_null(strstr(error.message, names[i]));
        assert_non_null(strstr(error.message, "docs/OPERATING.md")); /* which has those there are */
        assert_int_equal(error.message[strlen(error.message) - 1], ')'); /* whole */
    }
    lh_error error;
    lh_pre_tokenizer *none;
    assert_int_equal(lh_pre_tokenizer_create("deepseek-v4", 11, &none, &error), LH_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "; the nearest is deepseek-v3)"));
    static const char unended[] = {'g', 'p', 't',
                                   '-', '2', 'x'}; /* a name of the file has a length, no end */
    lh_pre_tokenizer *pre;
    assert_int_equal(lh_pre_tokenizer_create(unended, 5, &pre, NULL), LH_OK);
    lh_pre_tokenizer_destroy(pre);
}

static void survives_no_memory(void **state) {
    (void)state;
    size_t n = 1;
    for (;; n++) {
        lh_pre_tokenizer *pre = NULL;
        lh_word_scan *scan = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_pre_tokenizer_create("gpt-2", 5, &pre, NULL);
        if (!status)
            status = lh_word_scan_create(pre, &scan, NULL);
        bool failed = failing_malloc_disarm();
        lh_word_scan_destroy(scan);
        lh_pre_tokenizer_destroy(pre);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
    assert_true(n > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(digits_then_gpt2),
        cmocka_unit_test(llama3),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(tekken),
        cmocka_unit_test(deepseek_coder),
        cmocka_unit_test(deepseek_llm),
        cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(seed_coder),
        cmocka_unit_test(kimi),
        cmocka_unit_test(bailing),
        cmocka_unit_test(exaone_moe),
        cmocka_unit_test(newer_scripts_are_words),
        cmocka_unit_test(words_may_be_long),
        cmocka_unit_test(says_what_goes_with_a_name),
        cmocka_unit_test(refuses_other_names),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
