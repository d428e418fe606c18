/* Which link is measured next, by whom, and that no more is sent than the budget has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/link_survey.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

#define S   INT64_C(1000000)
#define MIN (60 * S)
#define MIB (UINT64_C(1) << 20)

/* a is at "here", b and c at "there". */
static lh_link_matrix *links;
static lh_link_survey survey;
static lh_worker_report reports[3];
static lh_survey_machine machines[3];
static int64_t now_us;

static int set_up(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    assert_int_equal(lh_link_matrix_create(&links, NULL), LH_OK);
    lh_link_survey_init(&survey, links, "here", 64 * MIB);
    for (int i = 0; i < 3; i++) {
        reports[i] = report_of(names[i]);
        snprintf(reports[i].site, sizeof reports[i].site, "%s", i == 0 ? "here" : "there");
        machines[i] = (lh_survey_machine){&reports[i], LH_SURVEY_SPARE};
    }
    now_us = S;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_link_matrix_destroy(links);
    return 0;
}

static void look(void) {
    assert_true(lh_link_survey_is_due(&survey, now_us));
    lh_link_survey_look(&survey, machines, 3, true, now_us);
    assert_false(lh_link_survey_is_due(&survey, now_us));
}

/* Who is to measure; NULL: nobody. */
static const lh_survey_task *task(void) {
    const lh_survey_task *only = NULL;
    for (int i = 0; i < 3; i++) {
        const lh_survey_task *found = lh_link_survey_task(&survey, reports[i].name);
        assert_true(!only || !found);
        only = found ? found : only;
    }
    return only;
}

static const char *site_of(const char *name) {
    return name[0] == 'a' ? "here" : "there";
}

/* "here>there", the sites between which it is; "": nothing is measured. */
static const char *pair(void) {
    static char text[2 * LH_NAME_BYTES + 2];
    const lh_survey_task *t = task();
    snprintf(text, sizeof text, "%s%s%s", t ? site_of(t->from) : "", t ? ">" : "",
             t ? site_of(t->to.worker) : "");
    return text;
}

static const char *workers(void) {
    static char text[2 * LH_NAME_BYTES + 2];
    const lh_survey_task *t = task();
    assert_non_null(t);
    snprintf(text, sizeof text, "%s>%s", t->from, t->to.worker);
    return text;
}

static const char *next_pair(void) {
    now_us += S;
    look();
    return pair();
}

/* The one who measures says what came of it. */
static void answer(lh_hop_trial_state state, double bytes_per_us, bool is_bound, uint64_t sent) {
    const lh_survey_task *t = task();
    assert_non_null(t);
    lh_worker_report report = report_of(t->from);
    report.surveyed = (lh_hop_trial_report){.state = state,
                                            .hop = {.present = true,
                                                    .bytes_per_us = bytes_per_us,
                                                    .bytes_per_us_is_bound = is_bound,
                                                    .round_trip_us = 20000,
                                                    .probe_bytes_sent = sent}};
    snprintf(report.surveyed.next, sizeof report.surveyed.next, "%s", t->to.worker);
    snprintf(report.surveyed.address, sizeof report.surveyed.address, "%s", t->to.address);
    lh_link_survey_take(&survey, &report, now_us);
}

/* A gateway that is alone at its site: the ways to its port are measured, too, after the pairs. */
static void ways_to_a_gateway_alone_are_measured(void **state) {
    (void)state;
    lh_link_survey_init(&survey, links, "hub", 64 * MIB);
    for (int i = 0; i < 3; i++) {
        next_pair();
        answer(LH_HOP_TRIAL_PROVEN, 10, false, MIB);
    }
    static const char *const froms[] = {"here", "there"};
    for (int i = 0; i < 2; i++) {
        next_pair();
        const lh_survey_task *t = task();
        assert_non_null(t);
        assert_string_equal(site_of(t->from), froms[i]);
        assert_true(t->to.is_gateway);
        assert_string_equal(t->to.address, "");
        answer(LH_HOP_TRIAL_PROVEN, 10 + i, false, MIB);
        lh_link_value value;
        assert_true(lh_link_matrix_read(links, froms[i], "hub", &value));
        assert_true(value.bytes_per_us == 10 + i);
    }
    next_pair();
    assert_null(task());
}

static void every_pair_of_sites_has_its_turn(void **state) {
    (void)state;
    static const char *const expected[] = {"here>there", "there>here", "there>there"};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(next_pair(), expected[i]);
        assert_string_equal(next_pair(), expected[i]);
        answer(LH_HOP_TRIAL_RUNNING, 99, false, MIB);
        assert_string_equal(pair(), expected[i]);
        answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
        assert_string_equal(pair(), "");
    }
    assert_string_equal(next_pair(), "");
    lh_link_value value;
    assert_true(lh_link_matrix_read(links, "here", "there", &value));
    assert_true(value.bytes_per_us == 12.5 && !value.bytes_per_us_is_bound);
    assert_int_equal(value.round_trip_us, 20000);
    assert_int_equal(value.source, LH_LINK_SURVEY);
    assert_string_equal(value.from, "a");
    assert_true(lh_link_matrix_read(links, "there", "there", &value));
}

