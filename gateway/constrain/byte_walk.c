/* Sets of places are numbered as they are found, with a row of a table for each: the set after a
 * byte of each class, once it is known. Number 0 is the empty set. */
#include "gateway/constrain/byte_walk.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define SET_DEAD    0
#define SET_UNKNOWN UINT32_MAX

/* Of one walk: 32 MiB. Usual ones have some hundred. */
#define SETS_MAX  (1u << 15)
#define SLOTS_MIN 1024
/* Of all walks of one mask, in what a closure looks at: some 10 ms. Of 3,780 masks of random
 * schemas the median was 209, the greatest 38,343. A node of the trie is an eighth of that: two
 * walks through all of it are free, since a usual mask takes one. */
#define WORK_MAX       (1u << 19)
#define NODES_PER_WORK 8
#define FREE_WALKS     2
#define COPY_WORK      8 /* of a stack's edge */

typedef struct place_set {
    size_t first, count; /* in lh_byte_walk.places */
    bool may_end, escapes;
} place_set;

struct lh_byte_walk {
    const lh_automaton *automaton;
    lh_closure *closure;
    const lh_token_trie *trie;
    lh_stack_pool pool;
    place_set *sets;
    uint32_t *rows;   /* [sets][class_count] */
    lh_place *places; /* of all sets */
    uint32_t *slots;  /* [slot_mask + 1]: set + 1; 0 for an empty one */
    size_t set_count, set_capacity, row_capacity, place_count, place_capacity, slot_mask;
    size_t work;     /* since lh_byte_walk_open */
    lh_places found; /* scratch */
    lh_stack_copier copier;
    uint32_t at[LH_TOKEN_TRIE_DEPTH_MAX + 1]; /* the sets on the way to a node; [0]: the begin */
    uint8_t bytes[LH_TOKEN_TRIE_DEPTH_MAX];   /* of the way */
};

lh_status lh_byte_walk_create(const lh_automaton *automaton, lh_closure *closure,
                              const lh_token_trie *trie, lh_byte_walk **walk, lh_error *error) {
    lh_byte_walk *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    made->automaton = automaton;
    made->closure = closure;
    made->trie = trie;
    made->pool.count_max = trie->depth_max;
    *walk = made;
    return LH_OK;
}

void lh_byte_walk_destroy(lh_byte_walk *walk) {
    if (!walk)
        return;
    lh_stack_pool_reset(&walk->pool);
    lh_places_reset(&walk->found);
    lh_stack_copier_reset(&walk->copier);
    free(walk->slots);
    free(walk->places);
    free(walk->rows);
    free(walk->sets);
    free(walk);
}

void lh_undecided_reset(lh_undecided *undecided) {
    free(undecided->nodes);
    free(undecided->paths);
    *undecided = (lh_undecided){0};
}

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint's mask");
}

/* ---- Work ---- */

void lh_byte_walk_open(lh_byte_walk *walk) {
    walk->work = 0;
}

size_t lh_byte_walk_work(const lh_byte_walk *walk) {
    return walk->work;
}

static lh_status fail_ways(lh_error *error) {
    return lh_fail(error, LH_ERR_LIMIT,
                   "the tokens that may come next can be read in too many ways by the grammar");
}

static lh_status count_work(lh_byte_walk *walk, size_t more, lh_error *error) {
    walk->work += more;
    return walk->work <= WORK_MAX + FREE_WALKS * walk->trie->node_count / NODES_PER_WORK
               ? LH_OK
               : fail_ways(error);
}

/* ---- Sets of places ---- */

static size_t slot_of(const lh_byte_walk *walk, const place_set *set) {
    uint64_t seed = set->count * 4 + set->may_end * 2u + set->escapes;
    return (size_t)XXH3_64bits_withSeed(walk->places + set->first,
                                        set->count * sizeof *walk->places, seed) &
           walk->slot_mask;
}

static bool equals(const lh_byte_walk *walk, const place_set *a, const place_set *b) {
    if (a->count != b->count || a->may_end != b->may_end || a->escapes != b->escapes)
        return false;
    return memcmp(walk->places + a->first, walk->places + b->first,
                  a->count * sizeof *walk->places) == 0;
}

