/* A list, which is walked when places run short, and at the end. */
#include "gateway/http/connection_table.h"

#include <assert.h>
#include <time.h>

/* One place in so many stays free: each of the library's threads has a share of the places, and
 * accepts no connection when its own is full. */
#define FREE_PART 8

void lh_connection_table_init(lh_connection_table *table, uint32_t most) {
    *table = (lh_connection_table){.most = most};
    pthread_mutex_init(&table->mutex, NULL);
}

void lh_connection_table_reset(lh_connection_table *table) {
    pthread_mutex_destroy(&table->mutex);
}

static lh_http_exchange *find_soonest_over(const lh_connection_table *table) {
    lh_http_exchange *found = NULL;
    int64_t soonest_us = INT64_MAX;
    for (lh_http_exchange *at = table->first; at; at = at->next) {
        int64_t deadline_us = lh_http_connection_waits_until_us(at);
        if (deadline_us < soonest_us) {
            soonest_us = deadline_us;
            found = at;
        }
    }
    return found;
}

/* The new connection is in the list already when one is shed: its whole time is before it, so that
 * it goes last. */
void lh_connection_table_add(lh_connection_table *table, lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    connection->next = table->first;
    if (connection->next)
        connection->next->previous = connection;
    table->first = connection;
    table->count++;
    lh_http_exchange *shed =
        table->count > table->most - table->most / FREE_PART ? find_soonest_over(table) : NULL;
    if (shed)
        lh_http_connection_shed(shed);
    pthread_mutex_unlock(&table->mutex);
}

void lh_connection_table_remove(lh_connection_table *table, lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    assert(table->count > 0);
    assert(connection->previous ? connection->previous->next == connection
                                : table->first == connection);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        table->first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    table->count--;
    pthread_mutex_unlock(&table->mutex);
}

bool lh_connection_table_begin(lh_connection_table *table) {
    pthread_mutex_lock(&table->mutex);
    bool begins = !table->ending;
    table->active += begins;
    pthread_mutex_unlock(&table->mutex);
    return begins;
}

void lh_connection_table_end(lh_connection_table *table) {
    pthread_mutex_lock(&table->mutex);
    assert(table->active > 0);
    table->active--;
    pthread_mutex_unlock(&table->mutex);
}

uint32_t lh_connection_table_active(lh_connection_table *table) {
    pthread_mutex_lock(&table->mutex);
    uint32_t active = table->active;
    pthread_mutex_unlock(&table->mutex);
    return active;
}

/* Repeated, since an exchange may have been about to wait when it was broken. */
void lh_connection_table_close(lh_connection_table *table) {
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_mutex_lock(&table->mutex);
    table->ending = true;
    while (table->active) {
        for (lh_http_exchange *connection = table->first; connection; connection = connection->next)
            lh_http_connection_break(connection);
        pthread_mutex_unlock(&table->mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&table->mutex);
    }
    pthread_mutex_unlock(&table->mutex);
}