static void the_oldest_figure_is_renewed_first(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        next_pair();
        now_us += 10 * S;
        answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    }
    now_us += 9 * MIN;
    assert_string_equal(next_pair(), "");
    now_us += MIN - 20 * S;
    assert_string_equal(next_pair(), "here>there");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(), "");
}

/* But once each is measured, since what a hop carries may tell little. */
static void what_a_hop_tells_waits_behind_what_is_unknown(void **state) {
    (void)state;
    const lh_link_value hop = {.bytes_per_us = 3, .rate_at_us = now_us};
    lh_link_matrix_note(links, "here", "there", &hop, now_us);
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(), "there>there");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(), "here>there");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    now_us += 9 * MIN;
    lh_link_matrix_note(links, "there", "here",
                        &(lh_link_value){.bytes_per_us = 13, .rate_at_us = now_us}, now_us);
    now_us += MIN - S;
    assert_string_equal(next_pair(),
                        "there>there"); /* the hop has told of the other one meanwhile */
}

/* It may be that nothing has filled it, or that it could be more by now. */
static void a_bound_is_surveyed_again(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        next_pair();
        answer(LH_HOP_TRIAL_PROVEN, 12.5, i == 1, MIB);
    }
    now_us += 10 * MIN;
    const lh_link_value hop = {.bytes_per_us = 13, .rate_at_us = now_us};
    const lh_link_value bound = {
        .bytes_per_us = 13, .bytes_per_us_is_bound = true, .rate_at_us = now_us};
    lh_link_matrix_note(links, "here", "there", &hop, now_us);
    lh_link_matrix_note(links, "there", "here", &bound, now_us);
    lh_link_matrix_note(links, "there", "there", &hop, now_us);
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, true, MIB);
    assert_string_equal(next_pair(), "");
}

static void one_that_is_not_needed_measures(void **state) {
    (void)state;
    machines[0].use = LH_SURVEY_IDLE;
    machines[1].use = LH_SURVEY_IDLE;
    next_pair();
    assert_string_equal(workers(), "a>c");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    next_pair();
    assert_string_equal(workers(), "c>a");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    next_pair();
    assert_string_equal(workers(), "c>b");
}

static void while_sequences_run_only_what_is_unknown_is_measured(void **state) {
    (void)state;
    const lh_link_value hop = {.bytes_per_us = 3, .rate_at_us = now_us};
    for (int i = 0; i < 3; i++)
        machines[i].use = LH_SURVEY_BUSY;
    lh_link_matrix_note(links, "here", "there", &hop, now_us);
    lh_link_matrix_note(links, "there", "there", &hop, now_us);
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(), "");
    now_us += 20 * MIN;
    assert_string_equal(next_pair(), "");
    machines[0].use = machines[2].use = LH_SURVEY_IDLE;
    next_pair();
    assert_string_equal(workers(), "a>c");
}

static void one_that_leaves_is_left_alone(void **state) {
    (void)state;
    reports[1].leaving = true;
    next_pair();
    assert_string_equal(workers(), "a>c");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    next_pair();
    assert_string_equal(workers(), "c>a");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(), "");
}

static void a_chain_that_forms_ends_it(void **state) {
    (void)state;
    assert_string_equal(next_pair(), "here>there");
    now_us += S;
    lh_link_survey_look(&survey, machines, 3, false, now_us);
    assert_string_equal(pair(), "");
    now_us += S;
    lh_link_survey_look(&survey, machines, 3, false, now_us);
    assert_string_equal(pair(), "");
    assert_string_equal(next_pair(), "here>there");
}

static void what_cannot_be_measured_waits(void **state) {
    (void)state;
    assert_string_equal(next_pair(), "here>there");
    answer(LH_HOP_TRIAL_FAILED, 12.5, false, 0);
    lh_link_value value;
    assert_false(lh_link_matrix_read(links, "here", "there", &value));
    assert_string_equal(next_pair(), "there>here");
    now_us += 13 * S;
    assert_string_equal(next_pair(), "there>here");
    assert_string_equal(next_pair(), "there>there"); /* 15 s without a word */
    now_us += 20 * S;
    assert_string_equal(next_pair(), "");
    now_us += 10 * MIN;
    assert_string_equal(next_pair(), "here>there");
}

/* The second one takes TLS alone, and the first has no certificate. */
static void where_no_address_can_be_used_nobody_is_asked(void **state) {
    (void)state;
    for (int i = 1; i < 3; i++) {
        reports[i].plain_address[0] = '\0';
        snprintf(reports[i].tls_address, sizeof reports[i].tls_address, "h:%d", i);
    }
    assert_string_equal(next_pair(), "");
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 12.5, false, MIB);
    assert_string_equal(next_pair(),
                        "there>there"); /* of one site: TLS, since there is nothing else */
    assert_true(task()->to.tls);
    assert_string_equal(task()->to.address, task()->to.worker[0] == 'b' ? "h:1" : "h:2");
}

