/* A list, walked where it matters: when places run short, and at the end. */
#include "gateway/http/http_roster.h"

#include <time.h>

/* One part in so many stays free: the library's threads each have a share of the places, and take nobody in when theirs is full. */
#define FREE_PART 8

void lh_http_roster_init(lh_http_roster *roster, uint32_t most) {
    *roster = (lh_http_roster){.most = most};
    pthread_mutex_init(&roster->mutex, NULL);
}

void lh_http_roster_reset(lh_http_roster *roster) {
    pthread_mutex_destroy(&roster->mutex);
}

static lh_http_exchange *find_soonest_over(const lh_http_roster *roster) {
    lh_http_exchange *found = NULL;
    int64_t soonest_us = INT64_MAX;
    for (lh_http_exchange *at = roster->first; at; at = at->next) {
        int64_t deadline_us = lh_http_connection_waits_until_us(at);
        if (deadline_us < soonest_us) {
            soonest_us = deadline_us;
            found = at;
        }
    }
    return found;
}

/* The one that comes is in the list already: it has its whole time before it, so that it goes last. */
void lh_http_roster_add(lh_http_roster *roster, lh_http_exchange *connection) {
    pthread_mutex_lock(&roster->mutex);
    connection->next = roster->first;
    if (connection->next)
        connection->next->previous = connection;
    roster->first = connection;
    roster->count++;
    lh_http_exchange *shed =
        roster->count > roster->most - roster->most / FREE_PART ? find_soonest_over(roster) : NULL;
    if (shed)
        lh_http_connection_shed(shed);
    pthread_mutex_unlock(&roster->mutex);
}

void lh_http_roster_remove(lh_http_roster *roster, lh_http_exchange *connection) {
    pthread_mutex_lock(&roster->mutex);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        roster->first = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    roster->count--;
    pthread_mutex_unlock(&roster->mutex);
}

bool lh_http_roster_begin(lh_http_roster *roster) {
    pthread_mutex_lock(&roster->mutex);
    bool begins = !roster->ending;
    roster->active += begins;
    pthread_mutex_unlock(&roster->mutex);
    return begins;
}

void lh_http_roster_end(lh_http_roster *roster) {
    pthread_mutex_lock(&roster->mutex);
    roster->active--;
    pthread_mutex_unlock(&roster->mutex);
}

uint32_t lh_http_roster_active(lh_http_roster *roster) {
    pthread_mutex_lock(&roster->mutex);
    uint32_t active = roster->active;
    pthread_mutex_unlock(&roster->mutex);
    return active;
}

/* One that was about to wait when it was told to end is told again. */
void lh_http_roster_close(lh_http_roster *roster) {
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_mutex_lock(&roster->mutex);
    roster->ending = true;
    while (roster->active) {
        for (lh_http_exchange *connection = roster->first; connection; connection = connection->next)
            lh_http_connection_break(connection);
        pthread_mutex_unlock(&roster->mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&roster->mutex);
    }
    pthread_mutex_unlock(&roster->mutex);
}
