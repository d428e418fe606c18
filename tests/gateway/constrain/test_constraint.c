/* Constraints on a small vocabulary: what they match, which masks they give, what they force.
 * Random grammars are compared with a matcher of the test's own, and masks with what each token
 * does. */
#include "gateway/constrain/constraint.h"
#include "gateway/constrain/gbnf.h"
#include "gateway/constrain/regex.h"
#include "tests/gateway/support/constraint_probe.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HELLO = 259, CONTROL = 261, END = 267 };

/* The rich vocabulary (small_vocabulary.h), tokens that cross borders, and one that ends. */
static probe_vocabulary rich(void) {
    static const char *const longer[] = {
        "\":", "\",", "\"}",  "{\"",          "}}",   "ab",       "aab", "ba", "bb", "b\"",
        "a\"", ",\"", "a\",", "\u00C3\u00A9", "aaaa", "aaaaaaaa", "1,",  "12", "]]", "[["};
    small_vocabulary file = small_vocabulary_rich();
    small_vocabulary_add(&file, "<|im_end|>", 3);
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        small_vocabulary_add(&file, longer[i], 1);
    return probe_vocabulary_of(&file);
}

static probe_vocabulary vocabulary;

static int set_up(void **state) {
    vocabulary = rich();
    return failing_malloc_note(state);
}

static int tear_down(void **state) {
    int result = failing_malloc_check(state);
    probe_vocabulary_reset(&vocabulary);
    return result;
}

static lh_grammar *new_grammar(void) {
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    return grammar;
}

static lh_constraint *of_gbnf(const char *text) {
    lh_grammar *grammar = new_grammar();
    lh_gbnf_add(grammar, text, strlen(text));
    return probe_constraint(grammar, vocabulary.vocabulary);
}

static lh_constraint_state *begin(lh_constraint *constraint) {
    lh_constraint_state *state;
    assert_int_equal(lh_constraint_state_create(constraint, &state, NULL), LH_OK);
    return state;
}

static void expect(lh_constraint *constraint, const char *text, bool wanted) {
    if (probe_matches(constraint, text, strlen(text)) != wanted)
        fail_msg("\"%s\" is %s", text, wanted ? "refused" : "matched");
}

static void expect_refusal(const char *gbnf, lh_status wanted, const char *words) {
    lh_grammar *grammar = new_grammar();
    lh_constraint *constraint = NULL;
    lh_error error;
    lh_gbnf_add(grammar, gbnf, strlen(gbnf));
    lh_status status = lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, &error);
    if (status != wanted)
        fail_msg("%s, not %s (%s)", lh_status_name(status), lh_status_name(wanted), words);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(constraint);
    lh_grammar_destroy(grammar);
}

static const char json[] =
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) )* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

static void matches_json(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf(json);
    expect(constraint, "{}", true);
    expect(constraint, "{\"a\":1,\"b\":[true,null,{}]}", true);
    expect(constraint, "{\"a\": \"x\\u00e9\\n\", \"\xC3\xA9\": -1.5e3}", true);
    expect(constraint, "{\"a\":1,}", false);
    expect(constraint, "[]", false);
    expect(constraint, "{\"a\":\"\xC3\"}", false);
    expect(constraint, "{\"a\":[[[[[[[[[[[[]]]]]]]]]]]]}", true);
    expect(constraint, "{\"a\":[[[[[[[[[[[[]]]]]]]]]]]}", false);
    lh_constraint_release(constraint);
}

static void masks_are_what_tokens_do(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"hello\": [1,12, {\"aab\":\"\xC3\xA9\"}, [[]], true]}",
                                        "{ \"a\":\"b\",\"x\":{}}"};
    lh_constraint *constraint = of_gbnf(json);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lh_constraint_state *at = begin(constraint);
        for (const char *next = texts[i]; *next; next++) {
            probe_check_mask(at, vocabulary.tokenizer);
            assert_true(probe_take_text(at, next, 1));
        }
        probe_check_mask(at, vocabulary.tokenizer);
        assert_true(lh_constraint_state_may_end(at));
        assert_true(probe_allows(at, END));
        lh_constraint_state_destroy(at);
    }
    lh_constraint_release(constraint);
}

