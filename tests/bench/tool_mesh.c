/* How long a gather takes among the members of a mesh, and how long the same bytes take over bare
 * sockets, in turns.
 *
 *     mesh MEMBERS [SPIN_US]                  all members as threads, on loopback
 *     mesh MEMBERS SPIN_US OWN ADDRESS ...    member OWN of those at these addresses, for
 *                                             namespaces; the port after member 0's is used, too
 *
 * Member 0 prints one JSON line for each size: microseconds of a gather (p50, p90), of a bare
 * exchange with member 1, both of which send and then read, spinning, and half of a bare round
 * trip. */
#include "common/base/clock.h"
#include "common/net/listener.h"
#include "worker/compute/stage/gather.h"
#include "worker/mesh/mesh.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCKS = 8,
    WARMUP = 5,
    ROUNDS = 100,
    ROUNDS_OF_LARGE = 10,
    LARGE = 65537,
    BYTES_MAX = 1 << 20
};

static const size_t sizes[] = {256, 1024, 4096, 16384, 65536, 262144, 1048576};

typedef struct member {
    uint32_t count, own;
    lh_address addresses[LH_MEMBERS_MAX], bare; /* bare: of member 0's second listener */
    int listener, bare_listener;                /* -1: none */
    int64_t spin_us;
    lh_mesh *mesh;
    int bare_socket; /* of members 0 and 1 */
    uint64_t number;
    uint8_t *bytes;
} member;

static void die(const char *what) {
    fprintf(stderr, "mesh: %s\n", what);
    exit(1);
}

/* ---- Bare sockets ---- */

