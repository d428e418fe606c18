/* Constraints from what clients give, each kind once; the same twice is one. */
#include "gateway/constrain/constraint_cache.h"
#include "tests/gateway/support/constraint_probe.h"
#include "tests/support/processor_time.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct bench {
    probe_vocabulary probe;
    lh_constraint_cache *cache;
} bench;

static void open_bench(bench *of) {
    const small_vocabulary file = small_vocabulary_rich();
    of->probe = probe_vocabulary_of(&file);
    assert_int_equal(lh_constraint_cache_create(of->probe.vocabulary, &of->cache, NULL), LH_OK);
}

static void close_bench(bench *of) {
    lh_constraint_cache_destroy(of->cache);
    probe_vocabulary_reset(&of->probe);
}

/* cmocka's own jumps to the end of its test, which a thread cannot. */
static void require(bool holds) {
    if (!holds)
        abort();
}

/* value: JSON, with ' for "; NULL: none. */
static json_t *parse(const char *value) {
    char bytes[512];
    if (!value)
        return NULL;
    require(strlen(value) < sizeof bytes);
    for (size_t i = 0; i <= strlen(value); i++)
        bytes[i] = (char)(value[i] == '\'' ? '"' : value[i]);
    json_t *parsed = json_loads(bytes, JSON_DECODE_ANY, NULL);
    require(parsed != NULL);
    return parsed;
}

static lh_status find(bench *of, lh_constraint_kind kind, const char *value, const char *lead_text,
                      lh_constraint **constraint, lh_error *error) {
    json_t *parsed = parse(value), *lead = parse(lead_text);
    const lh_constraint_source source = {.kind = kind, .value = parsed, .lead = lead};
    lh_status status = lh_constraint_cache_find(of->cache, &source, constraint, error);
    json_decref(lead);
    json_decref(parsed);
    return status;
}

/* Of two functions, with these members besides; and one that begins bare. */
#define CALL(name, value) "{'begin':['" name "','('],'schema':{'const':" value "},'end':[')']}"
#define CALLS(more)                                                                                \
    "{" more "'before':['<c>'],'behind':['</c>'],'calls':[" CALL("f", "1") "," CALL("g", "2") "]}"
#define BARE "{'text':'','before':['{'],'behind':[],'calls':[" CALL("f", "1") "]}"

#define END   "{'end':'</t>'}"
#define MAYBE "{'begin':['<t>'],'end':'</t>'}"
#define HEADS "{'begin':['<t>'],'end':'</t>','behind':['<s>'],'answer':['<f>']}"

#define TAGS                                                                                       \
    "{'triggers':['<f'],'structures':[{'begin':'<f=a>','schema':{'type':'null'},'end':'</f>'},"    \
    "{'begin':'<f=b>','schema':{'const':1},'end':'.'}]}"

