/* How a block table grows, forks, is pinned, and gives its blocks back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/block_table.h"
#include "tests/gateway/support/block_tables.h"
#include "tests/support/failing_malloc.h"

enum { BLOCKS = 40 };
static lh_block_pool *const pool = &block_tables_pool;

static int set_up(void **state) {
    (void)state;
    block_tables_start(BLOCKS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    block_tables_end();
    return 0;
}

static void it_grows_beyond_its_first_room(void **state) {
    (void)state;
    lh_block_table *table = block_table_grown(3);
    assert_int_equal(table->block_capacity, 3);
    assert_true(lh_block_table_grow(table, pool, 2));
    assert_int_equal(table->block_count, 3);
    assert_true(lh_block_table_grow(table, pool, 4));
    assert_int_equal(table->block_capacity, 6);
    assert_int_equal(table->block_count, 4);
    assert_int_equal(pool->ledger.blocks_live, 4);
    assert_false(lh_block_table_grow(table, pool, UINT64_C(3) << 30));
    assert_false(lh_block_table_grow(table, pool, BLOCKS + 1));
    assert_int_equal(table->block_count, BLOCKS); /* it keeps what it got */
}

static void without_memory_it_stays_as_it_is(void **state) {
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        assert_null(lh_block_table_create(1, (lh_prefix_scope){0}, 4));
        assert_true(failing_malloc_disarm());
    }
    assert_null(lh_block_table_create(1, (lh_prefix_scope){0}, (uint64_t)UINT32_MAX + 1));
    lh_block_table *table = block_table_grown(2);
    failing_malloc_arm(1);
    assert_false(lh_block_table_grow(table, pool, 3));
    assert_true(failing_malloc_disarm());
    assert_int_equal(table->block_count, 2);
    assert_int_equal(table->block_capacity, 2);
}

static void a_fork_shares_the_first_blocks(void **state) {
    (void)state;
    lh_block_table *source = block_table_grown(4), *table = block_table_grown(5);
    lh_block_table_fork(table, pool, source, 3);
    assert_int_equal(table->block_count, 5);
    assert_int_equal(table->shared, 3);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(i < 3, i < 4 && table->blocks[i] == source->blocks[i]);
    assert_int_equal(source->blocks[2]->holders, 2);
    assert_int_equal(source->blocks[3]->holders, 1);
    assert_int_equal(pool->ledger.blocks_live, 6);
    assert_ptr_equal(table->source, source);
    for (int i = 0; i < 2; i++) {
        lh_block_table_unpin_source(table);
        assert_null(table->source);
        assert_int_equal(source->pins, 0);
    }
}

/* The first fork counts on five blocks, whatever the second one takes. */
static void a_second_shorter_fork_unpins_nothing(void **state) {
    (void)state;
    lh_block_table *source = block_table_grown(6), *longer = block_table_grown(6),
                   *shorter = block_table_grown(6);
    lh_block_table_fork(longer, pool, source, 5);
    lh_block_table_fork(shorter, pool, source, 2);
    assert_int_equal(source->pins, 2);
    assert_int_equal(source->pinned_blocks, 5);
    lh_block_table_unpin_source(shorter);
    assert_int_equal(source->pins, 1);
    assert_int_equal(source->pinned_blocks, 5);
    lh_block_table_unpin_source(longer);
    assert_int_equal(source->pins, 0);
    assert_int_equal(source->pinned_blocks, 0);
}

static void steps_are_counted_by_class(void **state) {
    (void)state;
    lh_block_table *table = block_table_grown(1);
    lh_block_table_launch(table, LH_STEP_PREFILL);
    lh_block_table_launch(table, LH_STEP_PREFILL);
    lh_block_table_launch(table, LH_STEP_DECODE);
    assert_int_equal(table->inflight_steps, 3);
    assert_int_equal(table->inflight_prefill, 2);
    lh_block_table_pass(table, LH_STEP_DECODE);
    assert_int_equal(table->inflight_prefill, 2);
    lh_block_table_pass(table, LH_STEP_PREFILL);
    assert_int_equal(table->inflight_prefill, 1);
    lh_block_table_land(table, true, LH_STEP_PREFILL);
    assert_int_equal(table->inflight_steps, 2);
    assert_int_equal(table->inflight_prefill, 1);
    lh_block_table_land(table, false, LH_STEP_PREFILL);
    assert_int_equal(table->inflight_prefill, 0);
    lh_block_table_land(table, true, LH_STEP_DECODE);
    assert_int_equal(table->inflight_steps, 0);
}

/* A truncation that is still to be sent takes more along. */
static void it_gives_blocks_back_from_its_end(void **state) {
    (void)state;
    lh_block_table *table = block_table_ended(5);
    assert_int_equal(pool->ledger.blocks_cached, 5);
    assert_int_equal(lh_block_table_kept(table), 5);
    lh_block_table_truncate(table, pool, 4);
    lh_block_table_truncate(table, pool, 2);
    assert_int_equal(lh_block_table_kept(table), 2);
    assert_int_equal(table->block_count, 5);
    assert_int_equal(pool->ledger.blocks_returning, 3);
    table->truncation_state = LH_KV_TRUNCATING;
    assert_int_equal(lh_block_table_kept(table), 2);
    lh_block_table_finish_truncation(table, pool);
    assert_int_equal(table->block_count, 2);
    assert_int_equal(table->truncation_state, LH_KV_STAYS);
    assert_int_equal(pool->ledger.blocks_returning, 0);
    assert_int_equal(lh_kv_ledger_blocks_free(&pool->ledger), BLOCKS - 2);
}

static void its_record_is_needed_as_long_as_anything_refers_to_it(void **state) {
    (void)state;
    lh_block_table *table = block_table_ended(1);
    assert_false(lh_block_table_is_unneeded(table)); /* it has a block */
    lh_block_table_truncate(table, pool, 0);
    table->truncation_state = LH_KV_TRUNCATING;
    lh_block_table_finish_truncation(table, pool);
    assert_true(lh_block_table_is_unneeded(table));
    lh_block_table_launch(table, LH_STEP_DECODE);
    assert_false(lh_block_table_is_unneeded(table));
    lh_block_table_land(table, true, LH_STEP_DECODE);
    table->pins = 1;
    assert_false(lh_block_table_is_unneeded(table));
    table->pins = 0;
    table->is_live = true;
    assert_false(lh_block_table_is_unneeded(table));
    table->is_live = false;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(it_grows_beyond_its_first_room),
        TEST(without_memory_it_stays_as_it_is),
        TEST(a_fork_shares_the_first_blocks),
        TEST(a_second_shorter_fork_unpins_nothing),
        TEST(steps_are_counted_by_class),
        TEST(it_gives_blocks_back_from_its_end),
        TEST(its_record_is_needed_as_long_as_anything_refers_to_it),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
