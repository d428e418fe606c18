/* Sockets that do not block. */
#include "worker/mesh/links.h"

#include "common/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- Life ---- */

lh_status lh_mesh_links_init(lh_mesh_links *links, uint32_t members, uint32_t own,
                             uint32_t payload_bytes_max, lh_error *error) {
    pthread_condattr_t attributes;
    links->members = members;
    links->own = own;
    for (uint32_t i = 0; i < LH_MEMBERS_MAX; i++) {
        links->descriptors[i] = -1;
        links->peers[i].inlet.payload_bytes_max = payload_bytes_max;
    }
    pthread_mutex_init(&links->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&links->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return lh_mesh_frame_ring_create(members - 1, &links->ring, error);
}

void lh_mesh_links_reset(lh_mesh_links *links) {
    for (uint32_t i = 0; i < links->members; i++) {
        if (links->descriptors[i] >= 0)
            close(links->descriptors[i]);
        lh_mesh_inlet_reset(&links->peers[i].inlet);
    }
    lh_mesh_frame_ring_destroy(links->ring);
    pthread_cond_destroy(&links->changed);
    pthread_mutex_destroy(&links->lock);
}

/* ---- The end ---- */

static void shut(const lh_mesh_links *links) {
    for (uint32_t i = 0; i < links->members; i++)
        if (links->descriptors[i] >= 0)
            shutdown(links->descriptors[i], SHUT_RDWR);
}

static void tell_change(lh_mesh_links *links) {
    pthread_mutex_lock(&links->lock);
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
}

void lh_mesh_links_end(lh_mesh_links *links) {
    atomic_store(&links->ended, true);
    shut(links);
    tell_change(links);
}

lh_status lh_mesh_links_failure(lh_mesh_links *links, lh_error *error) {
    pthread_mutex_lock(&links->lock);
    const lh_status status = links->failure.status;
    if (status != LH_OK && error)
        *error = links->failure;
    pthread_mutex_unlock(&links->lock);
    return status;
}

lh_status lh_mesh_links_fail_here(lh_mesh_links *links, const lh_error *why) {
    pthread_mutex_lock(&links->lock);
    if (links->failure.status == LH_OK)
        links->failure = *why;
    const lh_status status = links->failure.status;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    shut(links);
    return status;
}

lh_status lh_mesh_links_fail(lh_mesh_links *links, uint32_t member, lh_status status,
                             const char *why) {
    lh_error error;
    if (atomic_load(&links->ended))
        lh_fail(&error, LH_ERR_CANCELLED, "the mesh was ended here");
    else
        lh_fail(&error, status, "member %u of the stage: %.200s", member, why);
    return lh_mesh_links_fail_here(links, &error);
}

static lh_status fail_by_errno(lh_mesh_links *links, uint32_t member, int code) {
    bool is_lost = code == ECONNRESET || code == EPIPE || code == ETIMEDOUT ||
                   code == EHOSTUNREACH || code == ENETUNREACH;
    return lh_mesh_links_fail(links, member, is_lost ? LH_ERR_CLOSED : LH_ERR_IO, strerror(code));
}

lh_status lh_mesh_links_fail_ended(lh_mesh_links *links, uint32_t member) {
    pthread_mutex_lock(&links->lock);
    const int code = links->peers[member].code;
    pthread_mutex_unlock(&links->lock);
    return code != 0
               ? fail_by_errno(links, member, code)
               : lh_mesh_links_fail(links, member, LH_ERR_CLOSED, "it has closed the connection");
}

/* ---- Out ---- */

static uint32_t reader_of(const lh_mesh_links *links, uint32_t member) {
    return member < links->own ? member : member - 1;
}

bool lh_mesh_links_owe(const lh_mesh_links *links, uint32_t member) {
    const uint8_t *bytes;
    return member != links->own &&
           lh_mesh_frame_ring_next(links->ring, reader_of(links, member), &bytes) > 0;
}

bool lh_mesh_links_owe_any(const lh_mesh_links *links) {
    return !lh_mesh_frame_ring_is_empty(links->ring);
}

static size_t next_bytes(lh_mesh_links *links, uint32_t member, const uint8_t **bytes) {
    pthread_mutex_lock(&links->lock);
    const size_t length = lh_mesh_frame_ring_next(links->ring, reader_of(links, member), bytes);
    pthread_mutex_unlock(&links->lock);
    return length;
}

static void note_sent(lh_mesh_links *links, uint32_t member, size_t count, bool is_frame) {
    pthread_mutex_lock(&links->lock);
    lh_mesh_frame_ring_advance(links->ring, reader_of(links, member), count);
    if (is_frame)
        pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
}

static lh_status write_to(lh_mesh_links *links, uint32_t member) {
    const uint8_t *bytes;
    size_t length;
    while ((length = next_bytes(links, member, &bytes)) > 0) {
        ssize_t count =
            send(links->descriptors[member], bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno == EAGAIN ? LH_OK : fail_by_errno(links, member, errno);
        note_sent(links, member, (size_t)count, (size_t)count == length);
    }
    return LH_OK;
}

lh_status lh_mesh_links_write(lh_mesh_links *links) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < links->members && status == LH_OK; i++)
        if (i != links->own)
            status = write_to(links, i);
    return status;
}

