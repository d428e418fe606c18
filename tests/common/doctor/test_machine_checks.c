/* Each check of a machine: a sound one, the same with one fault, and one that nobody knows. */
#include "common/doctor/findings_json.h"
#include "common/doctor/findings_text.h"
#include "common/doctor/machine_checks.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB   ((int64_t)1 << 30)
#define DAY_S 86400

static lh_machine sound(void) {
    static const int64_t facts[] = {
        [LH_HOST_CLOCK_MS] = 1,
        [LH_HOST_MEMORY_BYTES] = 8 * GIB,
        [LH_HOST_MEMORY_FREE_BYTES] = 6 * GIB,
        [LH_HOST_DISK_BYTES] = 100 * GIB,
        [LH_HOST_DISK_FREE_BYTES] = 50 * GIB,
        [LH_HOST_TCP_RMEM_MAX] = 6 << 20,
        [LH_HOST_TCP_WMEM_MAX] = 4 << 20,
        [LH_HOST_SLOW_START_AFTER_IDLE] = 1,
        [LH_HOST_SOMAXCONN] = 4096,
        [LH_HOST_OPEN_FILES] = 20000,
        [LH_HOST_SECCOMP] = 1,
        [LH_HOST_LANDLOCK] = 1,
        [LH_HOST_CERTIFICATE_BEGINS_S] = 100 * DAY_S,
        [LH_HOST_CERTIFICATE_ENDS_S] = 130 * DAY_S,
    };
    lh_machine machine = {.name = "w",
                          .may_take_bytes = 7 * GIB,
                          .takes_bytes = 5 * GIB,
                          .disk_needed_bytes = GIB,
                          .sends_bytes = 250000,
                          .receives_bytes = 250000,
                          .round_trip_us = 200,
                          .open_files_needed = 4352,
                          .waiting_needed = 512,
                          .disk_flag = "--cache-dir",
                          .own_renewal = "renew it",
                          .now_s = 110 * DAY_S};
    for (lh_host_fact fact = 0; fact < LH_HOST_FACT_COUNT; fact++)
        lh_host_facts_set(&machine.facts, fact, facts[fact]);
    return machine;
}

static lh_findings look(const lh_machine *machines, size_t count) {
    lh_findings findings = {0};
    lh_machine_checks_run(machines, count, &findings);
    assert_false(findings.is_short);
    return findings;
}

static void a_sound_machine_is_fine(void **state) {
    (void)state;
    const lh_machine machine = sound();
    lh_findings findings = look(&machine, 1);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_FINE), 8);
    assert_int_equal(findings.count, 8);
    assert_string_equal(findings.list[0].found, "w 8.0 GiB");
    lh_findings_reset(&findings);
}

/* The one finding with something to do, which is of this check. */
static void expect_to_do(const lh_machine *machine, const char *check, const char *found,
                         const char *to_do) {
    lh_findings findings = look(machine, 1);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_TO_DO), 1);
    for (size_t i = 0; i < findings.count; i++) {
        const lh_finding *f = &findings.list[i];
        if (f->verdict != LH_VERDICT_TO_DO)
            continue;
        assert_string_equal(f->check, check);
        assert_string_equal(f->subject, "w");
        if (!strstr(f->found, found) || !strstr(f->to_do, to_do))
            fail_msg("%s: %s -> %s", f->check, f->found, f->to_do);
    }
    lh_findings_reset(&findings);
}

static void expect_with(lh_host_fact fact, int64_t value, const char *check, const char *found,
                        const char *to_do) {
    lh_machine machine = sound();
    lh_host_facts_set(&machine.facts, fact, value);
    expect_to_do(&machine, check, found, to_do);
}

static void each_fault_is_found_with_what_to_do(void **state) {
    (void)state;
    expect_with(LH_HOST_MEMORY_BYTES, 6 * GIB, "memory", "may take 7.0 GiB", "--memory-bytes");
    expect_with(LH_HOST_MEMORY_FREE_BYTES, 4 * GIB, "memory", "4.0 GiB were free", "end what else");
    expect_with(LH_HOST_DISK_FREE_BYTES, GIB - 1, "disk", "below --cache-dir", "make room");
    expect_with(LH_HOST_TCP_WMEM_MAX, 212992, "tcp buffers", "tcp_wmem ends at 208.0 KiB",
                "sysctl -w net.ipv4.tcp_wmem=\"4096 131072 1048576\"");
    expect_with(LH_HOST_TCP_RMEM_MAX, 212992, "tcp buffers", "tcp_rmem ends at", "sysctl");
    expect_with(LH_HOST_SOMAXCONN, 128, "connections", "somaxconn=128", "somaxconn=4096");
    expect_with(LH_HOST_OPEN_FILES, 1024, "open files", "1024 files", "LimitNOFILE=4352");
    expect_with(LH_HOST_SECCOMP, 0, "sandbox", "seccomp is off", "\"sandbox\"");
    expect_with(LH_HOST_LANDLOCK, 0, "sandbox", "Landlock is off", "\"sandbox\"");
}

static void buffers_are_judged_by_the_links(void **state) {
    (void)state;
    lh_machine machine = sound();
    machine.sends_bytes = 3 << 20; /* a gigabit for 25 ms */
    expect_to_do(&machine, "tcp buffers", "its links want 6.0 MiB", "6291456");
    machine.sends_bytes = 800 << 10;
    lh_host_facts_set(&machine.facts, LH_HOST_TCP_WMEM_MAX, 1 << 20);
    expect_to_do(&machine, "tcp buffers", "its links want 1.6 MiB", "1638400");
}

