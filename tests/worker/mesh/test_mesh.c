/* Gathers and orders over real sockets: among members that are quick, slow, lost, silent or wrong.
 * */
#include "worker/mesh/mesh.h"

#include "tests/support/failing_malloc.h"
#include "tests/worker/support/mesh_group.h"
#include "worker/mesh/frame_head.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A number that every member reckons alike. */
static uint32_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 31;
    x *= UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

static size_t length_of(uint64_t number, uint32_t member) {
    uint32_t r = mix(number, member);
    return 1 + (r % 20 == 0 ? (r >> 8) % 300000 : (r >> 8) % 3000);
}

/* Bytes that ascend, from one that the number gives. */
static void make_pattern(uint8_t pattern[256], uint64_t number, uint32_t member) {
    for (size_t i = 0; i < 256; i++)
        pattern[i] = (uint8_t)(mix(number, member) + i);
}

static void fill(uint8_t *bytes, size_t length, uint64_t number, uint32_t member) {
    uint8_t pattern[256];
    make_pattern(pattern, number, member);
    for (size_t i = 0; i < length; i += 256)
        memcpy(bytes + i, pattern, length - i < 256 ? length - i : 256);
}

static bool is_filled(const uint8_t *bytes, size_t length, uint64_t number, uint32_t member) {
    uint8_t pattern[256];
    bool is_same = true;
    make_pattern(pattern, number, member);
    for (size_t i = 0; i < length && is_same; i += 256)
        is_same = memcmp(bytes + i, pattern, length - i < 256 ? length - i : 256) == 0;
    return is_same;
}

static lh_status post(lh_mesh *mesh, uint64_t number, size_t length, lh_error *error) {
    void *payload;
    lh_status status = lh_mesh_open(mesh, length, &payload, error);
    if (status != LH_OK)
        return status;
    assert_int_equal((uintptr_t)payload % 64, 0);
    fill(payload, length, number, lh_mesh_own(mesh));
    return lh_mesh_post_gather(mesh, number, error);
}

static lh_status take(lh_mesh *mesh, uint64_t number, uint32_t member, size_t length,
                      lh_error *error) {
    const void *payload;
    lh_status status = lh_mesh_take_gather(mesh, number, member, length, &payload, error);
    if (status == LH_OK) {
        assert_int_equal((uintptr_t)payload % 64, 0);
        assert_true(is_filled(payload, length, number, member));
    }
    return status;
}

static lh_status take_all(lh_mesh *mesh, uint64_t number, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < lh_mesh_members(mesh) && status == LH_OK; i++)
        if (i != lh_mesh_own(mesh))
            status = take(mesh, number, i, length_of(number, i), error);
    return status;
}

static void pause_us(long us) {
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- All is well ---- */

enum { GATHERS = 40 };

/* Two gathers are under way at once. */
static void gather_many(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    assert_int_equal(post(mesh, 0, length_of(0, lh_mesh_own(mesh)), NULL), LH_OK);
    for (uint64_t n = 0; n < GATHERS; n++) {
        if (n + 1 < GATHERS)
            assert_int_equal(post(mesh, n + 1, length_of(n + 1, lh_mesh_own(mesh)), NULL), LH_OK);
        if (lh_mesh_own(mesh) == n % 7)
            pause_us(200); /* each is the slow one at times */
        assert_int_equal(take_all(mesh, n, NULL), LH_OK);
    }
    assert_int_equal(lh_mesh_flush(mesh, NULL), LH_OK);
    assert_true(lh_mesh_count(mesh).gathers == GATHERS);
}

static void every_member_has_the_bytes_of_all(void **state) {
    (void)state;
    for (uint32_t count = 2; count <= 5; count++) {
        mesh_group group;
        mesh_group_begin(&group, count);
        group.members[1].options.spin_us = 20; /* the others sleep at once */
        mesh_group_run(&group, gather_many);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(group.members[i].status, LH_OK);
        mesh_group_end(&group);
    }
}

/* More than the kernel holds, from all at once: each writes while it waits. */
enum { LARGE_BYTES = 3 << 20 };

static void gather_large(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    for (uint64_t n = 0; n < 2; n++)
        assert_int_equal(post(mesh, n, LARGE_BYTES, NULL), LH_OK);
    for (uint64_t n = 0; n < 2; n++)
        for (uint32_t i = 0; i < lh_mesh_members(mesh); i++)
            if (i != lh_mesh_own(mesh))
                assert_int_equal(take(mesh, n, i, LARGE_BYTES, NULL), LH_OK);
    assert_int_equal(lh_mesh_flush(mesh, NULL), LH_OK);
    assert_true(lh_mesh_count(mesh).sent_bytes == 2ull * LARGE_BYTES * (lh_mesh_members(mesh) - 1));
    assert_true(lh_mesh_count(mesh).taken_bytes == lh_mesh_count(mesh).sent_bytes);
}

static void large_frames_go_both_ways_at_once(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 3);
    mesh_group_run(&group, gather_large);
    mesh_group_end(&group);
}

