/* A connected datagram socket. */
#include "common/net/service_manager.h"

#include "common/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Words in `systemctl status` are no older than this. */
#define INTERVAL_MS_MAX 1000

/* ---- Opening ---- */

/* "/path", or "@name" of an abstract socket, whose name begins with a zero byte. */
static bool read_address(const char *text, struct sockaddr_un *address, socklen_t *length) {
    size_t size = strlen(text);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((text[0] != '/' && text[0] != '@') || size >= sizeof address->sun_path) {
        errno = EAFNOSUPPORT;
        return false;
    }
    memcpy(address->sun_path, text, size + 1);
    *length = (socklen_t)sizeof *address;
    if (text[0] == '@') {
        address->sun_path[0] = '\0';
        *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    }
    return true;
}

static bool connect_to(lh_service_manager *manager, const char *text) {
    struct sockaddr_un address;
    socklen_t length;
    if (!read_address(text, &address, &length))
        return false;
    manager->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return manager->descriptor >= 0 &&
           connect(manager->descriptor, (struct sockaddr *)&address, length) == 0;
}

/* 0: not set, or no number. */
static int64_t number_of(const char *variable) {
    const char *text = getenv(variable);
    char *end;
    errno = 0;
    long long number = text ? strtoll(text, &end, 10) : 0;
    return text && !errno && end != text && !*end && number > 0 ? number : 0;
}

/* The variables may have been handed on by a program that was meant. */
static int64_t read_beat_us(void) {
    int64_t process = number_of("WATCHDOG_PID"), watchdog_us = number_of("WATCHDOG_USEC");
    return process && process != getpid() ? 0 : watchdog_us / 3;
}

void lh_service_manager_open(lh_service_manager *manager, const char *room) {
    const char *text = getenv("NOTIFY_SOCKET");
    *manager = (lh_service_manager){.descriptor = -1};
    if (!text || !text[0])
        return;
    if (connect_to(manager, text)) {
        manager->beat_us = read_beat_us();
        return;
    }
    lh_log(LH_LOG_WARN, room,
           "the service manager cannot be told anything socket=%.120s reason=\"%s\"", text,
           strerror(errno));
    lh_service_manager_close(manager);
}

void lh_service_manager_close(lh_service_manager *manager) {
    if (manager->descriptor >= 0)
        close(manager->descriptor);
    *manager = (lh_service_manager){.descriptor = -1};
}

/* ---- Telling ---- */

static bool send_text(const lh_service_manager *manager, const char *text) {
    size_t length = strlen(text);
    return manager->descriptor >= 0 &&
           send(manager->descriptor, text, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

uint32_t lh_service_manager_interval_ms(const lh_service_manager *manager) {
    int64_t beat_ms = manager->beat_us / 1000;
    if (manager->descriptor < 0)
        return 0;
    if (!manager->beat_us || beat_ms > INTERVAL_MS_MAX)
        return INTERVAL_MS_MAX;
    return beat_ms > 0 ? (uint32_t)beat_ms : 1;
}

/* A message is lines, so a status is one line. */
static void copy_line(char line[LH_SERVICE_STATUS_BYTES], const char *text) {
    snprintf(line, LH_SERVICE_STATUS_BYTES, "%s", text);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

void lh_service_manager_tell(lh_service_manager *manager, int64_t now_us, const char *status) {
    char line[LH_SERVICE_STATUS_BYTES], message[LH_SERVICE_STATUS_BYTES + 32];
    if (manager->descriptor < 0)
        return;
    copy_line(line, status);
    bool is_due = manager->beat_us && now_us >= manager->next_beat_us;
    bool is_news = strcmp(line, manager->status) != 0;
    if (!is_due && !is_news)
        return;
    snprintf(message, sizeof message, "%sSTATUS=%s\n", is_due ? "WATCHDOG=1\n" : "", line);
    if (!send_text(manager, message))
        return;
    memcpy(manager->status, line, sizeof line);
    if (is_due)
        manager->next_beat_us = now_us + manager->beat_us;
}

void lh_service_manager_ready(const lh_service_manager *manager) {
    send_text(manager, "READY=1\n");
}

void lh_service_manager_reloading(const lh_service_manager *manager, int64_t now_us) {
    char message[64];
    snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n", now_us);
    send_text(manager, message);
}

void lh_service_manager_stopping(const lh_service_manager *manager) {
    send_text(manager, "STOPPING=1\n");
}
