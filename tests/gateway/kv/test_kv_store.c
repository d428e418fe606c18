/* Who holds which blocks, step by step: what is shared, kept and given up, and in which class of
 * steps truncations go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/block_table.h"
#include "gateway/kv/kv_store.h"
#include "tests/support/failing_malloc.h"

#include <malloc.h>

enum { BLOCK = 16, BLOCKS = 20 };

static lh_kv_store *store;
static uint32_t tokens[BLOCK * BLOCKS];

static void open_store(bool keeps_prefixes, uint32_t cached_max) {
    const lh_kv_store_options options = {keeps_prefixes, cached_max};
    const lh_kv_ledger chain = {.stage_count = 2, .stages = {{16, BLOCKS}, {8, 2 * BLOCKS + 1}}};
    lh_kv_store_destroy(store);
    assert_int_equal(lh_kv_store_create(&options, &store, NULL), LH_OK);
    lh_kv_store_reset(store, &chain);
}

static int set_up(void **state) {
    (void)state;
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = i;
    open_store(true, 100);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_kv_store_destroy(store);
    store = NULL;
    return 0;
}

static void assert_blocks(uint64_t live, uint64_t cached, uint64_t returning) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(store);
    assert_int_equal(ledger->blocks_live, live);
    assert_int_equal(ledger->blocks_cached, cached);
    assert_int_equal(ledger->blocks_returning, returning);
    assert_int_equal(lh_kv_ledger_blocks_free(ledger), BLOCKS - live - cached - returning);
}

static lh_block_table *begin(uint64_t number, uint32_t length) {
    lh_block_table *block_table =
        lh_kv_store_begin(store, number, (lh_prefix_scope){1, 0}, tokens, length, true, 0);
    assert_non_null(block_table);
    return block_table;
}

/* A step with rows up to there goes around. */
static void send(lh_block_table *block_table, uint32_t positions, lh_step_class step_class) {
    lh_block_table *source = lh_kv_store_send(store, block_table, tokens, positions, step_class);
    lh_kv_store_pass(block_table, source, positions, step_class);
    lh_kv_store_land(block_table, source, true, step_class);
}

static lh_block_table *computed(uint64_t number, uint32_t length) {
    lh_block_table *block_table = begin(number, length);
    send(block_table, length, LH_STEP_PREFILL);
    return block_table;
}

/* Of its positions so many are surely written. */
static void end(lh_block_table *block_table, uint32_t written) {
    block_table->written = written;
    lh_kv_store_free(store, block_table);
}

/* The one truncation that may go now. */
static lh_block_table *truncation(lh_step_class step_class, uint64_t number, uint32_t keep) {
    lh_step_truncation sent;
    lh_block_table *block_table;
    assert_true(lh_kv_store_next_truncation(store, step_class, &sent, &block_table));
    assert_int_equal(sent.sequence, number);
    assert_int_equal(sent.length, keep);
    return block_table;
}

static void assert_no_truncation(lh_step_class step_class) {
    lh_step_truncation sent;
    lh_block_table *block_table;
    assert_false(lh_kv_store_next_truncation(store, step_class, &sent, &block_table));
}

static void blocks_come_as_positions_do(void **state) {
    (void)state;
    lh_block_table *block_table = begin(5, 17);
    assert_int_equal(lh_block_table_number(block_table), 5);
    assert_blocks(2, 0, 0);
    assert_true(lh_kv_store_grow(store, block_table, 32));
    assert_blocks(2, 0, 0);
    assert_true(lh_kv_store_grow(store, block_table, 33));
    assert_int_equal(lh_block_table_blocks(block_table), 3);
    assert_true(lh_kv_store_grow(store, block_table, BLOCK * BLOCKS));
    assert_false(lh_kv_store_grow(store, block_table, BLOCK * BLOCKS + 1));
    assert_null(lh_kv_store_begin(store, 6, (lh_prefix_scope){1, 0}, tokens, 1, true, 0));
    end(block_table, 0); /* no worker has heard of it */
    assert_no_truncation(LH_STEP_PREFILL);
    assert_blocks(0, 0, 0);
}

