/* Attempts, each a socket with a handshake, until every other member is there. */
#include "worker/mesh/forming.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/base/random_id.h"
#include "common/net/connection_places.h"
#include "common/net/route.h"
#include "common/net/socket_options.h"
#include "worker/compute/stage/gather.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STRANGERS_MAX = 64, /* accepted, and not yet known to be members */
    /* The strangers that are accepted before those who have come are looked at again: so few that a
     * member which has come among them still has its place then. */
    ACCEPTED_AT_ONCE = STRANGERS_MAX / 2,
    /* Of an attempt to a member, which may still build its stage. Where nobody is busy it takes a
     * millisecond. */
    HANDSHAKE_US = 5000000,
    /* Of a stranger. A member has said its hello when it is accepted. */
    STRANGER_US = 3000000,
    /* Until a connection opens. A SYN that found the other's queue full is sent again after a
     * second, and then later and later; another attempt is sooner. */
    CONNECT_US = 1000000,
    RETRY_US = 20000, /* until a member is looked for again: what a start waits for it at most */
};

/* One to each member, and strangers: one more than have places, until another has left its own. */
enum { ATTEMPTS_MAX = LH_MEMBERS_MAX + STRANGERS_MAX + 1 };

/* One connection that may become a member's. The place comes first: the places name it by this. */
typedef struct attempt {
    lh_connection_place place; /* a stranger's */
    int descriptor;            /* -1: none */
    bool is_open;              /* connect(2) has ended */
    int64_t deadline_us;
    lh_mesh_handshake handshake;
    char peer[LH_ADDRESS_TEXT_BYTES];
} attempt;

typedef struct forming {
    const lh_mesh_forming_options *options;
    int *descriptors;
    uint32_t missing;
    int64_t now_us, deadline_us;
    /* first those to the members before this one, each in its place; then those of strangers */
    attempt attempts[ATTEMPTS_MAX];
    lh_route_targets targets[LH_MEMBERS_MAX];
    uint32_t target[LH_MEMBERS_MAX];  /* the next to be tried */
    int64_t retry_us[LH_MEMBERS_MAX]; /* when */
    /* since when no connection to it opens; 0: one has, or none was tried yet */
    int64_t unreached_us[LH_MEMBERS_MAX];
    lh_error last; /* why an attempt failed */
    lh_connection_places places;
    lh_log_limit refusals;
} forming;

static void make_nonce(uint8_t nonce[LH_MESH_NONCE_BYTES]) {
    for (size_t i = 0; i < LH_MESH_NONCE_BYTES; i += sizeof(uint64_t)) {
        uint64_t number = lh_random_u64();
        memcpy(nonce + i, &number, sizeof number);
    }
}

static bool is_stranger(const forming *f, const attempt *a) {
    return a >= f->attempts + LH_MEMBERS_MAX;
}

/* It leaves its place among the attempts. Returns the socket; -1: it had none. */
static int release(forming *f, attempt *a) {
    const int descriptor = a->descriptor;
    if (descriptor >= 0 && is_stranger(f, a))
        lh_connection_places_remove(&f->places, &a->place);
    a->descriptor = -1;
    return descriptor;
}

static void drop(forming *f, attempt *a) {
    const int descriptor = release(f, a);
    if (descriptor >= 0)
        close(descriptor);
}

/* ---- Begin ---- */