/* ---- Orders ---- */

enum { ORDERS = 45 };

static size_t order_length(uint64_t number) {
    return mix(number, 99) % 5000;
}

static void post_order(lh_mesh *mesh, uint64_t number) {
    void *payload;
    assert_int_equal(lh_mesh_open(mesh, order_length(number), &payload, NULL), LH_OK);
    fill(payload, order_length(number), number, 99);
    assert_int_equal(lh_mesh_post_order(mesh, NULL), LH_OK);
}

static void take_order(lh_mesh *mesh, uint64_t number) {
    const void *payload;
    size_t length;
    assert_int_equal(lh_mesh_take_order(mesh, &payload, &length, NULL), LH_OK);
    assert_int_equal(length, order_length(number));
    assert_true(is_filled(payload, length, number, 99));
}

/* Three orders to each gather: more than the first member may be ahead. */
static void follow_orders(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    uint64_t gathers = 0;
    for (uint64_t n = 0; n < ORDERS; n++) {
        if (lh_mesh_own(mesh) == 0)
            post_order(mesh, n);
        else
            take_order(mesh, n);
        if (lh_mesh_own(mesh) == 1 && n == 10)
            pause_us(5000);
        if (n % 3 < 2)
            continue;
        assert_int_equal(post(mesh, gathers, length_of(gathers, lh_mesh_own(mesh)), NULL), LH_OK);
        assert_int_equal(take_all(mesh, gathers, NULL), LH_OK);
        gathers++;
    }
    assert_int_equal(lh_mesh_flush(mesh, NULL), LH_OK);
}

static void orders_and_gathers_keep_their_order(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 3);
    mesh_group_run(&group, follow_orders);
    mesh_group_end(&group);
}

/* ---- Somebody is lost ---- */

/* Member 1 goes after a few gathers; each of the others has a status soon. */
static void lose_one(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    lh_status status = LH_OK, again;
    lh_error error = {0}, same = {0};
    for (uint64_t n = 0; status == LH_OK; n++) {
        if (lh_mesh_own(mesh) == 1 && n == 5)
            return;
        status = post(mesh, n, length_of(n, lh_mesh_own(mesh)), &error);
        if (status == LH_OK)
            status = take_all(mesh, n, &error);
    }
    assert_int_equal(status, LH_ERR_CLOSED);
    assert_non_null(strstr(error.message, "of the stage"));
    again = lh_mesh_flush(mesh, &same);
    assert_int_equal(again, status);
    assert_string_equal(same.message, error.message);
}

static void a_lost_member_is_a_status_for_all(void **state) {
    (void)state;
    for (uint32_t count = 2; count <= 5; count++) {
        mesh_group group;
        mesh_group_begin(&group, count);
        mesh_group_run(&group, lose_one);
        mesh_group_end(&group);
    }
}

