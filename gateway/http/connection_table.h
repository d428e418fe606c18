/* All connections of the public port, and how many of them are being answered. It keeps places free
 * for new clients: where connections run short, it closes one that waits for its client (for
 * headers or a body), the one whose time is over soonest. So those who open connections and say
 * nothing cannot keep others out, whatever their number; a connection that is being answered is
 * never closed.
 *
 * Private to gateway/http/. Thread: any. Its lock is taken before a connection's. */
#pragma once

#include "gateway/http/connection.h"

typedef struct lh_connection_table {
    pthread_mutex_t mutex; /* guards what follows */
    lh_http_exchange *first;
    uint32_t count, most;
    uint32_t active; /* being answered */
    bool ending;
} lh_connection_table;

/* most: connections that there may be. */
void lh_connection_table_init(lh_connection_table *table, uint32_t most);
/* Nothing may be in it any more. */
void lh_connection_table_reset(lh_connection_table *table);

void lh_connection_table_add(lh_connection_table *table, lh_http_exchange *connection);
void lh_connection_table_remove(lh_connection_table *table, lh_http_exchange *connection);

/* An exchange begins to be answered, and ends. False: the server ends, so none begins. */
bool lh_connection_table_begin(lh_connection_table *table);
void lh_connection_table_end(lh_connection_table *table);
uint32_t lh_connection_table_active(lh_connection_table *table);
/* Cuts what is being answered, until nothing is; nothing begins from now on. */
void lh_connection_table_close(lh_connection_table *table);
