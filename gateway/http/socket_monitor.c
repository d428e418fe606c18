/* Sockets by slot and generation, so that an event that was on its way for a removed socket finds
 * nothing. */
#include "gateway/http/socket_monitor.h"

#include "common/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64
#define NO_DEADLINE    INT64_MAX
#define ALARM_ID       UINT64_MAX

typedef struct monitored {
    int fd; /* -1: the slot is free */
    uint32_t generation;
    uint32_t next_free;  /* of a free slot: slot + 1; 0 ends */
    bool hang_up;        /* to be told, and not told yet */
    int64_t deadline_us; /* NO_DEADLINE: none */
    lh_http_on_signal *on_signal;
    void *context;
} monitored;

struct lh_socket_monitor {
    pthread_mutex_t mutex; /* recursive: callbacks arm */
    pthread_t thread;
    int epoll, alarm;
    bool ending;
    int64_t sleeps_until_us; /* the thread wakes by itself then */
    monitored *slots;
    uint32_t slot_count, first_free; /* slot + 1; 0: none */
};

/* Wakes the thread. */
static void ring(lh_socket_monitor *monitor) {
    uint64_t one = 1;
    ssize_t ignored = write(monitor->alarm, &one, sizeof one); /* full means rung already */
    (void)ignored;
}

static monitored *find(lh_socket_monitor *monitor, uint64_t id) {
    uint32_t slot = (uint32_t)id, generation = (uint32_t)(id >> 32);
    if (slot >= monitor->slot_count)
        return NULL;
    monitored *item = &monitor->slots[slot];
    return item->fd >= 0 && item->generation == generation ? item : NULL;
}

static int64_t nearest_deadline(const lh_socket_monitor *monitor) {
    int64_t nearest = NO_DEADLINE;
    for (uint32_t i = 0; i < monitor->slot_count; i++)
        if (monitor->slots[i].fd >= 0 && monitor->slots[i].deadline_us < nearest)
            nearest = monitor->slots[i].deadline_us;
    return nearest;
}

static void tell_deadlines(lh_socket_monitor *monitor, int64_t now_us) {
    for (uint32_t i = 0; i < monitor->slot_count; i++) {
        monitored *item = &monitor->slots[i];
        if (item->fd >= 0 && item->deadline_us <= now_us) {
            item->deadline_us = NO_DEADLINE;
            item->on_signal(item->context, LH_HTTP_DEADLINE);
        }
    }
}

static void tell_hang_up(lh_socket_monitor *monitor, uint64_t id) {
    if (id == ALARM_ID) {
        uint64_t count;
        ssize_t ignored = read(monitor->alarm, &count, sizeof count);
        (void)ignored;
        return;
    }
    monitored *item = find(monitor, id);
    if (item && item->hang_up) {
        item->hang_up = false;
        item->on_signal(item->context, LH_HTTP_HUNG_UP);
    }
}

/* Milliseconds to sleep, rounded up so that the deadline has passed afterwards. */
static int sleep_ms(int64_t until_us, int64_t now_us) {
    if (until_us == NO_DEADLINE)
        return -1;
    if (until_us <= now_us)
        return 0;
    int64_t ms = (until_us - now_us + 999) / 1000;
    return ms > 60000 ? 60000 : (int)ms;
}

static void *run(void *argument) {
    lh_socket_monitor *monitor = argument;
    struct epoll_event events[EVENTS_AT_ONCE];
    pthread_mutex_lock(&monitor->mutex);
    while (!monitor->ending) {
        int64_t now_us = lh_clock_us();
        tell_deadlines(monitor, now_us);
        monitor->sleeps_until_us = nearest_deadline(monitor);
        int timeout_ms = sleep_ms(monitor->sleeps_until_us, now_us);
        pthread_mutex_unlock(&monitor->mutex);
        int count = epoll_wait(monitor->epoll, events, EVENTS_AT_ONCE, timeout_ms);
        pthread_mutex_lock(&monitor->mutex);
        for (int i = 0; i < count; i++)
            tell_hang_up(monitor, events[i].data.u64);
    }
    pthread_mutex_unlock(&monitor->mutex);
    return NULL;
}

static int init_mutex(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    int failed = pthread_mutexattr_init(&attributes);
    if (failed)
        return failed;
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    failed = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return failed;
}

