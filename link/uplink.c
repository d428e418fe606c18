/* Routes lead into a TUN device; what comes out of the line leaves by a raw socket. */
#include "link/uplink.h"

#include "common/base/log.h"
#include "link/punctuality.h"
#include "link/tun_device.h"
#include "link/uplink_routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEVICE "uplink"
/* Packets that are read before those that are due have their turn. */
#define READ_AT_ONCE 32
/* How often routes that have come, as by a network that was connected again, are looked for. */
#define ROUTES_NS 500000000

typedef struct uplink {
    lh_uplink_routes routes;
    lh_line line;
    int device, raw, signals;
    int64_t routes_due_ns;
    uint64_t refused; /* packets that the kernel did not take */
} uplink;

/* ---- Packets ---- */

static void push(void *context, lh_packet *p) {
    lh_line_push(context, p, lh_link_clock_ns());
}

static void take_in(uplink *u) {
    static uint8_t bytes[LH_TUN_PACKET_BYTES_MAX];
    for (int i = 0; i < READ_AT_ONCE; i++) {
        ptrdiff_t length = lh_tun_read(u->device, bytes);
        if (length <= 0)
            return;
        if (lh_tun_destination(bytes, (size_t)length))
            lh_tun_cut(bytes, (size_t)length, 0, push, &u->line);
    }
}

static void send_out(uplink *u, const lh_packet *p) {
    size_t length;
    const uint8_t *ip = lh_tun_ip_packet(p, &length);
    struct sockaddr_in to = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(lh_tun_destination(p->bytes, p->length));
    u->refused += sendto(u->raw, ip, length, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0;
}

static void deliver(uplink *u) {
    lh_packet *p;
    while ((p = lh_line_pop(&u->line, lh_link_clock_ns()))) {
        send_out(u, p);
        free(p);
    }
}

/* ---- Opening ---- */

static lh_status open_raw(const lh_uplink_routes *routes, int *raw, lh_error *error) {
    *raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    if (*raw >= 0 && setsockopt(*raw, SOL_SOCKET, SO_BINDTODEVICE, routes->interface,
                                (socklen_t)strlen(routes->interface)) == 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_IO, "a raw socket on %s: %s (it needs CAP_NET_RAW)",
                   routes->interface, strerror(errno));
}

/* A strict filter drops what comes in by another way than answers go out. */
static void warn_of_filter(const char *interface) {
    char path[96];
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/rp_filter", interface);
    FILE *file = fopen(path, "re");
    if (file && fgetc(file) == '1')
        lh_log(LH_LOG_WARN, "link", "%s is 1: answers are dropped; it has to be 0 or 2", path);
    if (file)
        fclose(file);
}

static lh_status open_routes(uplink *u, const lh_uplink_options *options, lh_error *error) {
    lh_uplink_routes *routes = &u->routes;
    lh_status status = LH_OK;
    if (!lh_uplink_network_read(options->network, &routes->network, &routes->mask))
        return lh_fail(error, LH_ERR_INVALID,
                       "--link-to %.60s is no IPv4 network like 10.77.0.0/16", options->network);
    snprintf(routes->device, sizeof routes->device, DEVICE);
    snprintf(routes->interface, sizeof routes->interface, "%s", options->interface);
    if (!options->interface[0])
        status = lh_uplink_find_interface(routes->network, routes->mask, routes->interface, error);
    return status == LH_OK ? lh_uplink_routes_open(routes, error) : status;
}

static lh_status open_uplink(uplink *u, const lh_uplink_options *options, lh_error *error) {
    u->device = lh_tun_open_here(DEVICE);
    if (u->device < 0)
        return lh_fail(error, LH_ERR_IO,
                       "the device of the uplink: %s (it needs /dev/net/tun and CAP_NET_ADMIN)",
                       strerror(errno));
    lh_status status = open_routes(u, options, error);
    if (status == LH_OK)
        status = open_raw(&u->routes, &u->raw, error);
    if (status != LH_OK)
        return status;
    warn_of_filter(u->routes.interface);
    lh_line_init(&u->line, 0);
    lh_line_set(&u->line, &options->line, lh_link_clock_ns());
    return lh_uplink_routes_move(&u->routes, error);
}

static int open_signals(void) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

/* ---- Life ---- */

/* False: the interface is gone, as when its network was disconnected or the container to which it
 * belongs has ended. */
static bool follow_routes(uplink *u, int64_t now_ns) {
    lh_error error;
    uint32_t before = u->routes.moved;
    if (now_ns < u->routes_due_ns)
        return true;
    u->routes_due_ns = now_ns + ROUTES_NS;
    if (!lh_uplink_routes_are_there(&u->routes))
        return false;
    if (lh_uplink_routes_move(&u->routes, &error) != LH_OK)
        lh_log(LH_LOG_WARN, "link", "%s", error.message);
    else if (u->routes.moved != before)
        lh_log(LH_LOG_INFO, "link", "routes that have come lead through the uplink now count=%u",
               u->routes.moved - before);
    return true;
}

/* Until a signal comes, or false. */
static bool run(uplink *u) {
    struct pollfd polled[] = {{.fd = u->device, .events = POLLIN},
                              {.fd = u->signals, .events = POLLIN}};
    while (!(polled[1].revents & POLLIN)) {
        deliver(u);
        int64_t now_ns = lh_link_clock_ns(), next_ns = lh_line_next_ns(&u->line);
        if (!follow_routes(u, now_ns))
            return false;
        next_ns = next_ns < u->routes_due_ns ? next_ns : u->routes_due_ns;
        int64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;
        struct timespec timeout = {wait_ns / 1000000000, wait_ns % 1000000000};
        if (ppoll(polled, 2, &timeout, NULL) > 0 && polled[0].revents)
            take_in(u);
    }
    return true;
}

static void close_uplink(uplink *u) {
    lh_line_clear(&u->line);
    close(u->signals);
    close(u->raw);
    close(u->device);
    lh_uplink_routes_close(&u->routes);
}

lh_status lh_link_uplink(const lh_uplink_options *options, lh_error *error) {
    uplink u = {.signals = open_signals()};
    lh_status status = open_uplink(&u, options, error);
    if (status != LH_OK)
        return status; /* and the program ends */
    lh_log(LH_LOG_INFO, "link",
           "what leaves goes through the uplink interface=%s rate_mbit=%g delay_ms=%g jitter_ms=%g "
           "loss_percent=%g queue_ms=%g realtime=%d",
           u.routes.interface, options->line.rate_mbit, options->line.delay_ms,
           options->line.jitter_ms, options->line.loss_percent, options->line.queue_ms,
           lh_link_become_punctual());
    bool is_told = run(&u);
    lh_log(
        LH_LOG_INFO, "link",
        "stopped packets=%llu bytes=%llu queue_drops=%llu lost=%llu refused=%llu late_max_us=%lld",
        (unsigned long long)u.line.sent_packets, (unsigned long long)u.line.sent_bytes,
        (unsigned long long)u.line.queue_drops, (unsigned long long)u.line.lost_packets,
        (unsigned long long)u.refused, (long long)u.line.late_max_us);
    close_uplink(&u);
    return is_told ? LH_OK
                   : lh_fail(error, LH_ERR_CLOSED,
                             "interface %s is gone: whoever starts this again when it is back has "
                             "the line again",
                             u.routes.interface);
}
