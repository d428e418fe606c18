/* Frames as the compute thread opens, posts and takes them, and its waits. */
#include "worker/mesh/mesh.h"

#include "common/base/clock.h"
#include "worker/mesh/carrier.h"
#include "worker/mesh/forming.h"
#include "worker/mesh/links.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

/* From so many bytes on a frame is carried: fewer the kernel takes at once and keeps for whoever
 * reads them, as long as its buffers are; to wake the carrier and to be woken by it takes some ten
 * microseconds, which those bytes need on 10 Gbit/s. */
#define CARRIED_BYTES_MIN 65536u

struct lh_mesh {
    uint32_t epoch;
    int64_t wait_us, spin_us;
    uint32_t payload_bytes_max;
    lh_mesh_links links;
    lh_mesh_carrier carrier;
    bool has_carrier;
    uint64_t orders;       /* posted, or taken */
    lh_mesh_totals totals; /* under the lock of the links */
};

uint32_t lh_mesh_members(const lh_mesh *mesh) {
    return mesh->links.members;
}

uint32_t lh_mesh_own(const lh_mesh *mesh) {
    return mesh->links.own;
}

lh_mesh_totals lh_mesh_count(lh_mesh *mesh) {
    pthread_mutex_lock(&mesh->links.lock);
    lh_mesh_totals totals = mesh->totals;
    totals.gathers = mesh->links.log.posted;
    totals.under_way_us = mesh->carrier.carried_us;
    pthread_mutex_unlock(&mesh->links.lock);
    return totals;
}

uint32_t lh_mesh_gather_times(lh_mesh *mesh, uint64_t first, lh_gather_times *times,
                              uint32_t count) {
    pthread_mutex_lock(&mesh->links.lock);
    const uint32_t read = lh_mesh_gather_log_read(&mesh->links.log, first, times, count);
    pthread_mutex_unlock(&mesh->links.lock);
    return read;
}

void lh_mesh_end(lh_mesh *mesh) {
    lh_mesh_links_end(&mesh->links);
}

/* ---- Waits ---- */

typedef struct wait wait;

struct wait {
    bool (*is_over)(const lh_mesh *mesh, const wait *w); /* under the lock */
    uint32_t member; /* whose frame is waited for; LH_MEMBERS_MAX: until what is owed has gone */
    size_t expected; /* as of lh_mesh_inlet_next */
    int64_t begin_us, deadline_us; /* deadline 0: none */
};

/* What a look finds. */
typedef enum sight { IS_OVER, IS_CARRIED, IS_OWN, IS_LOST, HAS_ENDED, HAS_FAILED } sight;

static wait wait_begin(const lh_mesh *mesh, uint32_t member, bool is_bounded) {
    int64_t now_us = lh_clock_us();
    return (wait){.member = member,
                  .begin_us = now_us,
                  .deadline_us = is_bounded ? now_us + mesh->wait_us : 0};
}

static bool has_head(const lh_mesh *mesh, const wait *w) {
    return lh_mesh_inlet_head(&mesh->links.peers[w->member].inlet);
}

static bool is_whole(const lh_mesh *mesh, const wait *w) {
    return lh_mesh_inlet_is_whole(&mesh->links.peers[w->member].inlet);
}

static bool owes_nothing(const lh_mesh *mesh, const wait *w) {
    (void)w;
    return !lh_mesh_links_owe_any(&mesh->links);
}

static bool has_room(const lh_mesh *mesh, const wait *w) {
    (void)w;
    return lh_mesh_frame_ring_has_room(mesh->links.ring);
}

/* Under the lock. */
static sight look(const lh_mesh *mesh, const wait *w) {
    const lh_mesh_links *links = &mesh->links;
    if (links->failure.status != LH_OK)
        return HAS_FAILED;
    if (w->is_over(mesh, w))
        return IS_OVER;
    if (atomic_load(&links->ended))
        return HAS_ENDED;
    if (w->member != LH_MEMBERS_MAX && links->peers[w->member].has_ended)
        return IS_LOST;
    return mesh->carrier.is_carrying ? IS_CARRIED : IS_OWN;
}

static bool is_late(const wait *w) {
    return w->deadline_us > 0 && lh_clock_us() >= w->deadline_us;
}