static void ends_where_the_grammar_does(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= \"ab\" \"c\"?");
    lh_constraint_state *at = begin(constraint);
    assert_false(probe_allows(at, END));
    assert_int_equal(lh_constraint_state_take(at, END, NULL), LH_ERR_INVALID);
    assert_true(probe_take_text(at, "ab", 2));
    assert_true(lh_constraint_state_may_end(at));
    assert_false(lh_constraint_state_is_finished(at));
    assert_true(probe_allows(at, END));
    assert_true(probe_take_text(at, "c", 1));
    assert_true(lh_constraint_state_is_finished(at));
    const lh_mask *mask;
    assert_int_equal(lh_constraint_state_mask(at, &mask, NULL), LH_OK);
    assert_int_equal(mask->allowed, 1);
    assert_int_equal(lh_constraint_state_take(at, END, NULL), LH_OK);
    assert_true(lh_constraint_state_is_finished(at));
    assert_int_equal(lh_constraint_state_take(at, END, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_constraint_state_mask(at, &mask, NULL), LH_ERR_INVALID);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

static void control_tokens_are_named(void **state) {
    (void)state;
    lh_grammar *grammar = new_grammar();
    lh_grammar_node nodes[] = {lh_grammar_text(grammar, "he"), lh_grammar_token(grammar, CONTROL),
                               lh_grammar_text(grammar, "llo")};
    lh_grammar_set_root(grammar, lh_grammar_sequence(grammar, nodes, 3));
    lh_constraint *constraint = probe_constraint(grammar, vocabulary.vocabulary);
    lh_constraint_state *at = begin(constraint);
    assert_false(probe_allows(at, CONTROL));
    assert_false(probe_allows(at, HELLO));
    assert_int_equal(lh_constraint_state_take(at, CONTROL, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_constraint_state_take(at, 256, NULL), LH_OK); /* "he" */
    probe_check_mask(at, vocabulary.tokenizer);
    assert_true(probe_allows(at, CONTROL));
    uint32_t forced[8], count;
    assert_int_equal(lh_constraint_state_forced(at, forced, 8, &count, NULL), LH_OK);
    assert_int_equal(count, 3);
    assert_int_equal(forced[0], CONTROL);
    assert_int_equal(forced[1], 257); /* "ll" */
    assert_int_equal(forced[2], 'o');
    assert_int_equal(lh_constraint_state_take(at, CONTROL, NULL), LH_OK);
    assert_true(probe_take_text(at, "llo", 3));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

static void forces_only_what_is_certain(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= \"hello hell\" [a-z] | \"x\"");
    lh_constraint_state *at = begin(constraint);
    uint32_t forced[8], count = 9;
    assert_int_equal(lh_constraint_state_forced(at, forced, 8, &count, NULL), LH_OK);
    assert_int_equal(count, 0); /* h or x */
    assert_true(probe_take_text(at, "h", 1));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);

    constraint = of_gbnf("root ::= \"hello hell\" [a-z]");
    at = begin(constraint);
    assert_int_equal(lh_constraint_state_forced(at, forced, 8, &count, NULL), LH_OK);
    assert_int_equal(count, 1); /* " hell" may become " hello" */
    assert_int_equal(forced[0], HELLO);
    assert_int_equal(lh_constraint_state_take(at, HELLO, NULL), LH_OK);
    assert_int_equal(lh_constraint_state_forced(at, forced, 8, &count, NULL), LH_OK);
    assert_int_equal(count, 0);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);

    constraint = of_gbnf("root ::= \"hello hell\"");
    at = begin(constraint);
    assert_int_equal(lh_constraint_state_forced(at, forced, 8, &count, NULL), LH_OK);
    assert_int_equal(count, 3); /* nothing follows */
    assert_int_equal(forced[1], ' ');
    assert_int_equal(forced[2], 258);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

static void counts_are_not_copied(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= [a-z]{3,10000000} \"!\"");
    lh_constraint_state *at = begin(constraint);
    assert_true(probe_take_text(at, "ab", 2));
    assert_false(probe_allows(at, '!'));
    probe_check_mask(at, vocabulary.tokenizer);
    assert_true(probe_take_text(at, "c", 1));
    assert_true(probe_allows(at, '!'));
    const lh_mask *mask, *later;
    assert_int_equal(lh_constraint_state_mask(at, &mask, NULL), LH_OK);
    mask = lh_mask_acquire(mask);
    for (size_t i = 0; i < 5000; i++)
        assert_true(probe_take_text(at, "d", 1));
    assert_int_equal(lh_constraint_state_mask(at, &later, NULL), LH_OK);
    assert_ptr_equal(mask, later); /* the end is far */
    lh_mask_release(mask);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);

    constraint = of_gbnf("root ::= ([a-b]{2,100} \",\"){70,90}");
    at = begin(constraint);
    for (size_t i = 0; i < 90; i++) {
        assert_int_equal(lh_constraint_state_may_end(at), i >= 70);
        assert_true(probe_take_text(at, "aba,", 4));
    }
    assert_true(lh_constraint_state_is_finished(at));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

