/* The places of a server's connections: who has to go where all are taken, and whose turn it is to
 * be dealt with.
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
 * What a new connection says is dealt with when it is its turn: server.c says why. Turns go around
 * four groups: addresses that have proven themselves or not, and connections in their first turn or
 * in a later one. So neither members that come again nor those that are new are kept out, and who
 * has begun a handshake soon ends it, since a crowd that only begins them is in another group.
 * Within a group the turn is that of whoever waits longest.
 *
 * Sans-I/O: who has to go is returned. Thread: the owner's. */
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
    uint64_t turn;   /* new: its number among those that wait for their turn; 0: it does not wait */
    bool had_a_turn; /* new */
    /* Kept by the owner, at the latest when it asks who has to go. */
    bool is_active; /* new: it has said something; proven: it has made a request */
    bool is_busy;   /* it has a request now */
} lh_connection_place;

#define LH_KNOWN_ADDRESSES 64u

TAILQ_HEAD(lh_connection_place_list, lh_connection_place);

typedef struct lh_connection_places {
    struct lh_connection_place_list new_list, proven_list; /* the oldest first */
    uint32_t new_max, proven_max;
    uint32_t new_count, proven_count;
    /* from which connections have proven themselves, the last ones */
    uint64_t known[LH_KNOWN_ADDRESSES];
    uint32_t known_count, known_next;
    uint64_t turns;      /* numbers given, so far */
    uint32_t last_group; /* of the last one whose turn it was */
} lh_connection_places;

/* At least one of each kind. */
void lh_connection_places_init(lh_connection_places *places, uint32_t new_max, uint32_t proven_max);
/* A new connection. */
void lh_connection_places_add(lh_connection_places *places, lh_connection_place *place,
                              uint64_t address);
/* A new one has proven itself. */
void lh_connection_places_prove(lh_connection_places *places, lh_connection_place *place);
void lh_connection_places_remove(lh_connection_places *places, lh_connection_place *place);

/* A new connection has said something, and waits for its turn. */
void lh_connection_places_wait(lh_connection_places *places, lh_connection_place *place);
/* The one whose turn it is, which waits no more; NULL: nobody waits. */
lh_connection_place *lh_connection_places_take_turn(lh_connection_places *places);

/* After a newcomer was added or has proven itself: who has to go, since there are more of its kind
 * than places; perhaps the newcomer. NULL: nobody. The owner removes it. */
lh_connection_place *lh_connection_places_surplus(lh_connection_places *places,
                                                  lh_connection_place *newcomer);
