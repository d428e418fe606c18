/* getaddrinfo, bind, listen. */
#include "common/net/listener.h"

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
#include <unistd.h>

#define BACKLOG 1024

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

lh_status lh_listener_check(const char *flag, const char *address, lh_error *error) {
    struct addrinfo *list;
    int fd = -1;
    if (!address[0] || resolve(address, &list, NULL) != LH_OK)
        return LH_OK;
    for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = bind_to(info);
    bool is_taken = fd < 0 && errno == EADDRINUSE;
    freeaddrinfo(list);
    if (fd >= 0)
        close(fd);
    return is_taken ? tell_taken(flag, address, error) : LH_OK;
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