static void what_may_be_empty_is_repeated(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= (x y)* (x{70,200} \"c\")*\n"
                                        "x ::= \"a\"?\ny ::= \"b\"*\n");
    expect(constraint, "", true);
    expect(constraint, "abbba", true);
    expect(constraint, "c", true);
    expect(constraint, "aabcaaac", true);
    expect(constraint, "cb", false);
    lh_constraint_release(constraint);
}

/* S -> a S b | a S c | empty has 2^n ways to read n times "a". */
static void ambiguity_does_not_explode(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"");
    lh_constraint_state *at = begin(constraint);
    for (size_t i = 0; i < 2000; i++)
        assert_true(probe_take_text(at, "a", 1));
    probe_check_mask(at, vocabulary.tokenizer);
    for (size_t i = 0; i < 2000; i++)
        assert_true(probe_take_text(at, i % 3 ? "b" : "c", 1));
    assert_true(lh_constraint_state_is_finished(at));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

/* A choice among so many rules that may each be inside another. */
static lh_constraint *of_many_rules(size_t rules, const char *form) {
    size_t capacity = rules * 80 + 20, at = 0;
    char *text = malloc(capacity);
    assert_non_null(text);
    at += (size_t)snprintf(text, capacity, "root ::= (x");
    for (size_t i = 0; i < rules; i++)
        at += (size_t)snprintf(text + at, capacity - at, " | r%zu", i);
    at += (size_t)snprintf(text + at, capacity - at, ")*\nx ::= \"x\"\n");
    for (size_t i = 0; i < rules; i++)
        at += (size_t)snprintf(text + at, capacity - at, form, i, i * 7 % rules);
    assert_true(at < capacity);
    lh_constraint *constraint = of_gbnf(text);
    free(text);
    return constraint;
}

static void a_mask_has_a_bound_of_work(void **state) {
    (void)state;
    lh_constraint *constraint = of_many_rules(8000, "r%zu ::= [a-z] r%zu? [a-z]\n");
    lh_constraint_state *at = begin(constraint);
    const lh_mask *mask;
    lh_error error;
    assert_int_equal(lh_constraint_state_mask(at, &mask, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "in too many ways"));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
    constraint = of_many_rules(300, "r%zu ::= [a-z] r%zu? [a-z]\n");
    at = begin(constraint);
    probe_check_mask(at, vocabulary.tokenizer);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
}