/* While the carrier has the sockets, it tells what changes. */
static sight look_until_it_is_own(lh_mesh *mesh, const wait *w) {
    const struct timespec deadline = {.tv_sec = w->deadline_us / 1000000,
                                      .tv_nsec = w->deadline_us % 1000000 * 1000};
    sight seen;
    pthread_mutex_lock(&mesh->links.lock);
    while ((seen = look(mesh, w)) == IS_CARRIED && !is_late(w))
        if (w->deadline_us > 0)
            pthread_cond_timedwait(&mesh->links.changed, &mesh->links.lock, &deadline);
        else
            pthread_cond_wait(&mesh->links.changed, &mesh->links.lock);
    pthread_mutex_unlock(&mesh->links.lock);
    return seen;
}

/* The one that is waited for; or the first of those to whom something is owed. */
static uint32_t silent_member(lh_mesh *mesh, const wait *w) {
    uint32_t member = w->member;
    pthread_mutex_lock(&mesh->links.lock);
    for (uint32_t i = 0; i < mesh->links.members && member == LH_MEMBERS_MAX; i++)
        if (lh_mesh_links_owe(&mesh->links, i))
            member = i;
    pthread_mutex_unlock(&mesh->links.lock);
    return member;
}

/* With the sockets, so that nothing is owed: looks again, after a sleep where that has been in vain
 * for a while. */
static lh_status read_more(lh_mesh *mesh, const wait *w) {
    const int64_t now_us = lh_clock_us(), left_ms = (w->deadline_us - now_us + 999) / 1000;
    assert(w->member != LH_MEMBERS_MAX);
    if (now_us < w->begin_us + mesh->spin_us)
        return lh_mesh_links_read(&mesh->links, w->member, w->expected, 1);
    return lh_mesh_links_sleep(&mesh->links, 1, -1, w->deadline_us > 0 ? (int)left_ms : -1);
}

static lh_status wait_on(lh_mesh *mesh, const wait *w, sight seen) {
    if (seen == HAS_FAILED)
        return lh_mesh_links_failure(&mesh->links, NULL);
    if (seen == HAS_ENDED)
        return lh_mesh_links_fail(&mesh->links, mesh->links.own, LH_ERR_CANCELLED, "");
    if (seen == IS_LOST)
        return lh_mesh_links_fail_ended(&mesh->links, w->member);
    if (is_late(w))
        return lh_mesh_links_fail(&mesh->links, silent_member(mesh, w), LH_ERR_TIMEOUT,
                                  "it has been silent too long");
    return read_more(mesh, w);
}

static lh_status wait_until(lh_mesh *mesh, wait *w,
                            bool (*is_over)(const lh_mesh *mesh, const wait *w)) {
    lh_status status = LH_OK;
    sight seen;
    w->is_over = is_over;
    while (status == LH_OK && (seen = look_until_it_is_own(mesh, w)) != IS_OVER)
        status = wait_on(mesh, w, seen);
    return status;
}

/* ---- Frames in ---- */

/* Under the lock, or with the sockets. */
static lh_mesh_inlet *inlet_of(lh_mesh *mesh, const wait *w) {
    return &mesh->links.peers[w->member].inlet;
}

static lh_mesh_frame_head next_head(lh_mesh *mesh, const wait *w) {
    pthread_mutex_lock(&mesh->links.lock);
    const lh_mesh_frame_head head = *lh_mesh_inlet_head(inlet_of(mesh, w));
    pthread_mutex_unlock(&mesh->links.lock);
    return head;
}

static lh_status take_frame(lh_mesh *mesh, wait *w, const lh_mesh_frame_head *wanted) {
    const bool is_order = wanted->kind == LH_MESH_FRAME_ORDER;
    lh_error error;
    w->expected = is_order ? 0 : wanted->payload_bytes;
    lh_status status = wait_until(mesh, w, has_head);
    if (status != LH_OK)
        return status;
    const lh_mesh_frame_head head = next_head(mesh, w);
    status = lh_mesh_frame_head_check(&head, wanted, &error);
    if (status != LH_OK)
        return lh_mesh_links_fail(&mesh->links, w->member, status, error.message);
    if (is_order)
        w->deadline_us = lh_clock_us() + mesh->wait_us; /* the rest comes with it */
    return wait_until(mesh, w, is_whole);
}

static bool is_carrying(lh_mesh *mesh) {
    pthread_mutex_lock(&mesh->links.lock);
    const bool is = mesh->carrier.is_carrying;
    pthread_mutex_unlock(&mesh->links.lock);
    return is;
}

