/* Byte-pair encoding: small merge lists by hand, random ones against the definition, hostile ones.
 */
#include "gateway/text/bpe.h"
#include "tests/gateway/support/small_vocabulary.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct setup {
    lh_vocabulary *vocabulary;
    lh_bpe *bpe;
} setup;

static lh_status open_bpe(const small_vocabulary *file, bool whole_words, setup *made,
                          lh_error *error) {
    *made = (setup){0};
    small_gguf opened = small_vocabulary_open(file);
    lh_status status =
        lh_vocabulary_create(opened.gguf, LH_SPELLING_BYTE_LEVEL, &made->vocabulary, error);
    if (!status)
        status = lh_bpe_create(opened.gguf, made->vocabulary, whole_words, &made->bpe, error);
    small_gguf_close(&opened); /* nothing of the file may be needed any more */
    return status;
}

static setup open_sound(const small_vocabulary *file, bool whole_words) {
    setup made;
    lh_error error;
    if (open_bpe(file, whole_words, &made, &error))
        fail_msg("%s", error.message);
    return made;
}

static void close_bpe(setup *made) {
    lh_bpe_destroy(made->bpe);
    lh_vocabulary_destroy(made->vocabulary);
}

/* The texts of the word's tokens, with a bar between. */
static void expect(const setup *made, lh_merge_list *work, const char *word, const char *wanted) {
    lh_tokens tokens = {0};
    char got[256] = "";
    lh_error error;
    if (lh_bpe_encode_word(made->bpe, work, word, strlen(word), &tokens, &error))
        fail_msg("%s", error.message);
    for (size_t i = 0; i < tokens.count; i++) {
        lh_text text = lh_vocabulary_bytes(made->vocabulary, tokens.ids[i]);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", i ? "|" : "",
                 (int)text.length, text.bytes);
    }
    assert_string_equal(got, wanted);
    free(tokens.ids);
}

static void expect_merged(const small_vocabulary *file, const char *word, const char *wanted) {
    setup made = open_sound(file, false);
    lh_merge_list work = {0};
    expect(&made, &work, word, wanted);
    lh_merge_list_reset(&work);
    close_bpe(&made);
}

/* The rank decides, not the place in the word. */
static void the_first_of_the_list_is_merged_first(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "ab", 1);
    small_vocabulary_add(&file, "bc", 1);
    small_vocabulary_merge(&file, "b c");
    small_vocabulary_merge(&file, "a b");
    expect_merged(&file, "abc", "a|bc");
    expect_merged(&file, "abab", "ab|ab");
    file.merges[0] = "a b";
    file.merges[1] = "b c";
    expect_merged(&file, "abc", "ab|c");
    expect_merged(&file, "bcab", "bc|ab");
}

static void among_equals_the_leftmost(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "aa", 1);
    small_vocabulary_merge(&file, "a a");
    expect_merged(&file, "a", "a");
    expect_merged(&file, "aa", "aa");
    expect_merged(&file, "aaa", "aa|a");
    expect_merged(&file, "aaaaa", "aa|aa|a");
    expect_merged(&file, "baaab", "b|aa|a|b");
    small_vocabulary_add(&file, "aaaa", 1);
    small_vocabulary_merge(&file, "aa aa");
    expect_merged(&file, "aaaaaaa", "aaaa|aa|a");
}

/* "aab": the merge of "ab" takes the letter away that "aa" was queued with. */
static void a_pair_may_go_before_its_turn(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "ab", 1);
    small_vocabulary_add(&file, "aa", 1);
    small_vocabulary_add(&file, "aab", 1);
    small_vocabulary_merge(&file, "a b");
    small_vocabulary_merge(&file, "a a");
    expect_merged(&file, "aab", "a|ab");
    expect_merged(&file, "aaab", "aa|ab");
    small_vocabulary_merge(&file, "a ab");
    expect_merged(&file, "aab", "aab");
    expect_merged(&file, "aaab", "aa|ab"); /* "a a" comes before "a ab" */
}

/* "ignore_merges" */
static void a_word_that_is_a_token_may_stay_whole(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "abc", 1);
    expect_merged(&file, "abc", "a|b|c");
    setup made = open_sound(&file, true);
    lh_merge_list work = {0};
    expect(&made, &work, "abc", "abc");
    expect(&made, &work, "abcd", "a|b|c|d");
    expect(&made, &work, "hello", "hello");
    expect(&made, &work, "<s>", "<|s|>"); /* a control token is no word */
    lh_merge_list_reset(&work);
    close_bpe(&made);
}

