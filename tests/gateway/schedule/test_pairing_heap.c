/* The heap beside a plain search for the least, over random pushes and removals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/pairing_heap.h"
#include "tests/support/failing_malloc.h"

#include <stdint.h>
#include <stdlib.h>

#define RECORDS 300

typedef struct record {
    uint32_t key;
    bool is_in;
    lh_heap_node node;
} record;

static bool precedes(const lh_heap_node *a, const lh_heap_node *b) {
    return LH_HEAP_RECORD(a, record, node)->key < LH_HEAP_RECORD(b, record, node)->key;
}

static uint32_t least_key(const record *records) {
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < RECORDS; i++)
        if (records[i].is_in && records[i].key < least)
            least = records[i].key;
    return least;
}

static void toggle(lh_heap *heap, record *r, uint32_t key) {
    if (r->is_in) {
        lh_heap_remove(heap, &r->node);
    } else {
        r->key = key;
        lh_heap_push(heap, &r->node);
    }
    r->is_in = !r->is_in;
}

static void the_first_is_the_least_whatever_comes_and_goes(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        record records[RECORDS] = {0};
        lh_heap heap = {.precedes = precedes};
        srand(seed);
        for (int turn = 0; turn < 3000; turn++) {
            toggle(&heap, &records[rand() % RECORDS], (uint32_t)rand() % 500);
            uint32_t least = least_key(records);
            if (heap.root)
                assert_int_equal(LH_HEAP_RECORD(heap.root, record, node)->key, least);
            else
                assert_int_equal(least, UINT32_MAX);
        }
    }
}

static void all_come_out_in_order(void **state) {
    (void)state;
    record records[RECORDS] = {0};
    lh_heap heap = {.precedes = precedes};
    for (uint32_t i = 0; i < RECORDS; i++)
        toggle(&heap, &records[i], i * 7919 % RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
        assert_int_equal(LH_HEAP_RECORD(heap.root, record, node)->key, i);
        lh_heap_remove(&heap, heap.root);
    }
    assert_null(heap.root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_least_whatever_comes_and_goes),
        cmocka_unit_test(all_come_out_in_order),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
