/* Whose body is ended where memory for bodies is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/body_memory.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>

#define KIB    1024u
#define MIB    (1024u * KIB)
#define TOTAL  (16u * MIB) /* of which 2 are for small bodies */
#define SECOND 1000000
#define BODIES 64

typedef struct bench {
    lh_body_memory memory;
    lh_body_share shares[BODIES];
} bench;

static void open_bench(bench *b) {
    *b = (bench){0};
    assert_int_equal(lh_body_memory_init(&b->memory, TOTAL, BODIES, NULL), LH_OK);
}

static void close_bench(bench *b) {
    for (int i = 0; i < BODIES; i++)
        lh_body_memory_release(&b->memory, &b->shares[i]);
    lh_body_memory_reset(&b->memory);
}

/* A body of this owner takes so much at this time. */
static bool take(bench *b, int index, uint64_t owner, uint64_t bytes, int64_t now_us) {
    b->shares[index].owner = owner;
    return lh_body_memory_take(&b->memory, &b->shares[index], bytes, now_us);
}

/* Who is ended for it; -1: nobody, it is refused. */
static int ended_for(bench *b, int index, uint64_t owner, uint64_t bytes, int64_t now_us) {
    assert_false(take(b, index, owner, bytes, now_us));
    const lh_body_share *goes = lh_body_memory_pick(&b->memory, &b->shares[index], bytes, now_us);
    return goes ? (int)(goes - b->shares) : -1;
}

static void an_owner_may_have_all_while_he_is_alone(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        assert_true(take(&b, i, 1, 2 * MIB, 0));
    assert_int_equal(ended_for(&b, 7, 1, 2 * MIB, 0), -1); /* they all come in: he has to wait */
    lh_body_memory_release(&b.memory, &b.shares[3]);
    assert_true(take(&b, 7, 1, 2 * MIB, 0));
    close_bench(&b);
}

static void small_bodies_find_room(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        assert_true(take(&b, i, 1, 2 * MIB, 0));
    for (int i = 7; i < 7 + 32; i++) {
        assert_true(take(&b, i, 1, 16 * KIB, 0));
        assert_true(take(&b, i, 1, 48 * KIB, 0));
    }
    assert_int_equal(b.memory.bytes, TOTAL);
    assert_int_equal(ended_for(&b, 7, 1, 1, 0), -1);
    /* Even then, for another owner: of those who have more, and move as well as any. */
    assert_true(ended_for(&b, 40, 2, 16 * KIB, 0) >= 0);
    close_bench(&b);
}

static void who_stands_still_longest_goes(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        assert_true(take(&b, i, 1, 2 * MIB, i == 4 ? 0 : i * 1000));
    lh_body_share_note(&b.shares[0], 16 * KIB, SECOND / 2);
    lh_body_share_note(&b.shares[4], 16 * KIB - 1, SECOND / 2); /* a byte now and then */
    int64_t now_us = SECOND + 6000;
    assert_int_equal(ended_for(&b, 7, 1, 2 * MIB, now_us), 4);
    lh_body_memory_end(&b.memory, &b.shares[4]);
    assert_true(b.shares[4].is_ended);
    assert_int_equal(b.shares[4].bytes, 0);
    assert_true(take(&b, 7, 1, 2 * MIB, now_us));
    const int order[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ended_for(&b, 8 + i, 1, 2 * MIB, now_us), order[i]);
        lh_body_memory_end(&b.memory, &b.shares[order[i]]);
        assert_true(take(&b, 8 + i, 1, 2 * MIB, now_us));
    }
    assert_int_equal(ended_for(&b, 20, 1, 2 * MIB, now_us), -1); /* the rest moves */
    close_bench(&b);
}

/* Another owner's body that stands still goes after a second where he has more, else after five. */
static void less_is_left_alone_for_longer(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        assert_true(take(&b, i, 10 + (uint64_t)i, 2 * MIB, i));
    assert_int_equal(ended_for(&b, 7, 2, 2 * MIB, SECOND), -1);
    assert_int_equal(ended_for(&b, 7, 2, MIB, SECOND), 0);
    assert_int_equal(ended_for(&b, 7, 2, 2 * MIB, 5 * SECOND - 1), -1);
    assert_int_equal(ended_for(&b, 7, 2, 2 * MIB, 5 * SECOND), 0);
    close_bench(&b);
}

/* Moving does not help him who has more than another would have. */
static void who_has_most_makes_room_for_others(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int i = 0; i < 7; i++)
        assert_true(take(&b, i, i < 4 ? 1 : 2, 2 * MIB, i));
    assert_int_equal(ended_for(&b, 7, 3, 2 * MIB, 100), 0);
    b.shares[0].is_whole = true; /* it is being read */
    assert_int_equal(ended_for(&b, 7, 3, 2 * MIB, 100), 1);
    assert_int_equal(ended_for(&b, 7, 2, 2 * MIB, 100), -1); /* he would have as much */
    assert_int_equal(ended_for(&b, 7, 2, MIB, 100), 1);
    assert_int_equal(ended_for(&b, 7, 1, 2 * MIB, 100), -1);
    close_bench(&b);
}

static void a_body_never_goes_for_itself(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    assert_true(take(&b, 0, 1, 14 * MIB, 0));
    assert_int_equal(ended_for(&b, 0, 1, 1, 60 * SECOND), -1);
    close_bench(&b);
}

static void without_memory_there_is_none(void **state) {
    (void)state;
    lh_body_memory memory;
    failing_malloc_arm(1);
    assert_int_equal(lh_body_memory_init(&memory, TOTAL, BODIES, NULL), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_may_have_all_while_he_is_alone),
        cmocka_unit_test(small_bodies_find_room),
        cmocka_unit_test(who_stands_still_longest_goes),
        cmocka_unit_test(less_is_left_alone_for_longer),
        cmocka_unit_test(who_has_most_makes_room_for_others),
        cmocka_unit_test(a_body_never_goes_for_itself),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
