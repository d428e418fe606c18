/* A ring of bytes: each line stands behind its length and the count of those left out. */
#include "common/base/log_queue.h"

#include <assert.h>
#include <string.h>

typedef struct entry_head {
    size_t length;
    unsigned long long left_out;
} entry_head;

static_assert(LH_LOG_QUEUE_BYTES_MIN >= LH_LOG_LINE_BYTES + sizeof(entry_head), "room for a line");

static void append(lh_log_queue *queue, const void *bytes, size_t count) {
    size_t at = (queue->begin + queue->used) % queue->memory_bytes;
    size_t to_end = queue->memory_bytes - at, first = count < to_end ? count : to_end;
    memcpy(queue->memory + at, bytes, first);
    memcpy(queue->memory, (const char *)bytes + first, count - first);
    queue->used += count;
}

static void remove_first(lh_log_queue *queue, void *bytes, size_t count) {
    size_t to_end = queue->memory_bytes - queue->begin, first = count < to_end ? count : to_end;
    assert(count <= queue->used);
    memcpy(bytes, queue->memory + queue->begin, first);
    memcpy((char *)bytes + first, queue->memory, count - first);
    queue->begin = (queue->begin + count) % queue->memory_bytes;
    queue->used -= count;
}

void lh_log_queue_push(lh_log_queue *queue, const char *line, size_t length) {
    const entry_head head = {length, queue->left_out};
    assert(length > 0 && length <= LH_LOG_LINE_BYTES);
    if (sizeof head + length > queue->memory_bytes - queue->used) {
        queue->left_out++;
        return;
    }
    append(queue, &head, sizeof head);
    append(queue, line, length);
    queue->left_out = 0;
}

bool lh_log_queue_pop(lh_log_queue *queue, char line[LH_LOG_LINE_BYTES], size_t *length,
                      unsigned long long *left_out) {
    entry_head head = {0, queue->left_out};
    if (queue->used > 0) {
        remove_first(queue, &head, sizeof head);
        remove_first(queue, line, head.length);
    } else {
        queue->left_out = 0;
    }
    if (queue->used == 0)
        queue->begin = 0; /* a queue that is nearly always empty keeps to its first pages */
    *length = head.length;
    *left_out = head.left_out;
    return head.length > 0 || head.left_out > 0;
}
