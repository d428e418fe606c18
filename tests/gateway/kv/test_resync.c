/* How far each block table goes on after a break, and the list of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/eviction.h"
#include "gateway/kv/resync.h"
#include "tests/gateway/support/block_tables.h"
#include "tests/support/failing_malloc.h"

enum { BLOCK = 16 };

static int set_up(void **state) {
    (void)state;
    block_tables_start(100);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    block_tables_end();
    return 0;
}

static lh_block_table *running(uint32_t blocks, uint32_t written) {
    lh_block_table *table = block_table_grown(blocks);
    table->is_sent = true;
    table->written = written;
    return table;
}

static void it_goes_on_from_what_is_written(void **state) {
    (void)state;
    lh_block_table *table = running(4, 50);
    assert_true(lh_resync_resume(table, BLOCK, 51));
    assert_int_equal(table->written, 50);
    assert_int_equal(table->standing, 50);
    assert_false(lh_resync_resume(table, BLOCK, 50));
    assert_false(lh_resync_resume(table, BLOCK, 49));
}

/* Whole blocks, up to the last one that another table has. */
static void what_others_share_is_written(void **state) {
    (void)state;
    lh_block_table *table = running(4, 50);
    block_table_forked(table, 2, 1);
    assert_true(lh_resync_resume(table, BLOCK, 60));
    assert_int_equal(table->written, 50);
    table->written = 20;
    assert_false(lh_resync_resume(table, BLOCK, 32));
    assert_int_equal(table->written, 20);
    assert_true(lh_resync_resume(table, BLOCK, 33));
    assert_int_equal(table->written, 32);
    assert_int_equal(table->standing, 32);
    block_table_forked(table, 4, 1);
    assert_true(lh_resync_resume(table, BLOCK, 65));
    assert_int_equal(table->written, 64);
}

static void only_unshared_tables_begin_anew(void **state) {
    (void)state;
    lh_block_table *alone = running(3, 40), *first = running(3, 40), *any = running(3, 40);
    block_table_forked(first, 1, 1);
    block_table_forked(any, 3, 1);
    assert_true(lh_resync_restart(alone));
    assert_int_equal(alone->standing, 40);
    assert_int_equal(alone->written, 0);
    assert_false(lh_resync_restart(first));
    assert_int_equal(first->written, 0);
    assert_false(lh_resync_restart(any));
}

static void live_ones_are_listed_with_their_positions(void **state) {
    (void)state;
    struct lh_block_tables tables = LIST_HEAD_INITIALIZER(tables);
    lh_block_table one = {.number = 7, .is_live = true, .standing = 33}, ended = {.number = 8},
                   other = {.number = 9, .is_live = true, .standing = 1};
    lh_step_truncation list[2];
    assert_int_equal(lh_resync_list_live(&tables, list, 2), 0);
    LIST_INSERT_HEAD(&tables, &one, all);
    LIST_INSERT_HEAD(&tables, &ended, all);
    LIST_INSERT_HEAD(&tables, &other, all);
    assert_int_equal(lh_resync_list_live(&tables, list, 2), 2);
    assert_int_equal(list[0].sequence, 9);
    assert_int_equal(list[0].length, 1);
    assert_int_equal(list[1].sequence, 7);
    assert_int_equal(list[1].length, 33);
}

static void cached_ones_are_listed_with_their_blocks(void **state) {
    (void)state;
    lh_eviction eviction;
    lh_step_truncation list[2];
    lh_eviction_init(&eviction);
    assert_int_equal(lh_resync_list_cached(&eviction.cached, BLOCK, list, 2), 0);
    lh_block_table *older = block_table_ended(3), *newer = block_table_ended(5);
    lh_eviction_add(&eviction, older);
    lh_eviction_add(&eviction, newer);
    assert_int_equal(lh_resync_list_cached(&eviction.cached, BLOCK, list, 2), 2);
    assert_int_equal(list[0].sequence, newer->number);
    assert_int_equal(list[0].length, 80);
    assert_int_equal(list[1].sequence, older->number);
    assert_int_equal(list[1].length, 48);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(it_goes_on_from_what_is_written),
        TEST(what_others_share_is_written),
        TEST(only_unshared_tables_begin_anew),
        TEST(live_ones_are_listed_with_their_positions),
        TEST(cached_ones_are_listed_with_their_blocks),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
