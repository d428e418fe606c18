/* A chain that is prepared while another one serves. Workers a and b serve two layers each under
 * epoch 7, ready since 0; c and d are spares. Reports do not age here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/chain_draft.h"
#include "gateway/fleet/handover.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <string.h>

#define DELAY_US (10000 * MS)
#define EPOCH    9 /* of the teams of a successor */

enum { A, B, C, D, WORKERS };

typedef struct bench {
    lh_fleet_options options;
    lh_handover handover;
    lh_link_avoidance avoidance;
    lh_live_planner planner;
    lh_registry *registry;
    lh_worker_report reports[WORKERS];
    lh_chain chain;
    lh_hop_trial_report first_trial;
    uint32_t sequences;
} bench;

static void put(bench *b, int worker) {
    register_report(b->registry, &b->reports[worker], 0);
}

static const char *const names[WORKERS] = {"a", "b", "c", "d"};

static void create_without_chain(bench *b) {
    *b = (bench){.options = fleet_of_four_layers(0), .chain = {.name = "main"}, .sequences = 1};
    lh_log_set_level(LH_LOG_ERROR);
    b->options.aim.stages = 2;
    b->options.wire.type = LH_WIRE_F16;
    b->options.rebalance_delay_us = DELAY_US;
    b->handover.options = &b->options;
    assert_int_equal(lh_registry_create(3000 * MS, &b->registry, NULL), LH_OK);
}

static void create(bench *b, int workers) {
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    create_without_chain(b);
    for (int i = 0; i < workers; i++) {
        b->reports[i] = report_of(names[i]);
        put(b, i);
    }
    const lh_worker *members[] = {lh_registry_at(b->registry, A), lh_registry_at(b->registry, B)};
    assert_int_equal(lh_chain_form(&b->chain, &plan, members, &b->options.origin, 7, 0, NULL),
                     LH_OK);
    lh_chain_note_ready(&b->chain, 0);
}

static void destroy(bench *b) {
    lh_registry_destroy(b->registry);
}

static lh_handover_view view_of(const bench *b) {
    return (lh_handover_view){&b->chain,       b->registry,  &b->avoidance,
                              &b->first_trial, b->sequences, &b->planner};
}

static lh_handover_decision review(bench *b, int64_t ms) {
    const lh_handover_view view = view_of(b);
    return lh_handover_review(&b->handover, &view, EPOCH, ms * MS);
}

static bool is_prepared(bench *b) {
    const lh_handover_view view = view_of(b);
    return lh_handover_is_prepared(&b->handover, &view, 2000 * MS);
}

static bool has_failed(bench *b, uint32_t stage) {
    const lh_handover_view view = view_of(b);
    return lh_handover_failed(&b->handover, &view, stage);
}

static const lh_chain_stage *task_of(const bench *b, const char *worker, bool *holds) {
    uint32_t member;
    int stage = lh_handover_task(&b->handover, &b->chain, worker, &member, holds);
    return stage < 0 ? NULL : &lh_handover_successor(&b->handover)->stages[stage];
}

static void leave(bench *b, int worker) {
    b->reports[worker].leaving = true;
    put(b, worker);
}

static void prepare(bench *b, int worker, uint32_t first_layer, uint32_t last_layer, bool holds) {
    b->reports[worker].prepared.state = LH_WORKER_READY;
    b->reports[worker].prepared.first_layer = first_layer;
    b->reports[worker].prepared.last_layer = last_layer;
    b->reports[worker].prepared.holds = holds;
    put(b, worker);
}

/* How the trials of these hops of the successor stand now, and what comes of it. */
static lh_handover_decision say(bench *b, uint32_t hop, lh_hop_trial_state state, int64_t ms) {
    const lh_chain *next = lh_handover_successor(&b->handover);
    assert_non_null(next);
    lh_hop_trial_report trial = trial_of_hop(next, hop, state);
    if (hop == 0) {
        b->first_trial = trial;
    } else {
        int worker = next->stages[hop - 1].name[0] - 'a';
        b->reports[worker].trial = trial;
        put(b, worker);
    }
    return review(b, ms);
}

