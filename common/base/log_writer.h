/* Writes the log's lines, so that who has something to say never waits for those who read it: a
 * pipe that nobody empties, a terminal that is held, a slow disk.
 *
 *     put --> queue --> thread --> write(2)          put --> queue --> write(2), where poll(2)
 *             with a thread                                            says that it does not wait
 *                                                            without one
 *
 * Lines keep their order, and each is one write(2) where the descriptor takes it whole. Where the
 * queue is full lines are left out, and a line says how many, as soon as one can be written again.
 * A line that cannot be written (a full disk) is left out in the same way. A process whose writer
 * has a thread keeps it until it ends. */
#pragma once

#include "common/base/log_queue.h"
#include "common/base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* Renders the line that says how many were left out; returns its length. Any thread. */
typedef size_t lh_log_render_gap(unsigned long long left_out, char line[LH_LOG_LINE_BYTES]);

/* In static storage, begun with LH_LOG_WRITER. */
typedef struct lh_log_writer {
    int descriptor;
    lh_log_render_gap *render_gap;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t has_work;
    lh_log_queue queue;
    unsigned long long
        unwritten; /* lines that write(2) refused; whose it is to write, without it */
    atomic_bool has_thread;
    atomic_bool is_idle; /* all that was put is written, or will never be */
} lh_log_writer;

#define LH_LOG_WRITER(descriptor, render_gap, memory)                                              \
    {descriptor,                                                                                   \
     render_gap,                                                                                   \
     PTHREAD_MUTEX_INITIALIZER,                                                                    \
     PTHREAD_COND_INITIALIZER,                                                                     \
     LH_LOG_QUEUE(memory),                                                                         \
     0,                                                                                            \
     false,                                                                                        \
     true}

/* Thread: any. Neither waits for the descriptor nor allocates. */
void lh_log_writer_put(lh_log_writer *writer, const char *line, size_t length);

/* Gives it a thread, which takes no signals. Once. LH_ERR_NO_MEMORY. */
lh_status lh_log_writer_start(lh_log_writer *writer, lh_error *error);

/* Waits until all that was put is written, for LH_LOG_FLUSH_MS at most. Thread: any. */
void lh_log_writer_flush(lh_log_writer *writer);
#define LH_LOG_FLUSH_MS 1000

/* The same for a signal's handler, which may have interrupted any of the above: without a thread it
 * does nothing, since then lines are written as they are put. */
void lh_log_writer_flush_in_handler(lh_log_writer *writer);
