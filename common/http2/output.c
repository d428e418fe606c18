/* uv_try_write first, and uv_write for what is left. */
#include "common/http2/output.h"

#include "common/base/arithmetic.h"
#include "common/net/socket_options.h"

#include <assert.h>

enum {
    /* until the kernel is asked again: half of what it may hold (link.c) */
    DRAIN_MS = 4,
    STRICT_BYTES_MAX = 128 << 10 /* beyond, what it takes unasked makes no difference */
};

static void on_rest_written(uv_write_t *write, int code) {
    lh_h2_output *output = write->data;
    output->writing = false;
    if (code == 0)
        output->bytes_sent += output->used - output->sent;
    output->used = output->sent = 0;
    output->on_written(output, code);
}

void lh_h2_output_init(lh_h2_output *output, uv_stream_t *stream,
                       void (*on_written)(lh_h2_output *output, int code), void *context) {
    output->stream = stream;
    output->on_written = on_written;
    output->context = context;
    output->limit = LH_H2_OUTPUT_BYTES_MIN;
    output->limit_max = LH_H2_OUTPUT_BYTES_MAX;
    output->write.data = output;
    uv_timer_init(stream->loop, &output->drain);
    output->drain.data = context;
}

int lh_h2_output_descriptor(const lh_h2_output *output) {
    int descriptor;
    return uv_fileno((const uv_handle_t *)output->stream, &descriptor) == 0 ? descriptor : -1;
}

void lh_h2_output_set_unsent_max(lh_h2_output *output, uint32_t bytes) {
    output->limit_max =
        lh_max_u32(LH_H2_OUTPUT_BYTES_MIN, lh_min_u32(bytes, LH_H2_OUTPUT_BYTES_MAX));
    output->limit = lh_min_u32(output->limit, output->limit_max);
    output->unsent_bytes_max = bytes;
    lh_socket_set_unsent_max(lh_h2_output_descriptor(output), (int)bytes);
}

static void on_drained(uv_timer_t *timer) {
    lh_h2_output *output = (lh_h2_output *)(void *)((char *)timer - offsetof(lh_h2_output, drain));
    output->on_written(output, 0);
}

bool lh_h2_output_is_full(lh_h2_output *output) {
    size_t most = output->unsent_bytes_max;
    if (most == 0 || most > STRICT_BYTES_MAX ||
        lh_socket_unsent_bytes(lh_h2_output_descriptor(output)) < most)
        return false;
    uv_timer_start(&output->drain, on_drained, DRAIN_MS, 0);
    return true;
}

static int write_now(lh_h2_output *output) {
    uv_buf_t buffer = uv_buf_init((char *)output->bytes, (unsigned)output->used);
    int written = uv_try_write(output->stream, &buffer, 1);
    output->sent = written > 0 ? (size_t)written : 0;
    output->bytes_sent += output->sent;
    return written < 0 && written != UV_EAGAIN ? written : 0;
}

static int write_rest(lh_h2_output *output) {
    uv_buf_t buffer =
        uv_buf_init((char *)output->bytes + output->sent, (unsigned)(output->used - output->sent));
    int code = uv_write(&output->write, output->stream, &buffer, 1, on_rest_written);
    output->writing = code == 0;
    return code;
}

bool lh_h2_output_try(lh_h2_output *output) {
    return output->used == 0 || (write_now(output) == 0 && output->sent == output->used);
}

int lh_h2_output_flush(lh_h2_output *output) {
    assert(!output->writing && output->used <= sizeof output->bytes);
    int code = write_now(output);
    if (code < 0)
        return code;
    if (output->sent < output->used) {
        output->limit = LH_H2_OUTPUT_BYTES_MIN;
        return write_rest(output);
    }
    output->limit = lh_min_u32(output->limit * 2, output->limit_max);
    return 0;
}
