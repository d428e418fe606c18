/* Tables of masks by place and by content, and of parts. */
#include "gateway/constrain/mask_finder.h"

#include "gateway/constrain/key_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A part that leaves more than this share of the trie's nodes undecided is not worth keeping: more
 * of the stacks is looked at. */
#define UNDECIDED_SHARE 32
/* Places whose masks are known: 2 MiB of a table. */
#define PLACES_KEPT_MAX (1u << 15)

typedef struct mask_part {
    bool leaves_much; /* then nothing else is there */
    lh_undecided undecided;
    uint64_t *words;
} mask_part;

struct lh_mask_finder {
    const lh_automaton *automaton;
    lh_byte_walk *walk;
    const lh_token_trie *trie;
    const uint32_t *stop_tokens;
    uint32_t stop_count;
    lh_key_table by_place; /* each value holds a reference */
    lh_key_table by_id;    /* the same masks, once each; holds a reference, too */
    lh_key_table parts;
    size_t parts_bytes;
    uint64_t *words; /* scratch: [lh_mask_words(vocabulary)] */
};

static void release_mask(void *value) {
    lh_mask_release(value);
}

static void destroy_part(void *value) {
    mask_part *part = value;
    if (!part)
        return;
    lh_undecided_reset(&part->undecided);
    free(part->words);
    free(part);
}

lh_status lh_mask_finder_create(const lh_automaton *automaton, lh_byte_walk *walk,
                                const lh_token_trie *trie, const uint32_t *stop_tokens,
                                uint32_t stop_count, lh_mask_finder **finder, lh_error *error) {
    lh_mask_finder *made = calloc(1, sizeof *made);
    if (made)
        made->words = calloc(lh_mask_words(trie->vocabulary) + 1u, sizeof *made->words);
    if (!made || !made->words) {
        lh_mask_finder_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    }
    made->automaton = automaton;
    made->walk = walk;
    made->trie = trie;
    made->stop_tokens = stop_tokens;
    made->stop_count = stop_count;
    *finder = made;
    return LH_OK;
}

void lh_mask_finder_destroy(lh_mask_finder *finder) {
    if (!finder)
        return;
    lh_key_table_reset(&finder->by_place, release_mask);
    lh_key_table_reset(&finder->by_id, release_mask);
    lh_key_table_reset(&finder->parts, destroy_part);
    free(finder->words);
    free(finder);
}

static size_t mask_bytes(const lh_mask_finder *finder) {
    return lh_mask_words(finder->trie->vocabulary) * sizeof(uint64_t);
}

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the masks of a constraint");
}

/* ---- Parts ---- */

static size_t part_bytes(const lh_mask_finder *finder, const mask_part *part) {
    return sizeof *part + (part->words ? mask_bytes(finder) : 0) + part->undecided.path_capacity +
           part->undecided.capacity * sizeof *part->undecided.nodes;
}

static lh_status fill_part(lh_mask_finder *finder, uint32_t depth, mask_part *part,
                           lh_error *error) {
    part->words = calloc(lh_mask_words(finder->trie->vocabulary) + 1u, sizeof *part->words);
    if (!part->words)
        return fail_memory(error);
    lh_status status = lh_byte_walk_run(finder->walk, part->words, &part->undecided, error);
    if (status)
        return status;
    assert(depth != LH_STACK_DEPTH_ALL || part->undecided.count == 0);
    part->leaves_much = part->undecided.covered > finder->trie->node_count / UNDECIDED_SHARE;
    if (part->leaves_much) {
        lh_undecided_reset(&part->undecided);
        free(part->words);
        part->words = NULL;
    }
    return LH_OK;
}

/* The part of the places at which the walk has begun. */
static lh_status make_part(lh_mask_finder *finder, lh_stack_hash key, uint32_t depth,
                           const mask_part **made, lh_error *error) {
    mask_part *part = calloc(1, sizeof *part);
    if (!part)
        return fail_memory(error);
    lh_status status = fill_part(finder, depth, part, error);
    if (!status && finder->parts_bytes + part_bytes(finder, part) > LH_PARTS_BYTES_MAX) {
        lh_key_table_reset(&finder->parts, destroy_part);
        finder->parts_bytes = 0;
    }
    if (!status && !lh_key_table_add(&finder->parts, key, part))
        status = fail_memory(error);
    if (status) {
        destroy_part(part);
        return status;
    }
    finder->parts_bytes += part_bytes(finder, part);
    *made = part;
    return LH_OK;
}

