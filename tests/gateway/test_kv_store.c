/* Who holds which blocks, step by step: what is shared, kept and given up, and in which class of steps releases go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/kv_store.h"

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

static lh_kv_holding *begin(uint64_t number, uint32_t length) {
    lh_kv_holding *holding = lh_kv_store_begin(store, number, (lh_prefix_scope){1, 0}, tokens, length, 0);
    assert_non_null(holding);
    return holding;
}

/* A step with rows up to there goes around. */
static void send(lh_kv_holding *holding, uint32_t positions, lh_step_class step_class) {
    lh_kv_holding *source = lh_kv_store_send(store, holding, tokens, positions, step_class);
    lh_kv_store_pass(store, holding, source, positions, step_class);
    lh_kv_store_land(store, holding, source, true, step_class);
}

static lh_kv_holding *computed(uint64_t number, uint32_t length) {
    lh_kv_holding *holding = begin(number, length);
    send(holding, length, LH_STEP_PREFILL);
    return holding;
}

/* The one release that may go now. */
static lh_kv_holding *release(lh_step_class step_class, uint64_t number, uint32_t keep) {
    lh_step_release sent;
    lh_kv_holding *holding;
    assert_true(lh_kv_store_next_release(store, step_class, &sent, &holding));
    assert_int_equal(sent.sequence, number);
    assert_int_equal(sent.keep, keep);
    return holding;
}

static void assert_no_release(lh_step_class step_class) {
    lh_step_release sent;
    lh_kv_holding *holding;
    assert_false(lh_kv_store_next_release(store, step_class, &sent, &holding));
}

static void blocks_come_as_positions_do(void **state) {
    (void)state;
    lh_kv_holding *holding = begin(5, 17);
    assert_int_equal(lh_kv_holding_number(holding), 5);
    assert_blocks(2, 0, 0);
    assert_true(lh_kv_store_grow(store, holding, 32));
    assert_blocks(2, 0, 0);
    assert_true(lh_kv_store_grow(store, holding, 33));
    assert_int_equal(lh_kv_holding_blocks(holding), 3);
    assert_true(lh_kv_store_grow(store, holding, BLOCK * BLOCKS));
    assert_false(lh_kv_store_grow(store, holding, BLOCK * BLOCKS + 1));
    assert_null(lh_kv_store_begin(store, 6, (lh_prefix_scope){1, 0}, tokens, 1, 0));
    lh_kv_store_leave(store, holding, 0); /* no worker has heard of it */
    assert_no_release(LH_STEP_PREFILL);
    assert_blocks(0, 0, 0);
}

static void some_are_left_to_spare(void **state) {
    (void)state;
    begin(1, 10 * BLOCK);
    assert_null(lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 8 * BLOCK, 3));
    assert_non_null(lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 7 * BLOCK, 3));
}

/* What is not a whole block, and what is not known to be computed, goes at once. */
static void what_is_left_is_cached_and_shared(void **state) {
    (void)state;
    lh_kv_holding *first = computed(1, 40);
    lh_kv_store_leave(store, first, lh_kv_holding_written(first));
    assert_blocks(0, 2, 1);
    lh_kv_store_released(store, release(LH_STEP_DECODE, 1, 32));
    assert_blocks(0, 2, 0);
    lh_kv_holding *second = begin(2, 50);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
    assert_blocks(4, 0, 0);
    lh_kv_holding *source = lh_kv_store_send(store, second, tokens, 50, LH_STEP_PREFILL);
    assert_ptr_equal(source, first);
    /* It has all that the first one has, which goes: behind the fork, in a prefill step. */
    assert_no_release(LH_STEP_DECODE);
    assert_ptr_equal(release(LH_STEP_PREFILL, 1, 0), first);
    lh_kv_store_pass(store, second, source, 50, LH_STEP_PREFILL);
    lh_kv_store_land(store, second, source, true, LH_STEP_PREFILL);
    lh_kv_store_released(store, first);
    assert_blocks(4, 0, 0);
    lh_kv_store_leave(store, second, lh_kv_holding_written(second));
    lh_kv_store_released(store, release(LH_STEP_DECODE, 2, 48));
    assert_blocks(0, 3, 0);
    lh_kv_store_figures figures = lh_kv_store_current_figures(store);
    assert_int_equal(figures.forks, 1);
    assert_int_equal(figures.shared_positions, 32);
    assert_int_equal(figures.cached, 1);
    assert_int_equal(figures.releasing, 0);
}

