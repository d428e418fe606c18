/* First come, first served. */
#include "gateway/schedule/wait_queue.h"

#include <stdlib.h>

struct lh_wait_queue {
    lh_sequence_list arrived; /* by id */
};

lh_status lh_wait_queue_create(lh_wait_queue **queue, lh_error *error) {
    *queue = calloc(1, sizeof **queue);
    return *queue ? LH_OK : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the waiting queue");
}

void lh_wait_queue_destroy(lh_wait_queue *queue) {
    if (!queue)
        return;
    while (queue->arrived.first) {
        lh_sequence *sequence = queue->arrived.first;
        lh_sequence_list_remove(&queue->arrived, sequence);
        lh_sequence_destroy(sequence);
    }
    free(queue);
}

void lh_wait_queue_push(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_sequence_list_push(&queue->arrived, sequence);
}

void lh_wait_queue_put_back(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_sequence_list_insert_by_id(&queue->arrived, sequence);
}

lh_sequence *lh_wait_queue_next(const lh_wait_queue *queue) {
    return queue->arrived.first;
}

void lh_wait_queue_remove(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_sequence_list_remove(&queue->arrived, sequence);
}

uint32_t lh_wait_queue_count(const lh_wait_queue *queue) {
    return queue->arrived.count;
}

lh_sequence *lh_wait_queue_walk(const lh_wait_queue *queue, const lh_sequence *sequence) {
    return sequence ? sequence->next : queue->arrived.first;
}