static void some_are_left_to_spare(void **state) {
    (void)state;
    begin(1, 10 * BLOCK);
    assert_null(lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 8 * BLOCK, true, 3));
    assert_non_null(
        lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 7 * BLOCK, true, 3));
}

/* What is not a whole block, and what is not known to be computed, goes at once. */
static void what_is_left_is_cached_and_shared(void **state) {
    (void)state;
    lh_block_table *first = computed(1, 40);
    lh_kv_store_free(store, first);
    assert_blocks(0, 2, 1);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 1, 32));
    assert_blocks(0, 2, 0);
    lh_block_table *second = begin(2, 50);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
    assert_blocks(4, 0, 0);
    lh_block_table *source = lh_kv_store_send(store, second, tokens, 50, LH_STEP_PREFILL);
    assert_ptr_equal(source, first);
    /* It has all that the first one has, which goes: behind the fork, in a prefill step. */
    assert_no_truncation(LH_STEP_DECODE);
    assert_ptr_equal(truncation(LH_STEP_PREFILL, 1, 0), first);
    lh_kv_store_pass(second, source, 50, LH_STEP_PREFILL);
    lh_kv_store_land(second, source, true, LH_STEP_PREFILL);
    lh_kv_store_finish_truncation(store, first);
    assert_blocks(4, 0, 0);
    lh_kv_store_free(store, second);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 2, 48));
    assert_blocks(0, 3, 0);
    lh_kv_store_figures figures = lh_kv_store_current_figures(store);
    assert_int_equal(figures.forks, 1);
    assert_int_equal(figures.shared_positions, 32);
    assert_int_equal(figures.cached, 1);
    assert_int_equal(figures.truncating, 0);
}

static void the_last_token_is_computed(void **state) {
    (void)state;
    lh_block_table *first = computed(1, 48);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(2, 48)), 32);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(3, 49)), 48);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(4, 16)), 0);
    assert_non_null(first);
}

/* A live one, in the midst of its prompt; what is not sent is not shared yet, but is when it has
 * been. */
static void what_is_sent_is_shared(void **state) {
    (void)state;
    lh_block_table *first = begin(1, 100), *second = begin(2, 100);
    assert_blocks(14, 0, 0);
    send(first, 40, LH_STEP_PREFILL);
    lh_kv_store_share_more(store, second, tokens, 100);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
    assert_blocks(12, 0, 0);
    send(first, 100, LH_STEP_PREFILL);
    lh_kv_store_share_more(store, second, tokens, 100);
    lh_kv_store_share_more(store, second, tokens, 100);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 96);
    assert_blocks(8, 0, 0);
    assert_true(lh_block_table_is_pinned(first));
    end(first, 0); /* cancelled: what the other one counts on stays */
    assert_ptr_equal(truncation(LH_STEP_DECODE, 1, 96), first);
    lh_kv_store_finish_truncation(store, first);
    assert_ptr_equal(lh_kv_store_send(store, second, tokens, 100, LH_STEP_PREFILL), first);
    assert_false(lh_block_table_is_pinned(first));
}

static void tenants_are_apart(void **state) {
    (void)state;
    computed(1, 100);
    lh_block_table *other =
        lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 100, true, 0);
    assert_int_equal(lh_kv_store_shared_positions(store, other), 0);
}

/* Its rows in a prefill step that is under way must come first. */
static void a_truncation_waits_for_prefill_steps(void **state) {
    (void)state;
    lh_block_table *block_table = begin(1, 20);
    lh_kv_store_send(store, block_table, tokens, 20, LH_STEP_PREFILL);
    end(block_table, 0);
    assert_no_truncation(LH_STEP_DECODE);
    assert_ptr_equal(truncation(LH_STEP_PREFILL, 1, 0), block_table);
    lh_kv_store_land(block_table, NULL, false, LH_STEP_PREFILL); /* it was cancelled */
    assert_blocks(0, 0, 2);
    lh_kv_store_finish_truncation(store, block_table);
    assert_blocks(0, 0, 0);
}

