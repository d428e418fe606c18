/* constraint_cost MODEL.gguf: what constraints cost the gateway, in processor time, on the
 * vocabulary of a model. Prints {"tokens": 49152, "nodes": 123456, "trie_us": 30000}; then a line
 * of JSON each way:
 *
 *   {"kind": "schema", "value": any, "steps": 100, "seed": 1}
 *   {"compile_us": 1200, "error": "...", "status": "LH_ERR_LIMIT"} or
 *   {"compile_us": 1200, "first_us": [...], "warm_us": [...], "step_us": [...],
 *    "forced_us": [...], "forced": 12, "ended": "..."}
 *
 * Kinds are those of lh_constraint_kind. To compile includes the mask of the beginning. A random
 * way of `steps` tokens is gone three times: masks at the first visit, and again with the cache
 * warm; then with forced tokens. "ended": why a way could not go on. */
#include "gateway/constrain/constraint_cache.h"
#include "gateway/constrain/constraint_vocabulary.h"
#include "tests/gateway/support/model_vocabulary.h"
#include "tests/support/processor_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORCED_MAX 64u

static double now_us(void) {
    return processor_time_s() * 1e6;
}

static void check(lh_status status, const lh_error *error) {
    if (!status)
        return;
    fprintf(stderr, "constraint_cost: %s\n", error->message);
    exit(1);
}

static bool find_kind(const char *name, lh_constraint_kind *kind) {
    static const char *const names[] = {
        [LH_CONSTRAINT_OBJECT] = "object", [LH_CONSTRAINT_SCHEMA] = "schema",
        [LH_CONSTRAINT_REGEX] = "regex",   [LH_CONSTRAINT_CHOICE] = "choice",
        [LH_CONSTRAINT_GBNF] = "gbnf",     [LH_CONSTRAINT_TAGS] = "tags",
        [LH_CONSTRAINT_CALLS] = "calls"};
    for (size_t i = 0; name && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            *kind = (lh_constraint_kind)i;
            return true;
        }
    return false;
}

static uint32_t draw(uint64_t *random, const lh_mask *mask) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint32_t at = (uint32_t)(*random >> 33) % mask->vocabulary;
    while (!(mask->words[at / 64] >> at % 64 & 1))
        at = (at + 1) % mask->vocabulary;
    return at;
}

typedef struct way {
    lh_constraint *constraint;
    json_int_t steps, forced;
    uint64_t random;
    bool forces;
    json_t *mask_us, *step_us, *forced_us;
} way;

/* Takes what is forced; gives how many tokens that were. */
static lh_status take_forced(way *of, lh_constraint_state *state, uint32_t *count,
                             lh_error *error) {
    uint32_t tokens[FORCED_MAX];
    double begin = now_us();
    lh_status status = lh_constraint_state_forced(state, tokens, FORCED_MAX, count, error);
    json_array_append_new(of->forced_us, json_real(now_us() - begin));
    for (uint32_t i = 0; i < *count && !status; i++)
        status = lh_constraint_state_take(state, tokens[i], error);
    of->forced += *count;
    return status;
}

static lh_status take_drawn(way *of, lh_constraint_state *state, lh_error *error) {
    const lh_mask *mask;
    double begin = now_us();
    lh_status status = lh_constraint_state_mask(state, &mask, error);
    json_array_append_new(of->mask_us, json_real(now_us() - begin));
    if (status)
        return status;
    uint32_t token = draw(&of->random, mask);
    begin = now_us();
    status = lh_constraint_state_take(state, token, error);
    json_array_append_new(of->step_us, json_real(now_us() - begin));
    return status;
}

