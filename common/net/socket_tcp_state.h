/* What the kernel says of a TCP connection (TCP_INFO), as plain values. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* lh_tcp_state.threshold_bytes: no loss has set it yet. */
#define LH_TCP_NO_THRESHOLD UINT64_MAX

typedef struct lh_tcp_state {
    /* since the connection began, those behind a gap too; the SYN counts as one */
    uint64_t acked_bytes;
    uint64_t in_flight_bytes; /* sent, not acknowledged: whole segments */
    uint64_t unsent_bytes;    /* taken by the kernel, not sent */
    uint32_t segment_bytes;
    uint64_t window_bytes; /* the congestion window */
    /* below it the window grows with every acknowledgement (slow start) */
    uint64_t threshold_bytes;
    int64_t round_trip_min_us;
    int64_t retransmit_timeout_us;
    int64_t idle_us; /* since data was last sent */
} lh_tcp_state;

/* False: not a TCP connection, or an older kernel than 4.9. */
bool lh_socket_tcp_state(int descriptor, lh_tcp_state *state);

static inline bool lh_tcp_is_in_slow_start(const lh_tcp_state *state) {
    return state->window_bytes < state->threshold_bytes;
}