static void each_kind_is_compiled(void **state) {
    (void)state;
    static const struct {
        lh_constraint_kind kind;
        const char *value, *lead, *good, *bad;
    } cases[] = {
        {LH_CONSTRAINT_OBJECT, NULL, NULL, "{\"a\": [1]}", "[]"},
        {LH_CONSTRAINT_SCHEMA, "{'type':'boolean'}", NULL, "true", "{}"},
        {LH_CONSTRAINT_REGEX, "'a+b'", NULL, "aab", "xab"},
        {LH_CONSTRAINT_CHOICE, "['yes','no']", NULL, "no", "maybe"},
        {LH_CONSTRAINT_GBNF, "'root ::= [0-9] root?'", NULL, "123", "12a"},
        {LH_CONSTRAINT_TAGS, TAGS, NULL, "", "<f"},
        {LH_CONSTRAINT_TAGS, TAGS, NULL, "ab < f <f=a>null</f> c <f=b>1.", "<f=c>null</f>"},
        {LH_CONSTRAINT_TAGS, TAGS, NULL, "plain <g", "a <f=a>1</f>"},
        {LH_CONSTRAINT_CALLS, CALLS("'between':['|'],"), NULL, "<c>f(1)|g(2)</c>", "<c></c>"},
        {LH_CONSTRAINT_CALLS, CALLS(""), NULL, "<c>g(2)</c>", "<c>f(1)|g(2)</c>"},
        {LH_CONSTRAINT_CALLS, CALLS("'text':'<c>',"), NULL, "a <b", "a <c>x"},
        {LH_CONSTRAINT_CALLS, CALLS("'text':'<c>',"), NULL, "so: <c>f(1)</c>", "<c>f(2)</c>"},
        {LH_CONSTRAINT_CALLS, CALLS("'text':null,"), NULL, "a<c>", "\xff"},
        {LH_CONSTRAINT_CALLS, BARE, NULL, "{f(1)", "{g"},
        {LH_CONSTRAINT_CALLS, BARE, NULL, "f{", "{f(2)"},
        {LH_CONSTRAINT_CALLS, BARE, NULL, "", "{"},
        {LH_CONSTRAINT_CALLS, CALLS("'or':{'kind':3,'value':['yes']},"), NULL, "yes", "no"},
        {LH_CONSTRAINT_CALLS, CALLS("'or':{'kind':3,'value':['yes']},"), NULL, "<c>f(1)</c>",
         "<c>"},
        {LH_CONSTRAINT_CHOICE, "['yes']", END, "I think < so</t>\n\nyes", "yes"},
        {LH_CONSTRAINT_GBNF, "'root ::= \\'x\\''", END, "</t>x", "</t></t>x"},
        {LH_CONSTRAINT_CHOICE, "['yes']", END, "</t>yes", "a</t>\n\n\nyes"},
        {LH_CONSTRAINT_CHOICE, "['yes']", MAYBE, "yes", "so</t>yes"},
        {LH_CONSTRAINT_CHOICE, "['yes']", MAYBE, "<t>so</t>\nyes", "<t>so</t>no"},
        {LH_CONSTRAINT_CHOICE, "['yes']", HEADS, "<t>so</t><s><f>yes", "<t>so</t><f>yes"},
        {LH_CONSTRAINT_CHOICE, "['yes']", HEADS, "<f>yes", "yes"},
        {LH_CONSTRAINT_CALLS, CALLS("'or':{'kind':3,'value':['yes'],'begin':['<f>']},"), NULL,
         "<f>yes", "yes"},
    };
    bench of;
    open_bench(&of);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_constraint *constraint;
        lh_error error;
        if (find(&of, cases[i].kind, cases[i].value, cases[i].lead, &constraint, &error))
            fail_msg("case %zu: %s", i, error.message);
        if (!probe_matches(constraint, cases[i].good, strlen(cases[i].good)))
            fail_msg("case %zu does not accept %s", i, cases[i].good);
        if (probe_matches(constraint, cases[i].bad, strlen(cases[i].bad)))
            fail_msg("case %zu accepts %s", i, cases[i].bad);
        lh_constraint_release(constraint);
    }
    close_bench(&of);
}

static void a_thought_may_end_with_a_token(void **state) {
    (void)state;
    bench of;
    lh_constraint *constraint;
    lh_constraint_state *at;
    lh_error error;
    open_bench(&of);
    json_t *list = parse("['yes']"), *lead = parse("{'end':'<s>','token':261}");
    const lh_constraint_source source = {.kind = LH_CONSTRAINT_CHOICE, .value = list, .lead = lead};
    assert_int_equal(lh_constraint_cache_find(of.cache, &source, &constraint, &error), LH_OK);
    assert_int_equal(lh_constraint_state_create(constraint, &at, &error), LH_OK);
    assert_true(probe_take_text(at, "so", 2));
    assert_int_equal(lh_constraint_state_take(at, 261, &error), LH_OK);
    assert_false(probe_take_text(at, "so", 2));
    assert_true(probe_take_text(at, "yes", 3));
    assert_true(lh_constraint_state_is_finished(at));
    lh_constraint_state_destroy(at);
    lh_constraint_release(constraint);
    json_decref(lead);
    json_decref(list);
    close_bench(&of);
}