static bool grow_slots(lh_byte_walk *walk) {
    size_t slots = walk->slots ? (walk->slot_mask + 1) * 2 : SLOTS_MIN;
    uint32_t *made = calloc(slots, sizeof *made);
    if (!made)
        return false;
    free(walk->slots);
    walk->slots = made;
    walk->slot_mask = slots - 1;
    for (uint32_t i = 0; i < walk->set_count; i++) {
        size_t slot = slot_of(walk, &walk->sets[i]);
        while (walk->slots[slot])
            slot = (slot + 1) & walk->slot_mask;
        walk->slots[slot] = i + 1;
    }
    return true;
}

static lh_status reserve_set(lh_byte_walk *walk, size_t places, lh_error *error) {
    size_t classes = walk->automaton->class_count;
    /* One place more, so that there are some to point to even where a set has none. */
    if (walk->set_count >= SETS_MAX)
        return fail_ways(error);
    if ((!walk->slots || walk->set_count * 2 > walk->slot_mask) && !grow_slots(walk))
        return fail_memory(error);
    if (!lh_growing_array_reserve(&walk->sets, &walk->set_capacity, walk->set_count + 1,
                                  sizeof *walk->sets) ||
        !lh_growing_array_reserve(&walk->rows, &walk->row_capacity, (walk->set_count + 1) * classes,
                                  sizeof *walk->rows) ||
        !lh_growing_array_reserve(&walk->places, &walk->place_capacity,
                                  walk->place_count + places + 1, sizeof *walk->places))
        return fail_memory(error);
    return LH_OK;
}

static lh_status intern(lh_byte_walk *walk, const lh_places *found, uint32_t *number,
                        lh_error *error) {
    lh_status status = reserve_set(walk, found->count, error);
    if (status)
        return status;
    place_set set = {walk->place_count, found->count, found->may_end, found->escapes};
    if (found->count)
        memcpy(walk->places + set.first, found->items, found->count * sizeof *found->items);
    size_t slot = slot_of(walk, &set);
    for (; walk->slots[slot]; slot = (slot + 1) & walk->slot_mask)
        if (equals(walk, &walk->sets[walk->slots[slot] - 1], &set)) {
            *number = walk->slots[slot] - 1;
            return LH_OK;
        }
    *number = (uint32_t)walk->set_count++;
    walk->slots[slot] = *number + 1;
    walk->sets[*number] = set;
    walk->place_count += found->count;
    size_t classes = walk->automaton->class_count;
    for (size_t i = 0; i < classes; i++)
        walk->rows[*number * classes + i] = *number == SET_DEAD ? SET_DEAD : SET_UNKNOWN;
    return LH_OK;
}

static lh_status find_next(lh_byte_walk *walk, uint32_t set, uint8_t byte, uint32_t *next,
                           lh_error *error) {
    const place_set *from = &walk->sets[set];
    lh_places view = {.items = walk->places + from->first, .count = from->count};
    lh_status status =
        lh_closure_step(walk->closure, &walk->pool, &view, byte, &walk->found, error);
    if (!status)
        status = count_work(walk, lh_closure_work(walk->closure), error);
    if (status || (status = intern(walk, &walk->found, next, error)))
        return status;
    const lh_automaton *automaton = walk->automaton;
    walk->rows[set * automaton->class_count + automaton->class_of[byte]] = *next;
    return LH_OK;
}

static inline lh_status step(lh_byte_walk *walk, uint32_t set, uint8_t byte, uint32_t *next,
                             lh_error *error) {
    const lh_automaton *automaton = walk->automaton;
    *next = walk->rows[set * automaton->class_count + automaton->class_of[byte]];
    return *next == SET_UNKNOWN ? find_next(walk, set, byte, next, error) : LH_OK;
}

/* ---- Where a walk begins ---- */

static lh_stack_hash key_of(const lh_byte_walk *walk, uint32_t depth) {
    lh_stack_hash key = {walk->found.may_end, depth};
    for (size_t i = 0; i < walk->found.count; i++)
        key = lh_stack_hash_add(key, lh_stack_hash_place(&walk->pool, walk->found.items[i].state,
                                                         walk->found.items[i].stack));
    return key;
}