static lh_status take(lh_mesh *mesh, wait *w, const lh_mesh_frame_head *wanted,
                      const void **payload, size_t *payload_bytes, lh_error *error) {
    const bool is_carried = is_carrying(mesh);
    const lh_status status = take_frame(mesh, w, wanted);
    const int64_t took_us = lh_clock_us() - w->begin_us;
    pthread_mutex_lock(&mesh->links.lock);
    if (status == LH_OK) {
        *payload_bytes = lh_mesh_inlet_head(inlet_of(mesh, w))->payload_bytes;
        *payload = lh_mesh_inlet_take(inlet_of(mesh, w));
        mesh->totals.taken_bytes += *payload_bytes;
    }
    if (wanted->kind == LH_MESH_FRAME_GATHER)
        lh_mesh_gather_log_wait(&mesh->links.log, wanted->number, w->begin_us,
                                w->begin_us + took_us);
    mesh->totals.taking_us += took_us;
    mesh->totals.waiting_us += is_carried ? took_us : 0;
    pthread_mutex_unlock(&mesh->links.lock);
    return lh_mesh_links_failure(&mesh->links, error);
}

lh_status lh_mesh_take_gather(lh_mesh *mesh, uint64_t number, uint32_t member, size_t payload_bytes,
                              const void **payload, lh_error *error) {
    const lh_mesh_frame_head wanted = {LH_MESH_FRAME_GATHER, mesh->epoch, number,
                                       (uint32_t)payload_bytes};
    size_t came;
    assert(member < mesh->links.members && member != mesh->links.own);
    assert(payload_bytes <= UINT32_MAX);
    wait w = wait_begin(mesh, member, true);
    return take(mesh, &w, &wanted, payload, &came, error);
}

lh_status lh_mesh_take_order(lh_mesh *mesh, const void **payload, size_t *payload_bytes,
                             lh_error *error) {
    const lh_mesh_frame_head wanted = {LH_MESH_FRAME_ORDER, mesh->epoch, mesh->orders,
                                       mesh->payload_bytes_max};
    assert(mesh->links.own > 0);
    wait w = wait_begin(mesh, 0, false);
    lh_status status = take(mesh, &w, &wanted, payload, payload_bytes, error);
    if (status == LH_OK)
        mesh->orders++;
    return status;
}

/* ---- Frames out ---- */

static lh_status reserve_frame(lh_mesh *mesh, size_t payload_bytes, void **payload) {
    lh_error error;
    pthread_mutex_lock(&mesh->links.lock);
    const lh_status status =
        lh_mesh_frame_ring_open(mesh->links.ring, payload_bytes, payload, &error);
    pthread_mutex_unlock(&mesh->links.lock);
    return status == LH_OK ? LH_OK : lh_mesh_links_fail_here(&mesh->links, &error);
}

lh_status lh_mesh_open(lh_mesh *mesh, size_t payload_bytes, void **payload, lh_error *error) {
    wait w = wait_begin(mesh, LH_MEMBERS_MAX, true);
    lh_error why;
    void *place = NULL;
    if (payload_bytes > mesh->payload_bytes_max) {
        lh_fail(&why, LH_ERR_LIMIT, "mesh: a frame of %zu bytes, where %u is the most",
                payload_bytes, mesh->payload_bytes_max);
        lh_mesh_links_fail_here(&mesh->links, &why);
    } else if (wait_until(mesh, &w, has_room) == LH_OK) {
        reserve_frame(mesh, payload_bytes, &place);
    }
    const lh_status status = lh_mesh_links_failure(&mesh->links, error);
    if (status == LH_OK)
        *payload = place;
    return status;
}

/* What is complete is the links' from now on; true: the carrier's. */
static bool seal(lh_mesh *mesh, lh_mesh_frame_kind kind, uint64_t number) {
    lh_mesh_links *links = &mesh->links;
    lh_mesh_frame_head head = {kind, mesh->epoch, number, 0};
    pthread_mutex_lock(&links->lock);
    if (links->failure.status == LH_OK) {
        lh_mesh_frame_ring_seal(links->ring, &head);
        if (kind == LH_MESH_FRAME_GATHER)
            lh_mesh_gather_log_post(&links->log, number, head.payload_bytes,
                                    lh_mesh_links_gathers_come(links), lh_clock_us());
        mesh->totals.sent_bytes += (uint64_t)head.payload_bytes * (links->members - 1);
    }
    const bool is_carried = mesh->carrier.is_carrying || head.payload_bytes >= CARRIED_BYTES_MIN;
    pthread_mutex_unlock(&links->lock);
    return is_carried;
}

static bool owes_any(lh_mesh *mesh) {
    pthread_mutex_lock(&mesh->links.lock);
    const bool owes = lh_mesh_links_owe_any(&mesh->links);
    pthread_mutex_unlock(&mesh->links.lock);
    return owes;
}

