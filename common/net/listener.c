/* getaddrinfo, bind, listen. */
#include "common/net/listener.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/port_owner.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024

/* Between two tries of a bind. */
#define WAIT_SLICE_MS 100

/* Splits at the last colon; takes the brackets off an IPv6 address. False: malformed. */
static bool split(const char *address, char *host, size_t host_bytes, const char **port) {
    const char *colon = strrchr(address, ':');
    if (!colon || !colon[1] || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    size_t length = (size_t)(colon - address);
    bool bracketed = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    if (bracketed) {
        address++;
        length -= 2;
    }
    if (length >= host_bytes || (!bracketed && memchr(address, ':', length)))
        return false;
    memcpy(host, address, length);
    host[length] = '\0';
    *port = colon + 1;
    return true;
}

/* -1: not possible, and errno says why. */
static int bind_to(const struct addrinfo *info) {
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    info->ai_protocol);
    if (fd < 0)
        return -1;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int listen_on(const struct addrinfo *info) {
    int fd = bind_to(info);
    if (fd < 0 || listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static struct sockaddr_storage address_of(int fd) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int failed = getsockname(fd, (struct sockaddr *)&address, &length);
    assert(!failed);
    return address;
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage address = address_of(fd);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

bool lh_listener_is_loopback(int fd) {
    struct sockaddr_storage address = address_of(fd);
    if (address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
    return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* After LH_OK the caller frees the list. */
static lh_status resolve(const char *address, struct addrinfo **list, lh_error *error) {
    char host[256];
    const char *service;
    if (!split(address, host, sizeof host, &service))
        return lh_fail(error, LH_ERR_INVALID,
                       "\"%s\" is not an address to listen on; write HOST:PORT or [IPv6]:PORT",
                       address);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG},
                    *found;
    int failed = getaddrinfo(host[0] ? host : NULL, service, &hints, &found);
    if (failed)
        return lh_fail(error, LH_ERR_IO, "cannot resolve \"%s\": %s", address,
                       gai_strerror(failed));
    *list = found;
    return LH_OK;
}

static lh_status tell_taken(const char *flag, const char *address, lh_error *error) {
    lh_port_owner owner;
    uint16_t port = (uint16_t)atoi(strrchr(address, ':') + 1);
    char by[64] = "another program";
    if (lh_port_owner_find(port, &owner))
        snprintf(by, sizeof by, "%s, process %d", owner.program, (int)owner.pid);
    return lh_fail(error, LH_ERR_EXISTS,
                   "cannot listen on %.100s: address already in use, by %s; --%s HOST:PORT gives "
                   "another one",
                   address, by, flag);
}

/* The list's first that can be bound; -1: none. *is_taken: as the last is in use. */
static int bind_first(const struct addrinfo *list, bool *is_taken) {
    int fd = -1;
    for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = bind_to(info);
    *is_taken = fd < 0 && errno == EADDRINUSE;
    return fd;
}

/* A connection that has the port as its own end is in the way of one of the list's addresses, and
 * nobody listens at any: by[] names the first. */
static bool is_connection_in_the_way(const struct addrinfo *list, char by[LH_PORT_USE_BYTES]) {
    bool is_found = false;
    for (const struct addrinfo *info = list; info; info = info->ai_next) {
        char text[LH_PORT_USE_BYTES];
        lh_port_use use = lh_port_owner_use(info->ai_addr, text);
        if (use == LH_PORT_USE_LISTENER)
            return false;
        if (use == LH_PORT_USE_CONNECTION && !is_found)
            memcpy(by, text, sizeof text);
        is_found = is_found || use == LH_PORT_USE_CONNECTION;
    }
    return is_found;
}

/* Binds as soon as the connections that are in the way have ended. -1: not possible. *is_taken: as
 * the address is in use; by[] then names the connection, where it is one. */
static int bind_in_time(const struct addrinfo *list, const char *flag, const char *address,
                        uint32_t patience_ms, bool *is_taken, char by[LH_PORT_USE_BYTES]) {
    const struct timespec slice = {.tv_nsec = WAIT_SLICE_MS * 1000000L};
    int64_t end_us = lh_clock_us() + (int64_t)patience_ms * 1000;
    for (bool has_said = false;; has_said = true) {
        int fd = bind_first(list, is_taken);
        if (!*is_taken)
            return fd;
        by[0] = '\0';
        if (!is_connection_in_the_way(list, by))
            return bind_first(list, is_taken); /* it may have ended between the two */
        if (lh_clock_us() >= end_us)
            return -1;
        if (!has_said)
            lh_log(LH_LOG_WARN, "net",
                   "the port is another connection's end: waiting for it flag=%s address=%s "
                   "by=\"%s\" patience_s=%u",
                   flag, address, by, patience_ms / 1000);
        nanosleep(&slice, NULL);
    }
}

lh_status lh_listener_reserve(const char *flag, const char *address, uint32_t patience_ms,
                              lh_port_reservations *reserved, lh_error *error) {
    struct addrinfo *list;
    char by[LH_PORT_USE_BYTES];
    bool is_taken;
    assert(reserved->count < LH_PORT_RESERVATIONS_MAX);
    if (!address[0] || resolve(address, &list, NULL) != LH_OK)
        return LH_OK;
    int fd = bind_in_time(list, flag, address, patience_ms, &is_taken, by);
    freeaddrinfo(list);
    if (fd >= 0)
        reserved->descriptors[reserved->count++] = fd;
    if (is_taken && by[0])
        return lh_fail(error, LH_ERR_EXISTS,
                       "cannot listen on %.100s: address already in use, by %s; ports outside of "
                       "net.ipv4.ip_local_port_range are never given to connections: --%s "
                       "HOST:PORT",
                       address, by, flag);
    return is_taken ? tell_taken(flag, address, error) : LH_OK;
}

void lh_listener_release(lh_port_reservations *reserved) {
    while (reserved->count > 0)
        close(reserved->descriptors[--reserved->count]);
}

lh_status lh_listener_open(const char *address, int *fd, uint16_t *port, lh_error *error) {
    struct addrinfo *list;
    lh_status status = resolve(address, &list, error);
    if (status != LH_OK)
        return status;
    *fd = -1;
    for (const struct addrinfo *info = list; info && *fd < 0; info = info->ai_next)
        *fd = listen_on(info);
    freeaddrinfo(list);
    if (*fd < 0)
        return lh_fail(error, LH_ERR_IO, "cannot listen on %s: %s", address, strerror(errno));
    *port = port_of(*fd);
    assert(*port);
    return LH_OK;
}
