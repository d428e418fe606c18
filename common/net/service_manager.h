/* What a program tells the service manager that has started it: that it serves, what it does, that
 * it lives, that it stops. Datagrams of sd_notify(3) to the Unix socket of $NOTIFY_SOCKET, as
 * systemd and podman listen for them; systemd promises to keep that protocol, and advises programs
 * to speak it themselves. libsystemd would come with five more libraries (libgcrypt, liblzma and
 * others): 2.7 MB in an image of 24.
 *
 * Opened before the program enters its sandbox, which lets it open no Unix socket: what is
 * connected then stays so. Where there is no such variable all of it does nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_SERVICE_STATUS_BYTES 256u

typedef struct lh_service_manager {
    int descriptor; /* -1: nobody listens */
    /* How often a sign of life is due: a third of the watchdog's time; 0: none is wanted. */
    int64_t beat_us;
    int64_t next_beat_us;
    char status[LH_SERVICE_STATUS_BYTES]; /* what it knows */
} lh_service_manager;

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Where the socket cannot be reached the log
 * says so, as a line of `room`, and the program goes on. Start-up only. */
void lh_service_manager_open(lh_service_manager *manager, const char *room);
void lh_service_manager_close(lh_service_manager *manager);

/* How often lh_service_manager_tell wants to be called; 0: never. */
uint32_t lh_service_manager_interval_ms(const lh_service_manager *manager);
/* What the program does, in words, which are copied; sent where they have changed. And a sign of
 * life where one is due: so this is called by the loop without which the program serves nobody.
 * Never blocks; what the socket has no room for now is sent by the next call. One thread. */
void lh_service_manager_tell(lh_service_manager *manager, int64_t now_us, const char *status);

/* Each is one datagram. Any thread. _ready: it has started, or has read its files again.
 * _reloading: it begins to; now_us is the monotonic clock's. _stopping: it ends as soon as it can.
 */
void lh_service_manager_ready(const lh_service_manager *manager);
void lh_service_manager_reloading(const lh_service_manager *manager, int64_t now_us);
void lh_service_manager_stopping(const lh_service_manager *manager);
