/* One thread that watches the sockets of connections whose threads do not: it tells when the peer hangs up
 * and when a deadline passes. libmicrohttpd does neither (it forgets a suspended connection's socket, and its
 * idle timeout is reset by every byte), so a client that has gone would hold its place, and one that sends a
 * byte a second would hold a connection for ever.
 *
 * A watched socket has at most one deadline, and says whether a hang-up matters now. Each is told once, then
 * it is armed anew. The callback runs on the watch's thread, with the watch locked, so that after
 * lh_http_watch_remove has returned no callback runs and none will: the socket may then be closed and its
 * number reused. It may call arm and nothing else of this header. */
#pragma once

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_http_watch lh_http_watch;

typedef enum lh_http_signal {
    LH_HTTP_HUNG_UP, /* the peer has closed its sending side, or the connection is reset */
    LH_HTTP_DEADLINE
} lh_http_signal;

typedef void lh_http_on_signal(void *context, lh_http_signal signal);

/* Starts the thread. LH_ERR_IO: no epoll, eventfd or thread; LH_ERR_NO_MEMORY. */
lh_status lh_http_watch_create(lh_http_watch **watch, lh_error *error);
/* Nothing is watched any more. Ends the thread. */
void lh_http_watch_destroy(lh_http_watch *watch);

/* Begins to watch an open socket, with nothing armed; *id names it. LH_ERR_NO_MEMORY, LH_ERR_IO. Any thread.
 */
lh_status lh_http_watch_add(lh_http_watch *watch, int fd, lh_http_on_signal *on_signal, void *context,
                            uint64_t *id, lh_error *error);
/* Any thread but the callback's. Before the socket is closed. */
void lh_http_watch_remove(lh_http_watch *watch, uint64_t id);
/* Whether to tell of a hang-up (also of one that has happened), and when to tell of the deadline
 * (CLOCK_MONOTONIC; 0: never). Replaces what was armed. Any thread, and the callback. */
void lh_http_watch_arm(lh_http_watch *watch, uint64_t id, bool hang_up, int64_t deadline_us);