static void the_last_token_is_computed(void **state) {
    (void)state;
    lh_kv_holding *first = computed(1, 48);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(2, 48)), 32);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(3, 49)), 48);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(4, 16)), 0);
    assert_non_null(first);
}

/* A live one, in the midst of its prompt; what is not sent is not shared yet, but is when it has been. */
static void what_is_sent_is_shared(void **state) {
    (void)state;
    lh_kv_holding *first = begin(1, 100), *second = begin(2, 100);
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
    assert_true(lh_kv_holding_is_pinned(first));
    lh_kv_store_leave(store, first, 0); /* cancelled: what the other one counts on stays */
    assert_ptr_equal(release(LH_STEP_DECODE, 1, 96), first);
    lh_kv_store_released(store, first);
    assert_ptr_equal(lh_kv_store_send(store, second, tokens, 100, LH_STEP_PREFILL), first);
    assert_false(lh_kv_holding_is_pinned(first));
}

static void tenants_are_apart(void **state) {
    (void)state;
    computed(1, 100);
    lh_kv_holding *other = lh_kv_store_begin(store, 2, (lh_prefix_scope){2, 0}, tokens, 100, 0);
    assert_int_equal(lh_kv_store_shared_positions(store, other), 0);
}

/* Its rows in a prefill step that is under way must come first. */
static void a_release_waits_for_prefill_steps(void **state) {
    (void)state;
    lh_kv_holding *holding = begin(1, 20);
    lh_kv_store_send(store, holding, tokens, 20, LH_STEP_PREFILL);
    lh_kv_store_leave(store, holding, 0);
    assert_no_release(LH_STEP_DECODE);
    assert_ptr_equal(release(LH_STEP_PREFILL, 1, 0), holding);
    lh_kv_store_land(store, holding, NULL, false, LH_STEP_PREFILL); /* it was cancelled */
    assert_blocks(0, 0, 2);
    lh_kv_store_released(store, holding);
    assert_blocks(0, 0, 0);
}

static lh_kv_holding *cached(uint64_t number, uint32_t first_token, uint32_t blocks) {
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = first_token + i;
    lh_kv_holding *holding = computed(number, blocks * BLOCK);
    lh_kv_store_leave(store, holding, lh_kv_holding_written(holding));
    return holding;
}

/* From its end, a few at once; and the next one when it is used up. */
static void the_oldest_is_given_up_first(void **state) {
    (void)state;
    cached(1, 1000, 9);
    cached(2, 2000, 9);
    assert_blocks(0, 18, 0);
    lh_kv_store_make_room(store, 2);
    assert_no_release(LH_STEP_PREFILL);
    lh_kv_store_make_room(store, 3);
    assert_blocks(0, 10, 8);
    lh_kv_store_make_room(store, 10);
    assert_blocks(0, 10, 8);
    lh_kv_store_released(store, release(LH_STEP_DECODE, 1, BLOCK));
    assert_blocks(0, 10, 0);
    lh_kv_store_make_room(store, 19);
    assert_blocks(0, 1, 9);
    lh_kv_holding *oldest = release(LH_STEP_DECODE, 1, 0);
    lh_kv_store_make_room(store, 100); /* one that is still to be sent takes more along */
    lh_kv_store_released(store, release(LH_STEP_DECODE, 2, 0));
    lh_kv_store_released(store, oldest);
    assert_blocks(0, 0, 0);
    assert_int_equal(lh_kv_store_current_figures(store).evicted_blocks, 18);
}

