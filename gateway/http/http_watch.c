/* Sockets by slot and generation, so that an event that was on its way for a removed socket finds nothing. */
#include "gateway/http/http_watch.h"

#include "common/clock.h"

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

typedef struct watched {
    int fd; /* -1: the slot is free */
    uint32_t generation;
    uint32_t next_free;  /* of a free slot: slot + 1; 0 ends */
    bool hang_up;        /* to be told, and not told yet */
    int64_t deadline_us; /* NO_DEADLINE: none */
    lh_http_on_signal *on_signal;
    void *context;
} watched;

struct lh_http_watch {
    pthread_mutex_t mutex; /* recursive: callbacks arm */
    pthread_t thread;
    int epoll, alarm;
    bool ending;
    int64_t sleeps_until_us; /* the thread wakes by itself then */
    watched *slots;
    uint32_t slot_count, first_free; /* slot + 1; 0: none */
};

static void ring(lh_http_watch *watch) {
    uint64_t one = 1;
    ssize_t ignored = write(watch->alarm, &one, sizeof one); /* full means rung already */
    (void)ignored;
}

static watched *find(lh_http_watch *watch, uint64_t id) {
    uint32_t slot = (uint32_t)id, generation = (uint32_t)(id >> 32);
    if (slot >= watch->slot_count)
        return NULL;
    watched *item = &watch->slots[slot];
    return item->fd >= 0 && item->generation == generation ? item : NULL;
}

static int64_t nearest_deadline(const lh_http_watch *watch) {
    int64_t nearest = NO_DEADLINE;
    for (uint32_t i = 0; i < watch->slot_count; i++)
        if (watch->slots[i].fd >= 0 && watch->slots[i].deadline_us < nearest)
            nearest = watch->slots[i].deadline_us;
    return nearest;
}

static void tell_deadlines(lh_http_watch *watch, int64_t now_us) {
    for (uint32_t i = 0; i < watch->slot_count; i++) {
        watched *item = &watch->slots[i];
        if (item->fd >= 0 && item->deadline_us <= now_us) {
            item->deadline_us = NO_DEADLINE;
            item->on_signal(item->context, LH_HTTP_DEADLINE);
        }
    }
}

static void tell_hang_up(lh_http_watch *watch, uint64_t id) {
    if (id == ALARM_ID) {
        uint64_t count;
        ssize_t ignored = read(watch->alarm, &count, sizeof count);
        (void)ignored;
        return;
    }
    watched *item = find(watch, id);
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
    lh_http_watch *watch = argument;
    struct epoll_event events[EVENTS_AT_ONCE];
    pthread_mutex_lock(&watch->mutex);
    while (!watch->ending) {
        int64_t now_us = lh_clock_us();
        tell_deadlines(watch, now_us);
        watch->sleeps_until_us = nearest_deadline(watch);
        int timeout_ms = sleep_ms(watch->sleeps_until_us, now_us);
        pthread_mutex_unlock(&watch->mutex);
        int count = epoll_wait(watch->epoll, events, EVENTS_AT_ONCE, timeout_ms);
        pthread_mutex_lock(&watch->mutex);
        for (int i = 0; i < count; i++)
            tell_hang_up(watch, events[i].data.u64);
    }
    pthread_mutex_unlock(&watch->mutex);
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

lh_status lh_http_watch_create(lh_http_watch **out, lh_error *error) {
    lh_http_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the watch over connections");
    if (init_mutex(&watch->mutex)) {
        free(watch);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no mutex for the watch over connections");
    }
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = ALARM_ID};
    if (watch->epoll < 0 || watch->alarm < 0 ||
        epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->alarm, &event) != 0)
        goto fail;
    if (pthread_create(&watch->thread, NULL, run, watch) != 0)
        goto fail;
    *out = watch;
    return LH_OK;
fail:
    lh_fail(error, LH_ERR_IO, "cannot start the watch over connections: %s", strerror(errno));
    if (watch->alarm >= 0)
        close(watch->alarm);
    if (watch->epoll >= 0)
        close(watch->epoll);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
    return LH_ERR_IO;
}

void lh_http_watch_destroy(lh_http_watch *watch) {
    if (!watch)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->ending = true;
    pthread_mutex_unlock(&watch->mutex);
    ring(watch);
    pthread_join(watch->thread, NULL);
    close(watch->alarm);
    close(watch->epoll);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->slots);
    free(watch);
}

static void free_slot(lh_http_watch *watch, uint32_t slot) {
    watch->slots[slot].fd = -1;
    watch->slots[slot].next_free = watch->first_free;
    watch->first_free = slot + 1;
}

/* A free slot's index; UINT32_MAX: no memory. */
static uint32_t take_slot(lh_http_watch *watch) {
    uint32_t first = watch->first_free;
    if (first) {
        watch->first_free = watch->slots[first - 1].next_free;
        return first - 1;
    }
    uint32_t count = watch->slot_count ? watch->slot_count * 2 : 64;
    watched *slots = realloc(watch->slots, count * sizeof *slots);
    if (!slots)
        return UINT32_MAX;
    watch->slots = slots;
    for (uint32_t slot = count; slot-- > watch->slot_count;) {
        slots[slot] = (watched){.fd = -1};
        free_slot(watch, slot);
    }
    watch->slot_count = count;
    return take_slot(watch);
}

lh_status lh_http_watch_add(lh_http_watch *watch, int fd, lh_http_on_signal *on_signal, void *context,
                            uint64_t *id, lh_error *error) {
    assert(fd >= 0);
    lh_status status = LH_OK;
    pthread_mutex_lock(&watch->mutex);
    uint32_t slot = take_slot(watch);
    if (slot == UINT32_MAX) {
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory to watch one more connection");
        goto out;
    }
    watched *item = &watch->slots[slot];
    *id = (uint64_t)item->generation << 32 | slot;
    /* One shot, though nothing is asked for: epoll reports errors whether one wants them or not. */
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = *id};
    if (epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        status = lh_fail(error, LH_ERR_IO, "cannot watch a connection: %s", strerror(errno));
        free_slot(watch, slot);
        goto out;
    }
    *item = (watched){.fd = fd,
                      .generation = item->generation,
                      .deadline_us = NO_DEADLINE,
                      .on_signal = on_signal,
                      .context = context};
out:
    pthread_mutex_unlock(&watch->mutex);
    return status;
}

void lh_http_watch_remove(lh_http_watch *watch, uint64_t id) {
    pthread_mutex_lock(&watch->mutex);
    watched *item = find(watch, id);
    if (item) {
        epoll_ctl(watch->epoll, EPOLL_CTL_DEL, item->fd, NULL);
        item->generation++;
        free_slot(watch, (uint32_t)(item - watch->slots));
    }
    pthread_mutex_unlock(&watch->mutex);
}

void lh_http_watch_arm(lh_http_watch *watch, uint64_t id, bool hang_up, int64_t deadline_us) {
    pthread_mutex_lock(&watch->mutex);
    watched *item = find(watch, id);
    if (item) {
        struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT,
                                    .data.u64 = id};
        if (hang_up && !item->hang_up)
            epoll_ctl(watch->epoll, EPOLL_CTL_MOD, item->fd, &event);
        item->hang_up = hang_up;
        item->deadline_us = deadline_us ? deadline_us : NO_DEADLINE;
        if (item->deadline_us < watch->sleeps_until_us) {
            watch->sleeps_until_us = item->deadline_us;
            ring(watch);
        }
    }
    pthread_mutex_unlock(&watch->mutex);
}
