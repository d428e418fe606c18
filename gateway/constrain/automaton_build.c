/* States are made from the back: what is to be built knows the state that follows it. */
#include "gateway/constrain/automaton_build.h"

#include "common/base/growing_array.h"
#include "gateway/constrain/utf8_ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A repetition is copied where it makes this many states or fewer: a copy is faster to run through
 * than a counter, but each of its states is a place with a mask of its own. */
#define COPIED_STATES_MAX 64
/* An alternative to "no state": never an index. */
#define NOTHING UINT32_MAX

typedef struct builder {
    lh_automaton *automaton;
    const lh_grammar *grammar;
    uint32_t vocabulary;
    uint32_t rule;   /* of which a part is built */
    uint32_t *body;  /* [nodes of the grammar]: the rule that was made for its repetition */
    uint8_t *weight; /* [nodes of the grammar]: states that a copy makes */
    uint32_t *node;  /* [rule_count of the automaton]: what each is to be made of */
    size_t node_capacity;
    size_t work;
    lh_error *error;
    lh_status status;
} builder;

static uint32_t fail(builder *own, lh_status status, const char *what, size_t max) {
    if (!own->status && status == LH_ERR_NO_MEMORY)
        own->status = lh_fail(own->error, status, "no memory for an automaton");
    else if (!own->status)
        own->status = lh_fail(own->error, status, "the grammar needs more than %zu %s", max, what);
    return NOTHING;
}

static bool reserve(builder *own, void *array_pointer, size_t *capacity, size_t count,
                    size_t element_bytes, size_t max, const char *what) {
    if (count > max)
        fail(own, LH_ERR_LIMIT, what, max);
    else if (!lh_growing_array_reserve(array_pointer, capacity, count, element_bytes))
        fail(own, LH_ERR_NO_MEMORY, what, max);
    return own->status == LH_OK;
}

static uint32_t push_state(builder *own, lh_automaton_state state) {
    lh_automaton *automaton = own->automaton;
    if (own->status ||
        !reserve(own, &automaton->states, &automaton->state_capacity, automaton->state_count + 1,
                 sizeof state, LH_AUTOMATON_STATES_MAX, "states"))
        return NOTHING;
    automaton->states[automaton->state_count] = state;
    return (uint32_t)automaton->state_count++;
}

static uint32_t push_bytes(builder *own, const lh_automaton_edge *edges, size_t count) {
    lh_automaton *automaton = own->automaton;
    if (own->status ||
        !reserve(own, &automaton->edges, &automaton->edge_capacity, automaton->edge_count + count,
                 sizeof *edges, LH_AUTOMATON_EDGES_MAX, "edges"))
        return NOTHING;
    size_t first = automaton->edge_count;
    if (count)
        memcpy(automaton->edges + first, edges, count * sizeof *edges);
    automaton->edge_count += count;
    return push_state(own, (lh_automaton_state){.kind = LH_STATE_BYTES,
                                                .first = (uint32_t)first,
                                                .count = (uint32_t)count});
}

static uint32_t push_byte(builder *own, uint8_t byte, uint32_t next) {
    return push_bytes(own, &(lh_automaton_edge){.target = next, .first = byte, .last = byte}, 1);
}

/* Room for `count` targets, which the caller fills in. */
static uint32_t push_split(builder *own, size_t count, uint32_t **targets) {
    lh_automaton *automaton = own->automaton;
    if (own->status || !reserve(own, &automaton->targets, &automaton->target_capacity,
                                automaton->target_count + count, sizeof **targets,
                                LH_AUTOMATON_EDGES_MAX, "alternatives"))
        return NOTHING;
    size_t first = automaton->target_count;
    automaton->target_count += count;
    *targets = automaton->targets + first;
    return push_state(own, (lh_automaton_state){.kind = LH_STATE_SPLIT,
                                                .first = (uint32_t)first,
                                                .count = (uint32_t)count});
}

