/* The word is a doubly linked list of symbols in an array; a heap holds the pairs that could be
 * joined.
 *
 * A heap entry is rank << 32 | position of the left symbol, so its order is the order of joining.
 * Entries are never removed early: one is stale when its position no longer begins a pair of that
 * rank, which the symbol itself remembers. Every joining adds at most two entries, so 3 n are
 * enough. */
#include "gateway/text/merge_list.h"

#include <assert.h>
#include <stdlib.h>

#define HEAP_WAYS 4 /* shallower than a binary heap: fewer cache misses on long words */

void lh_merge_list_reset(lh_merge_list *list) {
    free(list->symbols);
    free(list->heap);
    *list = (lh_merge_list){0};
}

lh_status lh_merge_list_reserve(lh_merge_list *list, size_t length, lh_error *error) {
    if (length <= list->capacity)
        return LH_OK;
    if (length > INT32_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "a word of %zu bytes is too long", length);
    size_t capacity = length < 64 ? 64 : length;
    lh_merge_symbol *symbols = realloc(list->symbols, capacity * sizeof *symbols);
    if (symbols)
        list->symbols = symbols;
    uint64_t *heap = realloc(list->heap, 3 * capacity * sizeof *heap);
    if (heap)
        list->heap = heap;
    if (!symbols || !heap)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a word of %zu bytes", length);
    list->capacity = capacity;
    return LH_OK;
}

static void heap_push(lh_merge_list *list, uint64_t entry) {
    uint64_t *heap = list->heap;
    assert(list->heap_count < 3 * list->capacity);
    size_t at = list->heap_count++;
    while (at > 0 && heap[(at - 1) / HEAP_WAYS] > entry) {
        heap[at] = heap[(at - 1) / HEAP_WAYS];
        at = (at - 1) / HEAP_WAYS;
    }
    heap[at] = entry;
}

static uint64_t heap_pop(lh_merge_list *list) {
    uint64_t *heap = list->heap;
    uint64_t top = heap[0];
    uint64_t entry = heap[--list->heap_count];
    size_t count = list->heap_count, at = 0;
    for (size_t child = 1; child < count; child = at * HEAP_WAYS + 1) {
        size_t last = child + HEAP_WAYS < count ? child + HEAP_WAYS : count, least = child;
        for (size_t i = child + 1; i < last; i++)
            if (heap[i] < heap[least])
                least = i;
        if (heap[least] >= entry)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = entry;
    return top;
}

/* Looks up the pair that begins at `position`, and queues it where it can be joined. */
static void consider(lh_merge_list *list, lh_merge_rank rank_of, const void *source,
                     uint32_t position) {
    lh_merge_symbol *symbol = &list->symbols[position];
    assert(position < list->capacity);
    symbol->rank = LH_MERGE_NEVER;
    if (symbol->next == LH_MERGE_NOWHERE)
        return;
    symbol->rank = rank_of(source, list, position, &symbol->joined);
    if (symbol->rank != LH_MERGE_NEVER)
        heap_push(list, (uint64_t)symbol->rank << 32 | position);
}

static void join_at(lh_merge_list *list, lh_merge_rank rank_of, const void *source,
                    uint32_t position) {
    lh_merge_symbol *symbol = &list->symbols[position];
    lh_merge_symbol *gone = &list->symbols[symbol->next];
    assert(gone->previous == position);
    symbol->token = symbol->joined;
    symbol->next = gone->next;
    gone->rank = LH_MERGE_NEVER;
    if (symbol->next != LH_MERGE_NOWHERE)
        list->symbols[symbol->next].previous = position;
    consider(list, rank_of, source, position);
    if (symbol->previous != LH_MERGE_NOWHERE)
        consider(list, rank_of, source, symbol->previous);
}

void lh_merge_list_run(lh_merge_list *list, lh_merge_rank rank_of, const void *source) {
    list->heap_count = 0;
    for (uint32_t at = 0; at != LH_MERGE_NOWHERE; at = list->symbols[at].next)
        consider(list, rank_of, source, at);
    while (list->heap_count > 0) {
        uint64_t entry = heap_pop(list);
        uint32_t position = (uint32_t)entry;
        if (list->symbols[position].rank == entry >> 32)
            join_at(list, rank_of, source, position);
    }
}
