/* Names compared without their case, addresses as text. */
#include "common/net/allowed_hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A name has 253 bytes at most (RFC 1035, 2.3.4). */
#define NAME_BYTES 256

/* Without brackets and without the dot that ends a whole name. False: too long. */
static bool copy_name(const char *text, size_t length, char name[NAME_BYTES]) {
    bool is_bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (is_bracketed) {
        text++;
        length -= 2;
    } else if (length > 1 && text[length - 1] == '.') {
        length--;
    }
    if (length >= NAME_BYTES)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return true;
}

static bool is_v6(const char *name) {
    struct in6_addr address;
    return inet_pton(AF_INET6, name, &address) == 1;
}

static bool is_loopback(const char *name) {
    static const char suffix[] = ".localhost";
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, name, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    size_t length = strlen(name);
    return strcasecmp(name, "localhost") == 0 ||
           (length >= sizeof suffix &&
            strcasecmp(name + length - (sizeof suffix - 1), suffix) == 0);
}

/* The next entry of the list, "" behind the last one. */
static const char *next_entry(const char *entry, size_t length) {
    entry += length;
    return *entry ? entry + 1 : entry;
}

static bool is_listed(const char *list, const char *name) {
    char entry_name[NAME_BYTES];
    for (const char *entry = list; *entry;) {
        size_t length = strcspn(entry, ",");
        if (copy_name(entry, length, entry_name) && strcasecmp(entry_name, name) == 0)
            return true;
        entry = next_entry(entry, length);
    }
    return false;
}

static bool is_entry(const char *text, size_t length) {
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    char name[NAME_BYTES];
    return copy_name(text, length, name) && name[0] && name[0] != '.' &&
           (!name[strspn(name, bytes)] || is_v6(name));
}

lh_status lh_allowed_hosts_parse(const char *list, bool listens_on_loopback,
                                 lh_allowed_hosts *hosts, lh_error *error) {
    *hosts = (lh_allowed_hosts){.list = list ? list : ""};
    hosts->is_any = strcmp(hosts->list, "*") == 0 || (!hosts->list[0] && !listens_on_loopback);
    if (hosts->is_any || !hosts->list[0])
        return LH_OK;
    size_t length;
    const char *entry = hosts->list;
    do {
        length = strcspn(entry, ",");
        if (!is_entry(entry, length))
            return lh_fail(error, LH_ERR_INVALID,
                           "\"%.*s\" is no host name: write names or addresses without scheme and "
                           "port, as in a.example,192.0.2.1; or * alone",
                           length < 100 ? (int)length : 100, entry);
        entry += length;
    } while (*entry++ == ',');
    return LH_OK;
}

bool lh_allowed_hosts_permit(const lh_allowed_hosts *hosts, const char *host) {
    char name[NAME_BYTES];
    if (hosts->is_any || !host)
        return true;
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    return copy_name(host, length, name) && (is_loopback(name) || is_listed(hosts->list, name));
}
