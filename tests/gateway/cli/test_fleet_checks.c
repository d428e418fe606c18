/* A fleet that is well, and the same with one fault at a time: each check finds its own and says
 * what to do. */
#include "gateway/cli/fleet_checks.h"
#include "tests/gateway/support/fleet_documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CHECKS 19

static json_t *fleet;

static int set_up(void **state) {
    (void)state;
    fleet = load_fleet(SOUND_FLEET);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    json_decref(fleet);
    return 0;
}

static lh_findings look(void) {
    lh_findings findings = {0};
    lh_fleet_document document = document_of(fleet);
    assert_int_equal(lh_fleet_checks_run(&document, 1000, &findings), LH_OK);
    lh_fleet_document_reset(&document);
    return findings;
}

static void a_sound_fleet_is_fine(void **state) {
    (void)state;
    lh_findings findings = look();
    for (size_t i = 0; i < findings.count; i++)
        if (findings.list[i].verdict == LH_VERDICT_TO_DO)
            fail_msg("%s: %s", findings.list[i].check, findings.list[i].found);
    assert_int_equal(findings.count, CHECKS);
    /* certificates: nothing is encrypted */
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_UNKNOWN), 1);
    lh_findings_reset(&findings);
}

/* Among what is to do is this; the fault is mended afterwards. */
static void expect(const char *check, const char *subject, const char *found, const char *to_do) {
    lh_findings findings = look();
    bool is_found = false;
    for (size_t i = 0; i < findings.count; i++) {
        const lh_finding *f = &findings.list[i];
        is_found = is_found || (f->verdict == LH_VERDICT_TO_DO && strcmp(f->check, check) == 0 &&
                                strcmp(f->subject, subject) == 0 && strstr(f->found, found) &&
                                strstr(f->to_do, to_do));
    }
    for (size_t i = 0; !is_found && i < findings.count; i++)
        printf("%s %s %s: %s -> %s\n", lh_verdict_name(findings.list[i].verdict),
               findings.list[i].check, findings.list[i].subject, findings.list[i].found,
               findings.list[i].to_do);
    if (!is_found)
        fail_msg("nothing to do of %s: %s", check, found);
    lh_findings_reset(&findings);
    json_decref(fleet);
    fleet = load_fleet(SOUND_FLEET);
}

/* Whether one finding says this; what was planted is taken back. */
static void expect_fine(const char *check, const char *found) {
    lh_findings findings = look();
    bool is_found = false;
    for (size_t i = 0; i < findings.count; i++)
        is_found = is_found || (findings.list[i].verdict == LH_VERDICT_FINE &&
                                strcmp(findings.list[i].check, check) == 0 &&
                                strcmp(findings.list[i].found, found) == 0);
    if (!is_found)
        fail_msg("%s does not say: %s", check, found);
    lh_findings_reset(&findings);
    json_decref(fleet);
    fleet = load_fleet(SOUND_FLEET);
}

static void says_what_would_serve_the_whole_context(void **state) {
    (void)state;
    expect_fine("context", "8192 positions, all that are asked for");
    plant(fleet, "model.context", "16384");
    plant(fleet, "chains.0.queue.kv.1.pages_total", "90");
    expect_fine("context",
                "8192 positions of 16384, for which worker office-1 has room; --kv-bytes 954M at "
                "each worker, or --kv-type f16 at the gateway serves all");
    plant(fleet, "model.context", "32768");
    plant(fleet, "numbers.kv_type", "\"f16\"");
    expect_fine("context", "8192 positions of 32768, for which worker home-1 has room; --kv-bytes "
                           "1908M at each worker serves all");
}

static void a_gateway_that_refuses_says_why(void **state) {
    (void)state;
    plant(fleet, "state", "\"no_chain\"");
    plant(fleet, "reason", "\"worker-2 is missing\"");
    expect("gateway", "", "no_chain: worker-2 is missing", "start the workers");
    plant(fleet, "workers", "[]");
    expect("workers", "", "none has reported", "longhaul-worker");
}

