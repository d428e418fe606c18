/* Sleeps on an eventfd, and on the sockets while it has them. */
#include "worker/mesh/carrier.h"

#include "common/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void wake(const lh_mesh_carrier *carrier) {
    const uint64_t one = 1;
    const ssize_t count = write(carrier->wake, &one, sizeof one);
    assert(count == sizeof one);
    (void)count;
}

/* Gives the sockets back where there is nothing more to do. */
static bool goes_on(lh_mesh_carrier *carrier) {
    lh_mesh_links *links = carrier->links;
    pthread_mutex_lock(&links->lock);
    const bool is_under_way = carrier->is_carrying && links->failure.status == LH_OK &&
                              !carrier->is_stopped &&
                              (lh_mesh_links_owe_any(links) || lh_mesh_links_expect_any(links));
    if (carrier->is_carrying && !is_under_way) {
        carrier->is_carrying = false;
        carrier->carried_us += lh_clock_us() - carrier->began_us;
        pthread_cond_broadcast(&links->changed);
    }
    pthread_mutex_unlock(&links->lock);
    return is_under_way;
}

static bool is_stopped(lh_mesh_carrier *carrier) {
    pthread_mutex_lock(&carrier->links->lock);
    const bool stopped = carrier->is_stopped;
    pthread_mutex_unlock(&carrier->links->lock);
    return stopped;
}

static void sleep_without_sockets(const lh_mesh_carrier *carrier) {
    struct pollfd polled = {.fd = carrier->wake, .events = POLLIN};
    poll(&polled, 1, -1);
}

static void forget_wakes(const lh_mesh_carrier *carrier) {
    uint64_t count;
    const ssize_t got = read(carrier->wake, &count, sizeof count);
    (void)got; /* there may have been none */
}

static void *run(void *argument) {
    lh_mesh_carrier *carrier = argument;
    pthread_setname_np(pthread_self(), "mesh");
    while (!is_stopped(carrier)) {
        if (goes_on(carrier))
            lh_mesh_links_sleep(carrier->links, LH_MESH_INLET_FRAMES, carrier->wake, -1);
        else
            sleep_without_sockets(carrier);
        forget_wakes(carrier);
    }
    goes_on(carrier);
    return NULL;
}

lh_status lh_mesh_carrier_start(lh_mesh_carrier *carrier, lh_mesh_links *links, lh_error *error) {
    *carrier = (lh_mesh_carrier){.links = links, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (carrier->wake < 0)
        return lh_fail(error, LH_ERR_IO, "mesh: %s", strerror(errno));
    if (pthread_create(&carrier->thread, NULL, run, carrier) == 0)
        return LH_OK;
    close(carrier->wake);
    carrier->wake = -1;
    return lh_fail(error, LH_ERR_IO, "mesh: a thread could not be started");
}

void lh_mesh_carrier_stop(lh_mesh_carrier *carrier) {
    pthread_mutex_lock(&carrier->links->lock);
    carrier->is_stopped = true;
    pthread_mutex_unlock(&carrier->links->lock);
    wake(carrier);
    pthread_join(carrier->thread, NULL);
    close(carrier->wake);
}

void lh_mesh_carrier_carry(lh_mesh_carrier *carrier) {
    pthread_mutex_lock(&carrier->links->lock);
    if (!carrier->is_carrying)
        carrier->began_us = lh_clock_us();
    carrier->is_carrying = true;
    pthread_mutex_unlock(&carrier->links->lock);
    wake(carrier);
}