/* What is forced behind the bound is found once the sequence is there. */
static void a_forced_text_has_a_bound_of_work(void **state) {
    (void)state;
    enum { WAYS = 100, LENGTH = 3000 };
    char text[64 * WAYS] = "root ::=";
    size_t at = strlen(text);
    for (size_t i = 0; i < WAYS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s \"x \"{%d,%zu} \"%zu\"",
                               i ? " |" : "", LENGTH, LENGTH + i, i);
    lh_constraint *constraint = of_gbnf(text);
    lh_constraint_state *place = begin(constraint);
    static uint32_t tokens[2 * LENGTH];
    uint32_t count, first = 0, all = 0, calls = 0;
    do {
        assert_int_equal(lh_constraint_state_forced(place, tokens, 2 * LENGTH, &count, NULL),
                         LH_OK);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(lh_constraint_state_take(place, tokens[i], NULL), LH_OK);
        first = calls++ ? first : count;
        all += count;
    } while (count > 0);
    assert_true(calls > 2 && first < all);
    assert_in_range(all, 2 * LENGTH - 10, 2 * LENGTH);
    lh_constraint_state_destroy(place);
    lh_constraint_release(constraint);
}

static void states_are_copied(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf(json);
    lh_constraint_state *at = begin(constraint), *copy;
    assert_true(probe_take_text(at, "{\"a\":[[1,", 9));
    assert_int_equal(lh_constraint_state_copy(at, &copy, NULL), LH_OK);
    assert_true(probe_take_text(at, "2]]}", 4));
    assert_true(lh_constraint_state_may_end(at));
    assert_false(lh_constraint_state_may_end(copy));
    assert_true(probe_take_text(copy, "{}],[]]}", 8));
    assert_true(lh_constraint_state_may_end(copy));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint); /* the copy holds it */
    assert_true(probe_allows(copy, END));
    lh_constraint_state_destroy(copy);
}

static void grammars_are_refused(void **state) {
    (void)state;
    expect_refusal("root ::= root \"a\" | \"b\"", LH_ERR_UNSUPPORTED, "\"root\"");
    expect_refusal("root ::= x\nx ::= y? z\nz ::= x \"a\" | \"c\"\ny ::= \"b\"", LH_ERR_UNSUPPORTED,
                   "left recursion");
    expect_refusal("root ::= \"a\" nowhere", LH_ERR_INVALID, "\"nowhere\"");
    expect_refusal("root ::= \"a\" root", LH_ERR_INVALID, "no text");
    expect_refusal("start ::= \"a\"", LH_ERR_INVALID, "\"root\"");
    lh_grammar *grammar = new_grammar();
    lh_constraint *constraint;
    lh_error error;
    assert_int_equal(lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, &error),
                     LH_ERR_INVALID);
    lh_grammar_set_root(grammar, lh_grammar_token(grammar, 100000));
    assert_int_equal(lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, &error),
                     LH_ERR_INVALID);
    lh_grammar_destroy(grammar);
}

/* Each node twice the one below: 2^60 states, if they were made. */
static void shared_nodes_do_not_explode(void **state) {
    (void)state;
    lh_grammar *grammar = new_grammar();
    lh_grammar_node node = lh_grammar_text(grammar, "a");
    for (size_t i = 0; i < 60; i++)
        node = lh_grammar_sequence(grammar, (lh_grammar_node[]){node, node}, 2);
    lh_grammar_set_root(grammar, node);
    lh_constraint *constraint;
    lh_error error;
    assert_int_equal(lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, &error),
                     LH_ERR_LIMIT);
    lh_grammar_destroy(grammar);
}

/* ---- Random grammars, and a matcher that tries everything ---- */

#define TREES_MAX 40
#define RULES     3
#define TEXT_MAX  12

typedef enum tree_kind { T_TEXT, T_SET, T_SEQUENCE, T_CHOICE, T_REPEAT, T_RULE } tree_kind;

typedef struct tree {
    tree_kind kind;
    const char *text;
    size_t a, b; /* parts, or a rule */
    uint32_t min, max;
} tree;

typedef struct random_grammar {
    tree trees[TREES_MAX];
    size_t count;
    size_t rules[RULES]; /* each calls only later ones at its front, and itself behind a letter */
} random_grammar;

static uint32_t seed;

static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static size_t new_tree(random_grammar *own, tree made) {
    assert_true(own->count < TREES_MAX);
    own->trees[own->count] = made;
    return own->count++;
}

