/* setsockopt(2), each with its reason. */
#include "common/net/socket_options.h"

#include "common/net/congestion_control.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    UNSENT_BYTES_MAX = 32 << 10, /* until the link's rate is known (common/http2/link.c) */
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3
};

lh_status lh_socket_set_options(int descriptor, int64_t dead_after_ms,
                                const char *congestion_control, lh_error *error) {
    int user_timeout = dead_after_ms > INT32_MAX ? INT32_MAX : (int)dead_after_ms;
    const struct {
        int level, name, value;
        const char *text;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX, "TCP_NOTSENT_LOWAT"},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout, "TCP_USER_TIMEOUT"},
        {SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S, "TCP_KEEPIDLE"},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S, "TCP_KEEPINTVL"},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES, "TCP_KEEPCNT"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (setsockopt(descriptor, options[i].level, options[i].name, &options[i].value,
                       sizeof(int)) != 0)
            return lh_fail(error, LH_ERR_IO, "%s: %s", options[i].text, strerror(errno));
    if (congestion_control[0] && !lh_congestion_control_set(descriptor, congestion_control))
        return lh_fail(error, LH_ERR_IO, "congestion control %.40s: %s", congestion_control,
                       strerror(errno));
    return LH_OK;
}

void lh_socket_set_unsent_max(int descriptor, int bytes) {
    setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

size_t lh_socket_unsent_bytes(int descriptor) {
    int bytes = 0;
    return ioctl(descriptor, SIOCOUTQNSD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}