static uint32_t push_pair(builder *own, uint32_t a, uint32_t b) {
    uint32_t *targets;
    uint32_t split = push_split(own, 2, &targets);
    if (split != NOTHING) {
        targets[0] = a;
        targets[1] = b;
    }
    return split;
}

/* ---- Literals ---- */

static uint32_t build_chain(builder *own, const char *bytes, size_t length, uint32_t next) {
    for (size_t i = length; i-- > 0 && !own->status;)
        next = push_byte(own, (uint8_t)bytes[i], next);
    return next;
}

typedef struct literal {
    const char *bytes;
    size_t length;
} literal;

static int compare_literals(const void *a, const void *b) {
    const literal *x = a, *y = b;
    size_t shared = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shared);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static size_t shared_prefix(literal a, literal b, size_t from) {
    size_t at = from;
    while (at < a.length && at < b.length && a.bytes[at] == b.bytes[at])
        at++;
    return at;
}

/* Literals that have the same byte at `at`, of which literals[0] has one. */
static size_t count_alike(const literal *literals, size_t count, size_t at) {
    size_t end = 1;
    while (end < count && literals[end].bytes[at] == literals[0].bytes[at])
        end++;
    return end;
}

static uint32_t build_trie(builder *own, const literal *literals, size_t count, size_t from,
                           uint32_t next);

/* A state with an edge for each byte that these literals, longer than `at`, have there. */
static uint32_t build_fork(builder *own, const literal *literals, size_t count, size_t at,
                           uint32_t next) {
    lh_automaton_edge *edges = calloc(count < 256 ? count : 256, sizeof *edges);
    if (!edges)
        return fail(own, LH_ERR_NO_MEMORY, "", 0);
    size_t edge_count = 0;
    for (size_t i = 0, alike; i < count && !own->status; i += alike) {
        uint8_t byte = (uint8_t)literals[i].bytes[at];
        alike = count_alike(literals + i, count - i, at);
        edges[edge_count++] =
            (lh_automaton_edge){.target = build_trie(own, literals + i, alike, at + 1, next),
                                .first = byte,
                                .last = byte};
    }
    uint32_t state = push_bytes(own, edges, edge_count);
    free(edges);
    return state;
}

/* A trie of sorted literals, which agree in the first `from` bytes. Goes down once for each place
 * where they part: with literals of 2 MiB in all, 2,000 times at most. */
static uint32_t build_trie(builder *own, const literal *literals, size_t count, size_t from,
                           uint32_t next) {
    size_t at = shared_prefix(literals[0], literals[count - 1], from);
    size_t ended = 0;
    while (ended < count && literals[ended].length == at)
        ended++;
    uint32_t state = next;
    if (ended < count)
        state = build_fork(own, literals + ended, count - ended, at, next);
    if (ended > 0 && ended < count)
        state = push_pair(own, state, next);
    return build_chain(own, literals[0].bytes + from, at - from, state);
}

/* ---- Classes ---- */

/* The states that take one, two or three more bytes of any character. */
typedef struct tails {
    uint32_t next, any[3]; /* NOTHING: not yet made */
} tails;

static uint32_t any_tail(builder *own, tails *shared, size_t length) {
    if (length == 0)
        return shared->next;
    if (shared->any[length - 1] == NOTHING) {
        lh_automaton_edge edge = {
            .target = any_tail(own, shared, length - 1), .first = 0x80, .last = 0xBF};
        shared->any[length - 1] = push_bytes(own, &edge, 1);
    }
    return shared->any[length - 1];
}

static bool is_any_tail(const lh_byte_ranges *ranges, size_t from) {
    for (size_t i = from; i < ranges->length; i++)
        if (ranges->bytes[i].first != 0x80 || ranges->bytes[i].last != 0xBF)
            return false;
    return true;
}