static size_t grow_tree(random_grammar *own, size_t rule, int depth) {
    static const char *const texts[] = {"a", "b", "ab", "", "ba", "\"", "aa"};
    static const struct {
        uint32_t min, max;
    } counts[] = {{0, 1},  {0, LH_GRAMMAR_UNBOUNDED}, {1, LH_GRAMMAR_UNBOUNDED}, {2, 3}, {0, 70},
                  {3, 200}};
    uint32_t kind = depth <= 0 || own->count > TREES_MAX - 8 ? draw(2) : draw(7);
    tree made = {0};
    if (kind == 0 || kind > 5) {
        made = (tree){.kind = T_TEXT, .text = texts[draw(7)]};
    } else if (kind == 1) {
        made = (tree){.kind = T_SET};
    } else if (kind == 2 || kind == 3) {
        made.kind = kind == 2 ? T_SEQUENCE : T_CHOICE;
        made.a = grow_tree(own, rule, depth - 1);
        made.b = grow_tree(own, rule, depth - 1);
    } else if (kind == 4) {
        uint32_t which = draw(6);
        made = (tree){.kind = T_REPEAT, .min = counts[which].min, .max = counts[which].max};
        made.a = grow_tree(own, rule, depth - 1);
    } else {
        /* "a" rule, or a later rule */
        size_t call =
            new_tree(own, (tree){.kind = T_RULE, .a = rule + draw((uint32_t)(RULES - rule))});
        if (own->trees[call].a > rule)
            return call;
        size_t letter = new_tree(own, (tree){.kind = T_TEXT, .text = "a"});
        made = (tree){.kind = T_SEQUENCE, .a = letter, .b = call};
    }
    return new_tree(own, made);
}

static lh_grammar_node build_tree(const random_grammar *own, size_t index, lh_grammar *grammar) {
    static const lh_character_range set[] = {{'a', 'a'}, {0xE9, 0xE9}};
    const tree *at = &own->trees[index];
    lh_grammar_node parts[2];
    switch (at->kind) {
    case T_TEXT:
        return lh_grammar_text(grammar, at->text);
    case T_SET:
        return lh_grammar_class(grammar, set, 2, false);
    case T_RULE:
        return lh_grammar_call(grammar, (lh_grammar_rule)at->a);
    case T_REPEAT:
        parts[0] = build_tree(own, at->a, grammar);
        return lh_grammar_repeat(grammar, parts[0], at->min, at->max);
    default:
        parts[0] = build_tree(own, at->a, grammar);
        parts[1] = build_tree(own, at->b, grammar);
        return at->kind == T_SEQUENCE ? lh_grammar_sequence(grammar, parts, 2)
                                      : lh_grammar_choice(grammar, parts, 2);
    }
}

/* A text, and what is known of it: a bit for each place where a tree ends that begins at one. */
typedef struct reading {
    const random_grammar *grammar;
    const char *text;
    size_t length;
    bool is_known[TREES_MAX][TEXT_MAX + 1];
    uint32_t ends[TREES_MAX][TEXT_MAX + 1];
} reading;

static uint32_t ends_of(reading *own, size_t index, uint32_t from);

static uint32_t ends_from(reading *own, const tree *at, size_t place) {
    uint32_t from = 1u << place, to = 0;
    const char *text = own->text + place;
    switch (at->kind) {
    case T_TEXT:
        return strncmp(text, at->text, strlen(at->text)) == 0 ? from << strlen(at->text) : 0;
    case T_SET:
        return *text == 'a' ? from << 1 : strncmp(text, "\xC3\xA9", 2) == 0 ? from << 2 : 0;
    case T_RULE:
        return ends_of(own, own->grammar->rules[at->a], from);
    case T_SEQUENCE:
        return ends_of(own, at->b, ends_of(own, at->a, from));
    case T_CHOICE:
        return ends_of(own, at->a, from) | ends_of(own, at->b, from);
    case T_REPEAT:
        to = at->min == 0 ? from : 0;
        for (uint32_t i = 1; i <= at->max && from && i < at->min + 2 * TEXT_MAX; i++) {
            from = ends_of(own, at->a, from);
            to |= i >= at->min ? from : 0;
        }
        return to;
    }
    return 0;
}

