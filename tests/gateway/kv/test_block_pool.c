/* Where a block stands, by who holds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/block_pool.h"
#include "tests/support/failing_malloc.h"

static lh_block_pool pool;

static int set_up(void **state) {
    (void)state;
    pool = (lh_block_pool){.ledger = {.stage_count = 1, .stages = {{16, 2}}}};
    lh_kv_ledger_measure(&pool.ledger);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_block_pool_reset(&pool);
    assert_null(pool.spares);
    return 0;
}

static void assert_figures(uint64_t live, uint64_t cached, uint64_t returning) {
    assert_int_equal(pool.ledger.blocks_live, live);
    assert_int_equal(pool.ledger.blocks_cached, cached);
    assert_int_equal(pool.ledger.blocks_returning, returning);
}

static void give_back(lh_kv_block *block) {
    lh_block_pool_retire(&pool, block);
    lh_block_pool_release(&pool, block);
    lh_block_pool_free(&pool, block);
}

static void one_holder_after_the_other_gives_it_up(void **state) {
    (void)state;
    lh_kv_block *block = lh_block_pool_allocate(&pool);
    lh_block_pool_share(&pool, block);
    assert_figures(1, 0, 0);
    lh_block_pool_retire(&pool, block);
    lh_block_pool_release(&pool, block);
    assert_figures(1, 0, 0);
    lh_block_pool_retire(&pool, block);
    assert_figures(0, 1, 0);
    lh_block_pool_free(&pool, block);
    assert_figures(0, 1, 0);
    lh_block_pool_release(&pool, block);
    assert_figures(0, 0, 1);
    lh_block_pool_free(&pool, block);
    assert_figures(0, 0, 0);
}

static void there_are_no_more_than_the_ledger_says(void **state) {
    (void)state;
    lh_kv_block *one = lh_block_pool_allocate(&pool), *other = lh_block_pool_allocate(&pool);
    assert_true(one && other && one != other);
    assert_null(lh_block_pool_allocate(&pool));
    give_back(one);
    lh_kv_block *third = lh_block_pool_allocate(&pool);
    assert_non_null(third);
    assert_int_equal(third->holders, 1);
    give_back(other);
    give_back(third);
}

/* No allocation where a record is spare; none is lost where memory is short. */
static void records_are_reused(void **state) {
    (void)state;
    lh_kv_block *one = lh_block_pool_allocate(&pool), *other = lh_block_pool_allocate(&pool);
    give_back(one);
    give_back(other);
    failing_malloc_arm(1);
    assert_ptr_equal(lh_block_pool_allocate(&pool), other);
    assert_ptr_equal(lh_block_pool_allocate(&pool), one);
    assert_false(failing_malloc_disarm());
    give_back(one);
    give_back(other);
    lh_block_pool_reset(&pool);
    failing_malloc_arm(1);
    assert_null(lh_block_pool_allocate(&pool));
    assert_true(failing_malloc_disarm());
    assert_figures(0, 0, 0);
}

/* What is shared by another one is no spare record yet. */
static void a_shared_block_is_not_reused(void **state) {
    (void)state;
    lh_kv_block *block = lh_block_pool_allocate(&pool);
    lh_block_pool_share(&pool, block);
    give_back(block);
    lh_kv_block *other = lh_block_pool_allocate(&pool);
    assert_ptr_not_equal(other, block);
    assert_null(pool.spares);
    assert_int_equal(block->holders, 1);
    give_back(block);
    assert_ptr_equal(pool.spares, block);
    give_back(other);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_holder_after_the_other_gives_it_up),
        TEST(there_are_no_more_than_the_ledger_says),
        TEST(records_are_reused),
        TEST(a_shared_block_is_not_reused),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