/* The silent one holds its connections open until all others have ended. */
static atomic_uint ended;

static void wait_for_the_silent_one(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    lh_error error;
    uint32_t others = lh_mesh_members(mesh) - 1;
    if (lh_mesh_own(mesh) == 1) {
        while (atomic_load(&ended) < others)
            pause_us(1000);
        return;
    }
    lh_status status = post(mesh, 0, length_of(0, lh_mesh_own(mesh)), &error);
    if (status == LH_OK)
        status = take_all(mesh, 0, &error);
    atomic_fetch_add(&ended, 1);
    /* The first of them whose time is over ends the mesh, which the other one finds closed. */
    assert_true(status == LH_ERR_TIMEOUT || status == LH_ERR_CLOSED);
    assert_non_null(strstr(error.message, "of the stage"));
}

static void a_silent_member_is_a_status_for_all(void **state) {
    (void)state;
    mesh_group group;
    atomic_store(&ended, 0);
    mesh_group_begin(&group, 3);
    for (uint32_t i = 0; i < 3; i++)
        group.members[i].options.wait_ms = 50;
    mesh_group_run(&group, wait_for_the_silent_one);
    mesh_group_end(&group);
}

static void *end_soon(void *argument) {
    pause_us(2000);
    lh_mesh_end(argument);
    return NULL;
}

/* Member 2 is told to stop by another thread, while all wait for each other: nobody posts. */
static void be_ended(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    pthread_t thread;
    lh_status wanted = LH_ERR_CLOSED;
    const void *payload;
    size_t length;
    lh_error error;
    if (lh_mesh_own(mesh) == 2) {
        wanted = LH_ERR_CANCELLED;
        assert_int_equal(pthread_create(&thread, NULL, end_soon, mesh), 0);
    }
    lh_status status = lh_mesh_own(mesh) == 0 ? take(mesh, 0, 2, 100, &error)
                                              : lh_mesh_take_order(mesh, &payload, &length, &error);
    assert_int_equal(status, wanted);
    if (lh_mesh_own(mesh) == 2)
        pthread_join(thread, NULL);
}

static void whoever_waits_is_woken_at_the_end(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 3);
    mesh_group_run(&group, be_ended);
    mesh_group_end(&group);
}

/* ---- Somebody is wrong ---- */

/* A frame, some bytes of it, that the test sends as member 1. */
typedef struct forged {
    lh_mesh_frame_head head;
    size_t bytes; /* of head and payload */
    lh_status status;
    const char *says;
} forged;

static void *send_forged(void *argument) {
    mesh_group *group = argument;
    const forged *f = group->members[1].context;
    uint8_t bytes[LH_MESH_HEAD_BYTES + 256] = {0};
    int descriptor = mesh_group_pose(group, 1, 0);
    lh_mesh_frame_head_encode(&f->head, bytes);
    assert_int_equal(send(descriptor, bytes, f->bytes, MSG_NOSIGNAL), f->bytes);
    shutdown(descriptor, SHUT_WR);
    while (recv(descriptor, bytes, sizeof bytes, 0) > 0)
        ;
    close(descriptor);
    return NULL;
}

static void expect_failure(const forged *f) {
    mesh_group group;
    pthread_t thread;
    lh_error error;
    lh_mesh *mesh;
    const void *payload;
    mesh_group_begin(&group, 2);
    group.members[1].context = (void *)(uintptr_t)f;
    assert_int_equal(pthread_create(&thread, NULL, send_forged, &group), 0);
    assert_int_equal(lh_mesh_create(&group.members[0].options, &mesh, &error), LH_OK);
    assert_int_equal(lh_mesh_take_gather(mesh, 5, 1, 100, &payload, &error), f->status);
    if (f->status != LH_OK) {
        assert_non_null(strstr(error.message, "member 1 of the stage"));
        assert_non_null(strstr(error.message, f->says));
    }
    lh_mesh_destroy(mesh);
    pthread_join(thread, NULL);
    mesh_group_end(&group);
}

