/* getsockopt(TCP_INFO). The kernel's header and the C library's exclude each other, and only the
 * kernel's has the fields that are needed here. */
#include "common/net/socket_tcp_state.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { THRESHOLD_NONE = 0x7fffffff /* in segments: TCP_INFINITE_SSTHRESH */ };

lh_status lh_socket_tcp_state(int descriptor, lh_tcp_state *state, lh_error *error) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return lh_fail(error, LH_ERR_IO, "TCP_INFO: %s", strerror(errno));
    if (length < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt)
        return lh_fail(error, LH_ERR_IO, "TCP_INFO: this kernel tells too little");
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
    return LH_OK;
}

/* The setting is of the network namespace, so of all connections of this process. */
static bool slow_start_after_idle(void) {
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "re");
    int digit = file ? fgetc(file) : EOF;
    if (file)
        fclose(file);
    return digit != '0'; /* the kernel's default, where it cannot be read */
}

bool lh_socket_window_decays(int descriptor) {
    char name[16] = ""; /* TCP_CA_NAME_MAX */
    socklen_t length = sizeof name;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 &&
        strncmp(name, "bbr", 3) == 0)
        return false;
    return slow_start_after_idle();
}