static void workers_that_fail_are_named(void **state) {
    (void)state;
    plant(fleet, "workers.1.assignment.state", "\"failed\"");
    plant(fleet, "workers.1.assignment.error", "\"no space left\"");
    expect("workers", "office-1", "its stage failed: no space left", "its log");
    plant(fleet, "workers.1.misconduct",
          "{\"standing\":\"suspended\",\"is_needed\":false,\"reason\":\"no such token\"}");
    expect("workers", "office-1", "its results were refused: no such token", "test its memory");
    plant(fleet, "workers.1.misconduct",
          "{\"standing\":\"suspended\",\"is_needed\":true,\"reason\":\"no such token\"}");
    expect("workers", "office-1", "it is used since nothing serves without it: no such token",
           "test its memory");
    plant(fleet, "workers.1.misconduct",
          "{\"standing\":\"suspended\",\"is_needed\":false,\"fault\":\"wrong_answer\","
          "\"reason\":\"it differs\"}");
    expect("workers", "office-1", "its chain gave a wrong answer: it differs",
           "which one is not known");
    plant(fleet, "workers.0.report_age_ms", "20000");
    expect("workers", "home-1", "has not reported for 20 s", "fleet port");
    plant(fleet, "workers.0.role", "\"waiting\"");
    plant(fleet, "workers.0.reason", "\"too little memory\"");
    expect("workers", "home-1", "is not used: too little memory", "mend");
}

static void a_worker_that_is_slower_than_it_says_is_named(void **state) {
    (void)state;
    plant(fleet, "workers.1.overclaims",
          "{\"steps\":2,\"machine_token\":3.25,\"machine_prompt\":1}");
    expect("workers", "office-1", "is 6.5 times as slow as it says", "what was measured");
}

static void versions_and_clocks_are_compared(void **state) {
    (void)state;
    plant(fleet, "workers.0.version", "\"0.9\"");
    expect("versions", "home-1", "version 0.9, and the gateway has 1.0", "install the same");
    plant(fleet, "workers.1.clock_offset_ms", "-2500");
    expect("clocks", "office-1", "2.5 s behind the gateway's", "chrony");
    plant(fleet, "workers.1.clock_offset_ms", "3600000");
    expect("clocks", "office-1", "3600.0 s ahead of", "chrony");
}

static void a_hop_that_fails_is_named_with_both_ends(void **state) {
    (void)state;
    plant(fleet, "chains.0.links.1.connected", "false");
    plant(fleet, "chains.0.links.1.error", "\"192.0.2.1:7101: timed out\"");
    expect("hops", "home-1 > office-1", "192.0.2.1:7101: timed out", "firewall");
    plant(fleet, "workers.0.trial",
          "{\"to\":\"attic-1\",\"address\":\"192.0.2.9:7101\",\"state\":\"failed\",\"error\":"
          "\"refused\"}");
    expect("hops", "home-1 > attic-1", "tried at 192.0.2.9:7101: refused", "--advertise");
}

/* 2304 bytes a row at 4 bytes in a microsecond: 36.9 ms for 64 rows, and 20 at the stage. */
static void a_link_slower_than_the_stages_is_said_with_what_helps(void **state) {
    (void)state;
    plant(fleet, "chains.0.overlap.hops.1.bytes_per_us", "4.0");
    expect("link speed", "home-1 > office-1",
           "36.9 ms for 64 rows at 32.0 Mbit/s, and 20.0 at the busiest stage",
           "--wire f16 halves its bytes; a link of 59 Mbit/s");
    plant(fleet, "chains.0.overlap.hops.1.bytes_per_us", "4.0");
    plant(fleet, "chains.0.links.1.bytes_per_us_is_bound", "true");
    lh_findings findings = look();
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_TO_DO), 0);
    lh_findings_reset(&findings);
}