lh_status lh_byte_walk_begin(lh_byte_walk *walk, const lh_stack_pool *pool, const lh_places *places,
                             uint32_t depth, lh_stack_hash *key, lh_error *error) {
    uint32_t dead;
    walk->set_count = walk->place_count = 0;
    lh_stack_pool_clear(&walk->pool);
    free(walk->slots);
    walk->slots = NULL;
    walk->slot_mask = 0;
    lh_stack_copy copy = {walk->automaton, pool, &walk->pool, depth, true};
    lh_status status = intern(walk, &(lh_places){0}, &dead, error);
    if (status || (status = lh_places_copy(&walk->found, places, error)) ||
        (status = lh_stack_copier_run(&walk->copier, &copy, &walk->found, error)) ||
        (status = count_work(walk, walk->found.count + COPY_WORK * walk->pool.edge_count, error)) ||
        (status = intern(walk, &walk->found, &walk->at[0], error)))
        return status;
    assert(dead == SET_DEAD);
    *key = key_of(walk, depth);
    return LH_OK;
}

/* ---- Through the trie ---- */

static inline void allow(const lh_token_trie *trie, size_t node, uint64_t *words) {
    for (uint32_t i = trie->nodes[node].first; i < trie->nodes[node + 1].first; i++)
        words[trie->tokens[i] / 64] |= (uint64_t)1 << trie->tokens[i] % 64;
}

static lh_status push_undecided(const lh_byte_walk *walk, lh_undecided *undecided, uint32_t node,
                                lh_error *error) {
    size_t depth = walk->trie->nodes[node].depth;
    if (!lh_growing_array_reserve(&undecided->nodes, &undecided->capacity, undecided->count + 1,
                                  sizeof *undecided->nodes) ||
        !lh_growing_array_reserve(&undecided->paths, &undecided->path_capacity,
                                  undecided->path_bytes + depth, 1))
        return fail_memory(error);
    undecided->nodes[undecided->count++] = node;
    memcpy(undecided->paths + undecided->path_bytes, walk->bytes, depth);
    undecided->path_bytes += depth;
    undecided->covered += walk->trie->nodes[node].end - node - 1;
    return LH_OK;
}

/* The nodes begin .. end, which are children, and theirs, of one whose set is in walk->at. Without
 * `undecided` all is known. */
static lh_status run(lh_byte_walk *walk, size_t begin, size_t end, uint64_t *words,
                     lh_undecided *undecided, lh_error *error) {
    const lh_token_trie *trie = walk->trie;
    size_t visited = 0;
    for (size_t i = begin; i < end; visited++) {
        const lh_token_node *node = &trie->nodes[i];
        uint32_t set;
        lh_status status = step(walk, walk->at[node->depth - 1], node->byte, &set, error);
        if (status)
            return status;
        if (set == SET_DEAD) {
            i = node->end;
            continue;
        }
        walk->at[node->depth] = set;
        walk->bytes[node->depth - 1] = node->byte;
        allow(trie, i, words);
        bool is_cut = walk->sets[set].escapes && node->end > i + 1;
        assert(!is_cut || undecided);
        if (is_cut && (status = push_undecided(walk, undecided, (uint32_t)i, error)))
            return status;
        i = is_cut ? node->end : i + 1;
    }
    return count_work(walk, visited / NODES_PER_WORK, error);
}

lh_status lh_byte_walk_run(lh_byte_walk *walk, uint64_t *words, lh_undecided *undecided,
                           lh_error *error) {
    return run(walk, 0, walk->trie->node_count, words, undecided, error);
}

lh_status lh_byte_walk_decide(lh_byte_walk *walk, const lh_undecided *undecided, uint64_t *words,
                              lh_error *error) {
    const uint8_t *path = undecided->paths;
    lh_status status = LH_OK;
    for (size_t i = 0; i < undecided->count && !status; i++) {
        const lh_token_node *node = &walk->trie->nodes[undecided->nodes[i]];
        for (size_t depth = 0; depth < node->depth && !status; depth++)
            status = step(walk, walk->at[depth], path[depth], &walk->at[depth + 1], error);
        if (!status && walk->at[node->depth] != SET_DEAD)
            status = run(walk, undecided->nodes[i] + 1u, node->end, words, NULL, error);
        path += node->depth;
    }
    return status;
}
