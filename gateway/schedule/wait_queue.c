/* A heap by rank and one by age for each tenant; whose turn it is says fair_share.c. */
#include "gateway/schedule/wait_queue.h"

#include <assert.h>

/* Every eighth one is the oldest, whatever its priority. */
#define OLDEST_SHARE 8u

void lh_wait_queue_reset(lh_wait_queue *queue) {
    for (lh_sequence *sequence; (sequence = queue->all.first);) {
        lh_sequence_list_remove(&queue->all, sequence);
        lh_sequence_destroy(sequence);
    }
}

/* ---- Order ---- */

static bool is_older(const lh_heap_node *a, const lh_heap_node *b) {
    return LH_HEAP_RECORD(a, lh_sequence, schedule.by_age)->schedule.id <
           LH_HEAP_RECORD(b, lh_sequence, schedule.by_age)->schedule.id;
}

static bool has_better_rank(const lh_heap_node *a, const lh_heap_node *b) {
    const lh_sequence *x = LH_HEAP_RECORD(a, lh_sequence, schedule.by_rank),
                      *y = LH_HEAP_RECORD(b, lh_sequence, schedule.by_rank);
    return x->request.priority != y->request.priority ? x->request.priority < y->request.priority
                                                      : x->schedule.id < y->schedule.id;
}

static void insert(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_share *share = sequence->schedule.share;
    sequence->schedule.state = LH_SEQUENCE_WAITING;
    lh_heap_push(&share->by_rank, &sequence->schedule.by_rank);
    lh_heap_push(&share->by_age, &sequence->schedule.by_age);
    lh_sequence_list_push(&queue->all, sequence);
    queue->rows += sequence->length;
    lh_share_set_waiting(share, true);
}

static void take_out(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_share *share = sequence->schedule.share;
    assert(sequence->schedule.state == LH_SEQUENCE_WAITING && queue->rows >= sequence->length);
    lh_heap_remove(&share->by_rank, &sequence->schedule.by_rank);
    lh_heap_remove(&share->by_age, &sequence->schedule.by_age);
    lh_sequence_list_remove(&queue->all, sequence);
    queue->rows -= sequence->length;
    lh_share_set_waiting(share, share->by_age.root);
}

static lh_sequence *oldest_of(const lh_share *share) {
    return LH_HEAP_RECORD(share->by_age.root, lh_sequence, schedule.by_age);
}

lh_sequence *lh_wait_queue_next(lh_wait_queue *queue, double pages_free, int64_t now_us) {
    lh_share_table_set_time(queue->shares, now_us);
    const lh_share *share = lh_share_table_next(queue->shares, pages_free);
    if (!share)
        return NULL;
    return share->passed_over + 1 >= OLDEST_SHARE
               ? oldest_of(share)
               : LH_HEAP_RECORD(share->by_rank.root, lh_sequence, schedule.by_rank);
}

/* ---- Moves ---- */

lh_status lh_wait_queue_push(lh_wait_queue *queue, lh_sequence *sequence, int64_t now_us) {
    assert(!sequence->schedule.share);
    lh_share_table_set_time(queue->shares, now_us);
    lh_share *share = lh_share_table_join(queue->shares, sequence->request.tenant);
    if (!share)
        return LH_ERR_NO_MEMORY;
    share->by_rank.precedes = has_better_rank;
    share->by_age.precedes = is_older;
    sequence->schedule.share = share;
    insert(queue, sequence);
    return LH_OK;
}

void lh_wait_queue_admit(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_share *share = sequence->schedule.share;
    share->passed_over = sequence == oldest_of(share) ? 0 : share->passed_over + 1;
    take_out(queue, sequence);
    lh_share_take(share);
    if (!sequence->schedule.is_charged)
        lh_share_charge(share, lh_sequence_pending(sequence));
    sequence->schedule.is_charged = true;
}

void lh_wait_queue_put_back(lh_wait_queue *queue, lh_sequence *sequence) {
    assert(sequence->schedule.state != LH_SEQUENCE_WAITING);
    lh_share_give_back(sequence->schedule.share);
    insert(queue, sequence);
}

void lh_wait_queue_leave(lh_wait_queue *queue, lh_sequence *sequence) {
    if (sequence->schedule.state == LH_SEQUENCE_WAITING)
        take_out(queue, sequence);
    else
        lh_share_give_back(sequence->schedule.share);
    lh_share_leave(sequence->schedule.share);
    sequence->schedule.share = NULL;
}