static lh_block_table *cached(uint64_t number, uint32_t first_token, uint32_t blocks) {
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = first_token + i;
    lh_block_table *block_table = computed(number, blocks * BLOCK);
    lh_kv_store_free(store, block_table);
    return block_table;
}

/* From its end, a few at once; and the next one when it is used up. */
static void the_oldest_is_given_up_first(void **state) {
    (void)state;
    cached(1, 1000, 9);
    cached(2, 2000, 9);
    assert_blocks(0, 18, 0);
    lh_kv_store_make_room(store, 2);
    assert_no_truncation(LH_STEP_PREFILL);
    lh_kv_store_make_room(store, 3);
    assert_blocks(0, 10, 8);
    lh_kv_store_make_room(store, 10);
    assert_blocks(0, 10, 8);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 1, BLOCK));
    assert_blocks(0, 10, 0);
    lh_kv_store_make_room(store, 19);
    assert_blocks(0, 1, 9);
    lh_block_table *oldest = truncation(LH_STEP_DECODE, 1, 0);
    lh_kv_store_make_room(store, 100); /* one that is still to be sent takes more along */
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 2, 0));
    lh_kv_store_finish_truncation(store, oldest);
    assert_blocks(0, 0, 0);
    assert_int_equal(lh_kv_store_current_figures(store).evicted_blocks, 18);
}

/* Making room for a prompt takes its own prefix last. */
static void who_is_needed_stays(void **state) {
    (void)state;
    lh_block_table *needed = cached(1, 1000, 9);
    cached(2, 2000, 9);
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = 1000 + i;
    assert_null(lh_kv_store_begin(store, 3, (lh_prefix_scope){1, 0}, tokens, 15 * BLOCK, true, 0));
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 2, BLOCK));
    lh_block_table *block_table = begin(3, 15 * BLOCK);
    assert_int_equal(lh_kv_store_shared_positions(store, block_table), 9 * BLOCK);
    lh_kv_store_make_room(store, BLOCKS); /* pinned */
    assert_true(lh_block_table_is_pinned(needed));
    truncation(LH_STEP_DECODE, 2, 0);
    assert_no_truncation(LH_STEP_PREFILL);
}

static void there_are_not_more_than_so_many(void **state) {
    (void)state;
    open_store(true, 2);
    cached(1, 1000, 1);
    cached(2, 2000, 1);
    cached(3, 3000, 1);
    assert_int_equal(lh_kv_store_current_figures(store).cached, 2);
    truncation(LH_STEP_DECODE, 1, 0);
}

static void without_prefixes_nothing_stays(void **state) {
    (void)state;
    open_store(false, 100);
    lh_block_table *block_table = cached(1, 1000, 3);
    assert_blocks(0, 0, 3);
    assert_ptr_equal(truncation(LH_STEP_DECODE, 1, 0), block_table);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(2, 3 * BLOCK)), 0);
}

static void a_new_chain_begins_empty(void **state) {
    (void)state;
    cached(1, 1000, 5);
    begin(2, 100);
    uint64_t revision = lh_kv_store_revision(store);
    lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 1, .stages = {{64, 5}}});
    assert_true(lh_kv_store_revision(store) != revision);
    assert_int_equal(lh_kv_ledger_blocks_free(lh_kv_store_ledger(store)), 5);
    assert_no_truncation(LH_STEP_PREFILL);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(1, 100)), 0);
    lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 0});
}

/* Of what was under way nothing counts: who had computed nothing is gone, the others are cut back,
 * on both sides alike. */
