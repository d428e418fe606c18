/* Which cached prefix gives up which blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/eviction.h"
#include "tests/gateway/support/block_tables.h"
#include "tests/support/failing_malloc.h"

static lh_block_pool *const pool = &block_tables_pool;
static lh_eviction eviction;

static int set_up(void **state) {
    (void)state;
    block_tables_start(200);
    lh_eviction_init(&eviction);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    block_tables_end();
    return 0;
}

static lh_block_table *cached(uint32_t blocks) {
    lh_block_table *table = block_table_ended(blocks);
    lh_eviction_add(&eviction, table);
    return table;
}

static void assert_choice(uint64_t wanted, const lh_block_table *table, uint32_t keep,
                          uint32_t blocks) {
    lh_eviction_choice choice;
    assert_true(lh_eviction_choose(&eviction, wanted, &choice));
    assert_ptr_equal(choice.table, table);
    assert_int_equal(choice.keep, keep);
    assert_int_equal(choice.blocks, blocks);
}

static void assert_no_choice(void) {
    lh_eviction_choice choice;
    assert_false(lh_eviction_choose(&eviction, 1, &choice));
}

static void the_least_recently_used_is_first(void **state) {
    (void)state;
    assert_no_choice();
    lh_block_table *one = cached(20), *other = cached(20);
    assert_int_equal(eviction.count, 2);
    assert_choice(10, one, 10, 10);
    lh_eviction_touch(&eviction, one);
    assert_choice(10, other, 10, 10);
    lh_eviction_remove(&eviction, other);
    lh_eviction_remove(&eviction, other);
    assert_int_equal(eviction.count, 1);
    assert_false(other->is_cached);
    lh_eviction_touch(&eviction, other); /* no longer cached: left alone */
    assert_choice(10, one, 10, 10);
    lh_eviction_remove(&eviction, one);
    assert_int_equal(eviction.count, 0);
    assert_no_choice();
}

/* A few at once, all that are wanted, or all that there are. */
static void several_blocks_go_at_once(void **state) {
    (void)state;
    lh_block_table *table = cached(20);
    assert_choice(1, table, 12, 8);
    assert_choice(8, table, 12, 8);
    assert_choice(9, table, 11, 9);
    assert_choice(19, table, 1, 19);
    assert_choice(20, table, 0, 20);
    assert_choice(UINT64_MAX, table, 0, 20);
    lh_block_table_truncate(table, pool, 5);
    assert_choice(1, table, 0, 5);
}

/* What others share comes back with them, not now; it goes along when nothing else is left. */
static void only_its_own_blocks_come_back(void **state) {
    (void)state;
    lh_block_table *table = cached(20);
    block_table_forked(table, 6, 1);
    assert_choice(10, table, 10, 10);
    assert_choice(14, table, 0, 14);
    block_table_forked(table, 20, 1);
    assert_choice(10, table, 0, 0);
}

static void pinned_blocks_stay(void **state) {
    (void)state;
    lh_block_table *table = cached(20), *fork = block_table_grown(9);
    lh_block_table_fork(fork, pool, table, 9);
    assert_choice(100, table, 9, 11);
    assert_choice(11, table, 9, 11);
    lh_block_table_truncate(table, pool, 9);
    assert_no_choice();
    lh_block_table *other = cached(3);
    assert_choice(1, other, 0, 3);
}

static void a_truncation_on_its_way_is_waited_for(void **state) {
    (void)state;
    lh_block_table *table = cached(20), *other = cached(3);
    lh_block_table_truncate(table, pool, 15);
    table->truncation_state = LH_KV_TRUNCATING;
    assert_choice(1, other, 0, 3);
    lh_eviction_remove(&eviction, other);
    assert_no_choice();
    lh_block_table_finish_truncation(table, pool);
    assert_choice(8, table, 7, 8);
}

static void too_many_are_freed_from_the_oldest_on(void **state) {
    (void)state;
    lh_block_table *tables[4];
    for (int i = 0; i < 4; i++)
        tables[i] = cached(3);
    assert_null(lh_eviction_surplus(&eviction, 4));
    assert_ptr_equal(lh_eviction_surplus(&eviction, 3), tables[0]);
    lh_block_table_fork(block_table_grown(1), pool, tables[0], 1);
    assert_false(lh_eviction_may_free(tables[0]));
    assert_ptr_equal(lh_eviction_surplus(&eviction, 3), tables[1]);
    lh_block_table_truncate(tables[1], pool, 2);
    assert_true(lh_eviction_may_free(tables[1]));
    tables[1]->truncation_state = LH_KV_TRUNCATING;
    assert_false(lh_eviction_may_free(tables[1]));
    assert_ptr_equal(lh_eviction_surplus(&eviction, 0), tables[2]);
    lh_eviction_remove(&eviction, tables[2]);
    assert_false(lh_eviction_may_free(tables[2]));
    lh_eviction_remove(&eviction, tables[3]);
    assert_null(lh_eviction_surplus(&eviction, 0)); /* none can be, now */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_least_recently_used_is_first),      TEST(several_blocks_go_at_once),
        TEST(only_its_own_blocks_come_back),         TEST(pinned_blocks_stay),
        TEST(a_truncation_on_its_way_is_waited_for), TEST(too_many_are_freed_from_the_oldest_on),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