static void a_wrong_frame_ends_the_mesh(void **state) {
    (void)state;
    const size_t head = LH_MESH_HEAD_BYTES;
    const forged cases[] = {
        {{LH_MESH_FRAME_GATHER, 3, 5, 100}, head + 100, LH_OK, ""},
        {{LH_MESH_FRAME_GATHER, 3, 6, 100}, head + 100, LH_ERR_PROTOCOL, "number 6"},
        {{LH_MESH_FRAME_GATHER, 3, 5, 101}, head + 101, LH_ERR_MALFORMED, "101 bytes"},
        {{LH_MESH_FRAME_GATHER, 3, 5, UINT32_MAX}, head, LH_ERR_LIMIT, "4294967295 bytes"},
        {{LH_MESH_FRAME_GATHER, 2, 5, 100}, head + 100, LH_ERR_STALE, "epoch 2"},
        {{LH_MESH_FRAME_ORDER, 3, 5, 100}, head + 100, LH_ERR_PROTOCOL, "kind order"},
        {{77, 3, 5, 100}, head + 100, LH_ERR_PROTOCOL, "unknown (77)"},
        {{LH_MESH_FRAME_GATHER, 3, 5, 100}, head + 99, LH_ERR_CLOSED, "closed"},
        {{LH_MESH_FRAME_GATHER, 3, 5, 100}, head - 1, LH_ERR_CLOSED, "closed"},
        {{0}, 0, LH_ERR_CLOSED, "closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_failure(&cases[i]);
}

/* ---- Bounds ---- */

static void ask_too_much(mesh_member *m) {
    void *payload;
    lh_error error;
    if (lh_mesh_own(m->mesh) == 0) {
        assert_int_equal(lh_mesh_open(m->mesh, 1001, &payload, &error), LH_ERR_LIMIT);
        assert_non_null(strstr(error.message, "1000 is the most"));
    } else {
        assert_int_equal(take(m->mesh, 0, 0, 1000, &error), LH_ERR_CLOSED);
    }
}

static void a_frame_has_a_bound(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 2);
    group.members[0].options.payload_bytes_max = 1000;
    mesh_group_run(&group, ask_too_much);
    mesh_group_end(&group);
}

/* The failing allocation is counted among those of both: the other one has made its own before. */
static void run_out_of_memory(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    lh_error error;
    if (lh_mesh_own(mesh) == 1) {
        const void *payload;
        size_t length;
        take_order(mesh, 0);
        assert_int_equal(post(mesh, 0, 100, NULL), LH_OK);
        assert_int_equal(lh_mesh_take_order(mesh, &payload, &length, &error), LH_ERR_CLOSED);
        return;
    }
    post_order(mesh, 0);
    assert_int_equal(take(mesh, 0, 1, 100, NULL), LH_OK);
    failing_malloc_arm(1);
    assert_int_equal(post(mesh, 0, 100, &error), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    assert_int_equal(take(mesh, 1, 1, 100, &error), LH_ERR_NO_MEMORY);
}

static void without_memory_all_have_a_status(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 2);
    mesh_group_run(&group, run_out_of_memory);
    mesh_group_end(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_has_the_bytes_of_all),
        cmocka_unit_test(large_frames_go_both_ways_at_once),
        cmocka_unit_test(orders_and_gathers_keep_their_order),
        cmocka_unit_test(a_lost_member_is_a_status_for_all),
        cmocka_unit_test(a_silent_member_is_a_status_for_all),
        cmocka_unit_test(whoever_waits_is_woken_at_the_end),
        cmocka_unit_test(a_wrong_frame_ends_the_mesh),
        cmocka_unit_test(a_frame_has_a_bound),
        cmocka_unit_test(without_memory_all_have_a_status),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