/* A state for what follows the first `from` bytes, in which these ranges agree. */
static uint32_t build_ranges(builder *own, tails *shared, const lh_byte_ranges *ranges,
                             size_t count, size_t from) {
    if (count == 1 && from > 0 && is_any_tail(ranges, from))
        return any_tail(own, shared, ranges->length - from);
    lh_automaton_edge edges[256]; /* apart from each other */
    size_t edge_count = 0;
    for (size_t i = 0, end; i < count && !own->status; i = end) {
        lh_byte_range byte = ranges[i].bytes[from];
        for (end = i + 1; end < count && ranges[end].bytes[from].first == byte.first; end++)
            assert(ranges[end].length == ranges[i].length);
        edges[edge_count++] =
            (lh_automaton_edge){.target = build_ranges(own, shared, ranges + i, end - i, from + 1),
                                .first = byte.first,
                                .last = byte.last};
    }
    return push_bytes(own, edges, edge_count);
}

static uint32_t build_class(builder *own, const lh_grammar_form *form, uint32_t next) {
    const lh_character_range *characters = own->grammar->ranges + form->first;
    lh_byte_ranges *ranges = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < form->count && !own->status; i++)
        if (reserve(own, &ranges, &capacity, count + LH_UTF8_RANGES_MAX, sizeof *ranges,
                    LH_AUTOMATON_EDGES_MAX, "ranges of bytes"))
            count += lh_utf8_ranges(characters[i].first, characters[i].last, ranges + count);
    own->work += count;
    tails shared = {next, {NOTHING, NOTHING, NOTHING}};
    uint32_t state = own->status ? NOTHING : build_ranges(own, &shared, ranges, count, 0);
    free(ranges);
    return state;
}

/* ---- What is made of other nodes ---- */

static uint32_t build(builder *own, lh_grammar_node node, uint32_t next);

static uint32_t build_sequence(builder *own, const lh_grammar_form *form, uint32_t next) {
    for (size_t i = form->count; i-- > 0 && !own->status;)
        next = build(own, own->grammar->children[form->first + i], next);
    return next;
}

static const lh_grammar_form *child_of(const builder *own, const lh_grammar_form *form, size_t i) {
    return &own->grammar->forms[own->grammar->children[form->first + i]];
}

/* The literals among the alternatives, as one trie; the others one by one. */
static uint32_t build_choice(builder *own, const lh_grammar_form *form, uint32_t next) {
    literal *literals = calloc(form->count + 1, sizeof *literals);
    uint32_t *built = calloc(form->count + 1, sizeof *built);
    uint32_t state = NOTHING;
    size_t literal_count = 0, count = 0;
    if (!literals || !built) {
        fail(own, LH_ERR_NO_MEMORY, "", 0);
        goto done;
    }
    for (size_t i = 0; i < form->count && !own->status; i++) {
        const lh_grammar_form *child = child_of(own, form, i);
        if (child->kind == LH_GRAMMAR_LITERAL)
            literals[literal_count++] = (literal){own->grammar->bytes + child->first, child->count};
        else
            built[count++] = build(own, own->grammar->children[form->first + i], next);
    }
    own->work += literal_count;
    if (literal_count > 0) {
        qsort(literals, literal_count, sizeof *literals, compare_literals);
        built[count++] = build_trie(own, literals, literal_count, 0, next);
    }
    uint32_t *targets;
    state = count == 1 ? built[0] : push_split(own, count, &targets);
    if (count > 1 && state != NOTHING)
        memcpy(targets, built, count * sizeof *targets);
done:
    free(built);
    free(literals);
    return state;
}

static uint32_t build_star(builder *own, lh_grammar_node node, uint32_t next) {
    uint32_t split = push_pair(own, NOTHING, next);
    uint32_t first = build(own, node, split);
    if (!own->status)
        own->automaton->targets[own->automaton->states[split].first] = first;
    return split;
}

