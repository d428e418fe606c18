/* /proc/net/route, and the ioctls of netdevice(7) and rtnetlink's predecessor. */
#include "link/uplink_routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Above those that system and container engines give. */
#define METRIC_BESIDE 10000u
/* A table that is read at once, while it is changed. */
#define ROUTES_MAX 256u

typedef struct route {
    char interface[IFNAMSIZ];
    uint32_t destination, gateway, mask, metric; /* addresses in network order */
} route;

/* ---- The table ---- */

static uint32_t read_table(route *routes) {
    FILE *file = fopen("/proc/net/route", "re");
    char line[256];
    uint32_t count = 0;
    while (file && count < ROUTES_MAX && fgets(line, sizeof line, file)) {
        route *r = &routes[count];
        unsigned flags;
        if (sscanf(line, "%15s %x %x %x %*d %*d %u %x", r->interface, &r->destination, &r->gateway,
                   &flags, &r->metric, &r->mask) == 6 &&
            (flags & RTF_UP) && !(flags & RTF_REJECT))
            count++; /* the head of the table has no numbers */
    }
    if (file)
        fclose(file);
    return count;
}

static bool is_within(const route *r, uint32_t network, uint32_t mask) {
    return (r->destination & mask) == network && (r->mask & mask) == mask;
}

bool lh_uplink_network_read(const char *text, uint32_t *network, uint32_t *mask) {
    char address[INET_ADDRSTRLEN], *end;
    const char *slash = strchr(text, '/');
    struct in_addr read;
    *network = *mask = 0;
    if (!text[0])
        return true;
    if (!slash || (size_t)(slash - text) >= sizeof address)
        return false;
    snprintf(address, sizeof address, "%.*s", (int)(slash - text), text);
    unsigned long bits = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || *end || bits > 32 || inet_pton(AF_INET, address, &read) != 1)
        return false;
    *mask = bits ? htonl(UINT32_MAX << (32 - bits)) : 0;
    *network = read.s_addr & *mask;
    return true;
}

lh_status lh_uplink_find_interface(uint32_t network, uint32_t mask, char interface[IFNAMSIZ],
                                   lh_error *error) {
    route table[ROUTES_MAX];
    uint32_t count = read_table(table);
    for (uint32_t i = 0; i < count; i++) {
        if (mask ? is_within(&table[i], network, mask) : table[i].mask == 0) {
            memcpy(interface, table[i].interface, IFNAMSIZ);
            return LH_OK;
        }
    }
    return lh_fail(error, LH_ERR_NOT_FOUND,
                   "no route leads %s: name the interface with --link-interface",
                   mask ? "to the network of --link-to" : "to everywhere");
}

/* ---- Changes ---- */

static struct sockaddr address_of(uint32_t address) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    struct sockaddr any;
    memcpy(&any, &in, sizeof any);
    return any;
}

static lh_status change_route(const lh_uplink_routes *routes, unsigned long request, const route *r,
                              lh_error *error) {
    char device[IFNAMSIZ], text[INET_ADDRSTRLEN];
    memcpy(device, r->interface, sizeof device);
    struct rtentry entry = {
        .rt_dst = address_of(r->destination),
        .rt_genmask = address_of(r->mask),
        .rt_gateway = address_of(r->gateway),
        .rt_flags = (unsigned short)(RTF_UP | (r->gateway ? RTF_GATEWAY : 0) |
                                     (r->mask == UINT32_MAX ? RTF_HOST : 0)),
        .rt_metric = (short)(r->metric + 1),
        .rt_dev = device,
    };
    if (ioctl(routes->socket, request, &entry) == 0 || errno == EEXIST || errno == ESRCH)
        return LH_OK;
    return lh_fail(error, LH_ERR_IO, "the route to %s by %s cannot be changed: %s",
                   inet_ntop(AF_INET, &r->destination, text, sizeof text), device, strerror(errno));
}

/* In this order the way out is there at any moment. */
static lh_status move(const lh_uplink_routes *routes, const route *r, lh_error *error) {
    route beside = *r, through = *r;
    beside.metric += METRIC_BESIDE;
    memcpy(through.interface, routes->device, sizeof through.interface);
    through.gateway = 0;
    lh_status status = change_route(routes, SIOCADDRT, &beside, error);
    if (status == LH_OK)
        status = change_route(routes, SIOCDELRT, r, error);
    return status == LH_OK ? change_route(routes, SIOCADDRT, &through, error) : status;
}

/* Routes by a gateway come last: the way to it has to be there for the one beside. */
static int compare_routes(const void *a, const void *b) {
    const route *first = a, *second = b;
    return (first->gateway != 0) - (second->gateway != 0);
}

lh_status lh_uplink_routes_move(lh_uplink_routes *routes, lh_error *error) {
    route table[ROUTES_MAX];
    uint32_t count = read_table(table);
    lh_status status = LH_OK;
    qsort(table, count, sizeof table[0], compare_routes);
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        const route *r = &table[i];
        if (strcmp(r->interface, routes->interface) != 0 || r->metric >= METRIC_BESIDE ||
            !is_within(r, routes->network, routes->mask))
            continue;
        status = move(routes, r, error);
        routes->moved += status == LH_OK;
    }
    return status;
}

/* ---- The device ---- */

static lh_status call(const lh_uplink_routes *routes, unsigned long request, struct ifreq *asked,
                      const char *name, const char *what, lh_error *error) {
    snprintf(asked->ifr_name, sizeof asked->ifr_name, "%s", name);
    if (ioctl(routes->socket, request, asked) == 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_IO, "the %s of the interface %s: %s", what, name, strerror(errno));
}

static lh_status copy(const lh_uplink_routes *routes, unsigned long get, unsigned long set,
                      const char *what, lh_error *error) {
    struct ifreq asked = {0};
    lh_status status = call(routes, get, &asked, routes->interface, what, error);
    return status == LH_OK ? call(routes, set, &asked, routes->device, what, error) : status;
}

static lh_status take_up(const lh_uplink_routes *routes, lh_error *error) {
    struct ifreq asked = {.ifr_netmask = address_of(UINT32_MAX)};
    lh_status status = copy(routes, SIOCGIFMTU, SIOCSIFMTU, "MTU", error);
    if (status == LH_OK)
        status = copy(routes, SIOCGIFADDR, SIOCSIFADDR, "IPv4 address", error);
    if (status == LH_OK)
        status = call(routes, SIOCSIFNETMASK, &asked, routes->device, "netmask", error);
    if (status != LH_OK)
        return status;
    asked = (struct ifreq){.ifr_flags = IFF_UP | IFF_RUNNING};
    return call(routes, SIOCSIFFLAGS, &asked, routes->device, "state", error);
}

lh_status lh_uplink_routes_open(lh_uplink_routes *routes, lh_error *error) {
    routes->moved = 0;
    routes->index = if_nametoindex(routes->interface);
    routes->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (routes->socket < 0)
        return lh_fail(error, LH_ERR_IO, "no socket for the routes: %s", strerror(errno));
    lh_status status = take_up(routes, error);
    if (status != LH_OK)
        lh_uplink_routes_close(routes);
    return status;
}

bool lh_uplink_routes_are_there(const lh_uplink_routes *routes) {
    return if_nametoindex(routes->interface) == routes->index;
}

void lh_uplink_routes_close(lh_uplink_routes *routes) {
    close(routes->socket);
}