lh_status lh_socket_monitor_create(lh_socket_monitor **out, lh_error *error) {
    lh_socket_monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to monitor connections");
    if (init_mutex(&monitor->mutex)) {
        free(monitor);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no mutex to monitor connections");
    }
    monitor->epoll = epoll_create1(EPOLL_CLOEXEC);
    monitor->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = ALARM_ID};
    if (monitor->epoll < 0 || monitor->alarm < 0 ||
        epoll_ctl(monitor->epoll, EPOLL_CTL_ADD, monitor->alarm, &event) != 0)
        goto fail;
    if (pthread_create(&monitor->thread, NULL, run, monitor) != 0)
        goto fail;
    *out = monitor;
    return LH_OK;
fail:
    lh_fail(error, LH_ERR_IO, "cannot start to monitor connections: %s", strerror(errno));
    if (monitor->alarm >= 0)
        close(monitor->alarm);
    if (monitor->epoll >= 0)
        close(monitor->epoll);
    pthread_mutex_destroy(&monitor->mutex);
    free(monitor);
    return LH_ERR_IO;
}

void lh_socket_monitor_destroy(lh_socket_monitor *monitor) {
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->mutex);
    monitor->ending = true;
    pthread_mutex_unlock(&monitor->mutex);
    ring(monitor);
    pthread_join(monitor->thread, NULL);
    close(monitor->alarm);
    close(monitor->epoll);
    pthread_mutex_destroy(&monitor->mutex);
    free(monitor->slots);
    free(monitor);
}

static void free_slot(lh_socket_monitor *monitor, uint32_t slot) {
    monitor->slots[slot].fd = -1;
    monitor->slots[slot].next_free = monitor->first_free;
    monitor->first_free = slot + 1;
}

/* A free slot's index; UINT32_MAX: no memory. */
static uint32_t take_slot(lh_socket_monitor *monitor) {
    uint32_t first = monitor->first_free;
    if (first) {
        assert(first <= monitor->slot_count && monitor->slots[first - 1].fd < 0);
        monitor->first_free = monitor->slots[first - 1].next_free;
        return first - 1;
    }
    uint32_t count = monitor->slot_count ? monitor->slot_count * 2 : 64;
    monitored *slots = realloc(monitor->slots, count * sizeof *slots);
    if (!slots)
        return UINT32_MAX;
    monitor->slots = slots;
    for (uint32_t slot = count; slot-- > monitor->slot_count;) {
        slots[slot] = (monitored){.fd = -1};
        free_slot(monitor, slot);
    }
    monitor->slot_count = count;
    return take_slot(monitor);
}

lh_status lh_socket_monitor_add(lh_socket_monitor *monitor, int fd, lh_http_on_signal *on_signal,
                                void *context, uint64_t *id, lh_error *error) {
    assert(fd >= 0);
    lh_status status = LH_OK;
    pthread_mutex_lock(&monitor->mutex);
    uint32_t slot = take_slot(monitor);
    if (slot == UINT32_MAX) {
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory to monitor one more connection");
        goto out;
    }
    monitored *item = &monitor->slots[slot];
    *id = (uint64_t)item->generation << 32 | slot;
    /* One shot, though nothing is asked for: epoll reports errors whether one wants them or not. */
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = *id};
    if (epoll_ctl(monitor->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        status = lh_fail(error, LH_ERR_IO, "cannot monitor a connection: %s", strerror(errno));
        free_slot(monitor, slot);
        goto out;
    }
    *item = (monitored){.fd = fd,
                        .generation = item->generation,
                        .deadline_us = NO_DEADLINE,
                        .on_signal = on_signal,
                        .context = context};
out:
    pthread_mutex_unlock(&monitor->mutex);
    return status;
}

void lh_socket_monitor_remove(lh_socket_monitor *monitor, uint64_t id) {
    pthread_mutex_lock(&monitor->mutex);
    monitored *item = find(monitor, id);
    if (item) {
        epoll_ctl(monitor->epoll, EPOLL_CTL_DEL, item->fd, NULL);
        item->generation++;
        free_slot(monitor, (uint32_t)(item - monitor->slots));
    }
    pthread_mutex_unlock(&monitor->mutex);
}

void lh_socket_monitor_arm(lh_socket_monitor *monitor, uint64_t id, bool hang_up,
                           int64_t deadline_us) {
    pthread_mutex_lock(&monitor->mutex);
    monitored *item = find(monitor, id);
    if (item) {
        struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT,
                                    .data.u64 = id};
        if (hang_up && !item->hang_up)
            epoll_ctl(monitor->epoll, EPOLL_CTL_MOD, item->fd, &event);
        item->hang_up = hang_up;
        item->deadline_us = deadline_us ? deadline_us : NO_DEADLINE;
        if (item->deadline_us < monitor->sleeps_until_us) {
            monitor->sleeps_until_us = item->deadline_us;
            ring(monitor);
        }
    }
    pthread_mutex_unlock(&monitor->mutex);
}