static void prove(bench *b, int64_t ms) {
    for (uint32_t hop = 0; hop <= lh_handover_successor(&b->handover)->stage_count; hop++)
        say(b, hop, LH_HOP_TRIAL_PROVEN, ms);
}

static int failed_hop(bench *b, int64_t ms) {
    const lh_handover_view view = view_of(b);
    return lh_handover_failed_hop(&b->handover, &view, ms * MS);
}

static int trial_of(bench *b, const char *worker) {
    const lh_handover_view view = view_of(b);
    return lh_handover_trial(&b->handover, &view, worker);
}

/* b leaves; c is to have its layers. */
static void create_untried(bench *b) {
    create(b, 3);
    leave(b, B);
    assert_int_equal(review(b, 1000), LH_HANDOVER_WAIT);
    assert_non_null(lh_handover_successor(&b->handover));
}

static void create_leaving(bench *b) {
    create_untried(b);
    prove(b, 1000);
}

/* ---- Its hops are tried ---- */

/* a's hop leads to c now, and c's to the gateway; the gateway's own leads to a as before. */
static void nobody_prepares_before_every_new_hop_is_proven(void **state) {
    (void)state;
    bench b;
    bool holds;
    create_untried(&b);
    const lh_handover_view view = view_of(&b);
    assert_int_equal(trial_of(&b, "a"), 0);
    assert_int_equal(trial_of(&b, "c"), 1);
    assert_int_equal(trial_of(&b, "b"), -1);
    assert_false(lh_handover_tries_first(&b.handover, &view));
    assert_false(lh_handover_tries_first(&(lh_handover){.cause = LH_HANDOVER_NONE}, &view));
    assert_null(task_of(&b, "c", &holds));
    say(&b, 1, LH_HOP_TRIAL_PROVEN, 1100);
    say(&b, 2, LH_HOP_TRIAL_RUNNING, 1100);
    assert_null(task_of(&b, "c", &holds));
    prepare(&b, C, 2, 4, true); /* as it may have from before */
    assert_false(is_prepared(&b));
    assert_int_equal(say(&b, 2, LH_HOP_TRIAL_PROVEN, 1200), LH_HANDOVER_TAKE_OVER);
    assert_non_null(task_of(&b, "c", &holds));
    destroy(&b);
}

static void the_gateways_hop_is_tried_where_another_worker_is_first(void **state) {
    (void)state;
    bench b;
    bool holds;
    create(&b, 3);
    leave(&b, A);
    review(&b, 1000);
    assert_string_equal(lh_handover_successor(&b.handover)->stages[0].name, "c");
    const lh_handover_view view = view_of(&b);
    assert_true(lh_handover_tries_first(&b.handover, &view));
    assert_int_equal(trial_of(&b, "b"), -1);
    say(&b, 1, LH_HOP_TRIAL_PROVEN, 1100);
    assert_null(task_of(&b, "c", &holds));
    say(&b, 0, LH_HOP_TRIAL_PROVEN, 1100);
    assert_non_null(task_of(&b, "c", &holds));
    destroy(&b);
}

static void what_is_said_of_another_hop_proves_nothing(void **state) {
    (void)state;
    bench b;
    bool holds;
    create_untried(&b);
    say(&b, 2, LH_HOP_TRIAL_PROVEN, 1100);
    say(&b, 1, LH_HOP_TRIAL_PROVEN, 1100);
    assert_non_null(task_of(&b, "c", &holds));
    destroy(&b);
    create_untried(&b);
    say(&b, 2, LH_HOP_TRIAL_PROVEN, 1100);
    b.reports[A].trial = trial_of_hop(lh_handover_successor(&b.handover), 1, LH_HOP_TRIAL_PROVEN);
    b.reports[A].trial.address[0] = 'x';
    put(&b, A);
    review(&b, 1100);
    assert_null(task_of(&b, "c", &holds));
    b.reports[A].trial.address[0] = 'c';
    b.reports[A].trial.next[0] = 'd';
    put(&b, A);
    review(&b, 1100);
    assert_null(task_of(&b, "c", &holds));
    destroy(&b);
}

