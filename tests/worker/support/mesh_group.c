/* Threads, loopback, and a handshake by hand. */
#include "tests/worker/support/mesh_group.h"

#include "common/net/listener.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, PAYLOAD_MAX = 32 << 20 };

void mesh_group_begin(mesh_group *group, uint32_t count) {
    *group = (mesh_group){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint16_t port;
        lh_status status = lh_listener_open("127.0.0.1:0", &group->listeners[i], &port, NULL);
        assert(status == LH_OK);
        strcpy(group->addresses[i].host, "127.0.0.1");
        group->addresses[i].port = port;
        group->members[i] =
            (mesh_member){.group = group,
                          .options = {.identity = {"chain", 3, count, i, {1, 2, 3}},
                                      .addresses = group->addresses,
                                      .listener = i + 1 < count ? group->listeners[i] : -1,
                                      .forming_ms = PATIENCE_MS,
                                      .wait_ms = PATIENCE_MS,
                                      .payload_bytes_max = PAYLOAD_MAX}};
    }
}

typedef struct part {
    mesh_member *member;
    void (*act)(mesh_member *member);
} part;

static void *run(void *argument) {
    const part *p = argument;
    mesh_member *m = p->member;
    m->status = lh_mesh_create(&m->options, &m->mesh, &m->error);
    if (m->status != LH_OK)
        return NULL;
    p->act(m);
    lh_mesh_destroy(m->mesh);
    m->mesh = NULL;
    return NULL;
}

void mesh_group_run(mesh_group *group, void (*act)(mesh_member *member)) {
    pthread_t threads[LH_MEMBERS_MAX];
    part parts[LH_MEMBERS_MAX];
    for (uint32_t i = 0; i < group->count; i++) {
        parts[i] = (part){&group->members[i], act};
        int failed = pthread_create(&threads[i], NULL, run, &parts[i]);
        assert(!failed);
    }
    for (uint32_t i = 0; i < group->count; i++)
        pthread_join(threads[i], NULL);
}

void mesh_group_end(mesh_group *group) {
    for (uint32_t i = 0; i < group->count; i++)
        close(group->listeners[i]);
}

static void exchange(int descriptor, lh_mesh_handshake *handshake) {
    while (handshake->out_sent < handshake->out_length) {
        ssize_t count = send(descriptor, handshake->out + handshake->out_sent,
                             handshake->out_length - handshake->out_sent, MSG_NOSIGNAL);
        assert(count > 0);
        handshake->out_sent += (size_t)count;
    }
    if (handshake->is_done)
        return;
    ssize_t count = recv(descriptor, handshake->in, handshake->in_wanted, MSG_WAITALL);
    assert(count == (ssize_t)handshake->in_wanted);
    handshake->in_length = handshake->in_wanted;
    lh_status status = lh_mesh_handshake_advance(handshake, NULL);
    assert(status == LH_OK);
    exchange(descriptor, handshake);
}

int mesh_group_pose(const mesh_group *group, uint32_t own, uint32_t to) {
    static const uint8_t nonce[LH_MESH_NONCE_BYTES] = {9};
    struct sockaddr_storage target;
    lh_mesh_handshake handshake;
    bool is_literal = lh_address_is_literal(&group->addresses[to], &target);
    int descriptor = socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(is_literal && descriptor >= 0);
    int failed = connect(descriptor, (const struct sockaddr *)&target, sizeof(struct sockaddr_in));
    assert(!failed);
    lh_status status = lh_mesh_handshake_connect(&handshake, &group->members[own].options.identity,
                                                 to, nonce, NULL);
    assert(status == LH_OK);
    exchange(descriptor, &handshake);
    return descriptor;
}