/* Until it ends. */
static lh_status go(way *of, lh_error *error) {
    lh_constraint_state *state;
    check(lh_constraint_state_create(of->constraint, &state, error), error);
    lh_status status = LH_OK;
    for (json_int_t i = 0; i < of->steps && !status; i++) {
        uint32_t forced = 0;
        if (lh_constraint_state_is_finished(state))
            break;
        if (of->forces)
            status = take_forced(of, state, &forced, error);
        if (!status && forced == 0)
            status = take_drawn(of, state, error);
    }
    lh_constraint_state_destroy(state);
    return status;
}

static void go_three_times(lh_constraint *constraint, const json_t *order, json_t *answer) {
    json_t *times[4] = {json_array(), json_array(), json_array(), json_array()};
    json_t *unused = json_array();
    json_int_t steps = json_integer_value(json_object_get(order, "steps"));
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(order, "seed"));
    way first = {constraint, steps, 0, seed, false, times[0], times[2], NULL};
    way warm = {constraint, steps, 0, seed, false, times[1], times[2], NULL};
    way forcing = {constraint, steps, 0, seed, true, unused, unused, times[3]};
    lh_error error;
    if (go(&first, &error) || go(&warm, &error) || go(&forcing, &error))
        json_object_set_new(answer, "ended", json_string(error.message));
    json_object_set_new(answer, "first_us", times[0]);
    json_object_set_new(answer, "warm_us", times[1]);
    json_object_set_new(answer, "step_us", times[2]);
    json_object_set_new(answer, "forced_us", times[3]);
    json_object_set_new(answer, "forced", json_integer(forcing.forced));
    json_decref(unused);
}

static json_t *answer_to(const json_t *order, const lh_constraint_vocabulary *vocabulary) {
    json_t *answer = json_object();
    lh_constraint_source source = {.value = json_object_get(order, "value")};
    lh_constraint_cache *cache;
    lh_constraint *constraint;
    lh_error error;
    if (!find_kind(json_string_value(json_object_get(order, "kind")), &source.kind)) {
        fprintf(stderr, "constraint_cost: no such kind\n");
        exit(1);
    }
    check(lh_constraint_cache_create(vocabulary, &cache, &error), &error);
    double begin = now_us();
    lh_status status = lh_constraint_cache_find(cache, &source, &constraint, &error);
    json_object_set_new(answer, "compile_us", json_real(now_us() - begin));
    if (status) {
        json_object_set_new(answer, "error", json_string(error.message));
        json_object_set_new(answer, "status", json_string(lh_status_name(status)));
    } else {
        go_three_times(constraint, order, answer);
        lh_constraint_release(constraint);
    }
    lh_constraint_cache_destroy(cache);
    return answer;
}

static void print(json_t *answer) {
    json_dumpf(answer, stdout, JSON_COMPACT);
    printf("\n");
    fflush(stdout);
    json_decref(answer);
}

int main(int count, char **arguments) {
    lh_tokenizer *tokenizer;
    lh_constraint_vocabulary *vocabulary;
    lh_error error;
    char *line = NULL;
    size_t capacity = 0;
    if (count != 2 || setenv("CONSTRAINT_COST_MODEL", arguments[1], 1))
        return 2;
    model_vocabulary *model = model_vocabulary_open("CONSTRAINT_COST_MODEL");
    if (!model)
        return 1;
    check(lh_tokenizer_create(model_vocabulary_gguf(model), &tokenizer, &error), &error);
    double begin = now_us();
    check(lh_constraint_vocabulary_create(tokenizer, &vocabulary, &error), &error);
    print(json_pack("{s:i,s:I,s:f}", "tokens", (int)lh_tokenizer_vocabulary(tokenizer), "nodes",
                    (json_int_t)lh_constraint_vocabulary_trie(vocabulary)->node_count, "trie_us",
                    now_us() - begin));
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *order = json_loads(line, JSON_DECODE_ANY, NULL);
        print(answer_to(order, vocabulary));
        json_decref(order);
    }
    free(line);
    lh_constraint_vocabulary_release(vocabulary);
    lh_tokenizer_destroy(tokenizer);
    model_vocabulary_close(model);
    return 0;
}