static socklen_t length_of(const struct sockaddr *address) {
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static int open_to(const struct sockaddr *target) {
    int descriptor = socket(target->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor >= 0 && connect(descriptor, target, length_of(target)) != 0 &&
        errno != EINPROGRESS) {
        int saved = errno;
        close(descriptor);
        errno = saved;
        return -1;
    }
    return descriptor;
}

static void note_failure(forming *f, uint32_t member, const attempt *a, const char *why) {
    if (!a->is_open && f->unreached_us[member] == 0)
        f->unreached_us[member] = f->now_us;
    lh_fail(&f->last, LH_ERR_UNAVAILABLE, "member %u at %s: %.120s", member, a->peer, why);
    f->retry_us[member] = f->now_us + RETRY_US;
}

/* LH_ERR_NO_MEMORY; that nobody is there is noted. */
static lh_status try_member(forming *f, uint32_t member, lh_error *error) {
    attempt *a = &f->attempts[member];
    const lh_route_targets *targets = &f->targets[member];
    const struct sockaddr *target =
        (const struct sockaddr *)&targets->addresses[f->target[member]++ % targets->count];
    uint8_t nonce[LH_MESH_NONCE_BYTES];
    lh_address_render(target, a->peer);
    a->is_open = false;
    a->descriptor = open_to(target);
    if (a->descriptor < 0) {
        note_failure(f, member, a, strerror(errno));
        return LH_OK;
    }
    make_nonce(nonce);
    a->deadline_us = f->now_us + CONNECT_US;
    return lh_mesh_handshake_connect(&a->handshake, f->options->identity, member, nonce, error);
}

/* ---- Ends ---- */

static void fail(forming *f, attempt *a, const char *why) {
    unsigned long long left_out;
    if (a->handshake.connects)
        note_failure(f, a->handshake.peer, a, why);
    else if (lh_log_limit_take(&f->refusals, f->now_us, &left_out))
        lh_log(LH_LOG_WARN, "mesh",
               "a connection is refused chain=%s epoch=%u from=%s reason=\"%s\" left_out=%llu",
               f->options->identity->chain, f->options->identity->epoch, a->peer, why, left_out);
    drop(f, a);
}

/* Both sides have proved who they are. */
static void join(forming *f, attempt *a) {
    uint32_t peer = a->handshake.peer;
    lh_error error;
    if (f->descriptors[peer] >= 0) {
        fail(f, a, "the member is there already");
    } else if (lh_socket_set_options(a->descriptor, f->options->dead_after_ms, "", &error) !=
               LH_OK) {
        fail(f, a, error.message);
    } else {
        lh_socket_set_unsent_max(a->descriptor, INT32_MAX); /* nothing here is to overtake */
        if (is_stranger(f, a))
            lh_connection_places_prove(&f->places, &a->place);
        f->descriptors[peer] = release(f, a);
        f->missing--;
    }
}

/* ---- Bytes ---- */

/* False: it has failed. */
static bool send_some(forming *f, attempt *a) {
    lh_mesh_handshake *h = &a->handshake;
    while (h->out_sent < h->out_length) {
        ssize_t count =
            send(a->descriptor, h->out + h->out_sent, h->out_length - h->out_sent, MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (count < 0) {
            fail(f, a, strerror(errno));
            return false;
        }
        h->out_sent += (size_t)count;
    }
    return true;
}

static bool receive_some(forming *f, attempt *a) {
    lh_mesh_handshake *h = &a->handshake;
    while (h->in_wanted > 0 && !h->is_done) {
        ssize_t count = recv(a->descriptor, h->in + h->in_length, h->in_wanted - h->in_length, 0);
        lh_error error;
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (count <= 0) {
            fail(f, a, count == 0 ? "it has closed the connection" : strerror(errno));
            return false;
        }
        h->in_length += (size_t)count;
        if (h->in_length == h->in_wanted && lh_mesh_handshake_advance(h, &error) != LH_OK) {
            fail(f, a, error.message);
            return false;
        }
        a->place.is_active = true; /* it has said a whole hello of this mesh */
    }
    return true;
}

static bool connects(forming *f, attempt *a) {
    int code = 0;
    socklen_t length = sizeof code;
    if (getsockopt(a->descriptor, SOL_SOCKET, SO_ERROR, &code, &length) != 0)
        code = errno;
    a->is_open = code == 0;
    a->deadline_us = f->now_us + HANDSHAKE_US;
    if (code != 0)
        fail(f, a, strerror(code));
    else
        f->unreached_us[a->handshake.peer] = 0;
    return a->is_open;
}

static void go_on(forming *f, attempt *a) {
    if (!a->is_open && !connects(f, a))
        return;
    if (send_some(f, a) && receive_some(f, a) && send_some(f, a) && a->handshake.is_done &&
        a->handshake.out_sent == a->handshake.out_length)
        join(f, a);
}

/* ---- Strangers ---- */

/* More than there are places for: who has come needs one before another one has to go. */
static attempt *free_place(forming *f) {
    for (uint32_t i = 0; i <= STRANGERS_MAX; i++)
        if (f->attempts[LH_MEMBERS_MAX + i].descriptor < 0)
            return &f->attempts[LH_MEMBERS_MAX + i];
    assert(false && "there is a place more than strangers");
    return NULL;
}

static void take_stranger(forming *f, int descriptor, const struct sockaddr *from) {
    uint8_t nonce[LH_MESH_NONCE_BYTES];
    attempt *a = free_place(f);
    make_nonce(nonce);
    *a = (attempt){
        .descriptor = descriptor, .is_open = true, .deadline_us = f->now_us + STRANGER_US};
    lh_address_render(from, a->peer);
    lh_mesh_handshake_accept(&a->handshake, f->options->identity, nonce);
    lh_connection_places_add(&f->places, &a->place, lh_address_key(from));
    go_on(f, a); /* what it has said already counts, when one has to go */
    lh_connection_place *surplus =
        a->descriptor >= 0 ? lh_connection_places_surplus(&f->places, &a->place) : NULL;
    if (surplus)
        fail(f, (attempt *)surplus, "another connection has got its place");
}

static bool passes(int code) {
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR || code == ECONNABORTED;
}

static lh_status accept_strangers(forming *f, lh_error *error) {
    for (uint32_t i = 0; i < ACCEPTED_AT_ONCE; i++) {
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof from;
        int descriptor = accept4(f->options->listener, (struct sockaddr *)&from, &length,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0)
            return passes(errno) ? LH_OK
                                 : lh_fail(error, LH_ERR_IO, "mesh: accept: %s", strerror(errno));
        take_stranger(f, descriptor, (const struct sockaddr *)&from);
    }
    return LH_OK;
}

/* ---- The loop ---- */

/* Between two looks whether it is still wanted. */
#define LOOK_US 100000

static short events_of(const attempt *a) {
    const lh_mesh_handshake *h = &a->handshake;
    bool sends = !a->is_open || h->out_sent < h->out_length;
    return (short)((sends ? POLLOUT : 0) | (a->is_open ? POLLIN : 0));
}

/* Looks again for those before this member who are missing and whose time has come. */
static lh_status try_members(forming *f, int64_t *next_us, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < f->options->identity->own && status == LH_OK; i++) {
        if (f->descriptors[i] >= 0 || f->attempts[i].descriptor >= 0)
            continue;
        if (f->retry_us[i] <= f->now_us)
            status = try_member(f, i, error);
        if (f->attempts[i].descriptor < 0)
            *next_us = lh_min_i64(*next_us, f->retry_us[i]);
    }
    return status;
}

static void end_overdue(forming *f, int64_t *next_us) {
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        attempt *a = &f->attempts[i];
        if (a->descriptor >= 0 && a->deadline_us <= f->now_us)
            fail(f, a, a->is_open ? "no word in time" : "no connection within a second");
        else if (a->descriptor >= 0)
            *next_us = lh_min_i64(*next_us, a->deadline_us);
    }
}

