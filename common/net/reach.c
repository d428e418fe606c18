/* connect(2) without waiting, then poll(2). */
#include "common/net/reach.h"

#include "common/net/route.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static socklen_t length_of(const struct sockaddr *address) {
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* 0, or what errno says. */
static int await(int descriptor, int timeout_ms) {
    struct pollfd writable = {.fd = descriptor, .events = POLLOUT};
    int code = 0, ready = poll(&writable, 1, timeout_ms);
    socklen_t length = sizeof code;
    if (ready <= 0)
        return ready == 0 ? ETIMEDOUT : errno;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno;
}

static int try_one(const struct sockaddr *target, int timeout_ms) {
    int descriptor = socket(target->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return errno;
    int code = connect(descriptor, target, length_of(target)) == 0 ? 0 : errno;
    if (code == EINPROGRESS)
        code = await(descriptor, timeout_ms);
    close(descriptor);
    return code;
}

lh_status lh_reach_try(const lh_address *address, int timeout_ms,
                       char reached[LH_ADDRESS_TEXT_BYTES], lh_error *error) {
    lh_route_targets targets;
    int code = 0;
    lh_status status = lh_route_resolve(address, &targets, error);
    if (status != LH_OK)
        return status;
    for (size_t i = 0; i < targets.count; i++) {
        const struct sockaddr *target = (const struct sockaddr *)&targets.addresses[i];
        lh_address_render(target, reached);
        code = try_one(target, timeout_ms);
        if (code == 0)
            return LH_OK;
    }
    return lh_fail(error, code == ETIMEDOUT ? LH_ERR_TIMEOUT : LH_ERR_UNAVAILABLE, "%s: %s",
                   reached, strerror(code));
}