/* Looks as deep as pays. */
static lh_status find_part(lh_mask_finder *finder, const lh_stack_pool *pool,
                           const lh_places *places, const mask_part **part, lh_error *error) {
    static const uint32_t depths[] = {1, 2, 4, LH_STACK_DEPTH_MAX, LH_STACK_DEPTH_ALL};
    lh_status status = LH_OK;
    for (size_t i = 0; i < sizeof depths / sizeof depths[0] && !status; i++) {
        lh_stack_hash key;
        status = lh_byte_walk_begin(finder->walk, pool, places, depths[i], &key, error);
        if (status)
            break;
        *part = lh_key_table_find(&finder->parts, key);
        if (!*part)
            status = make_part(finder, key, depths[i], part, error);
        if (!status && !(*part)->leaves_much)
            break;
    }
    return status;
}

/* ---- Masks ---- */

static void allow(lh_mask_finder *finder, uint32_t token) {
    finder->words[token / 64] |= (uint64_t)1 << token % 64;
}

static lh_status fill_words(lh_mask_finder *finder, const lh_stack_pool *pool,
                            const lh_places *places, lh_error *error) {
    const mask_part *part = NULL;
    lh_byte_walk_open(finder->walk);
    lh_status status = find_part(finder, pool, places, &part, error);
    if (status)
        return status;
    memcpy(finder->words, part->words, mask_bytes(finder));
    if (part->undecided.count > 0) {
        lh_stack_hash key;
        status = lh_byte_walk_begin(finder->walk, pool, places, LH_STACK_DEPTH_ALL, &key, error);
        if (!status)
            status = lh_byte_walk_decide(finder->walk, &part->undecided, finder->words, error);
    }
    for (size_t i = 0; i < places->count; i++) {
        const lh_automaton_state *state = &finder->automaton->states[places->items[i].state];
        if (state->kind == LH_STATE_TOKEN)
            allow(finder, state->value);
    }
    for (uint32_t i = 0; places->may_end && i < finder->stop_count; i++)
        allow(finder, finder->stop_tokens[i]);
    return status;
}

static void forget_masks(lh_mask_finder *finder) {
    lh_key_table_reset(&finder->by_place, release_mask);
    lh_key_table_reset(&finder->by_id, release_mask);
}

/* The mask of finder->words, with a reference for the caller. */
static lh_status make_mask(lh_mask_finder *finder, const lh_mask **mask, lh_error *error) {
    const lh_mask *made;
    lh_status status = lh_mask_create(finder->words, finder->trie->vocabulary, &made, error);
    if (status)
        return status;
    lh_stack_hash id = {made->id, 0};
    const lh_mask *twin = lh_key_table_find(&finder->by_id, id);
    if (twin) {
        lh_mask_release(made);
        *mask = lh_mask_acquire(twin);
        return LH_OK;
    }
    if ((finder->by_id.count + 1) * mask_bytes(finder) > LH_MASKS_BYTES_MAX)
        forget_masks(finder);
    if (!lh_key_table_add(&finder->by_id, id, (void *)(uintptr_t)made)) {
        lh_mask_release(made);
        return fail_memory(error);
    }
    *mask = lh_mask_acquire(made);
    return LH_OK;
}

static lh_stack_hash key_of(const lh_stack_pool *pool, const lh_places *places) {
    lh_stack_hash key = {places->may_end, 0};
    for (size_t i = 0; i < places->count; i++)
        key = lh_stack_hash_add(
            key, lh_stack_hash_place(pool, places->items[i].state, places->items[i].stack));
    return key;
}

lh_status lh_mask_finder_find(lh_mask_finder *finder, const lh_stack_pool *pool,
                              const lh_places *places, const lh_mask **mask, size_t *work,
                              lh_error *error) {
    lh_stack_hash key = key_of(pool, places);
    *work = places->count;
    const lh_mask *known = lh_key_table_find(&finder->by_place, key);
    if (known) {
        *mask = lh_mask_acquire(known);
        return LH_OK;
    }
    lh_status status = fill_words(finder, pool, places, error);
    *work += lh_byte_walk_work(finder->walk);
    if (status || (status = make_mask(finder, &known, error)))
        return status;
    if (finder->by_place.count >= PLACES_KEPT_MAX)
        forget_masks(finder);
    /* Without memory for the table, it is found again the next time. */
    if (lh_key_table_add(&finder->by_place, key, (void *)(uintptr_t)known))
        lh_mask_acquire(known);
    *mask = known;
    return LH_OK;
}
