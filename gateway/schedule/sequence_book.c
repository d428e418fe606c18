/* Chains of a hash table, and a heap of deadlines. */
#include "gateway/schedule/sequence_book.h"

#include <stdlib.h>

struct lh_sequence_book {
    lh_heap due;
    uint32_t bucket_count; /* a power of two */
    lh_sequence *buckets[];
};

static bool is_due_before(const lh_heap_node *a, const lh_heap_node *b) {
    return LH_HEAP_RECORD(a, lh_sequence, due)->deadline_us <
           LH_HEAP_RECORD(b, lh_sequence, due)->deadline_us;
}

lh_status lh_sequence_book_create(uint32_t sequences, lh_sequence_book **book, lh_error *error) {
    uint32_t count = 64;
    while (count < sequences)
        count *= 2;
    lh_sequence_book *b = calloc(1, sizeof *b + count * sizeof b->buckets[0]);
    if (!b)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to find %u sequences by", sequences);
    b->bucket_count = count;
    b->due.precedes = is_due_before;
    *book = b;
    return LH_OK;
}

void lh_sequence_book_destroy(lh_sequence_book *book) {
    free(book);
}

static uint32_t bucket_of(const lh_sequence_book *book, uint64_t handle) {
    return (uint32_t)(handle * 0x9e3779b97f4a7c15u >> 32) & (book->bucket_count - 1);
}

void lh_sequence_book_add(lh_sequence_book *book, lh_sequence *sequence) {
    lh_sequence **bucket = &book->buckets[bucket_of(book, sequence->handle)];
    sequence->next_in_bucket = *bucket;
    *bucket = sequence;
    sequence->is_booked = true;
    if (sequence->deadline_us != 0)
        lh_heap_push(&book->due, &sequence->due);
}

void lh_sequence_book_remove(lh_sequence_book *book, lh_sequence *sequence) {
    if (!sequence->is_booked)
        return;
    lh_sequence **link = &book->buckets[bucket_of(book, sequence->handle)];
    while (*link != sequence)
        link = &(*link)->next_in_bucket;
    *link = sequence->next_in_bucket;
    sequence->is_booked = false;
    if (sequence->deadline_us != 0)
        lh_heap_remove(&book->due, &sequence->due);
}

lh_sequence *lh_sequence_book_find(const lh_sequence_book *book, uint64_t handle) {
    lh_sequence *sequence = book->buckets[bucket_of(book, handle)];
    while (sequence && sequence->handle != handle)
        sequence = sequence->next_in_bucket;
    return sequence;
}

lh_sequence *lh_sequence_book_next_due(const lh_sequence_book *book) {
    return book->due.root ? LH_HEAP_RECORD(book->due.root, lh_sequence, due) : NULL;
}