static void a_broken_chain_leaves_what_is_surely_there(void **state) {
    (void)state;
    lh_block_table *sound = computed(1, 40), *unsound = begin(2, 20), *ended = computed(3, 100);
    end(ended, 100);
    lh_step_truncation on_its_way;
    lh_block_table *truncated;
    assert_true(lh_kv_store_next_truncation(store, LH_STEP_DECODE, &on_its_way, &truncated));
    assert_true(lh_kv_store_grow(store, sound, 50));
    lh_kv_store_send(store, sound, tokens, 50, LH_STEP_PREFILL);
    lh_block_table *source = lh_kv_store_send(store, unsound, tokens, 20, LH_STEP_PREFILL);
    lh_kv_store_land(sound, NULL, false, LH_STEP_PREFILL);
    lh_kv_store_land(unsound, source, false, LH_STEP_PREFILL);
    lh_kv_store_break(store);
    assert_true(lh_block_table_is_sound(sound));
    assert_false(lh_block_table_is_sound(unsound));
    end(unsound, 0);
    assert_true(lh_kv_store_resume(store, sound, 51));
    assert_int_equal(sound->written, 40);
    assert_int_equal(lh_block_table_blocks(sound), 4);
    lh_step_truncation resync[4];
    assert_int_equal(lh_kv_store_resync(store, resync, 4), 2);
    assert_int_equal(resync[0].sequence, 1);
    assert_int_equal(resync[0].length, 40);
    assert_int_equal(resync[1].sequence, 3);
    assert_int_equal(resync[1].length, 96);
    assert_no_truncation(LH_STEP_PREFILL);
    /* 2 are shared */
    assert_int_equal(lh_kv_ledger_blocks_free(lh_kv_store_ledger(store)), BLOCKS - 8);
    assert_true(lh_kv_store_grow(store, sound, 50));
    lh_kv_store_send(store, sound, tokens, 50, LH_STEP_PREFILL);
}

/* What others share is written, whatever its own steps have told; but the last token is to be
 * computed. */
static void what_others_share_is_not_cut(void **state) {
    (void)state;
    for (uint32_t length = 32; length <= 33; length++) {
        open_store(true, 100);
        lh_block_table *first = begin(1, 40);
        send(first, 8, LH_STEP_PREFILL);
        lh_kv_store_send(store, first, tokens, 40, LH_STEP_PREFILL);
        lh_block_table *second = begin(2, 60);
        assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
        send(second, 60, LH_STEP_PREFILL);
        lh_kv_store_land(first, NULL, false, LH_STEP_PREFILL);
        lh_kv_store_break(store);
        assert_int_equal(lh_kv_store_resume(store, first, length), length == 33);
        if (length == 33)
            assert_int_equal(first->written, 32);
    }
}

static void a_long_resync_leaves_out_what_was_used_least_recently(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        lh_block_table *block_table =
            lh_kv_store_begin(store, i, (lh_prefix_scope){i, 0}, tokens, 32, true, 0);
        send(block_table, 32, LH_STEP_PREFILL);
        end(block_table, 32);
    }
    lh_block_table *live =
        lh_kv_store_begin(store, 9, (lh_prefix_scope){9, 0}, tokens, 10, true, 0);
    send(live, 10, LH_STEP_PREFILL);
    lh_step_truncation resync[3];
    lh_kv_store_break(store);
    assert_true(lh_kv_store_resume(store, live, 11));
    assert_int_equal(lh_kv_store_resync(store, resync, 3), 3);
    assert_int_equal(resync[0].sequence, 9);
    assert_int_equal(resync[1].sequence, 3);
    assert_int_equal(resync[2].sequence, 2);
    assert_blocks(1, 4, 0);
}