static void bytes_without_a_token_are_dropped(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    file.tokens['q'] = "qqq";
    expect_merged(&file, "qhqeqllqo", "hello");
    expect_merged(&file, "qq", "");
    expect_merged(&file, "", "");
}

/* Scratch from a longer word does no harm to a shorter one, nor a short one's room to a longer one.
 */
static void scratch_serves_word_after_word(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    setup made = open_sound(&file, false);
    lh_merge_list work = {0};
    expect(&made, &work, "he", "he");
    char longer[201], wanted[241] = "";
    for (size_t i = 0; i < 200; i += 5) {
        memcpy(longer + i, "hello", 6);
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%shello", i ? "|" : "");
    }
    expect(&made, &work, longer, wanted);
    expect(&made, &work, "helhell", "he|l|hell");
    expect(&made, &work, "", "");
    lh_merge_list_reset(&work);
    close_bpe(&made);
}

/* A merge list over the letters a, b, c: symbols of up to 8 letters. */
#define LIST_MAX 60

typedef struct merge_list {
    char parts[LIST_MAX][2][16], made[LIST_MAX][16], lines[LIST_MAX][34];
    size_t count;
} merge_list;

static bool has_pair(const merge_list *list, const char *left, const char *right) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->parts[i][0], left) == 0 && strcmp(list->parts[i][1], right) == 0)
            return true;
    return false;
}

static const char *pick_symbol(const merge_list *list, uint64_t *random) {
    static const char *const letters[] = {"a", "b", "c"};
    uint64_t pick = test_random(random) % (3 + list->count);
    return pick < 3 ? letters[pick] : list->made[pick - 3];
}

/* Pairs of any symbols made so far, in any order. */
static void fill_list(merge_list *list, uint64_t *random) {
    list->count = 0;
    while (list->count < LIST_MAX) {
        size_t at = list->count;
        char left[9], right[9];
        snprintf(left, sizeof left, "%s", pick_symbol(list, random));
        snprintf(right, sizeof right, "%s", pick_symbol(list, random));
        if (strlen(left) + strlen(right) > 8 || has_pair(list, left, right)) {
            if (test_random(random) % 50 == 0)
                break;
            continue;
        }
        snprintf(list->parts[at][0], 16, "%s", left);
        snprintf(list->parts[at][1], 16, "%s", right);
        snprintf(list->made[at], 16, "%.8s%.7s", left, right);
        snprintf(list->lines[at], 34, "%s %s", left, right);
        list->count++;
    }
}

static bool is_new(const small_vocabulary *file, const char *text) {
    for (size_t i = 0; i < file->token_count; i++)
        if (strcmp(file->tokens[i], text) == 0)
            return false;
    return true;
}

static small_vocabulary vocabulary_of(const merge_list *list) {
    small_vocabulary file = small_vocabulary_of_bytes();
    for (size_t i = 0; i < list->count; i++) {
        if (is_new(&file, list->made[i]))
            small_vocabulary_add(&file, list->made[i], 1);
        small_vocabulary_merge(&file, list->lines[i]);
    }
    return file;
}

/* By definition: as long as there is a pair in the list, the first of the lowest rank is merged. */
static size_t merge_slowly(const merge_list *list, char (*symbols)[16], size_t count) {
    for (;;) {
        size_t best = list->count, at = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t rank = 0; rank < best; rank++)
                if (strcmp(symbols[i], list->parts[rank][0]) == 0 &&
                    strcmp(symbols[i + 1], list->parts[rank][1]) == 0) {
                    best = rank;
                    at = i;
                }
        if (best == list->count)
            return count;
        char right[16];
        memcpy(right, symbols[at + 1], sizeof right);
        strcat(symbols[at], right);
        memmove(symbols[at + 1], symbols[at + 2], (count - at - 2) * sizeof *symbols);
        count--;
    }
}

static void check_random_word(const setup *made, const merge_list *list,
                              const small_vocabulary *file, lh_merge_list *work, uint64_t *random) {
    char word[41] = "", symbols[41][16];
    size_t length = 1 + (size_t)(test_random(random) % 40);
    for (size_t i = 0; i < length; i++) {
        word[i] = (char)('a' + test_random(random) % 3);
        snprintf(symbols[i], 16, "%c", word[i]);
    }
    size_t left = merge_slowly(list, symbols, length);
    lh_tokens tokens = {0};
    assert_int_equal(lh_bpe_encode_word(made->bpe, work, word, length, &tokens, NULL), LH_OK);
    assert_int_equal(tokens.count, left);
    for (size_t i = 0; i < left; i++)
        assert_string_equal(file->tokens[tokens.ids[i]], symbols[i]);
    free(tokens.ids);
}