/* Those who have come, and may be gone again before the rest is there. */
static void watch_joined(const forming *f, struct pollfd polled[LH_MEMBERS_MAX]) {
    for (uint32_t i = 0; i < LH_MEMBERS_MAX; i++) {
        bool has_come = i < f->options->identity->members && f->descriptors[i] >= 0;
        polled[i] = (struct pollfd){.fd = has_come ? f->descriptors[i] : -1, .events = POLLRDHUP};
    }
}

static void lose_joined(forming *f, const struct pollfd polled[LH_MEMBERS_MAX]) {
    for (uint32_t i = 0; i < LH_MEMBERS_MAX; i++) {
        if (polled[i].fd < 0 || !polled[i].revents)
            continue;
        close(f->descriptors[i]);
        f->descriptors[i] = -1;
        f->missing++;
    }
}

static lh_status wait_and_go_on(forming *f, int64_t next_us, lh_error *error) {
    struct pollfd polled[LH_MEMBERS_MAX + ATTEMPTS_MAX + 1];
    attempt *of[LH_MEMBERS_MAX + ATTEMPTS_MAX];
    nfds_t count = LH_MEMBERS_MAX, attempts;
    watch_joined(f, polled);
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        attempt *a = &f->attempts[i];
        if (a->descriptor < 0)
            continue;
        of[count] = a;
        polled[count++] = (struct pollfd){.fd = a->descriptor, .events = events_of(a)};
    }
    attempts = count;
    if (f->options->listener >= 0)
        polled[count++] = (struct pollfd){.fd = f->options->listener, .events = POLLIN};
    int64_t wait_us = lh_max_i64(next_us - f->now_us, 0);
    if (poll(polled, count, (int)((wait_us + 999) / 1000)) < 0 && errno != EINTR)
        return lh_fail(error, LH_ERR_IO, "mesh: poll: %s", strerror(errno));
    f->now_us = lh_clock_us();
    lose_joined(f, polled);
    for (nfds_t i = LH_MEMBERS_MAX; i < attempts; i++)
        if (polled[i].revents)
            go_on(f, of[i]);
    return count > attempts && polled[attempts].revents ? accept_strangers(f, error) : LH_OK;
}