static void a_hop_that_fails_is_named_at_once(void **state) {
    (void)state;
    bench b;
    create_untried(&b);
    assert_int_equal(failed_hop(&b, 1100), -1);
    say(&b, 1, LH_HOP_TRIAL_RUNNING, 1100);
    assert_int_equal(failed_hop(&b, 1100), -1);
    say(&b, 2, LH_HOP_TRIAL_FAILED, 1100);
    assert_int_equal(failed_hop(&b, 1100), 2);
    say(&b, 1, LH_HOP_TRIAL_FAILED, 1100);
    assert_int_equal(failed_hop(&b, 1100), 1);
    lh_handover_drop(&b.handover, "");
    assert_int_equal(failed_hop(&b, 1100), -1);
    destroy(&b);
}

static void one_of_which_nothing_is_heard_fails_after_fifteen_seconds(void **state) {
    (void)state;
    bench b;
    create_untried(&b);
    say(&b, 1, LH_HOP_TRIAL_PROVEN, 1000);
    assert_int_equal(failed_hop(&b, 15999), -1);
    assert_int_equal(failed_hop(&b, 16000), 2);
    destroy(&b);
}

/* What has been loaded meanwhile is worth a wait. */
static void one_that_was_proven_has_time_to_come_back(void **state) {
    (void)state;
    bench b;
    create_leaving(&b);
    say(&b, 1, LH_HOP_TRIAL_FAILED, 5000);
    assert_int_equal(failed_hop(&b, 5000), -1);
    prepare(&b, C, 2, 4, true);
    assert_int_equal(review(&b, 6000), LH_HANDOVER_WAIT);
    assert_int_equal(failed_hop(&b, 19999), -1);
    assert_int_equal(failed_hop(&b, 20000), 1);
    assert_int_equal(say(&b, 1, LH_HOP_TRIAL_PROVEN, 19999), LH_HANDOVER_TAKE_OVER);
    say(&b, 1, LH_HOP_TRIAL_RUNNING, 30000);
    assert_int_equal(failed_hop(&b, 44999), -1);
    destroy(&b);
}

/* ---- A worker leaves ---- */

static void nobody_leaves_and_nothing_is_planned(void **state) {
    (void)state;
    bench b;
    create(&b, 3);
    assert_int_equal(review(&b, 1000), LH_HANDOVER_WAIT);
    assert_null(lh_handover_successor(&b.handover));
    assert_string_equal(lh_handover_cause_text(&b.handover), "");
    assert_false(is_prepared(&b));
    bool holds;
    assert_null(task_of(&b, "c", &holds));
    destroy(&b);
}

static void a_spare_is_to_prepare_the_leavers_stage(void **state) {
    (void)state;
    bench b;
    bool holds = false;
    create_leaving(&b);
    const lh_chain *next = lh_handover_successor(&b.handover);
    assert_string_equal(lh_handover_cause_text(&b.handover), "a worker leaves");
    assert_string_equal(b.handover.problem, "");
    assert_int_equal(next->epoch, 0);
    assert_int_equal(next->stage_count, 2);
    assert_string_equal(next->stages[1].name, "c");
    assert_int_equal(next->stages[1].wire, LH_WIRE_F16);
    const lh_chain_stage *task = task_of(&b, "c", &holds);
    assert_ptr_equal(task, &next->stages[1]);
    assert_int_equal(task->first_layer, 2);
    assert_int_equal(task->last_layer, 4);
    assert_true(holds);
    assert_null(task_of(&b, "a", &holds)); /* it has its stage already */
    assert_null(task_of(&b, "b", &holds)); /* it is not in it */
    destroy(&b);
}