static void merges_in_the_defined_order(void **state) {
    (void)state;
    uint64_t random = 9;
    lh_merge_list work = {0};
    for (int round = 0; round < 200; round++) {
        merge_list list;
        fill_list(&list, &random);
        small_vocabulary file = vocabulary_of(&list);
        setup made = open_sound(&file, false);
        for (int word = 0; word < 40; word++)
            check_random_word(&made, &list, &file, &work, &random);
        close_bpe(&made);
    }
    lh_merge_list_reset(&work);
}

static void expect_refusal(const small_vocabulary *file, const char *words) {
    setup made;
    lh_error error;
    lh_status status = open_bpe(file, false, &made, &error);
    if (status != LH_ERR_MALFORMED)
        fail_msg("%s (%s)", lh_status_name(status), words);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(made.bpe);
    close_bpe(&made);
}

static void refuses_hostile_merges(void **state) {
    (void)state;
    static const struct {
        const char *merge, *words;
    } cases[] = {
        {"zz a", "tokenizer.ggml.merges[2] has a left symbol that is not in the vocabulary"},
        {"a zz", "tokenizer.ggml.merges[2] has a right symbol that is not in the vocabulary"},
        {"z z", "tokenizer.ggml.merges[2] has a result that is not in the vocabulary"},
        /* control */
        {"<s> x", "tokenizer.ggml.merges[2] has a left symbol that is not in the vocabulary"},
        {"h e", "tokenizer.ggml.merges[2] is the same as merges[0]"},
        {"hell", "tokenizer.ggml.merges[2] is not two symbols"},
        {" he", "tokenizer.ggml.merges[2] is not two symbols"},
        {"he ", "tokenizer.ggml.merges[2] is not two symbols"},
        {"", "tokenizer.ggml.merges[2] is not two symbols"},
        {"h e l", "tokenizer.ggml.merges[2] holds U+0020"},
        {"\u4E2D a", "tokenizer.ggml.merges[2] holds U+4E2D"},
        {"a \xFF", "tokenizer.ggml.merges[2] is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_vocabulary file = small_vocabulary_rich();
        file.merges[2] = cases[i].merge;
        expect_refusal(&file, cases[i].words);
    }
    small_vocabulary file = small_vocabulary_rich();
    file.without_merges = true;
    expect_refusal(&file, "the file has no tokenizer.ggml.merges");
}

/* The merges' texts and the word's scratch: every allocation may fail, and the next call goes well.
 */
static void survives_no_memory(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_rich();
    small_gguf opened = small_vocabulary_open(&file);
    lh_vocabulary *vocabulary;
    assert_int_equal(lh_vocabulary_create(opened.gguf, LH_SPELLING_BYTE_LEVEL, &vocabulary, NULL),
                     LH_OK);
    size_t n = 1;
    for (;; n++) {
        lh_bpe *bpe = NULL;
        lh_merge_list work = {0};
        lh_tokens tokens = {0};
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = lh_bpe_create(opened.gguf, vocabulary, false, &bpe, &error);
        if (!status)
            status = lh_bpe_encode_word(bpe, &work, "hello", 5, &tokens, &error);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (failed && bpe) {
            assert_int_equal(lh_bpe_encode_word(bpe, &work, "hello", 5, &tokens, NULL), LH_OK);
            assert_int_equal(tokens.ids[tokens.count - 1], 259);
        }
        assert_true(!failed || error.message[0] != '\0');
        free(tokens.ids);
        lh_merge_list_reset(&work);
        lh_bpe_destroy(bpe);
        if (!failed)
            break;
    }
    assert_true(n > 5);
    lh_vocabulary_destroy(vocabulary);
    small_gguf_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_the_list_is_merged_first),
        cmocka_unit_test(among_equals_the_leftmost),
        cmocka_unit_test(a_pair_may_go_before_its_turn),
        cmocka_unit_test(a_word_that_is_a_token_may_stay_whole),
        cmocka_unit_test(bytes_without_a_token_are_dropped),
        cmocka_unit_test(scratch_serves_word_after_word),
        cmocka_unit_test(merges_in_the_defined_order),
        cmocka_unit_test(refuses_hostile_merges),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
