/* All connections of the public port, and those of them that are being answered. It keeps places free for clients to come: where
 * connections run short, the one among those that wait for their client (its headers or its body) whose time is over soonest goes. So those
 * who open connections and say nothing cannot keep others out, whatever their number; who is being answered is never cut off.
 *
 * Private to gateway/http_*.c. Thread: any. Its lock is taken before a connection's. */
#pragma once

#include "gateway/http/http_connection.h"

typedef struct lh_http_roster {
    pthread_mutex_t mutex; /* guards what follows */
    lh_http_exchange *first;
    uint32_t count, most;
    uint32_t active; /* being answered */
    bool ending;
} lh_http_roster;

/* most: connections that there may be. */
void lh_http_roster_init(lh_http_roster *roster, uint32_t most);
/* Nothing may be in it any more. */
void lh_http_roster_reset(lh_http_roster *roster);

void lh_http_roster_add(lh_http_roster *roster, lh_http_exchange *connection);
void lh_http_roster_remove(lh_http_roster *roster, lh_http_exchange *connection);

/* An exchange begins to be answered, and ends. False: the server ends, so none begins. */
bool lh_http_roster_begin(lh_http_roster *roster);
void lh_http_roster_end(lh_http_roster *roster);
uint32_t lh_http_roster_active(lh_http_roster *roster);
/* Cuts what is being answered, until nothing is; nothing begins from now on. */
void lh_http_roster_close(lh_http_roster *roster);