static void it_takes_over_when_all_hold_what_they_were_asked_to(void **state) {
    (void)state;
    bench b;
    create_leaving(&b);
    assert_int_equal(review(&b, 1100), LH_HANDOVER_WAIT);
    prepare(&b, C, 2, 4, true);
    assert_true(is_prepared(&b));
    assert_int_equal(review(&b, 1200), LH_HANDOVER_TAKE_OVER);
    lh_handover_complete(&b.handover, 8, true, 1200 * MS);
    assert_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

/* Other layers, fetched but not loaded, not there yet, or another process. */
static void what_was_not_asked_for_does_not_count(void **state) {
    (void)state;
    bench b;
    create_leaving(&b);
    prepare(&b, C, 1, 4, true);
    assert_false(is_prepared(&b));
    prepare(&b, C, 2, 3, true);
    assert_false(is_prepared(&b));
    prepare(&b, C, 2, 4, false);
    assert_false(is_prepared(&b));
    prepare(&b, C, 2, 4, true);
    b.reports[C].prepared.state = LH_WORKER_LOADING;
    put(&b, C);
    assert_false(is_prepared(&b));
    assert_int_equal(review(&b, 1200), LH_HANDOVER_WAIT);
    prepare(&b, C, 2, 4, true);
    b.reports[C].instance = 2;
    put(&b, C);
    assert_false(is_prepared(&b));
    destroy(&b);
}

/* Two stages of 200 bytes: one is loaded beside the other where memory holds both. */
static void where_memory_holds_one_stage_the_weights_are_fetched(void **state) {
    (void)state;
    for (uint64_t memory = 399; memory <= 400; memory++) {
        bench b;
        bool holds;
        create(&b, 2);
        b.options.aim.stages = 0;
        b.reports[A].memory_bytes = memory + 200;
        put(&b, A);
        leave(&b, B);
        assert_int_equal(review(&b, 1000), LH_HANDOVER_WAIT);
        prove(&b, 1000);
        assert_non_null(task_of(&b, "a", &holds)); /* all four layers, beside two */
        assert_int_equal(holds, memory == 400);
        prepare(&b, A, 0, 4, !holds);
        assert_false(is_prepared(&b));
        prepare(&b, A, 0, 4, holds);
        assert_true(is_prepared(&b));
        destroy(&b);
    }
}

static void one_that_cannot_prepare_it_is_named(void **state) {
    (void)state;
    bench b;
    create_leaving(&b);
    assert_false(has_failed(&b, 1));
    prepare(&b, C, 2, 4, true);
    b.reports[C].prepared.state = LH_WORKER_FAILED;
    put(&b, C);
    assert_true(has_failed(&b, 1));
    b.reports[C].prepared.first_layer = 1; /* of another successor */
    put(&b, C);
    assert_false(has_failed(&b, 1));
    b.reports[A].prepared.state = LH_WORKER_FAILED; /* a has nothing to prepare */
    b.reports[A].prepared.last_layer = 2;
    b.reports[A].prepared.holds = true;
    put(&b, A);
    assert_false(has_failed(&b, 0));
    destroy(&b);
}

static void one_that_loses_a_worker_is_planned_anew(void **state) {
    (void)state;
    bench b;
    create(&b, 4);
    leave(&b, B);
    review(&b, 1000);
    assert_string_equal(lh_handover_successor(&b.handover)->stages[1].name, "c");
    lh_registry_exclude(b.registry, "c", 5000 * MS);
    assert_false(is_prepared(&b));
    assert_int_equal(review(&b, 1001), LH_HANDOVER_WAIT);
    assert_string_equal(lh_handover_successor(&b.handover)->stages[1].name, "d");
    leave(&b, D);
    review(&b, 1002);
    assert_int_equal(lh_handover_successor(&b.handover)->stage_count, 1);
    destroy(&b);
}

/* An address that its predecessor cannot use, say: at most once a second. */
static void one_that_could_not_be_formed_is_tried_again_later(void **state) {
    (void)state;
    bench b;
    create_leaving(&b);
    lh_handover_fail(&b.handover, "no address", 1000 * MS);
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 1999);
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 2000);
    assert_non_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