static void what_is_wrong_is_told(void **state) {
    (void)state;
    static const struct {
        lh_constraint_kind kind;
        const char *value;
        lh_status status;
        const char *message;
    } cases[] = {
        {LH_CONSTRAINT_SCHEMA, "{'if':{}}", LH_ERR_UNSUPPORTED, "#: 'if' is not supported"},
        {LH_CONSTRAINT_REGEX, "'('", LH_ERR_INVALID, "character"},
        {LH_CONSTRAINT_REGEX, "1", LH_ERR_INVALID, "must be a string"},
        {LH_CONSTRAINT_GBNF, "'root = 1'", LH_ERR_INVALID, ""},
        {LH_CONSTRAINT_GBNF, "[]", LH_ERR_INVALID, "must be a string"},
        {LH_CONSTRAINT_CHOICE, "[]", LH_ERR_INVALID, "1 to 10000 strings"},
        {LH_CONSTRAINT_CHOICE, "['a',1]", LH_ERR_INVALID, "strings"},
        {LH_CONSTRAINT_TAGS, "{}", LH_ERR_INVALID, "'structures'"},
        {LH_CONSTRAINT_TAGS, "{'structures':[{}],'triggers':['']}", LH_ERR_INVALID, "'triggers'"},
        {LH_CONSTRAINT_TAGS, "{'structures':[{}],'triggers':['a']}", LH_ERR_INVALID, "'begin'"},
        {LH_CONSTRAINT_CALLS,
         "{'calls':[{'name':'f','schema':{}},{'name':'g','schema':{'properties':{'a':{'if':1}}}}]"
         "}",
         LH_ERR_UNSUPPORTED, "function 'g': #/properties/a: 'if' is not supported"},
        {LH_CONSTRAINT_TAGS, "{'structures':[{'begin':'b','schema':{},'end':''}],'triggers':['a']}",
         LH_ERR_INVALID, "must begin with one of"},
    };
    bench of;
    open_bench(&of);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_constraint *constraint;
        lh_error error = {0};
        assert_int_equal(find(&of, cases[i].kind, cases[i].value, NULL, &constraint, &error),
                         cases[i].status);
        assert_null(constraint);
        if (!strstr(error.message, cases[i].message))
            fail_msg("case %zu: %s", i, error.message);
    }
    close_bench(&of);
}

/* The grammar is small enough; only where a text begins there are too many ways. */
static void what_cannot_begin_is_told_at_once(void **state) {
    (void)state;
    enum { WAYS = (1 << 16) + 10 };
    static char pattern[2 * WAYS + 2];
    bench of;
    lh_constraint *constraint;
    lh_error error = {0};
    open_bench(&of);
    for (size_t i = 0; i < WAYS; i++)
        memcpy(pattern + 2 * i, "a?", 2);
    json_t *value = json_stringn(pattern, 2 * WAYS);
    const lh_constraint_source source = {.kind = LH_CONSTRAINT_REGEX, .value = value};
    assert_int_equal(lh_constraint_cache_find(of.cache, &source, &constraint, &error),
                     LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "can be read in more than"));
    assert_null(constraint);
    json_decref(value);
    close_bench(&of);
}

/* ---- Sources that would take long. ---- */

/* Takes the value. Whatever becomes of it, a second is enough. */
static void expect_soon(lh_constraint_kind kind, json_t *value, const char *said, lh_status status,
                        const char *message) {
    bench of;
    lh_constraint *constraint = NULL;
    lh_error error = {0};
    const lh_constraint_source source = {.kind = kind, .value = value};
    require(value != NULL);
    open_bench(&of);
    double begun_s = processor_time_s();
    lh_status found = lh_constraint_cache_find(of.cache, &source, &constraint, &error);
    double took_s = processor_time_s() - begun_s;
    printf("%s: %.3f s; %s\n", said, took_s, found ? error.message : "compiled");
    assert_int_equal(found, status);
    assert_non_null(strstr(error.message, message));
    assert_true(took_s < 1.0 * PROCESSOR_TIME_SCALE);
    lh_constraint_release(constraint);
    json_decref(value);
    close_bench(&of);
}

/* An object with a member that no text can be, which only an automaton of thousands of states
 * tells: nothing is left of it that the bounds of a grammar could stop. */
static json_t *futile_schema(unsigned number) {
    char pattern[40];
    snprintf(pattern, sizeof pattern, "^[ab]{%u,}c$", number + 5);
    return json_pack("{s:s,s:{s:{s:s,s:[{s:s},{s:s}],s:i}}}", "type", "object", "properties", "a",
                     "type", "string", "allOf", "pattern", "^(a|b)*a(a|b){8}$", "pattern", pattern,
                     "maxLength", 40);
}

static json_t *many_functions(void) {
    json_t *calls = json_array();
    for (unsigned i = 0; i < 128; i++)
        json_array_append_new(calls, json_pack("{s:s,s:[s],s:o,s:[]}", "name", "f", "begin", "<f>",
                                               "schema", futile_schema(i), "end"));
    return json_pack("{s:o,s:[],s:[]}", "calls", calls, "before", "behind");
}

static json_t *many_structures(void) {
    json_t *tags = json_array();
    for (unsigned i = 0; i < LH_CONSTRAINT_TAGS_MAX; i++)
        json_array_append_new(tags, json_pack("{s:s,s:o,s:s}", "begin", "<f>", "schema",
                                              futile_schema(i), "end", "</f>"));
    return json_pack("{s:o,s:[s]}", "structures", tags, "triggers", "<f>");
}

