/* Labels, or what common/net takes for an address. */
#include "gateway/membership/host_name.h"

#include "common/net/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LABEL_BYTES_MAX 63

static bool is_literal(const char *host, struct sockaddr_storage *value) {
    lh_address address = {.port = 1};
    memset(value, 0, sizeof *value);
    snprintf(address.host, sizeof address.host, "%s", host);
    return lh_address_is_literal(&address, value);
}

/* Of digits and dots alone it would be an address, and is none. */
static bool has_labels(const char *host) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (strspn(host, "0123456789.") == strlen(host))
        return false;
    for (;;) {
        size_t length = strspn(host, allowed);
        if (length == 0 || length > LABEL_BYTES_MAX || *host == '-' || host[length - 1] == '-')
            return false;
        if (!host[length])
            return true;
        if (host[length] != '.')
            return false;
        host += length + 1;
    }
}

bool lh_host_name_is_valid(const char *host) {
    struct sockaddr_storage value;
    return strlen(host) < LH_HOST_NAME_BYTES && (is_literal(host, &value) || has_labels(host));
}

bool lh_host_name_is_same(const char *one, const char *other) {
    struct sockaddr_storage a, b;
    if (is_literal(one, &a) && is_literal(other, &b))
        return memcmp(&a, &b, sizeof a) == 0;
    return strcasecmp(one, other) == 0;
}