static void a_stage_that_takes_longer_than_it_did_is_named(void **state) {
    (void)state;
    plant(fleet, "chains.0.overlap.stages.1.calibrated_times", "3.21");
    expect("stage speed", "office-1", "3.2 times as long as when its stage was loaded",
           "see what runs there");
}

static void a_model_that_does_not_fit_is_said(void **state) {
    (void)state;
    plant(fleet, "model.file_bytes", "9000000000");
    expect("model memory", "", "needs 8.4 GiB for its weights, and the workers offer 7.5 GiB",
           "more workers");
    plant(fleet, "workers.0.isa", "\"reference\"");
    expect("instructions", "home-1", "plain C", "--isa");
}

/* Each machine's facts reach its checks; machine_checks has tests of its own. */
static void machines_are_judged_by_what_they_do(void **state) {
    (void)state;
    plant(fleet, "workers.0.host.disk_free_bytes", "1000000");
    expect("disk", "home-1", "free below --cache-dir", "make room");
    plant(fleet, "workers.1.memory_bytes", "7800000000");
    expect("memory", "office-1", "may take 7.7 GiB", "--memory-bytes");
    plant(fleet, "gateway.host.open_files", "1024");
    expect("open files", "gateway", "1024 files", "LimitNOFILE=4352");
    plant(fleet, "gateway.host.landlock", "0");
    expect("sandbox", "gateway", "Landlock is off", "\"sandbox\"");
    plant(fleet, "workers.0.host.slow_start_after_idle", "1");
    expect("idle links", "home-1", "a link of 20 ms", "tcp_slow_start_after_idle=0");
    plant(fleet, "chains.0.links.1.bytes_per_us", "120");
    expect("tcp buffers", "home-1", "tcp_wmem ends at 4.0 MiB, and its links want 4.6 MiB",
           "sysctl");
    plant(fleet, "workers.0.host.certificate_begins_s", "0");
    plant(fleet, "workers.0.host.certificate_ends_s", "900");
    expect("certificates", "home-1", "ended", "token");
}

static void keys_that_others_may_read_are_named(void **state) {
    (void)state;
    char folder[] = "/tmp/longhaul-keys-XXXXXX", path[64], value[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    fclose(fopen(path, "w"));
    assert_int_equal(chmod(path, 0644), 0);
    snprintf(value, sizeof value, "\"%s\"", folder);
    plant(fleet, "gateway.files.state_dir", value);
    expect("key files", path, "mode 0644", "chmod 600");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    plant(fleet, "gateway.files.state_dir", value);
    expect("key files", folder, "mode 0777", "chmod 700");
    assert_int_equal(chmod(folder, 0700), 0);
    plant(fleet, "gateway.files.state_dir", value);
    lh_findings findings = look();
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_TO_DO), 0);
    lh_findings_reset(&findings);
    unlink(path);
    rmdir(folder);
}

/* An older gateway says nothing of itself, and of machines. */
static void what_is_not_told_is_not_known(void **state) {
    (void)state;
    json_object_del(fleet, "gateway");
    for (size_t i = 0; i < 2; i++) {
        json_t *worker = json_array_get(json_object_get(fleet, "workers"), i);
        json_object_del(worker, "host");
        json_object_del(worker, "clock_offset_ms");
    }
    plant(fleet, "chains.0.overlap.stages", "[]");
    lh_findings findings = look();
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_TO_DO), 0);
    assert_int_equal(lh_findings_count(&findings, LH_VERDICT_UNKNOWN), 12);
    lh_findings_reset(&findings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sound_fleet_is_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_what_would_serve_the_whole_context, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gateway_that_refuses_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(workers_that_fail_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_worker_that_is_slower_than_it_says_is_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(versions_and_clocks_are_compared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hop_that_fails_is_named_with_both_ends, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_slower_than_the_stages_is_said_with_what_helps,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stage_that_takes_longer_than_it_did_is_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_does_not_fit_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(machines_are_judged_by_what_they_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_that_others_may_read_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_told_is_not_known, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