static lh_status fail_late(const forming *f, lh_error *error) {
    char missing[8 * LH_MEMBERS_MAX] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < f->options->identity->members; i++)
        if (i != f->options->identity->own && f->descriptors[i] < 0)
            length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%u",
                                       length > 0 ? ", " : "", i);
    return lh_fail(error, LH_ERR_TIMEOUT, "mesh: of members %s nobody has come%s%s", missing,
                   f->last.status != LH_OK ? "; " : "", f->last.message);
}

/* A member that nothing has reached for too long. */
static lh_status check_reach(const forming *f, lh_error *error) {
    const int64_t patience_us = f->options->unreached_ms * 1000;
    for (uint32_t i = 0; i < f->options->identity->own && patience_us > 0; i++)
        if (f->descriptors[i] < 0 && f->unreached_us[i] > 0 &&
            f->now_us - f->unreached_us[i] >= patience_us)
            return lh_fail(error, LH_ERR_UNAVAILABLE, "mesh: %s", f->last.message);
    return LH_OK;
}

static lh_status run(forming *f, lh_error *error) {
    lh_status status = LH_OK;
    while (status == LH_OK && f->missing > 0) {
        const _Atomic bool *cancelled = f->options->cancelled;
        int64_t next_us = f->deadline_us;
        if (f->now_us >= f->deadline_us)
            return fail_late(f, error);
        if (cancelled && atomic_load(cancelled))
            return lh_fail(error, LH_ERR_CANCELLED, "mesh: it is not wanted any more");
        if (cancelled)
            next_us = lh_min_i64(next_us, f->now_us + LOOK_US);
        end_overdue(f, &next_us);
        status = check_reach(f, error);
        if (status == LH_OK)
            status = try_members(f, &next_us, error);
        if (status == LH_OK)
            status = wait_and_go_on(f, next_us, error);
    }
    return status;
}

static lh_status resolve_members(forming *f, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < f->options->identity->own && status == LH_OK; i++)
        status = lh_route_resolve(&f->options->addresses[i], &f->targets[i], error);
    return status;
}

lh_status lh_mesh_form_connections(const lh_mesh_forming_options *options, int *descriptors,
                                   lh_error *error) {
    const lh_mesh_identity *identity = options->identity;
    int64_t now_us = lh_clock_us();
    assert(identity->members >= 2 && identity->members <= LH_MEMBERS_MAX &&
           identity->own < identity->members);
    forming f = {.options = options,
                 .descriptors = descriptors,
                 .missing = identity->members - 1,
                 .now_us = now_us,
                 .deadline_us = now_us + options->forming_ms * 1000};
    lh_connection_places_init(&f.places, STRANGERS_MAX, LH_MEMBERS_MAX);
    for (uint32_t i = 0; i < identity->members; i++)
        descriptors[i] = -1;
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++)
        f.attempts[i].descriptor = -1;
    lh_status status = resolve_members(&f, error);
    if (status == LH_OK)
        status = run(&f, error);
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++)
        drop(&f, &f.attempts[i]);
    for (uint32_t i = 0; i < identity->members && status != LH_OK; i++) {
        if (descriptors[i] >= 0)
            close(descriptors[i]);
        descriptors[i] = -1;
    }
    return status;
}