static uint32_t ends_of(reading *own, size_t index, uint32_t from) {
    uint32_t to = 0;
    for (size_t place = 0; place <= own->length; place++) {
        if (!(from >> place & 1))
            continue;
        if (!own->is_known[index][place])
            own->ends[index][place] = ends_from(own, &own->grammar->trees[index], place);
        own->is_known[index][place] = true;
        to |= own->ends[index][place];
    }
    return to;
}

static bool matches(const random_grammar *grammar, const char *text) {
    reading own = {.grammar = grammar, .text = text, .length = strlen(text)};
    return ends_of(&own, grammar->rules[0], 1) >> own.length & 1;
}

static lh_constraint *build_random(random_grammar *own) {
    lh_grammar *grammar = new_grammar();
    lh_constraint *constraint = NULL;
    own->count = 0;
    for (size_t i = 0; i < RULES; i++)
        lh_grammar_declare(grammar, "r", 1);
    for (size_t i = 0; i < RULES; i++) {
        own->rules[i] = grow_tree(own, i, i == 0 ? 4 : 3);
        lh_grammar_define(grammar, (lh_grammar_rule)i, build_tree(own, own->rules[i], grammar));
    }
    lh_grammar_set_root(grammar, lh_grammar_call(grammar, 0));
    lh_error error;
    lh_status status = lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, &error);
    if (status && status != LH_ERR_INVALID && status != LH_ERR_UNSUPPORTED)
        fail_msg("%s", error.message);
    lh_grammar_destroy(grammar);
    return constraint;
}

/* A text, and whether the first bytes that are taken go on as the matcher says. */
static void compare_texts(const random_grammar *own, lh_constraint *constraint) {
    static const char *const pieces[] = {"a", "b", "ab", "\"", "\xC3\xA9", "aa", "a"};
    for (size_t i = 0; i < 30; i++) {
        char text[TEXT_MAX + 4] = "";
        for (uint32_t count = draw(8); count > 0; count--)
            strcat(text, pieces[draw(7)]);
        text[TEXT_MAX] = '\0';
        size_t length = strlen(text);
        bool wanted = matches(own, text);
        if (probe_matches(constraint, text, length) != wanted)
            fail_msg("seed %u: \"%s\" is %s", seed, text, wanted ? "refused" : "matched");
    }
}

/* Along a random way through the masks. */
static void compare_masks(lh_constraint *constraint) {
    lh_constraint_state *at = begin(constraint);
    for (size_t i = 0; i < 6; i++) {
        const lh_mask *mask;
        probe_check_mask(at, vocabulary.tokenizer);
        if (lh_constraint_state_mask(at, &mask, NULL))
            break;
        uint32_t token = draw(mask->vocabulary);
        while (!(mask->words[token / 64] >> token % 64 & 1))
            token = (token + 1) % mask->vocabulary;
        assert_int_equal(lh_constraint_state_take(at, token, NULL), LH_OK);
        if (token == END)
            break;
    }
    lh_constraint_state_destroy(at);
}

static void random_grammars_agree(void **state) {
    (void)state;
    size_t made = 0;
    for (uint32_t i = 0; i < 600; i++) {
        random_grammar own;
        seed = i * 7919 + 1;
        lh_constraint *constraint = build_random(&own);
        if (!constraint)
            continue;
        made++;
        compare_texts(&own, constraint);
        if (i % 8 == 0)
            compare_masks(constraint);
        lh_constraint_release(constraint);
    }
    assert_true(made > 300);
}

/* ---- Memory ---- */

