/* Which hops another chain would bring, and who is at fault where one fails. Workers a to d at
 * NAME:1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/new_hops.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

typedef struct bench {
    lh_registry *registry;
    lh_chain present, next;
    lh_hop_trial_report first;
} bench;

/* A stage of one layer for each letter. */
static void form(bench *b, lh_chain *chain, const char *workers) {
    const lh_chain_origin origin = {.site = "home", .has_tls = true};
    const lh_worker *members[LH_LAYOUT_STAGES_MAX];
    lh_layout plan = {0};
    for (uint32_t i = 0; workers[i]; i++) {
        const char name[2] = {workers[i]};
        members[i] = lh_registry_find(b->registry, name);
        plan.stages[plan.stage_count++] = (lh_layout_stage){i, {i, i + 1}};
    }
    assert_int_equal(lh_chain_form(chain, &plan, members, &origin, 0, 0, NULL), LH_OK);
}

static void create(bench *b, const char *present, const char *next) {
    *b = (bench){0};
    assert_int_equal(lh_registry_create(3000 * MS, &b->registry, NULL), LH_OK);
    for (const char *name = "a\0b\0c\0d\0"; *name; name += 2) {
        const lh_worker_report report = report_of(name);
        register_report(b->registry, &report, 0);
    }
    form(b, &b->present, present);
    form(b, &b->next, next);
}

static lh_new_hops hops_of(const bench *b) {
    return (lh_new_hops){&b->present, &b->next, b->registry, &b->first};
}

/* Those that are new, as digits. */
static void assert_new(const char *present, const char *next, const char *expected) {
    bench b;
    char found[LH_LAYOUT_STAGES_MAX + 2] = "";
    size_t count = 0;
    create(&b, present, next);
    const lh_new_hops hops = hops_of(&b);
    for (uint32_t hop = 0; hop <= b.next.stage_count; hop++)
        if (lh_new_hops_has(&hops, hop))
            found[count++] = (char)('0' + hop);
    assert_string_equal(found, expected);
    lh_registry_destroy(b.registry);
}

static void a_hop_is_new_where_the_present_chain_has_another(void **state) {
    (void)state;
    assert_new("ab", "ab", "");
    assert_new("ab", "ac", "12");
    assert_new("ab", "cb", "01");
    assert_new("ab", "abc", "23");
    assert_new("abc", "ab", "2");
    assert_new("ab", "a", "1");
    assert_new("ab", "b", "0");
    assert_new("ab", "ba", "012");
    assert_new("abc", "adc", "12");
}

static void another_address_or_process_makes_it_new(void **state) {
    (void)state;
    for (int what = 0; what < 3; what++) {
        bench b;
        create(&b, "ab", "ab");
        if (what == 0)
            b.next.stages[1].way.address[0] = 'x';
        else if (what == 1)
            b.next.stages[1].instance = 2;
        else
            b.next.stages[1].way.tls = true;
        const lh_new_hops hops = hops_of(&b);
        assert_false(lh_new_hops_has(&hops, 0));
        assert_true(lh_new_hops_has(&hops, 1));
        assert_false(lh_new_hops_has(&hops, 2));
        lh_registry_destroy(b.registry);
    }
}

static void assert_culprit(const char *present, const char *next, uint32_t hop,
                           const char *expected) {
    bench b;
    create(&b, present, next);
    const lh_new_hops hops = hops_of(&b);
    assert_string_equal(b.next.stages[lh_new_hops_culprit(&hops, hop)].name, expected);
    lh_registry_destroy(b.registry);
}

static void the_newcomer_is_at_fault_else_the_far_end(void **state) {
    (void)state;
    assert_culprit("ab", "ac", 1, "c");
    assert_culprit("ab", "ac", 2, "c");
    assert_culprit("ab", "cb", 0, "c");
    assert_culprit("ab", "cb", 1, "c");
    assert_culprit("ab", "cd", 1, "d");
    assert_culprit("ab", "ba", 0, "b");
    assert_culprit("ab", "ba", 1, "a");
    assert_culprit("ab", "ba", 2, "a");
}

static void say(bench *b, uint32_t hop, lh_hop_trial_state state) {
    lh_hop_trial_report trial = trial_of_hop(&b->next, hop, state);
    if (hop == 0) {
        b->first = trial;
        return;
    }
    lh_worker_report report = report_of(b->next.stages[hop - 1].name);
    report.trial = trial;
    register_report(b->registry, &report, 0);
}

static void trials_count_for_the_hops_that_are_new(void **state) {
    (void)state;
    bench b;
    create(&b, "ab", "cb");
    const lh_new_hops hops = hops_of(&b);
    assert_int_equal(lh_new_hops_unproven(&hops), 0);
    assert_int_equal(lh_new_hops_state(&hops, 0), LH_HOP_TRIAL_NONE);
    say(&b, 0, LH_HOP_TRIAL_PROVEN);
    assert_int_equal(lh_new_hops_unproven(&hops), 1);
    say(&b, 2, LH_HOP_TRIAL_FAILED); /* it is not new: b's connection is the present one */
    assert_int_equal(lh_new_hops_failed(&hops), -1);
    say(&b, 1, LH_HOP_TRIAL_FAILED);
    assert_int_equal(lh_new_hops_failed(&hops), 1);
    assert_int_equal(lh_new_hops_unproven(&hops), 1);
    say(&b, 1, LH_HOP_TRIAL_PROVEN);
    assert_int_equal(lh_new_hops_failed(&hops), -1);
    assert_int_equal(lh_new_hops_unproven(&hops), -1);
    lh_registry_destroy(b.registry);
}

static void assert_described(const bench *b, uint32_t hop, const char *expected) {
    const lh_new_hops hops = hops_of(b);
    char text[LH_ERROR_MESSAGE_BYTES];
    lh_new_hops_describe(&hops, hop, text, sizeof text);
    assert_string_equal(text, expected);
}

static void who_does_not_reach_whom_is_said_with_the_reason(void **state) {
    (void)state;
    bench b;
    create(&b, "ab", "cd");
    assert_described(&b, 0,
                     "the gateway does not reach worker c at c:1: nobody has said so in time");
    for (uint32_t hop = 0; hop <= 2; hop++)
        say(&b, hop, LH_HOP_TRIAL_FAILED);
    assert_described(&b, 0, "the gateway does not reach worker c at c:1: connection refused");
    assert_described(&b, 1, "worker c does not reach worker d at d:1: connection refused");
    assert_described(&b, 2, "worker d does not reach the gateway: connection refused");
    snprintf(b.first.error, sizeof b.first.error, "c:1: the certificate is another's");
    assert_described(&b, 0,
                     "the gateway does not reach worker c at c:1: the certificate is another's");
    lh_registry_destroy(b.registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hop_is_new_where_the_present_chain_has_another),
        cmocka_unit_test(another_address_or_process_makes_it_new),
        cmocka_unit_test(the_newcomer_is_at_fault_else_the_far_end),
        cmocka_unit_test(trials_count_for_the_hops_that_are_new),
        cmocka_unit_test(who_does_not_reach_whom_is_said_with_the_reason),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
