/* What goes out on one connection: a buffer that is filled, then given to the kernel, which may
 * take it in parts.
 *
 * Bounded so that an urgent stream overtakes a bulky one on a slow link: one buffer is on its way
 * at most, the kernel holds little itself, and the next frame is chosen when there is room for it.
 * The kernel's own limit (TCP_NOTSENT_LOWAT) counts only for writes that wait until it asks for
 * more, and libuv's do not: what comes unasked joins a segment that waits, up to 64 KiB, a quarter
 * of a second at 2 Mbit/s. So it is asked before each write what it holds. The buffer is filled
 * with one frame at first, and with more while the kernel takes all at once, as it does on a fast
 * link. Private to common/http2. Thread: the loop's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    LH_H2_OUTPUT_BYTES_MIN = 17 << 10, /* one DATA frame and some control frames */
    LH_H2_OUTPUT_BYTES_MAX = 64 << 10
};

typedef struct lh_h2_output {
    uv_stream_t *stream;
    uv_write_t write;
    uv_timer_t drain; /* runs while the kernel holds enough; its data is the context */
    /* The rest has been taken, the kernel holds less again, or an error of libuv's. */
    void (*on_written)(struct lh_h2_output *output, int code);
    void *context;
    uint32_t limit; /* the most to fill at once */
    /* LH_H2_OUTPUT_BYTES_MIN .. _MAX: what was filled goes before anything urgent */
    uint32_t limit_max;
    size_t used, sent; /* of bytes */
    /* the kernel is given no more while it holds this much; 0: it may hold what it takes */
    size_t unsent_bytes_max;
    bool writing; /* the rest is on its way: neither fill nor flush */
    uint64_t bytes_sent;
    uint8_t bytes[LH_H2_OUTPUT_BYTES_MAX];
} lh_h2_output;

/* Of an output that is all zeros. Its owner closes `drain`. */
void lh_h2_output_init(lh_h2_output *output, uv_stream_t *stream,
                       void (*on_written)(lh_h2_output *output, int code), void *context);
/* -1: there is none. */
int lh_h2_output_descriptor(const lh_h2_output *output);
/* How much the kernel may hold unsent: an urgent frame waits for it. What is over `bytes` waits
 * here, so that its order may still change. */
void lh_h2_output_set_unsent_max(lh_h2_output *output, uint32_t bytes);
/* The kernel holds enough: do not fill, on_written comes. */
bool lh_h2_output_is_full(lh_h2_output *output);
/* Gives the kernel what it takes now. True when that was all. Else the rest is lost with the
 * connection: for last words. */
bool lh_h2_output_try(lh_h2_output *output);
/* Gives the kernel everything; on_written comes when it does not take all now. An error of libuv's,
 * or 0. */
int lh_h2_output_flush(lh_h2_output *output);