static lh_status run_all(lh_error *error) {
    lh_grammar *grammar = NULL;
    lh_constraint *constraint = NULL;
    lh_constraint_state *at = NULL, *copy = NULL;
    const lh_mask *mask;
    uint32_t forced[8], count;
    static const char gbnf[] = "root ::= \"hello\" x{70} \"a\"\nx ::= [a-z]{2,90} | \"\\\"\"";
    static const char expression[] = "(?:x[a-z\\d]{1,3}|\\u00e9+)\\.$";
    lh_status status = lh_grammar_create(&grammar, error);
    if (!status) {
        lh_gbnf_add(grammar, gbnf, sizeof gbnf - 1);
        lh_grammar_node nodes[] = {lh_grammar_call(grammar, 0),
                                   lh_regex_add(grammar, expression, sizeof expression - 1,
                                                (lh_regex_options){.is_json_text = true})};
        if (!(status = lh_grammar_check(grammar, error)))
            lh_grammar_set_root(grammar, lh_grammar_choice(grammar, nodes, 2));
    }
    if (!status)
        status = lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, error);
    if (!status)
        status = lh_constraint_state_create(constraint, &at, error);
    if (!status)
        status = lh_constraint_state_take(at, 'h', error);
    if (!status)
        status = lh_constraint_state_forced(at, forced, 8, &count, error);
    if (!status)
        status = lh_constraint_state_mask(at, &mask, error);
    if (!status)
        status = lh_constraint_state_copy(at, &copy, error);
    lh_constraint_state_destroy(copy);
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
    lh_grammar_destroy(grammar);
    return status;
}

static void failed_allocations_are_errors(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(run_all(&error), LH_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_status status = run_all(&error);
        if (!failing_malloc_disarm())
            break;
        /* What only keeps an answer for later may do without memory. */
        if (status != LH_ERR_NO_MEMORY && status != LH_OK)
            fail_msg("allocation %zu: %s", n, lh_status_name(status));
    }
}

/* As sequences may, when the API that read their grammars has closed. */
static void a_constraint_outlives_its_callers(void **state) {
    (void)state;
    probe_vocabulary own = rich();
    lh_grammar *grammar = new_grammar();
    lh_gbnf_add(grammar, "root ::= [a-z]+", 15);
    lh_constraint *constraint = probe_constraint(grammar, own.vocabulary);
    lh_constraint_state *at = begin(constraint);
    lh_constraint_release(constraint);
    lh_constraint_vocabulary_release(own.vocabulary);
    own.vocabulary = NULL;
    assert_true(probe_allows(at, HELLO));
    assert_int_equal(lh_constraint_state_take(at, HELLO, NULL), LH_OK);
    lh_constraint_state_destroy(at);
    probe_vocabulary_reset(&own);
}

/* What is known already costs next to nothing, what is new costs something. */
static void work_is_counted(void **state) {
    (void)state;
    lh_constraint *constraint = of_gbnf("root ::= [a-z]+");
    uint64_t work[2];
    for (size_t i = 0; i < 2; i++) {
        lh_constraint_state *at = begin(constraint);
        assert_int_equal(lh_constraint_state_work(at), 0);
        assert_true(probe_allows(at, 'a'));
        work[i] = lh_constraint_state_work(at);
        assert_int_equal(lh_constraint_state_take(at, 'a', NULL), LH_OK);
        assert_true(lh_constraint_state_work(at) > work[i]);
        lh_constraint_state_destroy(at);
    }
    assert_true(work[0] > 10 * work[1] && work[1] > 0);
    lh_constraint_release(constraint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_json),
        cmocka_unit_test(a_constraint_outlives_its_callers),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(masks_are_what_tokens_do),
        cmocka_unit_test(ends_where_the_grammar_does),
        cmocka_unit_test(control_tokens_are_named),
        cmocka_unit_test(forces_only_what_is_certain),
        cmocka_unit_test(counts_are_not_copied),
        cmocka_unit_test(what_may_be_empty_is_repeated),
        cmocka_unit_test(ambiguity_does_not_explode),
        cmocka_unit_test(a_mask_has_a_bound_of_work),
        cmocka_unit_test(a_forced_text_has_a_bound_of_work),
        cmocka_unit_test(states_are_copied),
        cmocka_unit_test(grammars_are_refused),
        cmocka_unit_test(shared_nodes_do_not_explode),
        cmocka_unit_test(random_grammars_agree),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
