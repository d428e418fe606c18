/* Who is next: tenants, priorities, age, places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/wait_queue.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>
#include <time.h>

static lh_wait_queue *create(uint32_t places) {
    lh_wait_queue *queue = calloc(1, sizeof *queue);
    assert_non_null(queue);
    assert_int_equal(lh_share_table_create(places, 70000, NULL, &queue->shares, NULL), LH_OK);
    return queue;
}

static void destroy(lh_wait_queue *queue) {
    lh_wait_queue_reset(queue);
    lh_share_table_destroy(queue->shares);
    free(queue);
}

/* A sequence of so many tokens that waits. */
static lh_sequence *come_at(lh_wait_queue *queue, uint64_t tenant, int32_t priority,
                            uint32_t tokens, int64_t now_us) {
    static uint64_t next_id;
    lh_sequence *sequence = calloc(1, sizeof *sequence);
    assert_non_null(sequence);
    *sequence = (lh_sequence){.schedule.id = ++next_id,
                              .request.tenant = tenant,
                              .request.priority = priority,
                              .length = tokens};
    assert_int_equal(lh_wait_queue_push(queue, sequence, now_us), LH_OK);
    return sequence;
}

static lh_sequence *come(lh_wait_queue *queue, uint64_t tenant, int32_t priority, uint32_t tokens) {
    return come_at(queue, tenant, priority, tokens, 0);
}

static lh_sequence *let_in(lh_wait_queue *queue) {
    lh_sequence *sequence = lh_wait_queue_next(queue, 1, 0);
    assert_non_null(sequence);
    lh_wait_queue_admit(queue, sequence);
    sequence->schedule.state = LH_SEQUENCE_PREFILL;
    return sequence;
}

static void end(lh_wait_queue *queue, lh_sequence *sequence) {
    lh_wait_queue_leave(queue, sequence);
    free(sequence);
}

static void one_tenant_is_served_in_order(void **state) {
    (void)state;
    lh_wait_queue *queue = create(100);
    lh_sequence *all[20];
    for (int i = 0; i < 20; i++)
        all[i] = come(queue, 0, 0, 100);
    assert_int_equal(queue->all.count, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(queue->rows, 100 * (20 - i));
        assert_ptr_equal(let_in(queue), all[i]);
    }
    assert_null(lh_wait_queue_next(queue, 1, 0));
    for (int i = 0; i < 20; i++)
        end(queue, all[i]);
    destroy(queue);
}

static void what_comes_back_has_its_old_place(void **state) {
    (void)state;
    lh_wait_queue *queue = create(100);
    lh_sequence *a = come(queue, 0, 0, 100), *b = come(queue, 0, 0, 100),
                *c = come(queue, 0, 0, 100);
    assert_ptr_equal(let_in(queue), a);
    assert_ptr_equal(let_in(queue), b);
    b->length += 7; /* it has drawn so many tokens */
    lh_wait_queue_put_back(queue, b);
    lh_wait_queue_put_back(queue, a);
    assert_int_equal(queue->rows, 307);
    uint64_t served = a->schedule.share->served;
    assert_int_equal(a->schedule.share->places, 0);
    assert_ptr_equal(let_in(queue), a);
    assert_ptr_equal(let_in(queue), b);
    assert_int_equal(a->schedule.share->served,
                     served); /* what is computed again is not the tenant's */
    assert_ptr_equal(let_in(queue), c);
    assert_int_equal(a->schedule.share->served, served + 100);
    end(queue, a);
    end(queue, b);
    end(queue, c);
    destroy(queue);
}

/* Who comes again within 30 s goes on from what it has had; later it begins with nothing. */
static void who_comes_late_is_not_remembered(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        lh_wait_queue *queue = create(100);
        come(queue, 1, 0, 100);
        end(queue, let_in(queue));
        lh_sequence *again = come_at(queue, 1, 0, 100, 30000000 - !late);
        assert_int_equal(again->schedule.share->served, late ? 0 : 100);
        end(queue, again);
        destroy(queue);
    }
}

/* A queue of one beside a queue of many. */
static void tenants_take_turns(void **state) {
    (void)state;
    lh_wait_queue *queue = create(100);
    for (int i = 0; i < 50; i++)
        come(queue, 1, 0, 100);
    lh_sequence *first = let_in(queue), *second = let_in(queue);
    assert_int_equal(first->request.tenant + second->request.tenant, 2);
    lh_sequence *other = come(queue, 2, 0, 100);
    assert_ptr_equal(let_in(queue), other);
    lh_sequence *long_one = come(queue, 3, 0, 900), *next;
    assert_ptr_equal(let_in(queue), long_one);
    come(queue, 3, 0, 900);
    come(queue, 2, 0, 100);
    for (int i = 0; i < 7; i++) { /* until the others have had 900, too */
        next = let_in(queue);
        assert_true(next->request.tenant != 3);
        end(queue, next);
    }
    end(queue, first);
    end(queue, second);
    end(queue, other);
    end(queue, long_one);
    destroy(queue);
}

static void the_lower_priority_goes_first_but_each_eighth_is_the_oldest(void **state) {
    (void)state;
    lh_wait_queue *queue = create(100);
    lh_sequence *bulk[3], *next;
    for (int i = 0; i < 3; i++)
        bulk[i] = come(queue, 0, 5, 10);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 7; i++) {
            come(queue, 0, -2, 10);
            come(queue, 0, -2 + i % 2, 10);
            next = let_in(queue);
            assert_int_equal(next->request.priority, -2);
            end(queue, next);
        }
        assert_ptr_equal(let_in(queue), bulk[round]);
    }
    while (queue->all.count > 0)
        end(queue, let_in(queue));
    for (int i = 0; i < 3; i++)
        end(queue, bulk[i]);
    destroy(queue);
}

