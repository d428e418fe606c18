/* All connections of the public port, and how many of them are being answered. It keeps places free
 * for new clients: where connections run short it closes some that wait for their clients, by the
 * rules of connection_claims.h. So those who open connections and say nothing, or do not take their
 * answers, cannot keep others out, whatever their number; one for which the engine works is never
 * closed.
 *
 * Private to gateway/http/. Thread: any. Its lock is taken before a connection's. */
#pragma once

#include "gateway/http/connection.h"
#include "gateway/http/connection_claims.h"

typedef struct lh_connection_table {
    pthread_mutex_t mutex; /* guards what follows, and the connections' indices */
    lh_connection_claims claims;
    uint32_t active; /* being answered */
    bool ending;
} lh_connection_table;

/* most: connections that there may be; per_address_max: of one address, 0: any number.
 * LH_ERR_NO_MEMORY. */
lh_status lh_connection_table_init(lh_connection_table *table, uint32_t most,
                                   uint32_t per_address_max, lh_error *error);
/* Nothing may be in it any more. */
void lh_connection_table_reset(lh_connection_table *table);

/* A new connection, from which headers are awaited. False: there is no place for it. */
bool lh_connection_table_add(lh_connection_table *table, lh_http_exchange *connection);
/* What was never added is in no table, and stays so. */
void lh_connection_table_remove(lh_connection_table *table, lh_http_exchange *connection);
/* What it waits for from now on. */
void lh_connection_table_wait(lh_connection_table *table, lh_http_exchange *connection,
                              lh_http_wait wait);
/* It has shown a key of exchange->client. */
void lh_connection_table_know(lh_connection_table *table, lh_http_exchange *connection);

/* An exchange begins to be answered, and ends. False: the server ends, so none begins. */
bool lh_connection_table_begin(lh_connection_table *table, lh_http_exchange *connection);
void lh_connection_table_end(lh_connection_table *table);
uint32_t lh_connection_table_active(lh_connection_table *table);
/* More than three quarters of all places are those of connections for which the engine works, or
 * more than five eighths those of this one's owner: an eighth is left to the answers of others. One
 * that does not take what is there does not count: its place is anybody's who needs it. */
bool lh_connection_table_is_crowded(lh_connection_table *table, const lh_http_exchange *connection);
/* Cuts what is being answered, until nothing is; nothing begins from now on. */
void lh_connection_table_close(lh_connection_table *table);
