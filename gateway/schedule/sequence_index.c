/* Chains of a hash table, and a heap of deadlines. */
#include "gateway/schedule/sequence_index.h"

#include <stdlib.h>

LIST_HEAD(lh_sequence_bucket, lh_sequence);

struct lh_sequence_index {
    lh_heap due;
    uint32_t bucket_count; /* a power of two */
    struct lh_sequence_bucket buckets[];
};

static bool is_due_before(const lh_heap_node *a, const lh_heap_node *b) {
    return LH_HEAP_RECORD(a, lh_sequence, schedule.due)->request.deadline_us <
           LH_HEAP_RECORD(b, lh_sequence, schedule.due)->request.deadline_us;
}

lh_status lh_sequence_index_create(uint32_t sequences, lh_sequence_index **index, lh_error *error) {
    uint32_t count = 64;
    while (count < sequences)
        count *= 2;
    lh_sequence_index *b = calloc(1, sizeof *b + count * sizeof b->buckets[0]);
    if (!b)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to find %u sequences by", sequences);
    b->bucket_count = count;
    b->due.precedes = is_due_before;
    *index = b;
    return LH_OK;
}

void lh_sequence_index_destroy(lh_sequence_index *index) {
    free(index);
}

static struct lh_sequence_bucket *bucket_of(const lh_sequence_index *index, uint64_t handle) {
    return (struct lh_sequence_bucket *)&index
        ->buckets[(handle * 0x9e3779b97f4a7c15u >> 32) & (index->bucket_count - 1)];
}

void lh_sequence_index_add(lh_sequence_index *index, lh_sequence *sequence) {
    LIST_INSERT_HEAD(bucket_of(index, sequence->handle), sequence, schedule.in_bucket);
    if (sequence->request.deadline_us != 0)
        lh_heap_push(&index->due, &sequence->schedule.due);
}

void lh_sequence_index_remove(lh_sequence_index *index, lh_sequence *sequence) {
    LIST_REMOVE(sequence, schedule.in_bucket);
    if (sequence->request.deadline_us != 0)
        lh_heap_remove(&index->due, &sequence->schedule.due);
}

lh_sequence *lh_sequence_index_find(const lh_sequence_index *index, uint64_t handle) {
    lh_sequence *sequence;
    LIST_FOREACH(sequence, bucket_of(index, handle), schedule.in_bucket)
    if (sequence->handle == handle)
        break;
    return sequence;
}

lh_sequence *lh_sequence_index_next_due(const lh_sequence_index *index) {
    return index->due.root ? LH_HEAP_RECORD(index->due.root, lh_sequence, schedule.due) : NULL;
}