static json_t *long_triggers(void) {
    json_t *triggers = json_array();
    uint32_t random = 1;
    for (size_t i = 0; i < LH_CONSTRAINT_TRIGGERS_MAX; i++) {
        char trigger[501] = "";
        for (size_t k = 0; k < 500; k++)
            trigger[k] = "ab"[(random = random * 1664525u + 1013904223u) >> 31];
        json_array_append_new(triggers, json_string(trigger));
    }
    return json_pack("{s:[{s:O,s:{},s:s}],s:o}", "structures", "begin", json_array_get(triggers, 0),
                     "schema", "end", "<", "triggers", triggers);
}

/* A schema of thousands of annotations, to which thousands of members refer. */
static json_t *annotated_schema(void) {
    json_t *noted = json_pack("{s:s,s:i}", "type", "integer", "minimum", 0),
           *members = json_object();
    char name[24];
    for (unsigned i = 0; i < 40000; i++) {
        snprintf(name, sizeof name, "note%u", i);
        json_object_set_new(noted, name, json_null());
    }
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "a%u", i);
        json_object_set_new(members, name, json_pack("{s:s}", "$ref", "#/$defs/x"));
    }
    return json_pack("{s:o,s:{s:o}}", "properties", members, "$defs", "x", noted);
}

static json_t *listed_names(void) {
    json_t *members = json_object(), *names = json_array();
    char name[24];
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "a%u", i);
        json_object_set_new(members, name, json_true());
    }
    for (unsigned i = 0; i < 40000; i++) {
        snprintf(name, sizeof name, "b%u", i);
        json_array_append_new(names, json_string(name));
    }
    return json_pack("{s:o,s:{s:o}}", "properties", members, "propertyNames", "enum", names);
}

/* A class of 5,000 characters, a thousand times. */
static json_t *wide_pattern(void) {
    static char pattern[5000 * 3 + 20] = "^[";
    char *at = pattern + 2;
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t character = 0x4e00 + 2 * i;
        *at++ = (char)(0xe0 | character >> 12);
        *at++ = (char)(0x80 | (character >> 6 & 0x3f));
        *at++ = (char)(0x80 | (character & 0x3f));
    }
    memcpy(at, "]{1000,}$", 10);
    return json_pack("{s:s,s:s,s:i}", "type", "string", "pattern", pattern, "minLength", 1001);
}

/* `length` times the word. */
static json_t *repeated(const char *before, const char *word, size_t times) {
    size_t length = strlen(word), at = strlen(before);
    char *text = malloc(at + times * length + 1);
    require(text != NULL);
    memcpy(text, before, at);
    for (size_t i = 0; i < times; i++, at += length)
        memcpy(text + at, word, length);
    json_t *value = json_stringn(text, at);
    free(text);
    return value;
}

static void no_source_takes_long(void **state) {
    (void)state;
    expect_soon(LH_CONSTRAINT_CALLS, many_functions(), "128 functions", LH_ERR_LIMIT,
                "takes too long");
    expect_soon(LH_CONSTRAINT_TAGS, many_structures(), "256 structures", LH_ERR_LIMIT,
                "takes too long");
    expect_soon(LH_CONSTRAINT_TAGS, long_triggers(), "31 triggers of 500 bytes", LH_ERR_LIMIT,
                "takes too long");
    expect_soon(LH_CONSTRAINT_SCHEMA, annotated_schema(), "40,000 annotations", LH_OK, "");
    expect_soon(LH_CONSTRAINT_SCHEMA, listed_names(), "5,000 names in a list of 40,000",
                LH_ERR_LIMIT, "propertyNames");
    expect_soon(LH_CONSTRAINT_SCHEMA, wide_pattern(), "a class of 5,000 characters", LH_ERR_LIMIT,
                "ranges of characters");
    expect_soon(LH_CONSTRAINT_REGEX, json_string("a{1,1000000000}"), "a large number", LH_ERR_LIMIT,
                "10,000,000");
    expect_soon(LH_CONSTRAINT_REGEX, json_string("a{1,10000000}"), "a great number", LH_OK, "");
    expect_soon(LH_CONSTRAINT_REGEX, repeated("", "(ab|c)*d", 125000), "an expression of 1 MB",
                LH_ERR_LIMIT, "nodes");
    expect_soon(LH_CONSTRAINT_GBNF, repeated("root ::= \"a\"", " | \"abcd\"", 100000),
                "a grammar of 1 MB", LH_OK, "");
}

