/* bench_constrain MODEL.gguf [KEYS]: what constrained output costs at the gateway, on the
 * vocabulary of a model. A grammar of JSON and one of an object with KEYS keys are compiled; then a
 * random way through each is taken twice: masks at the first visit and with the cache warm, steps,
 * and how many tokens were forced. */
#include "gateway/constrain/constraint.h"
#include "gateway/constrain/constraint_vocabulary.h"
#include "gateway/constrain/gbnf.h"
#include "tests/gateway/support/model_vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS_MAX 2000

static const char json[] =
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\")\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? ws \"}\"\n"
    "array ::= \"[\" ws ( value (\",\" ws value)* )? ws \"]\"\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) )* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?\n"
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n";

/* Of this thread: on a machine with other work, wall clocks tell of that. */
static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void check(lh_status status, const lh_error *error) {
    if (status) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

/* Times of one kind. */
typedef struct times {
    double us[STEPS_MAX];
    size_t count;
} times;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, times *own) {
    if (own->count == 0)
        return;
    qsort(own->us, own->count, sizeof own->us[0], compare);
    printf("  %-24s n=%-5zu p50=%-9.1f p99=%-9.1f max=%.1f us\n", what, own->count,
           own->us[own->count / 2], own->us[own->count * 99 / 100], own->us[own->count - 1]);
}

static uint32_t draw(uint32_t *seed, const lh_mask *mask) {
    uint32_t at;
    *seed = *seed * 1664525u + 1013904223u;
    at = (*seed >> 4) % mask->vocabulary;
    while (!(mask->words[at / 64] >> at % 64 & 1))
        at = (at + 1) % mask->vocabulary;
    return at;
}

/* Tokens at random; forced ones as they are. */
static void run(lh_constraint *constraint, const char *title, bool forces) {
    static times masks, steps, forcing;
    lh_constraint_state *state;
    lh_error error;
    uint32_t seed = 1, forced_tokens = 0, tokens[64], count = 0;
    masks.count = steps.count = forcing.count = 0;
    check(lh_constraint_state_create(constraint, &state, &error), &error);
    while (masks.count < STEPS_MAX && !lh_constraint_state_is_finished(state)) {
        const lh_mask *mask;
        double begin = now_us();
        if (forces)
            check(lh_constraint_state_forced(state, tokens, 64, &count, &error), &error);
        double end = now_us();
        if (forces && forcing.count < STEPS_MAX)
            forcing.us[forcing.count++] = end - begin;
        for (uint32_t i = 0; i < count; i++)
            check(lh_constraint_state_take(state, tokens[i], &error), &error);
        forced_tokens += count;
        if (count > 0)
            continue;
        begin = now_us();
        check(lh_constraint_state_mask(state, &mask, &error), &error);
        masks.us[masks.count++] = now_us() - begin;
        uint32_t token = draw(&seed, mask);
        begin = now_us();
        check(lh_constraint_state_take(state, token, &error), &error);
        steps.us[steps.count++] = now_us() - begin;
    }
    lh_constraint_state_destroy(state);
    printf("%s: %zu drawn tokens, %u forced\n", title, masks.count, forced_tokens);
    print_times("mask", &masks);
    print_times("step", &steps);
    print_times("forced", &forcing);
}

static lh_constraint *compile(const char *text, const lh_constraint_vocabulary *vocabulary,
                              const char *title) {
    lh_grammar *grammar;
    lh_constraint *constraint;
    lh_error error;
    double begin = now_us();
    check(lh_grammar_create(&grammar, &error), &error);
    lh_gbnf_add(grammar, text, strlen(text));
    check(lh_constraint_create(grammar, vocabulary, &constraint, &error), &error);
    lh_grammar_destroy(grammar);
    printf("%s: compiled in %.2f ms\n", title, (now_us() - begin) / 1e3);
    return constraint;
}

/* An object with this many keys, each with a string of at most 40 characters or a number. */
static char *object_grammar(size_t keys) {
    size_t capacity = 256 + keys * 80, at = 0;
    char *text = malloc(capacity);
    if (!text)
        exit(1);
    at += (size_t)snprintf(text, capacity, "root ::= \"{\"");
    for (size_t i = 0; i < keys; i++)
        at += (size_t)snprintf(text + at, capacity - at, " \"%s\\\"property_name_%zu\\\": \" %s",
                               i ? ", " : "", i, i % 2 ? "[0-9]{1,6}" : "string");
    snprintf(text + at, capacity - at,
             " \"}\"\nstring ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{0,40} \"\\\"\"\n");
    return text;
}

static void measure(const char *text, const lh_constraint_vocabulary *vocabulary,
                    const char *title) {
    lh_constraint *constraint = compile(text, vocabulary, title);
    run(constraint, "first visits", false);
    run(constraint, "cache warm", false);
    run(constraint, "with forced tokens", true);
    lh_constraint_release(constraint);
}

int main(int count, char **arguments) {
    lh_tokenizer *tokenizer;
    lh_constraint_vocabulary *vocabulary;
    lh_error error;
    if (count < 2 || setenv("BENCH_MODEL", arguments[1], 1))
        return 2;
    model_vocabulary *model = model_vocabulary_open("BENCH_MODEL");
    if (!model)
        return 1;
    check(lh_tokenizer_create(model_vocabulary_gguf(model), &tokenizer, &error), &error);
    double begin = now_us();
    check(lh_constraint_vocabulary_create(tokenizer, &vocabulary, &error), &error);
    printf("%u tokens, trie of %zu nodes in %.0f ms\n", lh_tokenizer_vocabulary(tokenizer),
           lh_constraint_vocabulary_trie(vocabulary)->node_count, (now_us() - begin) / 1e3);
    char *object = object_grammar(count > 2 ? strtoul(arguments[2], NULL, 10) : 20);
    measure(json, vocabulary, "JSON");
    measure(object, vocabulary, "object");
    free(object);
    lh_constraint_vocabulary_destroy(vocabulary);
    lh_tokenizer_destroy(tokenizer);
    model_vocabulary_close(model);
    return 0;
}