static uint32_t push_rule(builder *own, lh_grammar_node node, uint32_t name) {
    lh_automaton *automaton = own->automaton;
    if (!reserve(own, &automaton->rules, &automaton->rule_capacity, automaton->rule_count + 1,
                 sizeof *automaton->rules, LH_AUTOMATON_STATES_MAX, "rules") ||
        !reserve(own, &own->node, &own->node_capacity, automaton->rule_count + 1, sizeof *own->node,
                 LH_AUTOMATON_STATES_MAX, "rules"))
        return NOTHING;
    automaton->rules[automaton->rule_count] = (lh_automaton_rule){.name = name};
    own->node[automaton->rule_count] = node;
    return (uint32_t)automaton->rule_count++;
}

static uint32_t build_loop(builder *own, const lh_grammar_form *form, uint32_t next) {
    uint32_t *body = &own->body[form->value];
    if (*body == NOTHING)
        *body = push_rule(own, form->value, own->automaton->rules[own->rule].name);
    return push_state(own, (lh_automaton_state){.kind = LH_STATE_LOOP,
                                                .value = *body,
                                                .next = next,
                                                .min = form->min,
                                                .max = form->max});
}

/* `min` of them, and then up to `max`, or any number. */
static uint32_t build_copies(builder *own, const lh_grammar_form *form, uint32_t next) {
    uint32_t state = next;
    if (form->max == LH_GRAMMAR_UNBOUNDED)
        state = build_star(own, form->value, next);
    else
        for (uint32_t i = form->min; i < form->max && !own->status; i++)
            state = push_pair(own, build(own, form->value, state), next);
    for (uint32_t i = 0; i < form->min && !own->status; i++)
        state = build(own, form->value, state);
    return state;
}

static size_t copies_of(const lh_grammar_form *form) {
    return form->max == LH_GRAMMAR_UNBOUNDED ? (size_t)form->min + 1 : form->max;
}

/* Whether copies of a node of this weight are built, not counted. */
static bool is_copied(const lh_grammar_form *form, size_t weight) {
    size_t copies = copies_of(form);
    return copies <= COPIED_STATES_MAX && (weight + 1) * copies <= COPIED_STATES_MAX;
}

/* States that one copy of the node makes; more than COPIED_STATES_MAX is as good as any. */
static uint8_t weigh(const builder *own, const lh_grammar_form *form) {
    size_t weight = 1;
    switch (form->kind) {
    case LH_GRAMMAR_LITERAL:
        weight = form->count;
        break;
    case LH_GRAMMAR_CLASS:
        if (form->count > 0 && own->grammar->ranges[form->first + form->count - 1].last > 0x7F)
            weight = 8;
        break;
    case LH_GRAMMAR_SEQUENCE:
    case LH_GRAMMAR_CHOICE:
        for (size_t i = 0; i < form->count && weight <= COPIED_STATES_MAX; i++)
            weight += own->weight[own->grammar->children[form->first + i]];
        break;
    case LH_GRAMMAR_REPEAT:
        if (is_copied(form, own->weight[form->value]))
            weight += copies_of(form) * (own->weight[form->value] + 1u);
        break;
    case LH_GRAMMAR_TOKEN:
    case LH_GRAMMAR_CALL:
        break;
    }
    return (uint8_t)(weight <= COPIED_STATES_MAX ? weight : COPIED_STATES_MAX + 1);
}

static uint32_t build_repeat(builder *own, const lh_grammar_form *form, uint32_t next) {
    if (form->max == 0)
        return next;
    if (form->max == LH_GRAMMAR_UNBOUNDED && form->min <= 1)
        return build_copies(own, form, next);
    if (form->max == 1)
        return push_pair(own, build(own, form->value, next), next);
    return is_copied(form, own->weight[form->value]) ? build_copies(own, form, next)
                                                     : build_loop(own, form, next);
}

static uint32_t build_call(builder *own, const lh_grammar_form *form, uint32_t next) {
    const lh_grammar_rule_form *rule = &own->grammar->rules[form->value];
    if (rule->node == LH_GRAMMAR_FAILED) {
        own->status = lh_fail(own->error, LH_ERR_INVALID,
                              "the rule \"%s\" is used, but not defined", rule->name);
        return NOTHING;
    }
    return push_state(
        own, (lh_automaton_state){.kind = LH_STATE_CALL, .value = form->value, .next = next});
}