/* Only the last stages have it: it stands there, and is written anew; not so what shares blocks. */
static void a_block_table_begins_anew_before_a_stage_that_has_it(void **state) {
    (void)state;
    lh_block_table *first = computed(1, 40), *second = computed(2, 60), *other = computed(3, 20);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
    assert_int_equal(lh_kv_store_shared_positions(store, other), 16);
    end(other, 20);
    lh_kv_store_break(store);
    lh_kv_store_drop_cached(store);
    const lh_kv_ledger fewer = {.stage_count = 2, .stages = {{16, 5}, {8, 2 * BLOCKS}}},
                       others = {.stage_count = 2, .stages = {{16, BLOCKS}, {32, BLOCKS}}},
                       fitting = {.stage_count = 3, .stages = {{16, 6}, {8, 12}, {4, 400}}};
    /* 3 and 4, of which 2 are shared */
    assert_int_equal(lh_kv_store_ledger(store)->blocks_live, 5);
    assert_true(lh_kv_store_move_to(store, &fewer));
    assert_false(lh_kv_store_move_to(store, &others));
    assert_true(lh_kv_store_move_to(store, &fitting));
    assert_int_equal(lh_kv_store_ledger(store)->blocks_total, 6);
    assert_false(lh_kv_store_restart(store, first));
    lh_kv_store_free(store, first);
    assert_true(lh_kv_store_restart(store, second));
    assert_int_equal(second->standing, 60);
    assert_int_equal(second->written, 0);
    lh_step_truncation resync[4];
    assert_int_equal(lh_kv_store_resync(store, resync, 4), 1);
    assert_int_equal(resync[0].sequence, 2);
    assert_int_equal(resync[0].length, 60);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 0);
    send(second, 40, LH_STEP_PREFILL);
    assert_int_equal(second->written, 40);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 32);
}

/* The first fork counts on five blocks of a sequence that is cancelled, whatever the second one
 * takes of it. */
static void a_second_shorter_fork_unpins_nothing(void **state) {
    (void)state;
    lh_block_table *source = computed(1, 6 * BLOCK), *longer = begin(2, 5 * BLOCK + 1),
                   *shorter = begin(3, 2 * BLOCK + 1);
    assert_int_equal(lh_kv_store_shared_positions(store, longer), 5 * BLOCK);
    assert_int_equal(lh_kv_store_shared_positions(store, shorter), 2 * BLOCK);
    end(source, 0);
    assert_ptr_equal(truncation(LH_STEP_DECODE, 1, 5 * BLOCK), source);
    lh_kv_store_finish_truncation(store, source);
    send(shorter, 2 * BLOCK + 1, LH_STEP_PREFILL);
    assert_true(lh_block_table_is_pinned(source));
    lh_kv_store_make_room(store, BLOCKS);
    assert_no_truncation(LH_STEP_PREFILL);
    assert_ptr_equal(lh_kv_store_send(store, longer, tokens, 5 * BLOCK, LH_STEP_PREFILL), source);
    assert_false(lh_block_table_is_pinned(source));
}

/* It ends before its whole prompt is written, and another one has what it has written. */
static void only_what_nobody_else_has_is_cached(void **state) {
    (void)state;
    lh_block_table *first = computed(1, 100), *second = begin(2, 100);
    send(second, 100, LH_STEP_PREFILL);
    end(second, 70);
    assert_int_equal(lh_kv_store_current_figures(store).cached, 0);
    assert_int_equal(lh_kv_store_current_figures(store).ending, 1);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 2, 0));
    assert_int_equal(lh_kv_store_current_figures(store).ending, 0);
    end(first, 70);
    assert_int_equal(lh_kv_store_current_figures(store).cached, 1);
    assert_int_equal(lh_kv_store_current_figures(store).ending, 1);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 1, 64));
    assert_blocks(0, 4, 0);
    lh_kv_store_make_room(store, BLOCKS); /* it had ended long before */
    assert_int_equal(lh_kv_store_current_figures(store).ending, 0);
    assert_int_equal(lh_kv_store_current_figures(store).truncating, 1);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 1, 0));
    assert_int_equal(lh_kv_store_current_figures(store).ending, 0);
    assert_int_equal(lh_kv_store_current_figures(store).truncating, 0);
}

static bool is_revised(void) {
    static uint64_t before;
    bool is_new = lh_kv_store_revision(store) != before;
    before = lh_kv_store_revision(store);
    return is_new;
}