/* Memory for two stages of two layers and no more. */
static void create_full(bench *b) {
    create(b, 2);
    for (int i = 0; i < 2; i++) {
        b->reports[i].memory_bytes = 399;
        put(b, i);
    }
    leave(b, B);
}

static void a_worker_that_is_needed_stays_and_learns_why(void **state) {
    (void)state;
    bench b;
    create_full(&b);
    assert_int_equal(review(&b, 1000), LH_HANDOVER_WAIT);
    assert_null(lh_handover_successor(&b.handover));
    assert_non_null(strstr(b.handover.problem, "nobody can take over: "));
    assert_non_null(strstr(b.handover.problem, "no split fits"));
    b.reports[A].memory_bytes = 400;
    put(&b, A);
    review(&b, 1999);
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 2000);
    assert_non_null(lh_handover_successor(&b.handover));
    assert_string_equal(b.handover.problem, "");
    destroy(&b);
}

static void a_worker_that_nobody_needs_may_go(void **state) {
    (void)state;
    bench b;
    create_full(&b);
    b.sequences = 0;
    assert_int_equal(review(&b, 1000), LH_HANDOVER_LET_GO);
    destroy(&b);
}

static void a_problem_is_over_when_nobody_leaves_any_more(void **state) {
    (void)state;
    bench b;
    create_full(&b);
    review(&b, 1000);
    b.reports[B].leaving = false;
    put(&b, B);
    review(&b, 1001);
    assert_string_equal(b.handover.problem, "");
    destroy(&b);
}

/* ---- Being faster ---- */

/* Any number of workers: c comes, and is there for the delay. */
static void create_growing(bench *b) {
    create(b, 2);
    b->options.aim.stages = 0;
    b->reports[C] = report_of("c");
    register_report(b->registry, &b->reports[C], 5000 * MS);
    b->reports[D] = report_of("d");
    register_report(b->registry, &b->reports[D], 5000 * MS);
}

static void newcomers_are_used_when_they_have_stayed(void **state) {
    (void)state;
    bench b;
    create_growing(&b);
    review(&b, 13000); /* looks, and again after a second */
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 14999);
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 15999);
    assert_non_null(lh_handover_successor(&b.handover));
    assert_string_equal(lh_handover_cause_text(&b.handover), "it will be faster");
    assert_int_equal(lh_handover_successor(&b.handover)->stage_count, 4);
    destroy(&b);
}

