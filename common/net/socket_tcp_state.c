/* getsockopt(TCP_INFO). The kernel's header and the C library's exclude each other, and only the
 * kernel's has the fields that are needed here. */
#include "common/net/socket_tcp_state.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

enum { THRESHOLD_NONE = 0x7fffffff /* in segments: TCP_INFINITE_SSTHRESH */ };

bool lh_socket_tcp_state(int descriptor, lh_tcp_state *state) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        length < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt)
        return false;
    uint64_t segment = info.tcpi_snd_mss;
    *state = (lh_tcp_state){
        .acked_bytes = info.tcpi_bytes_acked + info.tcpi_sacked * segment,
        .in_flight_bytes = info.tcpi_unacked * segment,
        .unsent_bytes = info.tcpi_notsent_bytes,
        .segment_bytes = info.tcpi_snd_mss,
        .window_bytes = info.tcpi_snd_cwnd * segment,
        .threshold_bytes = info.tcpi_snd_ssthresh >= THRESHOLD_NONE
                               ? LH_TCP_NO_THRESHOLD
                               : info.tcpi_snd_ssthresh * segment,
        .round_trip_min_us = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt,
        .retransmit_timeout_us = info.tcpi_rto,
        .idle_us = (int64_t)info.tcpi_last_data_sent * 1000,
    };
    return true;
}