/* Whoever was refused blocks tries again only then. */
static void the_revision_changes_with_what_may_help(void **state) {
    (void)state;
    assert_true(is_revised());
    lh_block_table *first = begin(1, 50), *second = begin(2, 50), *third = begin(3, 50);
    assert_false(is_revised());
    send(first, 10, LH_STEP_PREFILL);
    assert_false(is_revised());
    send(first, 50, LH_STEP_PREFILL); /* whole blocks may be shared */
    assert_true(is_revised());
    lh_kv_store_share_more(store, second, tokens, 50); /* blocks are free */
    assert_true(is_revised());
    lh_kv_store_share_more(store, second, tokens, 50);
    assert_false(is_revised());
    end(third, 0);
    assert_true(is_revised());
    end(first, 50);
    assert_true(is_revised());
    lh_block_table *truncated = truncation(LH_STEP_DECODE, 1, 48);
    assert_false(is_revised());
    lh_kv_store_finish_truncation(store, truncated);
    assert_true(is_revised());
    end(second, 0);
    assert_true(is_revised());
    lh_kv_store_break(store);
    assert_true(is_revised());
}

/* Whatever is short: no block is lost, and nothing stays pinned. */
static void without_memory_nothing_is_held(void **state) {
    (void)state;
    lh_block_table *first = computed(1, 40);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_block_table *table =
            lh_kv_store_begin(store, n + 1, (lh_prefix_scope){1, 0}, tokens, 100, true, 0);
        if (!failing_malloc_disarm()) {
            assert_non_null(table);
            assert_true(n > 3);
            break;
        }
        assert_null(table);
        assert_blocks(3, 0, 0);
        assert_false(lh_block_table_is_pinned(first));
    }
    assert_blocks(8, 0, 0);
    lh_kv_store *other;
    for (size_t n = 1; n <= 3; n++) {
        failing_malloc_arm(n);
        assert_int_equal(lh_kv_store_create(&(lh_kv_store_options){true, 1}, &other, NULL),
                         LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
    }
}

static void without_a_chain_nothing_is_shared(void **state) {
    (void)state;
    computed(1, 40);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 40), 32);
    lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 0});
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 40), 0);
}

/* What a live one has sent, but not surely written, is found by nobody; what was pinned of a cached
 * one before it was written goes; and what was on its way to be truncated is truncated. */
static void a_break_hides_what_is_not_written(void **state) {
    (void)state;
    lh_block_table *live = begin(1, 60), *ended = begin(2, 40);
    send(live, 20, LH_STEP_PREFILL);
    lh_kv_store_send(store, live, tokens, 60, LH_STEP_PREFILL);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 48);
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = 1000 + i;
    lh_kv_store_send(store, ended, tokens, 40, LH_STEP_PREFILL);
    lh_block_table *fork = begin(3, 40);
    end(ended, 0); /* the fork has it pinned */
    assert_int_equal(lh_kv_store_current_figures(store).cached, 1);
    end(fork, 0);
    lh_kv_store_land(ended, NULL, false, LH_STEP_PREFILL);
    lh_kv_store_land(live, NULL, false, LH_STEP_PREFILL);
    lh_kv_store_break(store);
    assert_int_equal(lh_kv_store_current_figures(store).cached, 0);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 40), 0);
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = i;
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 16);
    assert_blocks(4, 0, 3);
    assert_true(lh_kv_store_resume(store, live, 60));
    assert_blocks(4, 0, 0);
    assert_int_equal(live->standing, 20);
}

/* One that has ended still holds its blocks, until its truncation is through: so what it shared
 * seems shared, if that is not gone first. */
static void what_was_to_be_truncated_is_gone_before_the_others_go_on(void **state) {
    (void)state;
    for (int restarts = 0; restarts <= 1; restarts++) {
        open_store(true, 100);
        lh_block_table *first = begin(1, 60), *second;
        send(first, 8, LH_STEP_PREFILL);
        lh_kv_store_send(store, first, tokens, 48, LH_STEP_PREFILL);
        second = begin(2, 60);
        lh_block_table *source = lh_kv_store_send(store, second, tokens, 60, LH_STEP_PREFILL);
        lh_kv_store_land(first, NULL, false, LH_STEP_PREFILL);
        lh_kv_store_land(second, source, false, LH_STEP_PREFILL);
        lh_kv_store_break(store);
        end(second, 0);
        if (restarts)
            assert_true(lh_kv_store_restart(store, first));
        else
            assert_true(lh_kv_store_resume(store, first, 20));
        assert_int_equal(first->standing, 8);
        assert_blocks(4, 0, 0);
    }
}