static void a_priority_takes_nothing_from_other_tenants(void **state) {
    (void)state;
    lh_wait_queue *queue = create(100);
    uint32_t count[3] = {0};
    for (int i = 0; i < 60; i++) {
        come(queue, 1, INT32_MIN, 10);
        come(queue, 2, INT32_MAX, 10);
    }
    for (int i = 0; i < 100; i++) {
        lh_sequence *next = let_in(queue);
        count[next->request.tenant]++;
        end(queue, next);
    }
    assert_int_equal(count[1], 50);
    assert_int_equal(count[2], 50);
    while (queue->all.count > 0)
        end(queue, let_in(queue));
    destroy(queue);
}

/* 8 places: two of them are left free, the one that was needed and one more. */
static void places_are_left_to_others(void **state) {
    (void)state;
    lh_wait_queue *queue = create(8);
    lh_sequence *ran[8], *b = come(queue, 2, 0, 10);
    for (int i = 0; i < 20; i++)
        come(queue, 1, 0, 10);
    assert_ptr_equal(let_in(queue), b);
    ran[0] = let_in(queue);
    end(queue, b);
    for (int i = 1; i < 6; i++)
        ran[i] = let_in(queue);
    assert_true(lh_share_crowds(ran[0]->schedule.share));
    assert_null(lh_wait_queue_next(queue, 1, 0));
    b = come(queue, 2, 0, 10);
    assert_ptr_equal(let_in(queue), b);
    end(queue, b);
    for (int i = 0; i < 6; i++)
        end(queue, ran[i]);
    while (queue->all.count > 0)
        end(queue, let_in(queue));
    destroy(queue);
}

/* Where pages are scarcer than places. */
static void pages_are_left_to_others(void **state) {
    (void)state;
    lh_wait_queue *queue = create(8);
    lh_sequence *b = come(queue, 2, 0, 10);
    for (int i = 0; i < 20; i++)
        come(queue, 1, 0, 10);
    assert_ptr_equal(let_in(queue), b);
    lh_sequence *a = let_in(queue);
    end(queue, b);
    assert_non_null(lh_wait_queue_next(queue, 0.25, 0));
    assert_null(lh_wait_queue_next(queue, 0.24, 0)); /* two places' worth */
    b = come(queue, 2, 0, 10);
    assert_ptr_equal(lh_wait_queue_next(queue, 0.01, 0), b);
    end(queue, a);
    while (queue->all.count > 0)
        end(queue, let_in(queue));
    destroy(queue);
}

/* Those that leave from the middle of the queue leave no trace. */
static void any_one_may_leave_at_any_time(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        lh_wait_queue *queue = create(10);
        lh_sequence *there[200] = {0};
        uint32_t waiting = 0, running = 0;
        srand(seed);
        for (int turn = 0; turn < 4000; turn++) {
            lh_sequence **slot = &there[rand() % 200];
            if (!*slot) {
                *slot = come(queue, (uint64_t)rand() % 5, rand() % 3, 1 + (uint32_t)rand() % 50);
                waiting++;
            } else if (rand() % 3 > 0) {
                *((*slot)->schedule.state == LH_SEQUENCE_WAITING ? &waiting : &running) -= 1;
                end(queue, *slot);
                *slot = NULL;
            } else if ((*slot)->schedule.state != LH_SEQUENCE_WAITING) {
                lh_wait_queue_put_back(queue, *slot);
                running--;
                waiting++;
            }
            if (running < 10 && lh_wait_queue_next(queue, 1, 0)) {
                let_in(queue);
                running++;
                waiting--;
            }
            assert_int_equal(queue->all.count, waiting);
        }
        for (int i = 0; i < 200; i++)
            if (there[i])
                end(queue, there[i]);
        assert_null(queue->all.first);
        destroy(queue);
    }
}

/* A queue of 65,536, all of one tenant or each of another: 100,000 turns within a second, which
 * walks of the queue would take minutes for. */
static void a_full_queue_costs_no_walks(void **state) {
    (void)state;
    for (int per_tenant = 0; per_tenant < 2; per_tenant++) {
        lh_wait_queue *queue = create(64);
        for (uint64_t i = 0; i < 65536; i++)
            come(queue, per_tenant ? i : 0, (int32_t)(i % 7), 10);
        clock_t begun = clock();
        for (uint64_t i = 0; i < 100000; i++) {
            end(queue, let_in(queue));
            come(queue, per_tenant ? i : 0, (int32_t)(i % 5), 10);
        }
        assert_true(clock() - begun < 10 * CLOCKS_PER_SEC);
        destroy(queue);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_wait_queue queue = {0};
        lh_sequence sequence = {.schedule.id = 1, .length = 5};
        failing_malloc_arm(n);
        lh_status status = lh_share_table_create(4, 8, NULL, &queue.shares, NULL);
        if (status == LH_OK)
            status = lh_wait_queue_push(&queue, &sequence, 0);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            lh_wait_queue_leave(&queue, &sequence);
        lh_share_table_destroy(queue.shares);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_tenant_is_served_in_order),
        cmocka_unit_test(what_comes_back_has_its_old_place),
        cmocka_unit_test(who_comes_late_is_not_remembered),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(the_lower_priority_goes_first_but_each_eighth_is_the_oldest),
        cmocka_unit_test(a_priority_takes_nothing_from_other_tenants),
        cmocka_unit_test(places_are_left_to_others),
        cmocka_unit_test(pages_are_left_to_others),
        cmocka_unit_test(any_one_may_leave_at_any_time),
        cmocka_unit_test(a_full_queue_costs_no_walks),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
