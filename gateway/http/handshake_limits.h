/* How many TLS handshakes an address may begin and leave without a request.
 *
 * A handshake costs the server a signature, about a millisecond, and whoever begins it one packet.
 * So each address has a stock of them, which comes back with time. A connection on which a request
 * comes gives its own back at once, so that those who ask are not limited, however often they come.
 * An address from which a client has shown a key is free for a while: behind it may be many clients
 * (NAT, a proxy), who are not to be kept out by the one among them who leaves handshakes.
 *
 * The last addresses are known; one that is forgotten has its whole stock again. What is not done:
 * who has a great many addresses is limited at none of them.
 *
 * Sans-I/O. Private to gateway/http/. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_handshake_address {
    uint64_t address;      /* lh_address_key */
    int64_t whole_us;      /* when its stock is whole again; 0: nothing is known */
    int64_t free_until_us; /* it is not limited */
} lh_handshake_address;

#define LH_HANDSHAKE_SETS 512u
#define LH_HANDSHAKE_WAYS 8u

/* All zero at the beginning. */
typedef struct lh_handshake_limits {
    lh_handshake_address sets[LH_HANDSHAKE_SETS][LH_HANDSHAKE_WAYS];
} lh_handshake_limits;

/* A connection comes from there. False: it is to be closed, its address has none left. */
bool lh_handshake_limits_begin(lh_handshake_limits *limits, uint64_t address, int64_t now_us);
/* The first request of a connection has come; `is_known`: with a key. */
void lh_handshake_limits_complete(lh_handshake_limits *limits, uint64_t address, bool is_known,
                                  int64_t now_us);
