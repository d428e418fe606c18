/* One mutex, held while a line is copied, and one thread that writes without it. */
#include "common/base/log_writer.h"

#include "common/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* ---- Writing ---- */

/* Whether a line can be written without waiting, within this time; -1: however long that takes. A
 * pipe is ready when it has room for a whole line (PIPE_BUF). What cannot be polled, or has no
 * reader any more, is ready: write(2) says what is wrong. */
static bool is_ready(int descriptor, int timeout_ms) {
    struct pollfd wanted = {.fd = descriptor, .events = POLLOUT};
    return poll(&wanted, 1, timeout_ms) != 0;
}

static bool write_whole(int descriptor, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(descriptor, bytes, length);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            is_ready(descriptor, -1); /* another process has made it non-blocking */
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The line, if there is one, behind the one that says how many are missing before it. */
static void write_entry(lh_log_writer *writer, const char *line, size_t length,
                        unsigned long long left_out) {
    char gap[LH_LOG_LINE_BYTES];
    left_out += writer->unwritten;
    writer->unwritten = left_out;
    if (left_out > 0 && write_whole(writer->descriptor, gap, writer->render_gap(left_out, gap)))
        writer->unwritten = 0;
    if (length > 0 && !write_whole(writer->descriptor, line, length))
        writer->unwritten++;
}

/* ---- Without a thread ---- */

static int left_ms(int64_t end_us) {
    int64_t left_us = end_us - lh_clock_us();
    return left_us > 0 ? (int)(left_us / 1000) : 0;
}

/* Writes the queue until end_us, or as far as the descriptor takes it at once where that is 0. The
 * caller holds the mutex. */
static void write_until(lh_log_writer *writer, int64_t end_us) {
    char line[LH_LOG_LINE_BYTES];
    size_t length;
    unsigned long long left_out;
    while (is_ready(writer->descriptor, left_ms(end_us))) {
        if (!lh_log_queue_pop(&writer->queue, line, &length, &left_out)) {
            atomic_store(&writer->is_idle, true);
            return;
        }
        write_entry(writer, line, length, left_out);
    }
}

void lh_log_writer_put(lh_log_writer *writer, const char *line, size_t length) {
    pthread_mutex_lock(&writer->mutex);
    lh_log_queue_push(&writer->queue, line, length);
    atomic_store(&writer->is_idle, false);
    if (atomic_load(&writer->has_thread))
        pthread_cond_signal(&writer->has_work);
    else
        write_until(writer, 0);
    pthread_mutex_unlock(&writer->mutex);
}

/* ---- With one ---- */

static void *run(void *context) {
    lh_log_writer *writer = context;
    char line[LH_LOG_LINE_BYTES];
    size_t length;
    unsigned long long left_out;
    pthread_setname_np(pthread_self(), "log");
    for (;;) {
        pthread_mutex_lock(&writer->mutex);
        while (!lh_log_queue_pop(&writer->queue, line, &length, &left_out)) {
            atomic_store(&writer->is_idle, true);
            pthread_cond_wait(&writer->has_work, &writer->mutex);
        }
        pthread_mutex_unlock(&writer->mutex);
        write_entry(writer, line, length, left_out);
    }
    return NULL;
}

/* Signals are for other threads. */
static int start_thread(lh_log_writer *writer) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, &attributes, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failure;
}

lh_status lh_log_writer_start(lh_log_writer *writer, lh_error *error) {
    pthread_mutex_lock(&writer->mutex);
    int failure = start_thread(writer);
    atomic_store(&writer->has_thread, failure == 0);
    pthread_mutex_unlock(&writer->mutex);
    return failure ? lh_fail(error, LH_ERR_NO_MEMORY, "the thread of the log cannot be started")
                   : LH_OK;
}

/* ---- Flushing ---- */

/* Asks again and again, since whoever was interrupted may hold the mutex. */
static void await_idle(const lh_log_writer *writer) {
    const struct timespec pause = {0, 1000000};
    for (int ms = 0; ms < LH_LOG_FLUSH_MS && !atomic_load(&writer->is_idle); ms++)
        nanosleep(&pause, NULL);
}

void lh_log_writer_flush(lh_log_writer *writer) {
    pthread_mutex_lock(&writer->mutex);
    bool has_thread = atomic_load(&writer->has_thread);
    if (!has_thread)
        write_until(writer, lh_clock_us() + LH_LOG_FLUSH_MS * INT64_C(1000));
    pthread_mutex_unlock(&writer->mutex);
    if (has_thread)
        await_idle(writer);
}

void lh_log_writer_flush_in_handler(lh_log_writer *writer) {
    if (atomic_load(&writer->has_thread))
        await_idle(writer);
}