/* A long link that carries much; not one that is short, or is never full. */
static void windows_that_shrink_matter_on_long_links(void **state) {
    (void)state;
    lh_machine machine = sound();
    machine.round_trip_us = 20000;
    expect_to_do(&machine, "idle links", "a link of 20 ms", "tcp_slow_start_after_idle=0");
    machine.sends_bytes = 10000;
    lh_findings findings = look(&machine, 1);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_TO_DO), 0);
    lh_findings_reset(&findings);
}

static void a_certificate_that_ends_soon_is_said(void **state) {
    (void)state;
    lh_machine machine = sound();
    machine.now_s = 125 * DAY_S + 1;
    expect_to_do(&machine, "certificates", "ends in 120.0 hours", "renew it");
    machine.now_s = 130 * DAY_S + 3600;
    expect_to_do(&machine, "certificates", "ended 1.0 hours ago", "renew it");
    machine.now_s = 100 * DAY_S - 7200;
    expect_to_do(&machine, "certificates", "only in 2.0 hours", "clocks");
}

static void what_nobody_knows_is_no_fault(void **state) {
    (void)state;
    const lh_machine machine = {.name = "w", .own_renewal = "", .disk_flag = ""};
    lh_findings findings = look(&machine, 1);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_UNKNOWN), 8);
    lh_findings_reset(&findings);
    findings = look(&machine, 0);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_UNKNOWN), 8);
    lh_findings_reset(&findings);
}

/* As many as there may be, each with a name as long as it may be. */
static void many_machines_share_a_line(void **state) {
    (void)state;
    enum { COUNT = 512 };
    lh_machine *machines = calloc(COUNT, sizeof *machines);
    char name[64];
    memset(name, 'n', 63);
    name[63] = '\0';
    for (size_t i = 0; i < COUNT; i++) {
        machines[i] = sound();
        machines[i].name = name;
        lh_host_facts_set(&machines[i].facts, LH_HOST_DISK_FREE_BYTES, (int64_t)(i + 1) * GIB);
    }
    lh_findings findings = look(machines, COUNT);
    assert_int_equal(findings.count, 8);
    assert_string_equal(findings.list[0].found, "8.0 GiB, all 512");
    assert_non_null(strstr(findings.list[1].found, " more"));
    lh_findings_reset(&findings);
    free(machines);
}

static lh_findings two(void) {
    lh_findings findings = {0};
    lh_findings_begin(&findings, "disk");
    lh_findings_add(&findings, LH_VERDICT_FINE, "", "much");
    lh_finding_advise(lh_findings_add(&findings, LH_VERDICT_TO_DO, "w\xff",
                                      "so little that nobody can keep anything there at all"),
                      "make room, or name another disk with --cache-dir, whichever is easier");
    return findings;
}

static void text_is_wrapped_and_counted(void **state) {
    (void)state;
    lh_findings findings = two();
    lh_text_buffer text = {0};
    assert_int_equal(lh_findings_render_text(&findings, 60, false, &text), LH_OK);
    assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
    assert_string_equal(text.bytes, "fine    disk          much\n"
                                    "TO DO   disk          w\xff: so little that nobody can keep\n"
                                    "                      anything there at all\n"
                                    "                   -> make room, or name another disk with\n"
                                    "                      --cache-dir, whichever is easier\n"
                                    "1 fine, 0 unknown, 1 to do\n");
    lh_text_buffer_reset(&text);
    lh_findings_reset(&findings);
}

static void json_says_the_same(void **state) {
    (void)state;
    lh_findings findings = two();
    lh_text_buffer text = {0};
    assert_int_equal(lh_findings_render_json(&findings, &text), LH_OK);
    assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
    assert_string_equal(
        text.bytes,
        "{\"fine\":false,\"findings\":[{\"check\":\"disk\",\"subject\":null,\"verdict\":\"fine\","
        "\"found\":\"much\",\"to_do\":null},{\"check\":\"disk\",\"subject\":\"w\xef\xbf\xbd\","
        "\"verdict\":\"to_do\",\"found\":\"so little that nobody can keep anything there at all\","
        "\"to_do\":\"make room, or name another disk with --cache-dir, whichever is easier\"}]}\n");
    lh_text_buffer_reset(&text);
    lh_findings_reset(&findings);
}

/* A finding that could not be kept is told, so that nobody takes the list for whole. */
static void a_lost_finding_is_told(void **state) {
    (void)state;
    const lh_machine machine = sound();
    for (size_t n = 1;; n++) {
        lh_findings findings = {0};
        lh_text_buffer text = {0};
        failing_malloc_arm(n);
        lh_machine_checks_run(&machine, 1, &findings);
        lh_status status = lh_findings_render_text(&findings, 80, true, &text);
        bool has_failed = failing_malloc_disarm();
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_text_buffer_reset(&text);
        lh_findings_reset(&findings);
        if (!has_failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_machine_is_fine),
        cmocka_unit_test(each_fault_is_found_with_what_to_do),
        cmocka_unit_test(buffers_are_judged_by_the_links),
        cmocka_unit_test(windows_that_shrink_matter_on_long_links),
        cmocka_unit_test(a_certificate_that_ends_soon_is_said),
        cmocka_unit_test(what_nobody_knows_is_no_fault),
        cmocka_unit_test(many_machines_share_a_line),
        cmocka_unit_test(text_is_wrapped_and_counted),
        cmocka_unit_test(json_says_the_same),
        cmocka_unit_test(a_lost_finding_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
