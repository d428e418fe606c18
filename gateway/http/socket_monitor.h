/* One thread that watches the sockets of connections whose own threads do not: it reports when the
 * peer hangs up and when a deadline passes. libmicrohttpd does neither (it forgets a suspended
 * connection's socket, and its idle timeout is reset by every byte), so a client that has gone
 * would hold its place, and one that sends a byte a second would hold a connection for ever.
 *
 * A monitored socket has at most one deadline, and says whether a hang-up matters now. Each is
 * reported once, until it is armed anew. The callback runs on the monitor's thread, with the
 * monitor locked, so that after lh_socket_monitor_remove has returned no callback runs and none
 * will: the socket may then be closed and its number reused. The callback may call
 * lh_socket_monitor_arm and nothing else of this header. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_socket_monitor lh_socket_monitor;

typedef enum lh_http_signal {
    LH_HTTP_HUNG_UP, /* the peer has closed its sending side, or the connection is reset */
    LH_HTTP_DEADLINE
} lh_http_signal;

typedef void lh_http_on_signal(void *context, lh_http_signal signal);

/* Starts the thread. LH_ERR_IO: no epoll, eventfd or thread; LH_ERR_NO_MEMORY. */
lh_status lh_socket_monitor_create(lh_socket_monitor **monitor, lh_error *error);
/* No socket is monitored any more. Ends the thread. NULL is allowed. */
void lh_socket_monitor_destroy(lh_socket_monitor *monitor);

/* Begins to monitor an open socket, with nothing armed; *id names it. LH_ERR_NO_MEMORY, LH_ERR_IO.
 * Any thread. */
lh_status lh_socket_monitor_add(lh_socket_monitor *monitor, int fd, lh_http_on_signal *on_signal,
                                void *context, uint64_t *id, lh_error *error);
/* Any thread but the callback's. Before the socket is closed. */
void lh_socket_monitor_remove(lh_socket_monitor *monitor, uint64_t id);
/* Whether to report a hang-up (also one that has happened), and when to report the deadline
 * (CLOCK_MONOTONIC; 0: never). Replaces what was armed. Any thread, and the callback. */
void lh_socket_monitor_arm(lh_socket_monitor *monitor, uint64_t id, bool hang_up,
                           int64_t deadline_us);
