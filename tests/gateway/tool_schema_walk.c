/* JSON Schemas against what their grammars accept, a line of JSON each way:
 *
 *   {"schema": any, "texts": ["..."], "walks": 3, "seed": 1}
 *   {"error": "...", "status": "LH_ERR_UNSUPPORTED"} or
 *   {"compile_us": 1200, "accepted": [true], "walked": ["..."], "unfinished": 0}
 *
 * A walk begins with an empty text and takes one byte after the other, at random among those that
 * may come next, until the grammar may end and the dice says so. The longer the text, the more it
 * goes for the end. */
#include "gateway/constrain/closure.h"
#include "gateway/constrain/json_schema.h"
#include "tests/support/processor_time.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 6000u

typedef struct walker {
    lh_automaton *automaton;
    lh_closure *closure;
    lh_stack_pool pool;
    lh_places here, next;
    uint64_t random;
} walker;

static uint32_t roll(walker *of, uint32_t sides) {
    of->random = of->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(of->random >> 33) % sides;
}

static void demand(bool is_good, const char *what) {
    if (is_good)
        return;
    fprintf(stderr, "schema_walk: %s\n", what);
    exit(1);
}

static void begin(walker *of) {
    lh_stack_pool_reset(&of->pool);
    of->pool.count_max = UINT32_MAX;
    demand(!lh_closure_begin(of->closure, &of->pool, &of->here, NULL), "cannot begin");
}

static void step(walker *of, uint8_t byte) {
    lh_places swap = of->here;
    demand(!lh_closure_step(of->closure, &of->pool, &of->here, byte, &of->next, NULL),
           "cannot go on");
    of->here = of->next;
    of->next = swap;
}

static bool accepts(walker *of, const char *text, size_t length) {
    begin(of);
    for (size_t i = 0; i < length && lh_places_is_alive(&of->here); i++)
        step(of, (uint8_t)text[i]);
    return of->here.may_end;
}

/* The bytes that may come next, each once. */
static size_t bytes_here(const walker *of, uint8_t *bytes) {
    bool may[256] = {false};
    size_t count = 0;
    for (size_t i = 0; i < of->here.count; i++) {
        const lh_automaton_state *state = &of->automaton->states[of->here.items[i].state];
        for (size_t e = 0; e < state->count; e++) {
            const lh_automaton_edge *edge = &of->automaton->edges[state->first + e];
            for (unsigned byte = edge->first; byte <= edge->last; byte++)
                may[byte] = true;
        }
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (may[byte])
            bytes[count++] = (uint8_t)byte;
    return count;
}

/* The first of `wanted` that is there; -1: none is. */
static int find_one(const uint8_t *bytes, size_t count, const char *wanted) {
    for (; *wanted; wanted++)
        if (memchr(bytes, *wanted, count))
            return *wanted;
    return -1;
}

static uint8_t choose(walker *of, size_t length, const uint8_t *bytes, size_t count) {
    bool goes_for_the_end = length > TEXT_BYTES_MAX / 2 || roll(of, 8) == 0;
    bool is_in_string = memchr(bytes, '"', count) && memchr(bytes, 'z', count);
    int closing = !goes_for_the_end ? -1
                  : is_in_string    ? '"'
                                    : find_one(bytes, count, "}]ntf0123456789\"");
    uint8_t byte = bytes[roll(of, (uint32_t)count)];
    if (byte >= 0x80 && roll(of, 4) > 0) /* fewer long characters */
        byte = bytes[roll(of, (uint32_t)count)];
    return closing >= 0 ? (uint8_t)closing : byte;
}

/* The text's length; 0: it did not come to its end. */
static size_t walk(walker *of, char *text) {
    uint8_t bytes[256];
    size_t length = 0;
    begin(of);
    while (length < TEXT_BYTES_MAX) {
        size_t count = bytes_here(of, bytes);
        demand(count > 0 || of->here.may_end, "nothing may come next, and the text may not end");
        if (of->here.may_end && (count == 0 || length > TEXT_BYTES_MAX / 2 || roll(of, 2) == 0))
            return length;
        uint8_t byte = choose(of, length, bytes, count);
        text[length++] = (char)byte;
        step(of, byte);
    }
    return 0;
}

static void run(walker *of, const json_t *order, json_t *answer) {
    static char text[TEXT_BYTES_MAX];
    json_t *accepted = json_array(), *walked = json_array();
    const json_t *texts = json_object_get(order, "texts");
    json_int_t walks = json_integer_value(json_object_get(order, "walks")), unfinished = 0;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *one = json_array_get(texts, i);
        bool is_accepted = accepts(of, json_string_value(one), json_string_length(one));
        json_array_append_new(accepted, json_boolean(is_accepted));
    }
    for (json_int_t i = 0; i < walks; i++) {
        size_t length = walk(of, text);
        unfinished += length == 0;
        if (length > 0)
            json_array_append_new(walked, json_stringn(text, length));
    }
    json_object_set_new(answer, "accepted", accepted);
    json_object_set_new(answer, "walked", walked);
    json_object_set_new(answer, "unfinished", json_integer(unfinished));
}

static json_t *answer_to(const json_t *order) {
    json_t *answer = json_object();
    lh_grammar *grammar = NULL;
    walker of = {.random = (uint64_t)json_integer_value(json_object_get(order, "seed"))};
    lh_error error;
    double begun_s = processor_time_s();
    demand(!lh_grammar_create(&grammar, &error), "no memory");
    lh_grammar_set_root(grammar, lh_json_schema_add(grammar, json_object_get(order, "schema")));
    lh_status status = lh_grammar_check(grammar, &error);
    if (!status)
        status = lh_automaton_create(grammar, 0, &of.automaton, &error);
    json_object_set_new(answer, "compile_us",
                        json_integer((json_int_t)((processor_time_s() - begun_s) * 1e6)));
    if (status) {
        json_object_set_new(answer, "error", json_string(error.message));
        json_object_set_new(answer, "status", json_string(lh_status_name(status)));
    } else {
        demand(!lh_closure_create(of.automaton, &of.closure, NULL), "no memory");
        json_object_set_new(answer, "states", json_integer((json_int_t)of.automaton->state_count));
        run(&of, order, answer);
    }
    lh_closure_destroy(of.closure);
    lh_automaton_destroy(of.automaton);
    lh_places_reset(&of.here);
    lh_places_reset(&of.next);
    lh_stack_pool_reset(&of.pool);
    lh_grammar_destroy(grammar);
    return answer;
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stdin)) > 0) {
        json_t *order = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, NULL);
        demand(order, "an order is not JSON");
        json_t *answer = answer_to(order);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(order);
    }
    free(line);
    return 0;
}
