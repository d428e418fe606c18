/* "HOST:PORT" and "[V6]:PORT". Thread: any. */
#pragma once

#include "common/base/status.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LH_HOST_BYTES = 256, LH_ADDRESS_TEXT_BYTES = 64 };

typedef struct lh_address {
    char host[LH_HOST_BYTES]; /* a name or an IP address, without brackets */
    int port;
} lh_address;

/* LH_ERR_INVALID: no port, a port out of 0..65535, an empty or overlong host. */
lh_status lh_address_parse(const char *text, lh_address *address, lh_error *error);

/* True when the host is an IP address; *target is then ready to bind or connect. */
bool lh_address_is_literal(const lh_address *address, struct sockaddr_storage *target);

/* Whether the host is this machine alone: 127.0.0.0/8, ::1 or "localhost". Any other name may
 * resolve to anything. */
bool lh_address_is_loopback(const lh_address *address);

/* What stands for whoever is at this address, whatever the port: all of an IPv4 address, and of an
 * IPv6 address the network of 64 bits, since its owner may use any address in it. Never 0. */
uint64_t lh_address_key(const struct sockaddr *address);

/* The same as text, of the text of an address with its port: "127.0.0.1", "2001:db8:1:2::/64". */
void lh_address_render_owner(const char *address, char text[LH_ADDRESS_TEXT_BYTES]);

/* "127.0.0.1:4711", "[::1]:4711". */
void lh_address_render(const struct sockaddr *address, char text[LH_ADDRESS_TEXT_BYTES]);
