/* Claims under a lock, whose indices the connections know. */
#include "gateway/http/connection_table.h"

#include "common/base/clock.h"

#include <assert.h>
#include <time.h>

/* A quarter of all places is for those who come, and for short answers; and an eighth of them for
 * the answers of others than the owner who has most. */
#define CROWDED_PART 4u
#define OTHERS_PART  8u

lh_status lh_connection_table_init(lh_connection_table *table, uint32_t most,
                                   uint32_t per_address_max, lh_error *error) {
    *table = (lh_connection_table){0};
    lh_status status = lh_connection_claims_init(&table->claims, most, per_address_max, error);
    if (!status)
        pthread_mutex_init(&table->mutex, NULL);
    return status;
}

void lh_connection_table_reset(lh_connection_table *table) {
    lh_connection_claims_reset(&table->claims);
    pthread_mutex_destroy(&table->mutex);
}

static void shed_surplus(lh_connection_table *table, int64_t now_us) {
    uint32_t index;
    while ((index = lh_connection_claims_shed(&table->claims, now_us)) != UINT32_MAX)
        lh_http_connection_shed(table->claims.list[index].connection);
}

bool lh_connection_table_add(lh_connection_table *table, lh_http_exchange *connection) {
    int64_t now_us = lh_clock_us();
    pthread_mutex_lock(&table->mutex);
    connection->place =
        lh_connection_claims_add(&table->claims, connection->address, connection, now_us);
    bool has_place = connection->place != UINT32_MAX;
    if (has_place)
        shed_surplus(table, now_us);
    pthread_mutex_unlock(&table->mutex);
    return has_place;
}

void lh_connection_table_remove(lh_connection_table *table, lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    uint32_t index = connection->place;
    if (index != UINT32_MAX) {
        assert(table->claims.list[index].connection == connection);
        lh_connection_claims_remove(&table->claims, index);
        if (index < table->claims.count)
            ((lh_http_exchange *)table->claims.list[index].connection)->place = index;
    }
    pthread_mutex_unlock(&table->mutex);
}

void lh_connection_table_wait(lh_connection_table *table, lh_http_exchange *connection,
                              lh_http_wait wait) {
    int64_t now_us = lh_clock_us();
    pthread_mutex_lock(&table->mutex);
    if (connection->place != UINT32_MAX)
        lh_connection_claims_wait(&table->claims, connection->place, wait, now_us);
    pthread_mutex_unlock(&table->mutex);
}

void lh_connection_table_know(lh_connection_table *table, lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    if (connection->place != UINT32_MAX)
        lh_connection_claims_know(&table->claims, connection->place, connection->client);
    pthread_mutex_unlock(&table->mutex);
}

bool lh_connection_table_begin(lh_connection_table *table, lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    bool begins = !table->ending && connection->place != UINT32_MAX;
    table->active += begins;
    if (begins)
        lh_connection_claims_wait(&table->claims, connection->place, LH_HTTP_WAITS_NOT, 0);
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

bool lh_connection_table_is_crowded(lh_connection_table *table,
                                    const lh_http_exchange *connection) {
    pthread_mutex_lock(&table->mutex);
    const lh_connection_claims *claims = &table->claims;
    uint32_t answers_max = claims->most - claims->most / CROWDED_PART;
    uint32_t own_max = answers_max - claims->most / OTHERS_PART;
    bool is_crowded = claims->answered > answers_max ||
                      (claims->answered > own_max && connection->place != UINT32_MAX &&
                       lh_connection_claims_answered(claims, connection->place) > own_max);
    pthread_mutex_unlock(&table->mutex);
    return is_crowded;
}

/* Repeated, since an exchange may have been about to wait when it was broken. */
void lh_connection_table_close(lh_connection_table *table) {
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_mutex_lock(&table->mutex);
    table->ending = true;
    while (table->active) {
        for (uint32_t i = 0; i < table->claims.count; i++)
            lh_http_connection_break(table->claims.list[i].connection);
        pthread_mutex_unlock(&table->mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&table->mutex);
    }
    pthread_mutex_unlock(&table->mutex);
}