/* Making room for a prompt takes its own prefix last. */
static void who_is_needed_stays(void **state) {
    (void)state;
    lh_kv_holding *needed = cached(1, 1000, 9);
    cached(2, 2000, 9);
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = 1000 + i;
    assert_null(lh_kv_store_begin(store, 3, (lh_prefix_scope){1, 0}, tokens, 15 * BLOCK, 0));
    lh_kv_store_released(store, release(LH_STEP_DECODE, 2, BLOCK));
    lh_kv_holding *holding = begin(3, 15 * BLOCK);
    assert_int_equal(lh_kv_store_shared_positions(store, holding), 9 * BLOCK);
    lh_kv_store_make_room(store, BLOCKS); /* pinned */
    assert_true(lh_kv_holding_is_pinned(needed));
    release(LH_STEP_DECODE, 2, 0);
    assert_no_release(LH_STEP_PREFILL);
}

static void there_are_not_more_than_so_many(void **state) {
    (void)state;
    open_store(true, 2);
    cached(1, 1000, 1);
    cached(2, 2000, 1);
    cached(3, 3000, 1);
    assert_int_equal(lh_kv_store_current_figures(store).cached, 2);
    release(LH_STEP_DECODE, 1, 0);
}

static void without_prefixes_nothing_stays(void **state) {
    (void)state;
    open_store(false, 100);
    lh_kv_holding *holding = cached(1, 1000, 3);
    assert_blocks(0, 0, 3);
    assert_ptr_equal(release(LH_STEP_DECODE, 1, 0), holding);
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
    assert_no_release(LH_STEP_PREFILL);
    assert_int_equal(lh_kv_store_shared_positions(store, begin(1, 100)), 0);
    lh_kv_store_reset(store, &(lh_kv_ledger){.stage_count = 0});
}

/* Of what was under way nothing counts: who had computed nothing is gone, the others are cut back, on both sides alike. */
static void a_broken_chain_leaves_what_is_surely_there(void **state) {
    (void)state;
    lh_kv_holding *sound = computed(1, 40), *unsound = begin(2, 20), *ended = computed(3, 100);
    lh_kv_store_leave(store, ended, 100);
    lh_step_release on_its_way;
    lh_kv_holding *releasing;
    assert_true(lh_kv_store_next_release(store, LH_STEP_DECODE, &on_its_way, &releasing));
    assert_true(lh_kv_store_grow(store, sound, 50));
    lh_kv_store_send(store, sound, tokens, 50, LH_STEP_PREFILL);
    lh_kv_holding *source = lh_kv_store_send(store, unsound, tokens, 20, LH_STEP_PREFILL);
    lh_kv_store_land(store, sound, NULL, false, LH_STEP_PREFILL);
    lh_kv_store_land(store, unsound, source, false, LH_STEP_PREFILL);
    lh_kv_store_break(store);
    assert_true(lh_kv_holding_is_sound(sound));
    assert_false(lh_kv_holding_is_sound(unsound));
    lh_kv_store_leave(store, unsound, 0);
    assert_true(lh_kv_store_resume(store, sound, 51));
    assert_int_equal(lh_kv_holding_written(sound), 40);
    assert_int_equal(lh_kv_holding_blocks(sound), 4);
    lh_step_release roll[4];
    assert_int_equal(lh_kv_store_call_roll(store, roll, 4), 2);
    assert_int_equal(roll[0].sequence, 1);
    assert_int_equal(roll[0].keep, 40);
    assert_int_equal(roll[1].sequence, 3);
    assert_int_equal(roll[1].keep, 96);
    assert_no_release(LH_STEP_PREFILL);
    assert_int_equal(lh_kv_ledger_blocks_free(lh_kv_store_ledger(store)), BLOCKS - 8); /* 2 are shared */
    assert_true(lh_kv_store_grow(store, sound, 50));
    lh_kv_store_send(store, sound, tokens, 50, LH_STEP_PREFILL);
}