/* What the kernel does not take at once is carried as well. */
static lh_status post(lh_mesh *mesh, lh_mesh_frame_kind kind, uint64_t number, lh_error *error) {
    bool is_carried = seal(mesh, kind, number);
    if (!is_carried && lh_mesh_links_failure(&mesh->links, NULL) == LH_OK)
        is_carried = lh_mesh_links_write(&mesh->links) == LH_OK && owes_any(mesh);
    if (is_carried)
        lh_mesh_carrier_carry(&mesh->carrier);
    return lh_mesh_links_failure(&mesh->links, error);
}

lh_status lh_mesh_post_gather(lh_mesh *mesh, uint64_t number, lh_error *error) {
    return post(mesh, LH_MESH_FRAME_GATHER, number, error);
}

static bool is_lost(lh_mesh *mesh, uint32_t member) {
    const lh_mesh_peer *peer = &mesh->links.peers[member];
    pthread_mutex_lock(&mesh->links.lock);
    const bool is = peer->has_ended && !lh_mesh_inlet_is_whole(&peer->inlet);
    pthread_mutex_unlock(&mesh->links.lock);
    return is;
}

/* Who only writes is told late that nobody reads. */
static void look_for_lost(lh_mesh *mesh) {
    const bool reads = !is_carrying(mesh);
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < mesh->links.members && status == LH_OK; i++) {
        if (i != mesh->links.own && reads)
            status = lh_mesh_links_read(&mesh->links, i, 0, 1);
        if (status == LH_OK && is_lost(mesh, i))
            status = lh_mesh_links_fail_ended(&mesh->links, i);
    }
}

lh_status lh_mesh_post_order(lh_mesh *mesh, lh_error *error) {
    assert(mesh->links.own == 0);
    if (post(mesh, LH_MESH_FRAME_ORDER, mesh->orders++, NULL) == LH_OK)
        look_for_lost(mesh);
    return lh_mesh_links_failure(&mesh->links, error);
}

lh_status lh_mesh_flush(lh_mesh *mesh, lh_error *error) {
    wait w = wait_begin(mesh, LH_MEMBERS_MAX, true);
    wait_until(mesh, &w, owes_nothing);
    return lh_mesh_links_failure(&mesh->links, error);
}

/* ---- Life ---- */

static lh_status check(const lh_mesh_options *options, lh_error *error) {
    const lh_mesh_identity *identity = &options->identity;
    if (identity->members < 2 || identity->members > LH_MEMBERS_MAX)
        return lh_fail(error, LH_ERR_INVALID, "mesh: %u members, where 2 to %u may be",
                       identity->members, LH_MEMBERS_MAX);
    if (identity->own >= identity->members)
        return lh_fail(error, LH_ERR_INVALID, "mesh: member %u of %u", identity->own,
                       identity->members);
    return LH_OK;
}

static lh_status form(lh_mesh *mesh, const lh_mesh_options *options, lh_error *error) {
    const lh_mesh_identity *identity = &options->identity;
    const lh_mesh_forming_options forming = {.identity = identity,
                                             .addresses = options->addresses,
                                             .listener = options->listener,
                                             .forming_ms = options->forming_ms,
                                             .unreached_ms = options->unreached_ms,
                                             .dead_after_ms = options->wait_ms,
                                             .cancelled = options->cancelled};
    lh_status status = lh_mesh_links_init(&mesh->links, identity->members, identity->own,
                                          options->payload_bytes_max, error);
    if (status == LH_OK)
        status = lh_mesh_form_connections(&forming, mesh->links.descriptors, error);
    if (status == LH_OK)
        status = lh_mesh_carrier_start(&mesh->carrier, &mesh->links, error);
    mesh->has_carrier = status == LH_OK;
    return status;
}

lh_status lh_mesh_create(const lh_mesh_options *options, lh_mesh **out, lh_error *error) {
    lh_status status = check(options, error);
    if (status != LH_OK)
        return status;
    lh_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory");
    mesh->epoch = options->identity.epoch;
    mesh->wait_us = options->wait_ms * 1000;
    mesh->spin_us = options->spin_us;
    mesh->payload_bytes_max = options->payload_bytes_max;
    status = form(mesh, options, error);
    if (status != LH_OK) {
        lh_mesh_destroy(mesh);
        return status;
    }
    *out = mesh;
    return LH_OK;
}

void lh_mesh_destroy(lh_mesh *mesh) {
    if (!mesh)
        return;
    if (mesh->has_carrier)
        lh_mesh_carrier_stop(&mesh->carrier);
    lh_mesh_links_reset(&mesh->links);
    free(mesh);
}
