/* The places of a server's connections, and who has to go where all are taken.
 *
 *     NEW ----------> PROVEN     it speaks HTTP/2; with TLS, its certificate has been accepted
 *
 * Each kind has places of its own, so those who connect and say nothing never take the place of a
 * member. A new connection always gets one, since it may be a member's: where there is none, an
 * older one goes that has not said a word, else one from an address that never proved itself, else
 * one from the address that has most, and of these the oldest. Behind one address may be a whole
 * site (NAT): so an address has no fixed limit, but it never has more than others leave it.
 *
 * A connection that has proven itself gets a place where there is one, or where somebody has one
 * without ever having made a request, or without a request now and from an address that has more.
 *
 * Sans-I/O: who has to go is returned. Private to common/http2. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A connection's; a part of what its owner holds for it. */
typedef struct lh_connection_place {
    TAILQ_ENTRY(lh_connection_place) links;
    uint64_t address; /* lh_address_key */
    bool is_proven;
    /* Kept by the owner, at the latest when it asks who has to go. */
    bool is_active; /* new: it has said something; proven: it has made a request */
    bool is_busy;   /* it has a request now */
} lh_connection_place;

#define LH_KNOWN_ADDRESSES 64u

typedef struct lh_connection_places {
    TAILQ_HEAD(lh_connection_place_list, lh_connection_place) list; /* the oldest first */
    uint32_t new_max, proven_max;
    uint32_t new_count, proven_count;
    /* from which connections have proven themselves, the last ones */
    uint64_t known[LH_KNOWN_ADDRESSES];
    uint32_t known_count, known_next;
} lh_connection_places;

/* At least one of each kind. */
void lh_connection_places_init(lh_connection_places *places, uint32_t new_max, uint32_t proven_max);
/* A new connection. */
void lh_connection_places_add(lh_connection_places *places, lh_connection_place *place,
                              uint64_t address);
/* A new one has proven itself. */
void lh_connection_places_prove(lh_connection_places *places, lh_connection_place *place);
void lh_connection_places_remove(lh_connection_places *places, lh_connection_place *place);

/* After a newcomer was added or has proven itself: who has to go, since there are more of its kind
 * than places; perhaps the newcomer. NULL: nobody. The owner removes it. */
lh_connection_place *lh_connection_places_surplus(const lh_connection_places *places,
                                                  lh_connection_place *newcomer);