static uint32_t build_token(builder *own, const lh_grammar_form *form, uint32_t next) {
    if (form->value >= own->vocabulary) {
        own->status =
            lh_fail(own->error, LH_ERR_INVALID, "the grammar names token %u, the vocabulary has %u",
                    form->value, own->vocabulary);
        return NOTHING;
    }
    return push_state(
        own, (lh_automaton_state){.kind = LH_STATE_TOKEN, .value = form->value, .next = next});
}

/* The state at which `node` begins, behind which `next` follows. */
static uint32_t build(builder *own, lh_grammar_node node, uint32_t next) {
    if (own->status)
        return NOTHING;
    if (++own->work > LH_AUTOMATON_WORK_MAX)
        return fail(own, LH_ERR_LIMIT, "parts, with those that are repeated",
                    LH_AUTOMATON_WORK_MAX);
    const lh_grammar_form *form = &own->grammar->forms[node];
    switch (form->kind) {
    case LH_GRAMMAR_LITERAL:
        return build_chain(own, own->grammar->bytes + form->first, form->count, next);
    case LH_GRAMMAR_CLASS:
        return build_class(own, form, next);
    case LH_GRAMMAR_SEQUENCE:
        return build_sequence(own, form, next);
    case LH_GRAMMAR_CHOICE:
        return build_choice(own, form, next);
    case LH_GRAMMAR_REPEAT:
        return build_repeat(own, form, next);
    case LH_GRAMMAR_TOKEN:
        return build_token(own, form, next);
    case LH_GRAMMAR_CALL:
        return build_call(own, form, next);
    }
    assert(false && "a kind of node");
    return NOTHING;
}

static void push_marks(builder *own) {
    push_state(own, (lh_automaton_state){.kind = LH_STATE_FINAL});
    push_state(own, (lh_automaton_state){.kind = LH_STATE_END});
    push_state(own, (lh_automaton_state){.kind = LH_STATE_ESCAPE});
    assert(own->status || own->automaton->state_count == LH_AUTOMATON_FIRST_STATE);
}

/* The grammar's rules keep their numbers; the root and what is repeated follow. */
static void build_rules(builder *own) {
    const lh_grammar *grammar = own->grammar;
    for (size_t i = 0; i < grammar->rule_count && !own->status; i++)
        push_rule(own, grammar->rules[i].node, (uint32_t)i);
    own->automaton->root = push_rule(own, grammar->root, LH_GRAMMAR_FAILED);
    for (own->rule = 0; own->rule < own->automaton->rule_count && !own->status; own->rule++) {
        lh_grammar_node node = own->node[own->rule];
        /* One that nothing calls need not be defined. */
        uint32_t start = node == LH_GRAMMAR_FAILED ? push_bytes(own, NULL, 0)
                                                   : build(own, node, LH_AUTOMATON_FINAL);
        own->automaton->rules[own->rule].start = start;
    }
}

lh_status lh_automaton_build(lh_automaton *automaton, const lh_grammar *grammar,
                             uint32_t vocabulary, lh_error *error) {
    if (grammar->root == LH_GRAMMAR_FAILED)
        return lh_fail(error, LH_ERR_INVALID, "the grammar has no root");
    builder own = {
        .automaton = automaton, .grammar = grammar, .vocabulary = vocabulary, .error = error};
    own.body = calloc(grammar->form_count, sizeof *own.body);
    own.weight = calloc(grammar->form_count, sizeof *own.weight);
    if (!own.body || !own.weight)
        fail(&own, LH_ERR_NO_MEMORY, "", 0);
    for (size_t i = 0; i < grammar->form_count && !own.status; i++) {
        own.body[i] = NOTHING;
        own.weight[i] = weigh(&own, &grammar->forms[i]); /* children stand before their parents */
    }
    push_marks(&own);
    if (!own.status)
        build_rules(&own);
    free(own.node);
    free(own.weight);
    free(own.body);
    return own.status;
}
