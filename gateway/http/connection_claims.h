/* The claims of connections to their places on the public port, and who goes where places run
 * short.
 *
 *     0 ............................ scarce .......... last ......... most
 *       everybody has a place          those who wait    anybody who
 *                                      a second go       waits goes
 *
 * Only who waits for his client goes: a connection that is being answered stays. Who has waited for
 * less than a second stays, too, as long as there is another or a place is left: so a newcomer has
 * the time to ask. Two groups have places of their own: connections that have shown a key (half of
 * all), and those that have not (an eighth), which probes need. Of the others those go first that
 * rest between two requests, then those that send a request, then those that do not take their
 * answer, be it whole or a stream; within each kind the owner who has most connections loses one,
 * the one that has waited longest. An owner is the client whose key was shown, else the address.
 *
 * What is not done: nobody is kept from connecting again at once. He is then the one of his owner
 * who has waited least.
 *
 * Sans-I/O: who goes is returned. Private to gateway/http/. Thread: the owner's. */
#pragma once

#include "gateway/http/holdings.h"

typedef enum lh_http_wait {
    LH_HTTP_WAITS_NOT,     /* its answer, or what comes next of it, is being made */
    LH_HTTP_WAITS_TO_TAKE, /* the client has not taken all that there is of its answer */
    LH_HTTP_WAITS_TO_SEND, /* a request is not complete */
    LH_HTTP_RESTS          /* between two requests */
} lh_http_wait;

typedef struct lh_connection_claim {
    uint64_t address; /* lh_address_key */
    uint64_t client;  /* whose key it has shown; 0: none so far */
    lh_http_wait wait;
    int64_t since_us; /* it waits so */
    bool is_going;    /* its place counts as free */
    void *connection; /* the caller's own */
} lh_connection_claim;

typedef struct lh_connection_claims {
    lh_connection_claim *list; /* in no order */
    uint32_t count, most;
    uint32_t per_address_max; /* 0: any number */
    uint32_t going;           /* of them */
    uint32_t answered;        /* of them: wait not */
    uint32_t known;           /* of those that stay: have shown a key */
    lh_holdings owners;       /* of addresses, all connections; of clients, those with their keys */
} lh_connection_claims;

/* most: connections that there may be. LH_ERR_NO_MEMORY. */
lh_status lh_connection_claims_init(lh_connection_claims *claims, uint32_t most,
                                    uint32_t per_address_max, lh_error *error);
void lh_connection_claims_reset(lh_connection_claims *claims);

/* A new connection, which waits to send. Returns its index; UINT32_MAX: its address has as many as
 * it may, or all places are taken. */
uint32_t lh_connection_claims_add(lh_connection_claims *claims, uint64_t address, void *connection,
                                  int64_t now_us);
/* Its place is free. The last claim gets its index. */
void lh_connection_claims_remove(lh_connection_claims *claims, uint32_t index);
/* What the connection waits for from now on. */
void lh_connection_claims_wait(lh_connection_claims *claims, uint32_t index, lh_http_wait wait,
                               int64_t now_us);
/* It has shown a key of this client, who is not 0. */
void lh_connection_claims_know(lh_connection_claims *claims, uint32_t index, uint64_t client);
/* How many connections of this one's owner are being answered. Looks at each connection. */
uint32_t lh_connection_claims_answered(const lh_connection_claims *claims, uint32_t index);
/* Whose place is to be given up, whose claim is marked; UINT32_MAX: nobody's. To be asked after a
 * newcomer was added; the owner closes the connection, and removes the claim when it is closed. */
uint32_t lh_connection_claims_shed(lh_connection_claims *claims, int64_t now_us);