/* ---- In ---- */

bool lh_mesh_links_expect_any(const lh_mesh_links *links) {
    for (uint32_t i = 0; i < links->members; i++)
        if (i != links->own && !links->peers[i].has_ended &&
            links->peers[i].gathers < links->log.posted)
            return true;
    return false;
}

uint64_t lh_mesh_links_gathers_come(const lh_mesh_links *links) {
    uint64_t come = UINT64_MAX;
    for (uint32_t i = 0; i < links->members; i++)
        if (i != links->own && links->peers[i].gathers < come)
            come = links->peers[i].gathers;
    return come;
}

static bool reads(const lh_mesh_peer *peer, uint32_t frames) {
    return !peer->has_ended && peer->inlet.waiting < frames;
}

/* Where the next bytes of a member go; none, where nothing is to be read. */
static lh_status next_room(lh_mesh_links *links, uint32_t member, size_t expected, uint32_t frames,
                           uint8_t **bytes, size_t *length, lh_error *error) {
    lh_mesh_peer *peer = &links->peers[member];
    lh_status status = LH_OK;
    *length = 0;
    pthread_mutex_lock(&links->lock);
    if (reads(peer, frames))
        status = lh_mesh_inlet_next(&peer->inlet, expected, bytes, length, error);
    pthread_mutex_unlock(&links->lock);
    return status;
}

static void count_gather(lh_mesh_links *links, lh_mesh_peer *peer) {
    const lh_mesh_inlet *inlet = &peer->inlet;
    const uint32_t last = (inlet->next + inlet->waiting - 1) % (LH_MESH_INLET_FRAMES + 1);
    if (inlet->heads[last].kind != LH_MESH_FRAME_GATHER)
        return;
    peer->gathers++;
    lh_mesh_gather_log_come(&links->log, lh_mesh_links_gathers_come(links), lh_clock_us());
}

/* count: as recv has it. */
static lh_status note_read(lh_mesh_links *links, uint32_t member, ssize_t count, int code,
                           lh_error *error) {
    lh_mesh_peer *peer = &links->peers[member];
    pthread_mutex_lock(&links->lock);
    const uint32_t waiting = peer->inlet.waiting;
    peer->has_ended = count <= 0;
    peer->code = count < 0 ? code : 0;
    const lh_status status =
        lh_mesh_inlet_advance(&peer->inlet, count > 0 ? (size_t)count : 0, error);
    if (peer->inlet.waiting > waiting)
        count_gather(links, peer);
    if (peer->inlet.waiting > waiting || peer->has_ended)
        pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    return status;
}

lh_status lh_mesh_links_read(lh_mesh_links *links, uint32_t member, size_t expected,
                             uint32_t frames) {
    uint8_t *bytes;
    size_t length;
    lh_error error;
    for (;;) {
        if (next_room(links, member, expected, frames, &bytes, &length, &error) != LH_OK)
            return lh_mesh_links_fail_here(links, &error);
        if (length == 0)
            return LH_OK;
        ssize_t count = recv(links->descriptors[member], bytes, length, MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN)
            return LH_OK;
        if (count < 0 && errno == EINTR)
            continue;
        lh_status status = note_read(links, member, count, errno, &error);
        if (status != LH_OK)
            return lh_mesh_links_fail(links, member, status, error.message);
    }
}

/* ---- Sleep ---- */

static void ask_for(lh_mesh_links *links, uint32_t frames, struct pollfd *polled) {
    pthread_mutex_lock(&links->lock);
    for (uint32_t i = 0; i < links->members; i++) {
        int events = 0;
        if (i != links->own)
            events = (reads(&links->peers[i], frames) ? POLLIN : 0) |
                     (lh_mesh_links_owe(links, i) ? POLLOUT : 0);
        polled[i] =
            (struct pollfd){.fd = events ? links->descriptors[i] : -1, .events = (short)events};
    }
    pthread_mutex_unlock(&links->lock);
}

lh_status lh_mesh_links_sleep(lh_mesh_links *links, uint32_t frames, int woken, int timeout_ms) {
    struct pollfd polled[LH_MEMBERS_MAX + 1];
    ask_for(links, frames, polled);
    polled[links->members] = (struct pollfd){.fd = woken, .events = POLLIN};
    if (poll(polled, links->members + 1, timeout_ms) < 0 && errno != EINTR)
        return fail_by_errno(links, links->own, errno);
    lh_status status = lh_mesh_links_write(links);
    for (uint32_t i = 0; i < links->members && status == LH_OK; i++)
        if (polled[i].revents & ~POLLOUT)
            status = lh_mesh_links_read(links, i, 0, frames);
    return status;
}