/* Where a stage is new, what the others have is of no use alone. */
static void what_is_cached_may_be_dropped(void **state) {
    (void)state;
    end(computed(1, 40), 40);
    assert_blocks(0, 2, 1);
    lh_kv_store_finish_truncation(store, truncation(LH_STEP_PREFILL, 1, 32));
    lh_kv_store_break(store);
    lh_kv_store_drop_cached(store);
    assert_blocks(0, 0, 0);
    assert_no_truncation(LH_STEP_PREFILL);
}

/* Truncations that were under way are not any more. */
static void a_new_chain_has_nothing_to_truncate(void **state) {
    (void)state;
    end(computed(1, 40), 40);
    end(computed(2, 40), 0);
    truncation(LH_STEP_PREFILL, 1, 32);
    lh_kv_store_figures figures = lh_kv_store_current_figures(store);
    assert_int_equal(figures.truncating, 2);
    assert_int_equal(figures.ending, 2);
    lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 1, .stages = {{16, BLOCKS}}});
    figures = lh_kv_store_current_figures(store);
    assert_int_equal(figures.truncating + figures.ending + figures.cached, 0);
    assert_no_truncation(LH_STEP_PREFILL);
}

/* Tables that run, that are cached, that are freed; blocks that are for reuse; and all of it gone
 * with the store, or with its chain. */
static void fill_and_drop(void) {
    open_store(true, 100);
    for (int resets = 0; resets <= 1; resets++) {
        cached(1, 1000, 9);
        cached(2, 2000, 3);
        lh_kv_store_make_room(store, BLOCKS);
        lh_kv_store_finish_truncation(store, truncation(LH_STEP_DECODE, 1, 0));
        begin(3, 100);
        lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 1, .stages = {{16, BLOCKS}}});
    }
    lh_kv_store_destroy(store);
    store = NULL;
}

/* Without sanitizers, too; there it counts nothing. */
static void all_memory_is_given_back(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) /* what the C library keeps for reuse */
        fill_and_drop();
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 10; i++)
        fill_and_drop();
    assert_int_equal(mallinfo2().uordblks, before);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(blocks_come_as_positions_do),
        TEST(a_second_shorter_fork_unpins_nothing),
        TEST(only_what_nobody_else_has_is_cached),
        TEST(the_revision_changes_with_what_may_help),
        TEST(without_memory_nothing_is_held),
        TEST(without_a_chain_nothing_is_shared),
        TEST(a_break_hides_what_is_not_written),
        TEST(what_was_to_be_truncated_is_gone_before_the_others_go_on),
        TEST(some_are_left_to_spare),
        TEST(what_is_left_is_cached_and_shared),
        TEST(a_long_resync_leaves_out_what_was_used_least_recently),
        TEST(what_others_share_is_not_cut),
        TEST(a_broken_chain_leaves_what_is_surely_there),
        TEST(the_last_token_is_computed),
        TEST(what_is_sent_is_shared),
        TEST(tenants_are_apart),
        TEST(a_truncation_waits_for_prefill_steps),
        TEST(the_oldest_is_given_up_first),
        TEST(who_is_needed_stays),
        TEST(there_are_not_more_than_so_many),
        TEST(without_prefixes_nothing_stays),
        TEST(a_new_chain_begins_empty),
        TEST(a_block_table_begins_anew_before_a_stage_that_has_it),
        TEST(what_is_cached_may_be_dropped),
        TEST(a_new_chain_has_nothing_to_truncate),
        TEST(all_memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
