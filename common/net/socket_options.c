/* setsockopt(2), each with its reason. */
#include "common/net/socket_options.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    UNSENT_BYTES_MAX = 32 << 10, /* until the link's rate is known (common/http2/link.c) */
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3
};

static bool set_congestion_control(int descriptor, const char *name) {
    return setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

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
    if (congestion_control[0] && !set_congestion_control(descriptor, congestion_control))
        return lh_fail(error, LH_ERR_IO, "congestion control %.40s: %s", congestion_control,
                       strerror(errno));
    return LH_OK;
}

lh_status lh_socket_set_unsent_max(int descriptor, int bytes, lh_error *error) {
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes) != 0)
        return lh_fail(error, LH_ERR_IO, "TCP_NOTSENT_LOWAT: %s", strerror(errno));
    return LH_OK;
}

size_t lh_socket_unsent_bytes(int descriptor) {
    int bytes = 0;
    return ioctl(descriptor, SIOCOUTQNSD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

static const char usual[] = "cubic", plain[] = "reno";

/* A connection may have it from its route or the system's default without our being allowed to
 * choose it. */
static bool may_return_to_usual(void) {
    int trial = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool may =
        trial >= 0 && set_congestion_control(trial, plain) && set_congestion_control(trial, usual);
    if (trial >= 0)
        close(trial);
    return may;
}

bool lh_socket_begin_opening(int descriptor) {
    char name[16] = ""; /* TCP_CA_NAME_MAX */
    socklen_t length = sizeof name;
    return getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 &&
           strncmp(name, usual, sizeof name) == 0 && may_return_to_usual() &&
           set_congestion_control(descriptor, plain);
}

void lh_socket_end_opening(int descriptor) {
    set_congestion_control(descriptor, usual);
}