static void the_same_is_one_until_others_came(void **state) {
    (void)state;
    bench of;
    lh_constraint *first, *again, *other;
    lh_error error;
    open_bench(&of);
    assert_int_equal(find(&of, LH_CONSTRAINT_REGEX, "'a'", NULL, &first, &error), LH_OK);
    assert_int_equal(find(&of, LH_CONSTRAINT_REGEX, "'a'", NULL, &again, &error), LH_OK);
    assert_ptr_equal(first, again);
    lh_constraint_release(again);
    assert_int_equal(find(&of, LH_CONSTRAINT_REGEX, "'a'", END, &other, &error), LH_OK);
    assert_ptr_not_equal(first, other);
    lh_constraint_release(other);
    for (unsigned i = 0; i < LH_CONSTRAINT_CACHE_ENTRIES_MAX; i++) {
        char value[24];
        snprintf(value, sizeof value, "'x%u'", i);
        assert_int_equal(find(&of, LH_CONSTRAINT_REGEX, value, NULL, &other, &error), LH_OK);
        lh_constraint_release(other);
    }
    assert_int_equal(find(&of, LH_CONSTRAINT_REGEX, "'a'", NULL, &again, &error), LH_OK);
    assert_ptr_not_equal(first, again);
    lh_constraint_release(again);
    lh_constraint_release(first);
    close_bench(&of);
}

/* ---- Several threads ---- */

#define WALKERS     4
#define WALKS       12
#define WALK_TOKENS 80

typedef struct walker {
    bench *of;
    uint32_t seed, count, tokens[WALKS * (WALK_TOKENS + 1)];
} walker;

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* One that the mask allows; UINT32_MAX: there is none. */
static uint32_t pick(const lh_mask *mask, uint32_t *seed) {
    uint32_t nth = draw(seed) % mask->allowed;
    for (uint32_t token = 0; token < mask->vocabulary; token++)
        if (mask->words[token / 64] >> token % 64 & 1 && nth-- == 0)
            return token;
    return UINT32_MAX;
}

/* Takes what must come, or one of what may, and goes on now and then from a copy. */
static void walk_once(walker *walk, lh_constraint *constraint) {
    lh_constraint_state *at, *copy;
    uint32_t begin = walk->count;
    require(lh_constraint_state_create(constraint, &at, NULL) == LH_OK);
    while (walk->count < begin + WALK_TOKENS && !lh_constraint_state_is_finished(at)) {
        const lh_mask *mask;
        uint32_t token, forced;
        require(lh_constraint_state_forced(at, &token, 1, &forced, NULL) == LH_OK);
        require(lh_constraint_state_mask(at, &mask, NULL) == LH_OK);
        if (forced == 0)
            token = pick(mask, &walk->seed);
        require(lh_constraint_state_take(at, token, NULL) == LH_OK);
        walk->tokens[walk->count++] = token;
        if (draw(&walk->seed) % 8 == 0) {
            require(lh_constraint_state_copy(at, &copy, NULL) == LH_OK);
            lh_constraint_state_destroy(at);
            at = copy;
        }
    }
    lh_constraint_state_destroy(at);
}

static void *walk_all(void *context) {
    static const char *const schemas[] = {
        "{'properties':{'a':{'type':'string'},'b':{'type':'array','items':{'type':'integer'}}}}",
        "{'type':'array','items':{'enum':['red','green',null]}}"};
    walker *walk = context;
    for (int i = 0; i < WALKS; i++) {
        lh_constraint *constraint;
        require(find(walk->of, LH_CONSTRAINT_SCHEMA, schemas[i % 2], NULL, &constraint, NULL) ==
                LH_OK);
        walk_once(walk, constraint);
        lh_constraint_release(constraint);
    }
    return NULL;
}

/* The same tokens as alone: what one thread finds for others is what they would have found. */
static void threads_share_a_constraint(void **state) {
    (void)state;
    static walker together[WALKERS], alone;
    pthread_t threads[WALKERS];
    bench of;
    open_bench(&of);
    for (uint32_t i = 0; i < WALKERS; i++) {
        together[i] = (walker){.of = &of, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, walk_all, &together[i]), 0);
    }
    for (uint32_t i = 0; i < WALKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_bench(&of);
    for (uint32_t i = 0; i < WALKERS; i++) {
        open_bench(&of);
        alone = (walker){.of = &of, .seed = i};
        walk_all(&alone);
        close_bench(&of);
        assert_int_equal(together[i].count, alone.count);
        assert_memory_equal(together[i].tokens, alone.tokens, alone.count * sizeof *alone.tokens);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_compiled),
        cmocka_unit_test(a_thought_may_end_with_a_token),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(what_cannot_begin_is_told_at_once),
        cmocka_unit_test(no_source_takes_long),
        cmocka_unit_test(the_same_is_one_until_others_came),
        cmocka_unit_test(threads_share_a_constraint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