/* What others share is written, whatever its own steps have told; but the last token is to be computed. */
static void what_others_share_is_not_cut(void **state) {
    (void)state;
    for (uint32_t length = 32; length <= 33; length++) {
        open_store(true, 100);
        lh_kv_holding *first = begin(1, 40);
        send(first, 8, LH_STEP_PREFILL);
        lh_kv_store_send(store, first, tokens, 40, LH_STEP_PREFILL);
        lh_kv_holding *second = begin(2, 60);
        assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
        send(second, 60, LH_STEP_PREFILL);
        lh_kv_store_land(store, first, NULL, false, LH_STEP_PREFILL);
        lh_kv_store_break(store);
        assert_int_equal(lh_kv_store_resume(store, first, length), length == 33);
        if (length == 33)
            assert_int_equal(lh_kv_holding_written(first), 32);
    }
}

static void a_long_roll_leaves_out_what_was_used_least_recently(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        lh_kv_holding *holding = lh_kv_store_begin(store, i, (lh_prefix_scope){i, 0}, tokens, 32, 0);
        send(holding, 32, LH_STEP_PREFILL);
        lh_kv_store_leave(store, holding, 32);
    }
    lh_step_release roll[2];
    lh_kv_store_break(store);
    assert_int_equal(lh_kv_store_call_roll(store, roll, 2), 2);
    assert_int_equal(roll[0].sequence, 3);
    assert_int_equal(roll[1].sequence, 2);
    assert_blocks(0, 4, 0);
}

/* Only the last stages have it: it stands there, and is written anew; not so what shares blocks. */
static void a_holding_begins_anew_before_a_stage_that_has_it(void **state) {
    (void)state;
    lh_kv_holding *first = computed(1, 40), *second = computed(2, 60), *other = computed(3, 20);
    assert_int_equal(lh_kv_store_shared_positions(store, second), 32);
    assert_int_equal(lh_kv_store_shared_positions(store, other), 16);
    lh_kv_store_leave(store, other, 20);
    lh_kv_store_break(store);
    lh_kv_store_drop_cached(store);
    const lh_kv_ledger fewer = {.stage_count = 2, .stages = {{16, 5}, {8, 2 * BLOCKS}}},
                       others = {.stage_count = 2, .stages = {{16, BLOCKS}, {32, BLOCKS}}},
                       fitting = {.stage_count = 3, .stages = {{16, 6}, {8, 12}, {4, 400}}};
    assert_int_equal(lh_kv_store_ledger(store)->blocks_live, 5); /* 3 and 4, of which 2 are shared */
    assert_true(lh_kv_store_move_to(store, &fewer));
    assert_false(lh_kv_store_move_to(store, &others));
    assert_true(lh_kv_store_move_to(store, &fitting));
    assert_int_equal(lh_kv_store_ledger(store)->blocks_total, 6);
    assert_false(lh_kv_store_restart(store, first));
    lh_kv_store_leave(store, first, lh_kv_holding_written(first));
    assert_true(lh_kv_store_restart(store, second));
    assert_int_equal(lh_kv_holding_standing(second), 60);
    assert_int_equal(lh_kv_holding_written(second), 0);
    lh_step_release roll[4];
    assert_int_equal(lh_kv_store_call_roll(store, roll, 4), 1);
    assert_int_equal(roll[0].sequence, 2);
    assert_int_equal(roll[0].keep, 60);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 0);
    send(second, 40, LH_STEP_PREFILL);
    assert_int_equal(lh_kv_holding_written(second), 40);
    assert_int_equal(lh_kv_store_cached_positions(store, (lh_prefix_scope){1, 0}, tokens, 60), 32);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(blocks_come_as_positions_do),
        TEST(some_are_left_to_spare),
        TEST(what_is_left_is_cached_and_shared),
        TEST(a_long_roll_leaves_out_what_was_used_least_recently),
        TEST(what_others_share_is_not_cut),
        TEST(a_broken_chain_leaves_what_is_surely_there),
        TEST(the_last_token_is_computed),
        TEST(what_is_sent_is_shared),
        TEST(tenants_are_apart),
        TEST(a_release_waits_for_prefill_steps),
        TEST(the_oldest_is_given_up_first),
        TEST(who_is_needed_stays),
        TEST(there_are_not_more_than_so_many),
        TEST(without_prefixes_nothing_stays),
        TEST(a_new_chain_begins_empty),
        TEST(a_holding_begins_anew_before_a_stage_that_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