static void set_no_delay(int descriptor) {
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* As long as it takes: both are started by hand. */
static int connect_bare(const lh_address *address) {
    struct sockaddr_storage target;
    if (!lh_address_is_literal(address, &target))
        die("an IP address is wanted");
    socklen_t length =
        target.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    for (;;) {
        int descriptor = socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(descriptor, (struct sockaddr *)&target, length) == 0)
            return descriptor;
        close(descriptor);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static int accept_bare(int listener) {
    int descriptor;
    while ((descriptor = accept(listener, NULL, NULL)) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return descriptor;
}

/* Sends `out` bytes and reads `in` bytes, both as they go, without a sleep. */
static void pump(int descriptor, uint8_t *bytes, size_t out, size_t in) {
    size_t sent = 0, got = 0;
    while (sent < out || got < in) {
        ssize_t count =
            sent < out ? send(descriptor, bytes + sent, out - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
                       : 0;
        sent += count > 0 ? (size_t)count : 0;
        count = got < in ? recv(descriptor, bytes + BYTES_MAX + got, in - got, MSG_DONTWAIT) : 0;
        got += count > 0 ? (size_t)count : 0;
        if (count == 0 && got < in)
            die("the other one has gone");
    }
}

static void exchange_bare(member *m, size_t length) {
    if (m->own < 2)
        pump(m->bare_socket, m->bytes, length, length);
}

static void ping_pong(member *m, size_t length) {
    if (m->own == 0)
        pump(m->bare_socket, m->bytes, length, 0);
    if (m->own < 2)
        pump(m->bare_socket, m->bytes, 0, length);
    if (m->own == 1)
        pump(m->bare_socket, m->bytes, length, 0);
}

/* ---- The mesh ---- */

static void gather(member *m, size_t length) {
    void *own;
    lh_error error;
    lh_status status = lh_mesh_open(m->mesh, length, &own, &error);
    if (status == LH_OK) {
        memset(own, (int)m->number, length);
        status = lh_mesh_post_gather(m->mesh, m->number, &error);
    }
    for (uint32_t i = 0; i < m->count && status == LH_OK; i++) {
        const void *taken;
        if (i != m->own)
            status = lh_mesh_take_gather(m->mesh, m->number, i, length, &taken, &error);
    }
    if (status != LH_OK)
        die(error.message);
    m->number++;
}

/* ---- Times ---- */

static int by_size(const void *a, const void *b) {
    int64_t difference = *(const int64_t *)a - *(const int64_t *)b;
    return (difference > 0) - (difference < 0);
}

typedef struct times {
    int64_t us[BLOCKS * ROUNDS];
    size_t count;
} times;

static void measure(member *m, void (*work)(member *, size_t), size_t length, uint32_t rounds,
                    times *t) {
    for (uint32_t i = 0; i < WARMUP + rounds; i++) {
        int64_t begin_us = lh_clock_us();
        work(m, length);
        if (i >= WARMUP)
            t->us[t->count++] = lh_clock_us() - begin_us;
    }
}

static long long quantile(const times *t, size_t percent) {
    return (long long)t->us[t->count * percent / 100];
}

/* The three ways take turns, so that what else the machine does meets all of them. */
static void measure_size(member *m, size_t length) {
    uint32_t rounds = length < LARGE ? ROUNDS : ROUNDS_OF_LARGE;
    times *t = calloc(3, sizeof *t);
    void (*const ways[])(member *, size_t) = {gather, exchange_bare, ping_pong};
    for (int block = 0; block < BLOCKS; block++)
        for (int i = 0; i < 3; i++) {
            gather(m, 1); /* all are here */
            measure(m, ways[i], length, rounds, &t[i]);
        }
    for (int i = 0; i < 3; i++)
        qsort(t[i].us, t[i].count, sizeof t[i].us[0], by_size);
    if (m->own == 0)
        printf(
            "{\"members\": %u, \"spin_us\": %lld, \"bytes\": %zu, \"gather_us\": %lld, "
            "\"gather_p90_us\": %lld, \"bare_exchange_us\": %lld, \"bare_exchange_p90_us\": %lld, "
            "\"half_round_trip_us\": %.1f}\n",
            m->count, (long long)m->spin_us, length, quantile(&t[0], 50), quantile(&t[0], 90),
            quantile(&t[1], 50), quantile(&t[1], 90), (double)quantile(&t[2], 50) / 2);
    fflush(stdout);
    free(t);
}

static void *run(void *argument) {
    member *m = argument;
    lh_error error;
    const lh_mesh_options options = {.identity = {"bench", 1, m->count, m->own, {1}},
                                     .addresses = m->addresses,
                                     .listener = m->listener,
                                     .forming_ms = 60000,
                                     .wait_ms = 60000,
                                     .spin_us = m->spin_us,
                                     .payload_bytes_max = BYTES_MAX};
    m->bytes = calloc(2, BYTES_MAX);
    if (!m->bytes || lh_mesh_create(&options, &m->mesh, &error) != LH_OK)
        die(m->bytes ? error.message : "out of memory");
    if (m->own < 2) {
        m->bare_socket = m->own == 0 ? accept_bare(m->bare_listener) : connect_bare(&m->bare);
        set_no_delay(m->bare_socket);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure_size(m, sizes[i]);
    gather(m, 1);
    if (lh_mesh_flush(m->mesh, &error) != LH_OK)
        die(error.message);
    lh_mesh_destroy(m->mesh);
    free(m->bytes);
    return NULL;
}

static int listen_at(const lh_address *address, int *port) {
    char text[LH_HOST_BYTES + 16];
    uint16_t bound;
    lh_error error;
    int descriptor;
    snprintf(text, sizeof text, "%s:%d", address->host, address->port);
    if (lh_listener_open(text, &descriptor, &bound, &error) != LH_OK)
        die(error.message);
    *port = bound;
    return descriptor;
}

static void run_all(member *first) {
    static member members[LH_MEMBERS_MAX];
    pthread_t threads[LH_MEMBERS_MAX];
    lh_address any = {"127.0.0.1", 0};
    first->bare = any;
    first->bare_listener = listen_at(&any, &first->bare.port);
    int listeners[LH_MEMBERS_MAX];
    for (uint32_t i = 0; i < first->count; i++) {
        first->addresses[i] = any;
        listeners[i] = listen_at(&any, &first->addresses[i].port);
    }
    for (uint32_t i = 0; i < first->count; i++) {
        members[i] = *first;
        members[i].own = i;
        members[i].listener = listeners[i];
        pthread_create(&threads[i], NULL, run, &members[i]);
    }
    for (uint32_t i = 0; i < first->count; i++)
        pthread_join(threads[i], NULL);
}

static void run_one(member *m, char **arguments) {
    int port;
    m->own = (uint32_t)atoi(arguments[0]);
    for (uint32_t i = 0; i < m->count; i++)
        if (!arguments[1 + i] ||
            lh_address_parse(arguments[1 + i], &m->addresses[i], NULL) != LH_OK)
            die("an address for each member is wanted");
    m->bare = m->addresses[0];
    m->bare.port++;
    m->listener = listen_at(&m->addresses[m->own], &port);
    m->bare_listener = m->own == 0 ? listen_at(&m->bare, &port) : -1;
    run(m);
}

int main(int argc, char **argv) {
    member m = {.count = argc > 1 ? (uint32_t)atoi(argv[1]) : 0,
                .spin_us = argc > 2 ? atoi(argv[2]) : 50};
    if (m.count < 2 || m.count > LH_MEMBERS_MAX)
        die("usage: mesh MEMBERS [SPIN_US [OWN ADDRESS ...]]");
    if (argc > 3)
        run_one(&m, argv + 3);
    else
        run_all(&m);
    return 0;
}
