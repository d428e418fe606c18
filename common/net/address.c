/* Addresses as text. */
#include "common/net/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, int *port) {
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    long value = strtol(text, &end, 10);
    *port = (int)value;
    return *end == '\0' && value <= 65535;
}

lh_status lh_address_parse(const char *text, lh_address *address, lh_error *error) {
    const char *host = text, *end = strrchr(text, ':');
    if (!end || !parse_port(end + 1, &address->port))
        return lh_fail(error, LH_ERR_INVALID,
                       "address \"%.200s\": HOST:PORT is wanted, with a port of 0 to 65535", text);
    if (*host == '[') {
        host++;
        if (end == text || end[-1] != ']')
            return lh_fail(error, LH_ERR_INVALID,
                           "address \"%.200s\": ']' is missing before the port", text);
        end--;
    } else if (memchr(host, ':', (size_t)(end - host))) {
        return lh_fail(error, LH_ERR_INVALID,
                       "address \"%.200s\": an IPv6 address goes in brackets: [::1]:80", text);
    }
    size_t length = (size_t)(end - host);
    if (end <= host || length >= LH_HOST_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "address \"%.200s\": the host is empty or too long",
                       text);
    memcpy(address->host, host, length);
    address->host[length] = '\0';
    return LH_OK;
}

bool lh_address_is_literal(const lh_address *address, struct sockaddr_storage *target) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)address->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)address->port)};
    *target = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, address->host, &v4.sin_addr) == 1)
        memcpy(target, &v4, sizeof v4);
    else if (inet_pton(AF_INET6, address->host, &v6.sin6_addr) == 1)
        memcpy(target, &v6, sizeof v6);
    else
        return false;
    return true;
}

bool lh_address_is_loopback(const lh_address *address) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, address->host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(address->host, "localhost") == 0;
}

static uint64_t network_of(const struct sockaddr *address) {
    if (address->sa_family != AF_INET6)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(v6);
    uint64_t key = 0;
    for (int i = is_v4 ? 12 : 0; i < (is_v4 ? 16 : 8); i++)
        key = key << 8 | v6->s6_addr[i];
    return key;
}

uint64_t lh_address_key(const struct sockaddr *address) {
    uint64_t network = network_of(address);
    return network ? network : 1; /* that of ::1 is 0; 0.0.0.1 is nobody's address */
}

void lh_address_render(const struct sockaddr *address, char text[LH_ADDRESS_TEXT_BYTES]) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, LH_ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, LH_ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(v4->sin_port));
    }
}

static void render_network(struct in6_addr v6, char text[LH_ADDRESS_TEXT_BYTES]) {
    char network[INET6_ADDRSTRLEN];
    memset(v6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &v6, network, sizeof network);
    snprintf(text, LH_ADDRESS_TEXT_BYTES, "%s/64", network);
}

void lh_address_render_owner(const char *address, char text[LH_ADDRESS_TEXT_BYTES]) {
    lh_address parsed = {.host = ""};
    struct in6_addr v6;
    lh_address_parse(address, &parsed, NULL);
    if (inet_pton(AF_INET6, parsed.host, &v6) != 1)
        snprintf(text, LH_ADDRESS_TEXT_BYTES, "%.*s", LH_ADDRESS_TEXT_BYTES - 1, parsed.host);
    else if (IN6_IS_ADDR_V4MAPPED(&v6))
        inet_ntop(AF_INET, v6.s6_addr + 12, text, LH_ADDRESS_TEXT_BYTES);
    else
        render_network(v6, text);
}