static void not_while_the_chain_is_young_or_not_ready(void **state) {
    (void)state;
    bench b;
    create_growing(&b);
    b.chain.ready_us = 10000 * MS;
    review(&b, 19999);
    assert_null(lh_handover_successor(&b.handover));
    lh_chain_break(&b.chain);
    review(&b, 20000);
    assert_null(lh_handover_successor(&b.handover));
    lh_chain_note_ready(&b.chain, 10000 * MS);
    review(&b, 20000);
    assert_non_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

/* One of the chain's own has come back a moment ago. */
static void not_while_a_member_is_young(void **state) {
    (void)state;
    bench b;
    create_growing(&b);
    b.reports[A].instance = 2;
    register_report(b.registry, &b.reports[A], 16000 * MS);
    review(&b, 25999);
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 26999);
    assert_non_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

/* Two stages of 250 become three, the slowest of which has 200: just enough. */
static void a_little_faster_is_not_worth_it(void **state) {
    (void)state;
    static lh_model_profile six = {.layers = 6,
                                   .context = 64,
                                   .layer_bytes = {100, 100, 50, 50, 100, 100},
                                   .row_bytes = {100, 100, 50, 50, 100, 100}};
    const lh_layout plan = {2, {{0, {0, 3}}, {1, {3, 6}}}};
    bench b;
    create(&b, 3);
    b.options.model = &six;
    b.options.aim.stages = 0;
    const lh_worker *members[] = {lh_registry_at(b.registry, A), lh_registry_at(b.registry, B)};
    assert_int_equal(lh_chain_form(&b.chain, &plan, members, &b.options.origin, 8, 0, NULL), LH_OK);
    lh_chain_note_ready(&b.chain, 0);
    six.layer_bytes[2] = six.layer_bytes[3] = six.row_bytes[2] = six.row_bytes[3] = 49;
    review(&b, 20000);
    assert_null(lh_handover_successor(&b.handover));
    six.layer_bytes[2] = six.layer_bytes[3] = six.row_bytes[2] = six.row_bytes[3] = 50;
    review(&b, 20999); /* it has looked less than a second ago */
    assert_null(lh_handover_successor(&b.handover));
    review(&b, 21000);
    assert_non_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

/* While somebody asks something, a pause for loading is too much for being faster. */
static void wait_for_silence(int worker) {
    bench b;
    create_growing(&b);
    b.reports[worker].memory_bytes = 299; /* its two layers; not one more beside them */
    put(&b, worker);
    review(&b, 20000);
    assert_null(lh_handover_successor(&b.handover));
    b.sequences = 0;
    review(&b, 21000);
    assert_non_null(lh_handover_successor(&b.handover));
    review(&b, 21100);
    assert_non_null(lh_handover_successor(&b.handover));
    b.sequences = 1;
    review(&b, 21200);
    assert_null(lh_handover_successor(&b.handover));
    destroy(&b);
}

static void without_memory_for_two_stages_it_waits_for_silence(void **state) {
    (void)state;
    wait_for_silence(A);
    wait_for_silence(B);
}

/* Takes over at once, and back to two workers: as if the others had stalled. */
static void change(bench *b, int64_t ms, bool by_choice) {
    assert_non_null(lh_handover_successor(&b->handover));
    lh_handover_complete(&b->handover, 8, by_choice, ms * MS);
}

static bool is_planned(bench *b, int64_t ms) {
    review(b, ms);
    return lh_handover_successor(&b->handover);
}

/* Six delays after the last change; twice as long after each that follows within two pauses, up to
 * sixteen times; and as at first when one has lasted. */
static void changes_that_do_not_last_become_rare(void **state) {
    (void)state;
    bench b;
    int64_t ms = 20000, pause_ms = 60000;
    create_growing(&b);
    assert_true(is_planned(&b, ms));
    change(&b, ms, true);
    for (int i = 0; i < 7; i++) {
        assert_false(is_planned(&b, ms + pause_ms - 1));
        assert_true(is_planned(&b, ms + pause_ms));
        ms += pause_ms;
        change(&b, ms, true);
        pause_ms = pause_ms < 16 * 60000 ? 2 * pause_ms : pause_ms;
    }
    assert_int_equal(pause_ms, 16 * 60000);
    ms += 2 * pause_ms;
    assert_true(is_planned(&b, ms));
    change(&b, ms, true);
    assert_false(is_planned(&b, ms + 60000 - 1));
    assert_true(is_planned(&b, ms + 60000));
    destroy(&b);
}

/* The chain before had broken, which says nothing of the new one. */
static void a_change_in_need_does_not_count(void **state) {
    (void)state;
    bench b;
    create_growing(&b);
    assert_true(is_planned(&b, 20000));
    change(&b, 20500, false);
    assert_true(is_planned(&b, 21000));
    destroy(&b);
}

/* ---- Teams ---- */

static void add(bench *b, int worker) {
    b->reports[worker] = report_of(names[worker]);
    strcpy(b->reports[worker].member_address, "h:2");
    put(b, worker);
}

/* a and b compute all four layers together. */
static void create_team(bench *b) {
    create_without_chain(b);
    b->options.aim.stages = 0;
    b->options.teams.size = 2;
    add(b, A);
    add(b, B);
    const lh_chain before = b->chain;
    const lh_draft_view view = {b->registry, &b->avoidance, &b->planner};
    assert_int_equal(lh_draft_make(&b->options, &view, &before, 8, 0, &b->chain, NULL), LH_OK);
    lh_chain_inherit(&b->chain, &before);
    lh_chain_note_ready(&b->chain, 0);
    assert_int_equal(b->chain.stages[0].team.follower_count, 1);
}

static void prepare_part(bench *b, int worker, uint32_t team_epoch) {
    b->reports[worker].prepared.team_epoch = team_epoch;
    prepare(b, worker, 0, 4, true);
}

/* a+b, whose b leaves, with c there: it becomes a+c. */
static void create_replacing(bench *b) {
    create_team(b);
    add(b, C);
    leave(b, B);
    assert_int_equal(review(b, 1000), LH_HANDOVER_WAIT);
    const lh_chain *next = lh_handover_successor(&b->handover);
    assert_string_equal(next->stages[0].name, "a");
    assert_string_equal(next->stages[0].team.followers[0].name, "c");
    assert_int_equal(next->stages[0].team.epoch, EPOCH);
}

static void each_member_of_a_new_team_prepares_its_part(void **state) {
    (void)state;
    bench b;
    uint32_t member;
    bool holds;
    create_replacing(&b);
    assert_int_equal(lh_handover_task(&b.handover, &b.chain, "c", &member, &holds), 0);
    assert_true(member == 1 && holds);
    assert_int_equal(lh_handover_task(&b.handover, &b.chain, "a", &member, &holds), 0);
    assert_int_equal(member, 0);
    assert_int_equal(lh_handover_task(&b.handover, &b.chain, "b", &member, &holds), -1);
    prepare_part(&b, A, EPOCH);
    assert_false(is_prepared(&b));
    prepare_part(&b, C, EPOCH - 1); /* of another team */
    assert_false(is_prepared(&b));
    prepare_part(&b, C, EPOCH);
    assert_int_equal(review(&b, 1300), LH_HANDOVER_TAKE_OVER);
    destroy(&b);
}

static void a_team_that_loses_a_member_is_drawn_anew(void **state) {
    (void)state;
    bench b;
    create_replacing(&b);
    add(&b, D);
    prepare_part(&b, C, EPOCH);
    b.reports[C].prepared.state = LH_WORKER_FAILED;
    put(&b, C);
    const lh_handover_view view = view_of(&b);
    assert_string_equal(lh_handover_failed(&b.handover, &view, 0)->report.name, "c");
    leave(&b, C);
    assert_int_equal(review(&b, 2000), LH_HANDOVER_WAIT);
    assert_string_equal(lh_handover_successor(&b.handover)->stages[0].team.followers[0].name, "d");
    destroy(&b);
}

/* Halves of 400 bytes beside halves: where one of them has no room, none loads. */
static void a_team_loads_where_all_have_room(void **state) {
    (void)state;
    for (uint64_t memory = 399; memory <= 400; memory++) {
        bench b;
        uint32_t member;
        bool holds;
        create_team(&b);
        add(&b, C);
        b.reports[A].memory_bytes = memory;
        put(&b, A);
        leave(&b, B);
        assert_int_equal(review(&b, 1000), LH_HANDOVER_WAIT);
        assert_int_equal(lh_handover_task(&b.handover, &b.chain, "c", &member, &holds), 0);
        assert_int_equal(holds, memory == 400);
        destroy(&b);
    }
}

/* a+b stay where they are; d takes the layers of c, alone. */
static void a_team_that_stays_prepares_nothing(void **state) {
    (void)state;
    bench b;
    bool holds;
    create_without_chain(&b);
    b.options.aim.stages = 0;
    b.options.teams.size = 2;
    for (int i = A; i <= C; i++)
        add(&b, i);
    const lh_chain before = b.chain;
    const lh_draft_view view = {b.registry, &b.avoidance, &b.planner};
    assert_int_equal(lh_draft_make(&b.options, &view, &before, 8, 0, &b.chain, NULL), LH_OK);
    lh_chain_inherit(&b.chain, &before);
    lh_chain_note_ready(&b.chain, 0);
    add(&b, D);
    b.reports[D].member_address[0] = '\0';
    put(&b, D);
    leave(&b, C);
    assert_int_equal(review(&b, 1000), LH_HANDOVER_WAIT);
    prove(&b, 1000);
    assert_null(task_of(&b, "a", &holds));
    assert_null(task_of(&b, "b", &holds));
    const lh_chain_stage *alone = task_of(&b, "d", &holds);
    assert_non_null(alone);
    assert_int_equal(alone->team.epoch, 0);
    prepare(&b, D, alone->first_layer, alone->last_layer, true);
    assert_true(is_prepared(&b));
    destroy(&b);
}

static void a_newcomer_is_taken_into_the_team(void **state) {
    (void)state;
    bench b;
    create_team(&b);
    b.options.teams.size = 3;
    add(&b, C);
    assert_int_equal(review(&b, 11000), LH_HANDOVER_WAIT);
    const lh_chain *next = lh_handover_successor(&b.handover);
    assert_int_equal(next->stage_count, 1);
    assert_int_equal(next->stages[0].team.follower_count, 2);
    for (int i = A; i <= C; i++)
        prepare_part(&b, i, EPOCH);
    assert_int_equal(review(&b, 11100), LH_HANDOVER_TAKE_OVER);
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_prepares_before_every_new_hop_is_proven),
        cmocka_unit_test(the_gateways_hop_is_tried_where_another_worker_is_first),
        cmocka_unit_test(what_is_said_of_another_hop_proves_nothing),
        cmocka_unit_test(a_hop_that_fails_is_named_at_once),
        cmocka_unit_test(one_of_which_nothing_is_heard_fails_after_fifteen_seconds),
        cmocka_unit_test(one_that_was_proven_has_time_to_come_back),
        cmocka_unit_test(nobody_leaves_and_nothing_is_planned),
        cmocka_unit_test(a_spare_is_to_prepare_the_leavers_stage),
        cmocka_unit_test(it_takes_over_when_all_hold_what_they_were_asked_to),
        cmocka_unit_test(what_was_not_asked_for_does_not_count),
        cmocka_unit_test(where_memory_holds_one_stage_the_weights_are_fetched),
        cmocka_unit_test(one_that_cannot_prepare_it_is_named),
        cmocka_unit_test(one_that_loses_a_worker_is_planned_anew),
        cmocka_unit_test(one_that_could_not_be_formed_is_tried_again_later),
        cmocka_unit_test(a_worker_that_is_needed_stays_and_learns_why),
        cmocka_unit_test(a_worker_that_nobody_needs_may_go),
        cmocka_unit_test(a_problem_is_over_when_nobody_leaves_any_more),
        cmocka_unit_test(newcomers_are_used_when_they_have_stayed),
        cmocka_unit_test(not_while_the_chain_is_young_or_not_ready),
        cmocka_unit_test(not_while_a_member_is_young),
        cmocka_unit_test(a_little_faster_is_not_worth_it),
        cmocka_unit_test(without_memory_for_two_stages_it_waits_for_silence),
        cmocka_unit_test(changes_that_do_not_last_become_rare),
        cmocka_unit_test(a_change_in_need_does_not_count),
        cmocka_unit_test(each_member_of_a_new_team_prepares_its_part),
        cmocka_unit_test(a_team_that_loses_a_member_is_drawn_anew),
        cmocka_unit_test(a_team_loads_where_all_have_room),
        cmocka_unit_test(a_team_that_stays_prepares_nothing),
        cmocka_unit_test(a_newcomer_is_taken_into_the_team),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
