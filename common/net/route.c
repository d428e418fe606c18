/* getaddrinfo, and a datagram socket that is connected and never used. */
#include "common/net/route.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

lh_status lh_route_resolve(const lh_address *address, lh_route_targets *targets, lh_error *error) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[8];
    targets->count = 0;
    snprintf(port, sizeof port, "%d", address->port);
    int code = getaddrinfo(address->host, port, &hints, &found);
    if (code != 0)
        return lh_fail(error, LH_ERR_NOT_FOUND, "the name %.200s is not found: %s", address->host,
                       gai_strerror(code));
    for (struct addrinfo *at = found; at && targets->count < LH_ROUTE_TARGETS_MAX; at = at->ai_next)
        memcpy(&targets->addresses[targets->count++], at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    return LH_OK;
}

static socklen_t length_of(const struct sockaddr *address) {
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Connecting a datagram socket asks the routing table, no more. */
static bool find_own(int descriptor, const struct sockaddr *target, struct sockaddr_storage *own) {
    socklen_t length = sizeof *own;
    return connect(descriptor, target, length_of(target)) == 0 &&
           getsockname(descriptor, (struct sockaddr *)own, &length) == 0;
}

bool lh_route_own_host(const struct sockaddr *target, char host[LH_HOST_BYTES]) {
    struct sockaddr_storage own = {0};
    int descriptor = socket(target->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_found = descriptor >= 0 && find_own(descriptor, target, &own);
    if (descriptor >= 0)
        close(descriptor);
    const void *bytes = own.ss_family == AF_INET6
                            ? (const void *)&((struct sockaddr_in6 *)&own)->sin6_addr
                            : (const void *)&((struct sockaddr_in *)&own)->sin_addr;
    return is_found && inet_ntop(own.ss_family, bytes, host, LH_HOST_BYTES);
}