/* A survey takes 8 MiB out of 20, and what it has not sent comes back. */
static void the_budget_is_not_exceeded(void **state) {
    (void)state;
    lh_link_survey_init(&survey, links, "here", 20 * MIB);
    next_pair();
    assert_int_equal(task()->bytes_max, 8 * MIB);
    answer(LH_HOP_TRIAL_PROVEN, 1000, true, 7 * MIB);
    next_pair();
    assert_int_equal(task()->bytes_max, 8 * MIB);
    answer(LH_HOP_TRIAL_PROVEN, 1000, true, 99 * MIB); /* nobody sends more than he may */
    assert_string_equal(next_pair(), "there>there");
    assert_in_range(task()->bytes_max, 5 * MIB, 5 * MIB + 40000);
    now_us += 15 * S;
    assert_string_equal(next_pair(), ""); /* overdue: all of it is spent */
    now_us += 601 * S;
    assert_string_equal(next_pair(), "there>there");
    assert_in_range(task()->bytes_max, 3 * MIB, 4 * MIB);
}

/* On simulated time: all pairs are wanted all the time, and each survey sends what it may. */
static void in_hours_it_sends_what_it_may(void **state) {
    (void)state;
    uint64_t sent = 0;
    lh_link_survey_init(&survey, links, "here", 10 * MIB);
    for (int64_t begun_us = now_us; now_us < begun_us + 3600 * S * 5;) {
        if (next_pair()[0] == '\0')
            continue;
        uint64_t most = task()->bytes_max;
        sent += most;
        answer(LH_HOP_TRIAL_PROVEN, 1000, true, most);
    }
    assert_in_range(sent, 50 * MIB, 60 * MIB + 1000);
}

/* 8 MiB at 0.1 bytes in a microsecond are 84 s: a hundredth of 140 minutes. */
static void a_slow_link_rests_for_longer(void **state) {
    (void)state;
    reports[2].leaving = true;
    assert_string_equal(next_pair(), "here>there");
    answer(LH_HOP_TRIAL_PROVEN, 0.1, false, 8 * MIB);
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 0.1, false, 10000);
    now_us += 11 * MIN;
    assert_string_equal(next_pair(), "there>here");
    answer(LH_HOP_TRIAL_PROVEN, 0.1, false, 10000);
    now_us += 5 * MIN;
    assert_string_equal(next_pair(), "");
    now_us += 139 * MIN - 16 * MIN;
    lh_link_matrix_postpone(links, "there", "here", INT64_MAX, now_us);
    assert_string_equal(next_pair(), "");
    now_us += 2 * MIN;
    assert_string_equal(next_pair(), "here>there");
}

static void without_a_budget_nothing_is_looked_at(void **state) {
    (void)state;
    lh_link_survey_init(&survey, links, "here", 0);
    assert_false(lh_link_survey_is_due(&survey, now_us));
    assert_string_equal(pair(), "");
}

static void what_others_say_is_no_result(void **state) {
    (void)state;
    reports[2].leaving = true;
    assert_string_equal(next_pair(), "here>there");
    lh_worker_report report = reports[1];
    report.surveyed = (lh_hop_trial_report){
        .state = LH_HOP_TRIAL_PROVEN, .next = "b", .address = "b:1", .hop = {.present = true}};
    lh_link_survey_take(&survey, &report, now_us); /* b says so */
    assert_string_equal(pair(), "here>there");
    report.name[0] = 'a';
    report.surveyed.next[0] = 'c';
    lh_link_survey_take(&survey, &report, now_us); /* of another one */
    report.surveyed.next[0] = 'b';
    report.surveyed.address[0] = 'c';
    lh_link_survey_take(&survey, &report, now_us); /* at another address */
    assert_string_equal(pair(), "here>there");
    report.surveyed.address[0] = 'b';
    lh_link_survey_take(&survey, &report, now_us);
    assert_string_equal(pair(), "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_pair_of_sites_has_its_turn),
        TEST(ways_to_a_gateway_alone_are_measured),
        TEST(the_oldest_figure_is_renewed_first),
        TEST(what_a_hop_tells_waits_behind_what_is_unknown),
        TEST(a_bound_is_surveyed_again),
        TEST(one_that_is_not_needed_measures),
        TEST(while_sequences_run_only_what_is_unknown_is_measured),
        TEST(one_that_leaves_is_left_alone),
        TEST(a_chain_that_forms_ends_it),
        TEST(what_cannot_be_measured_waits),
        TEST(where_no_address_can_be_used_nobody_is_asked),
        TEST(the_budget_is_not_exceeded),
        TEST(in_hours_it_sends_what_it_may),
        TEST(a_slow_link_rests_for_longer),
        TEST(without_a_budget_nothing_is_looked_at),
        TEST(what_others_say_is_no_result),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
