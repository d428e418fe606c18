/* Large frames travel while nobody is in a call of the mesh. */
#include "tests/worker/support/mesh_group.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { LARGE_BYTES = 3 << 20, TWO = 2 }; /* more than the kernel holds */

static void pause_us(long us) {
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static lh_status post(lh_mesh *mesh, uint64_t number, size_t length, lh_error *error) {
    void *payload;
    lh_status status = lh_mesh_open(mesh, length, &payload, error);
    if (status != LH_OK)
        return status;
    memset(payload, (int)(number * 10 + lh_mesh_own(mesh)), length);
    return lh_mesh_post_gather(mesh, number, error);
}

static lh_status take_all(lh_mesh *mesh, uint64_t number, size_t length, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < lh_mesh_members(mesh) && status == LH_OK; i++) {
        const void *payload;
        if (i == lh_mesh_own(mesh))
            continue;
        status = lh_mesh_take_gather(mesh, number, i, length, &payload, error);
        const uint8_t *bytes = payload;
        if (status == LH_OK) {
            assert_int_equal(bytes[0], (uint8_t)(number * 10 + i));
            assert_memory_equal(bytes, bytes + 1, length - 1); /* all alike */
        }
    }
    return status;
}

/* Member 0 posts two gathers, and then computes, in no call of its mesh, until all others have its
 * bytes and have given theirs. */
static atomic_uint have_all;

static void compute_while_frames_travel(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    const uint32_t others = lh_mesh_members(mesh) - 1;
    for (uint64_t n = 0; n < TWO; n++)
        assert_int_equal(post(mesh, n, LARGE_BYTES, NULL), LH_OK);
    if (lh_mesh_own(mesh) == 0)
        while (atomic_load(&have_all) < others)
            pause_us(500);
    for (uint64_t n = 0; n < TWO; n++)
        assert_int_equal(take_all(mesh, n, LARGE_BYTES, NULL), LH_OK);
    assert_int_equal(lh_mesh_flush(mesh, NULL), LH_OK);
    atomic_fetch_add(&have_all, lh_mesh_own(mesh) > 0);
    const lh_mesh_totals totals = lh_mesh_count(mesh);
    assert_true(totals.gathers == TWO);
    assert_true(totals.waiting_us <= totals.taking_us);
}

static void frames_go_both_ways_without_the_compute_thread(void **state) {
    (void)state;
    for (uint32_t count = 2; count <= 4; count++) {
        mesh_group group;
        atomic_store(&have_all, 0);
        mesh_group_begin(&group, count);
        mesh_group_run(&group, compute_while_frames_travel);
        mesh_group_end(&group);
    }
}

/* What is counted ends when all have come, whoever takes them when. */
static void count_what_travels(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    assert_int_equal(post(mesh, 0, 100, NULL), LH_OK);
    assert_int_equal(take_all(mesh, 0, 100, NULL), LH_OK);
    assert_true(lh_mesh_count(mesh).under_way_us == 0); /* small ones are not carried */
    assert_int_equal(post(mesh, 1, LARGE_BYTES, NULL), LH_OK);
    while (lh_mesh_count(mesh).under_way_us == 0)
        pause_us(500);
    const int64_t under_way_us = lh_mesh_count(mesh).under_way_us;
    pause_us(5000);
    assert_int_equal(take_all(mesh, 1, LARGE_BYTES, NULL), LH_OK);
    const lh_mesh_totals totals = lh_mesh_count(mesh);
    assert_true(totals.under_way_us == under_way_us && totals.waiting_us == 0);
}

static void what_has_come_before_it_is_taken_is_hidden(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 3);
    mesh_group_run(&group, count_what_travels);
    mesh_group_end(&group);
}

/* ---- Failures ---- */

/* Member 1 goes with large frames under way, at any moment of them. */
static void lose_one(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    lh_status status = LH_OK;
    lh_error error = {0};
    const uint32_t round = *(const uint32_t *)m->context;
    for (uint64_t n = 0; status == LH_OK; n++) {
        status = post(mesh, n, LARGE_BYTES, &error);
        if (lh_mesh_own(mesh) == 1 && n == round % 3) {
            pause_us(round * 100);
            return;
        }
        if (status == LH_OK)
            status = take_all(mesh, n, LARGE_BYTES, &error);
    }
    assert_int_equal(status, LH_ERR_CLOSED);
    assert_non_null(strstr(error.message, "of the stage"));
}

static void a_member_lost_meanwhile_is_a_status_for_all(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 12; round++) {
        mesh_group group;
        mesh_group_begin(&group, 2 + round % 3);
        for (uint32_t i = 0; i < group.count; i++)
            group.members[i].context = &round;
        mesh_group_run(&group, lose_one);
        mesh_group_end(&group);
    }
}

/* Member 1 never posts: the others wait with their frames at its door, one of them until its time
 * is over. */
static void wait_for_the_silent_one(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    lh_error error;
    if (lh_mesh_own(mesh) == 1) {
        while (atomic_load(&have_all) < lh_mesh_members(mesh) - 1)
            pause_us(500);
        return;
    }
    lh_status status = post(mesh, 0, LARGE_BYTES, &error);
    if (status == LH_OK)
        status = take_all(mesh, 0, LARGE_BYTES, &error);
    atomic_fetch_add(&have_all, 1);
    assert_true(status == LH_ERR_TIMEOUT || status == LH_ERR_CLOSED);
}

static void a_silent_member_is_a_status_for_all(void **state) {
    (void)state;
    mesh_group group;
    atomic_store(&have_all, 0);
    mesh_group_begin(&group, 3);
    for (uint32_t i = 0; i < 3; i++)
        group.members[i].options.wait_ms = 300;
    mesh_group_run(&group, wait_for_the_silent_one);
    mesh_group_end(&group);
}

static void *end_soon(void *argument) {
    pause_us(3000);
    lh_mesh_end(argument);
    return NULL;
}

/* Member 0 is ended by another thread while it waits for what its carrier has not got. */
static void be_ended(mesh_member *m) {
    lh_mesh *mesh = m->mesh;
    pthread_t thread;
    lh_error error;
    const bool is_ended = lh_mesh_own(mesh) == 0;
    if (is_ended) {
        assert_int_equal(pthread_create(&thread, NULL, end_soon, mesh), 0);
        lh_status status = post(mesh, 0, LARGE_BYTES, &error);
        if (status == LH_OK)
            status = take_all(mesh, 0, LARGE_BYTES, &error);
        assert_int_equal(status, LH_ERR_CANCELLED);
        pthread_join(thread, NULL);
        atomic_store(&have_all, 1);
    }
    while (atomic_load(&have_all) == 0)
        pause_us(500);
}

static void whoever_waits_for_it_is_woken_at_the_end(void **state) {
    (void)state;
    mesh_group group;
    atomic_store(&have_all, 0);
    mesh_group_begin(&group, 2);
    mesh_group_run(&group, be_ended);
    mesh_group_end(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_go_both_ways_without_the_compute_thread),
        cmocka_unit_test(what_has_come_before_it_is_taken_is_hidden),
        cmocka_unit_test(a_member_lost_meanwhile_is_a_status_for_all),
        cmocka_unit_test(a_silent_member_is_a_status_for_all),
        cmocka_unit_test(whoever_waits_for_it_is_woken_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
