/* Reports as a worker writes them and as a gateway reads them, of good and bad workers. */
#include "common/protocol/control/report_fields.h"
#include "tests/support/failing_malloc.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void a_report_is_written(void **state) {
    (void)state;
    lh_worker_report report = {.name = "w",
                               .instance = 0x0123456789abcdefu,
                               .site = "home",
                               .version = "1",
                               .isa = "avx2",
                               .threads = 4,
                               .plain_address = "127.0.0.1:7101",
                               .memory_bytes = 1000,
                               .kv_bytes = 2000,
                               .steps = {1, 2, 3},
                               .leaving = true};
    char *text = lh_worker_report_render(&report);
    assert_string_equal(
        text, "{\"protocol\":4,\"instance\":\"0123456789abcdef\",\"site\":\"home\",\"version\":"
              "\"1\",\"isa\":\"avx2\",\"threads\":4,\"addresses\":{\"tls\":null,\"plain\":\"127.0."
              "0.1:7101\",\"members\":null},\"memory_bytes\":1000,\"kv_bytes\":2000,\"speed\":null,"
              "\"assignment\":"
              "null,\"prepared\":null,\"loaded\":null,\"compute\":null,\"next\":null,\"next_"
              "error\":null,\"trial\":null,\"surveyed\":null,\"kv\":null,"
              "\"steps\":{\"active\":1,\"done\":2,\"failed\":3},\"leaving\":true}");
    free(text);
    report.assignment.generation = 9;
    report.assignment.state = LH_WORKER_FAILED;
    lh_worker_report_copy_error(report.assignment.error, "no space on \xff");
    report.compute = (lh_compute_profile){.point_count = 2, .points = {{1, 0.125}, {8, 1000.0}}};
    report.next.present = report.kv.present = true;
    report.prepared.state = LH_WORKER_LOADING;
    report.prepared.first_layer = 3;
    report.prepared.last_layer = 7;
    report.prepared.done_bytes = 11;
    report.prepared.team_epoch = 6;
    report.prepared.is_joining = report.prepared.is_final = true;
    report.loaded.present = true;
    report.loaded.first_layer = 2;
    report.loaded.last_layer = 6;
    report.kv.epoch = 77;
    report.kv.pages_total = 70;
    report.kv.pages_free = 71;
    report.kv.page_positions = 72;
    report.kv.page_bytes = 73;
    report.kv.sequences = 74;
    report.assignment.done_bytes = 5;
    report.assignment.total_bytes = UINT64_MAX; /* JSON has no more than 63 bits for it */
    strcpy(report.loaded.model, "abc");
    report.slowdown = 2.5;
    lh_host_facts_set(&report.host, LH_HOST_MEMORY_BYTES, 42);
    lh_host_facts_set(&report.host, LH_HOST_SLOW_START_AFTER_IDLE, 0);
    report.speed = (lh_machine_speed){12.5, 60};
    lh_worker_report_copy_error(report.next_error, "h:1: connection refused");
    report.trial = (lh_hop_trial_report){
        .state = LH_HOP_TRIAL_FAILED, .next = "attic", .address = "h:2", .error = "h:2: \xff"};
    report.surveyed = (lh_hop_trial_report){
        .state = LH_HOP_TRIAL_PROVEN,
        .next = "loft",
        .address = "h:3",
        .hop = {.present = true, .bytes_per_us = 12.5, .probe_bytes_sent = 4096}};
    text = lh_worker_report_render(&report);
    assert_non_null(
        strstr(text, "\"points\":[{\"rows\":1,\"us\":0.125},{\"rows\":8,\"us\":1000.0}]"));
    assert_non_null(strstr(
        text, "\"prepared\":{\"first_layer\":3,\"last_layer\":7,\"hold\":false,\"state\":"
              "\"loading\",\"done_bytes\":11,\"total_bytes\":0,\"joining\":true,\"final\":true,"
              "\"error\":\"\",\"team_epoch\":6}"));
    assert_non_null(
        strstr(text, "\"loaded\":{\"first_layer\":2,\"last_layer\":6,\"model\":\"abc\"}"));
    assert_non_null(strstr(text, "\"kv\":{\"pages_total\":70,\"pages_free\":71,\"page_positions\":"
                                 "72,\"page_bytes\":73,\"sequences\":74,\"epoch\":77}"));
    assert_non_null(strstr(text,
                           "\"assignment\":{\"generation\":9,\"state\":\"failed\",\"done_"
                           "bytes\":5,\"total_bytes\":9223372036854775807,\"joining\":false,"));
    assert_non_null(strstr(text, "\"next_error\":\"h:1: connection refused\",\"trial\":{\"next\":"
                                 "\"attic\",\"address\":\"h:2\",\"state\":\"failed\","));
    assert_non_null(strstr(text, "\"hop\":null},\"surveyed\":{\"next\":\"loft\",\"address\":"
                                 "\"h:3\",\"state\":\"proven\",\"error\":\"\",\"hop\":{"));
    assert_non_null(strstr(text, "\"bytes_per_us\":12.5"));
    assert_non_null(strstr(text, "\"probe_bytes_sent\":4096}}"));
    assert_non_null(strstr(text, "\"host\":{\"memory_bytes\":42,\"slow_start_after_idle\":0}"));
    json_t *root = json_loads(text, 0, NULL);
    json_t *assignment = json_object_get(root, "assignment");
    assert_string_equal(json_string_value(json_object_get(assignment, "state")), "failed");
    assert_non_null(strstr(json_string_value(json_object_get(assignment, "error")), "not UTF-8"));
    assert_true(json_real_value(json_object_get(root, "slowdown")) == 2.5);
    assert_true(json_real_value(json_object_get(json_object_get(root, "speed"), "prompt_us")) ==
                12.5);
    assert_true(json_is_object(json_object_get(root, "next")) &&
                json_is_object(json_object_get(root, "kv")));
    json_decref(root);
    assert_null(strstr(text, "reaches"));
    assert_null(strstr(text, "trust"));
    assert_null(strstr(text, "cached"));
    assert_null(strstr(text, "behind_relay"));
    free(text);
    report.cached_count = 2;
    report.cached[0] = (lh_cached_layers){"abc", 2, {{0, 10}, {20, 21}}};
    report.cached[1] = (lh_cached_layers){"def", 1, {{3, 5}}};
    report.relays = true;
    report.reach_count = 1;
    report.reaches[0] = (lh_relay_reach){.name = "c", .error = "refused"};
    text = lh_worker_report_render(&report);
    assert_non_null(
        strstr(text, "\"reaches\":[{\"name\":\"c\",\"hop\":null,\"error\":\"refused\"}]"));
    assert_non_null(strstr(text, "\"cached\":[{\"model\":\"abc\",\"layers\":\"0-9,20-20\"},"
                                 "{\"model\":\"def\",\"layers\":\"3-4\"}]"));
    free(text);
    report.relays = false;
    report.is_behind_relay = true;
    text = lh_worker_report_render(&report);
    assert_non_null(strstr(text, "\"behind_relay\":true"));
    free(text);
    report.trial = (lh_hop_trial_report){.state = LH_HOP_TRIAL_PROVEN}; /* the gateway's hop */
    text = lh_worker_report_render(&report);
    assert_non_null(strstr(text, "\"trial\":{\"next\":null,\"address\":null,\"state\":\"proven\","
                                 "\"error\":\"\",\"hop\":null}"));
    free(text);
    strcpy(report.trust_sha256, HEADER);
    text = lh_worker_report_render(&report);
    assert_non_null(strstr(text, "\"trust\":\"" HEADER "\""));
    free(text);
}

static const char good[] =
    "{\"protocol\":4,\"instance\":\"00ff00ff00ff00ff\",\"site\":\"home\",\"version\":\"0.1.0\","
    "\"isa\":\"avx2\",\"threads\":8,\"addresses\":{\"tls\":null,\"plain\":\"[::1]:7101\"},\"memory_"
    "bytes\":1000,\"kv_bytes\":500,\"assignment\":{\"generation\":7,\"state\":\"loading\",\"done_"
    "bytes\":1,\"total_bytes\":2,\"error\":null},\"compute\":{\"points\":[{\"rows\":1,\"us\":900.5}"
    ",{\"rows\":64,\"us\":20000}],\"us_per_row_position\":0.5,\"take_share\":0.1,\"give_share\":0."
    "2,\"draw_us\":7,\"draw_more_us\":2,\"shard_us\":3,\"step_us\":80,\"age_us\":5000},"
    "\"prepared\":{\"first_layer\":3,\"last_layer\":9,\"team_epoch\":6,\"hold\":true,\"state\":"
    "\"failed\",\"done_"
    "bytes\":5,\"total_bytes\":6,\"final\":true,\"error\":\"no "
    "room\"},\"next\":{\"connected\":true,\"round_trip_us\":120,\"bytes_sent\":9,\"bytes_per_us\":"
    "12.5},\"next_error\":\"h:1: it is "
    "down\",\"trial\":{\"next\":\"attic\",\"address\":\"h:2\",\"state\":"
    "\"proven\",\"error\":\"\"},\"surveyed\":{\"next\":\"loft\",\"address\":\"h:3\",\"state\":"
    "\"running\",\"error\":\"\",\"hop\":{\"connected\":true,\"bytes_per_us\":7.5}},\"kv\":{\"pages_"
    "total\":10,\"pages_free\":9,\"page_positions\":64,"
    "\"page_bytes\":4096,"
    "\"sequences\":1,\"epoch\":6},\"loaded\":{\"first_layer\":1,\"last_layer\":5,\"model\":\"abc\"}"
    ",\"steps\":{\"active\":1,\"done\":2,\"failed\":3},\"leaving\":false,\"unknown\":[1,2,3],"
    "\"host\":{\"memory_bytes\":7,\"seccomp\":0,\"of_another_version\":\"x\"}}";

static lh_status parse(const char *text, lh_worker_report *report, lh_error *error) {
    return lh_worker_report_parse("w-1", text, strlen(text), report, error);
}

static void a_report_is_read(void **state) {
    (void)state;
    lh_worker_report r;
    assert_int_equal(parse(good, &r, NULL), LH_OK);
    assert_string_equal(r.name, "w-1");
    assert_string_equal(r.site, "home");
    assert_true(r.instance == 0x00ff00ff00ff00ffu);
    assert_string_equal(r.version, "0.1.0");
    assert_string_equal(r.isa, "avx2");
    assert_int_equal(r.threads, 8);
    assert_int_equal(r.memory_bytes, 1000);
    assert_int_equal(r.kv_bytes, 500);
    assert_true(r.slowdown == 1);
    assert_string_equal(r.tls_address, "");
    assert_string_equal(r.plain_address, "[::1]:7101");
    assert_int_equal(r.assignment.state, LH_WORKER_LOADING);
    assert_int_equal(r.assignment.generation, 7);
    assert_true(r.assignment.done_bytes == 1 && r.assignment.total_bytes == 2);
    assert_string_equal(r.assignment.error, "");
    assert_int_equal(r.prepared.state, LH_WORKER_FAILED);
    assert_true(r.prepared.first_layer == 3 && r.prepared.last_layer == 9 && r.prepared.holds);
    assert_true(r.prepared.done_bytes == 5 && r.prepared.total_bytes == 6);
    assert_int_equal(r.prepared.team_epoch, 6);
    assert_true(r.prepared.is_final && !r.assignment.is_final);
    assert_false(r.prepared.is_joining || r.assignment.is_joining); /* an older worker's */
    assert_string_equal(r.prepared.error, "no room");
    assert_true(r.next.present && r.next.connected && r.next.bytes_per_us == 12.5);
    assert_string_equal(r.next_error, "h:1: it is down");
    assert_int_equal(r.trial.state, LH_HOP_TRIAL_PROVEN);
    assert_string_equal(r.trial.next, "attic");
    assert_string_equal(r.trial.address, "h:2");
    assert_string_equal(r.trial.error, "");
    assert_false(r.trial.hop.present);
    assert_int_equal(r.surveyed.state, LH_HOP_TRIAL_RUNNING);
    assert_string_equal(r.surveyed.next, "loft");
    assert_true(r.surveyed.hop.present && r.surveyed.hop.bytes_per_us == 7.5);
    assert_true(r.compute.point_count == 2 && r.compute.points[0].us == 900.5);
    assert_true(r.kv.present && r.kv.pages_total == 10 && r.kv.pages_free == 9);
    assert_int_equal(r.kv.page_positions, 64);
    assert_int_equal(r.kv.page_bytes, 4096);
    assert_int_equal(r.kv.sequences, 1);
    assert_int_equal(r.kv.epoch, 6);
    assert_true(r.loaded.present && r.loaded.first_layer == 1 && r.loaded.last_layer == 5);
    assert_string_equal(r.loaded.model, "abc");
    assert_int_equal(lh_host_facts_get(&r.host, LH_HOST_MEMORY_BYTES), 7);
    assert_int_equal(lh_host_facts_get(&r.host, LH_HOST_SECCOMP), 0);
    assert_false(lh_host_facts_know(&r.host, LH_HOST_LANDLOCK));
    assert_true(r.steps.active == 1 && r.steps.done == 2 && r.steps.failed == 3);
    assert_false(r.leaving);
}

/* The good report with one piece replaced. */
static char *replace(const char *old, const char *new) {
    const char *at = strstr(good, old);
    assert_non_null(at);
    size_t size = sizeof good + strlen(new);
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
    return text;
}

static lh_worker_report read_with(const char *old, const char *new) {
    lh_worker_report report;
    char *text = replace(old, new);
    assert_int_equal(parse(text, &report, NULL), LH_OK);
    free(text);
    return report;
}

static void what_may_be_there_is_read(void **state) {
    (void)state;
    assert_true(read_with("\"threads\":8", "\"threads\":8,\"slowdown\":2.5").slowdown == 2.5);
    assert_true(read_with("\"threads\":8", "\"threads\":65536").threads == 65536);
    assert_true(read_with("\"leaving\":false", "\"leaving\":true").leaving);
    assert_string_equal(read_with("\"tls\":null", "\"tls\":\"a.example:65535\"").tls_address,
                        "a.example:65535");
    assert_string_equal(
        read_with("{\"tls\":null,\"plain\":\"[::1]:7101\"}", "{\"tls\":\"b:1\",\"plain\":null}")
            .tls_address,
        "b:1");
    assert_string_equal(
        read_with("\"tls\":null", "\"tls\":null,\"members\":\"h:7\"").member_address, "h:7");
    assert_string_equal(read_with("\"tls\":null", "\"tls\":null,\"members\":null").member_address,
                        "");
    assert_string_equal(read_with("\"error\":null", "\"error\":\"disk full\"").assignment.error,
                        "disk full");
    assert_true(read_with("\"threads\":8", "\"threads\":8,\"behind_relay\":true").is_behind_relay);
    lh_worker_report relay = read_with(
        "\"threads\":8", "\"threads\":8,\"reaches\":[{\"name\":\"c\",\"hop\":null,\"error\":null},"
                         "{\"name\":\"d\",\"hop\":null,\"error\":\"refused\"}]");
    assert_true(relay.relays && !relay.is_behind_relay && relay.reach_count == 2);
    assert_string_equal(relay.reaches[0].name, "c");
    assert_false(relay.reaches[0].hop.connected);
    assert_string_equal(relay.reaches[1].error, "refused");
    assert_true(read_with("\"threads\":8", "\"threads\":8,\"reaches\":[]").relays);
    lh_worker_report report =
        read_with("\"threads\":8", "\"threads\":8,\"speed\":{\"prompt_us\":12,\"token_us\":60}");
    assert_true(report.speed.prompt_us == 12 && report.speed.token_us == 60);
    assert_false(read_with("\"kv\":{", "\"kv\":null,\"other\":{").kv.present);
    report = read_with("\"threads\":8", "\"threads\":8,\"cached\":[{\"model\":\"" HEADER
                                        "\",\"layers\":\"0-9,20-20\"}]");
    assert_int_equal(report.cached_count, 1);
    assert_string_equal(report.cached[0].model, HEADER);
    assert_int_equal(report.cached[0].run_count, 2);
    assert_int_equal(report.cached[0].runs[1].last, 21);
    assert_false(read_with("\"loaded\":{", "\"loaded\":null,\"other\":{").loaded.present);
    assert_true(read_with("\"hold\":true", "\"joining\":true,\"hold\":true").prepared.is_joining);
    assert_int_equal(read_with("\"prepared\":{", "\"prepared\":null,\"other\":{").prepared.state,
                     LH_WORKER_IDLE);
    assert_string_equal(read_with("\"next_error\":", "\"other\":").next_error, "");
    assert_string_equal(read_with("\"h:1: it is down\"", "null").next_error, "");
    assert_int_equal(read_with("\"trial\":{", "\"trial\":null,\"other\":{").trial.state,
                     LH_HOP_TRIAL_NONE);
    report =
        read_with("{\"next\":\"attic\",\"address\":\"h:2\",\"state\":\"proven\",\"error\":\"\"}",
                  "{\"next\":null,\"address\":null,\"state\":\"failed\",\"error\":\"no way\"}");
    assert_int_equal(report.trial.state, LH_HOP_TRIAL_FAILED);
    assert_string_equal(report.trial.next, "");
    assert_string_equal(report.trial.address, "");
    assert_string_equal(report.trial.error, "no way");
    report = read_with("\"proven\",", "\"proven\",\"hop\":{\"connected\":true,\"age_us\":9},");
    assert_true(report.trial.hop.present && report.trial.hop.age_us == 9);
    assert_int_equal(read_with("\"surveyed\":{", "\"surveyed\":null,\"other\":{").surveyed.state,
                     LH_HOP_TRIAL_NONE);
    assert_int_equal(read_with("\"proven\"", "\"running\"").trial.state, LH_HOP_TRIAL_RUNNING);
    static const char *const states[] = {"fetching", "loading", "ready", "failed"};
    for (int i = 0; i < 4; i++) {
        char text[32];
        snprintf(text, sizeof text, "\"state\":\"%s\"", states[i]);
        assert_int_equal(read_with("\"state\":\"loading\"", text).assignment.state,
                         LH_WORKER_FETCHING + i);
    }
}

static const struct {
    const char *old, *new, *named; /* NULL: still good */
    lh_status status;
} changes[] = {
    {"\"assignment\":{\"generation\":7,\"state\":\"loading\",\"done_bytes\":1,\"total_bytes\":2,"
     "\"error\":null}",
     "\"assignment\":null", NULL, LH_OK},
    {"\"next\":{\"connected\":true,\"round_trip_us\":120,\"bytes_sent\":9,\"bytes_per_us\":12.5}",
     "\"next\":null", NULL, LH_OK},
    {",\"bytes_per_us\":12.5", "", NULL, LH_OK},
    {"\"compute\":", "\"compute\":null,\"compute_of_old\":", NULL, LH_OK},
    {"\"compute\":", "\"compute_of_old\":", NULL, LH_OK},
    {"\"compute\":", "\"compute\":[],\"compute_of_old\":", "compute must", LH_ERR_INVALID},
    {"\"rows\":64", "\"rows\":1", "ascending", LH_ERR_INVALID},
    {"900.5", "-900.5", "compute.us", LH_ERR_INVALID},
    {"900.5", "1e999", "", LH_ERR_MALFORMED},
    {"12.5", "1e99", "next.bytes_per_us", LH_ERR_INVALID},
    {"\"next_error\":\"h:1: it is down\"", "\"next_error\":7", "next_error", LH_ERR_INVALID},
    {"\"running\"", "\"walking\"", "surveyed.state", LH_ERR_INVALID},
    {"7.5", "-7.5", "surveyed.hop.bytes_per_us", LH_ERR_INVALID},
    {"\"trial\":{", "\"trial\":7,\"other\":{", "trial", LH_ERR_INVALID},
    {"\"proven\"", "\"none\"", "trial.state", LH_ERR_INVALID},
    {"\"proven\"", "null", "trial.state", LH_ERR_INVALID},
    {"\"attic\"", "\"the attic\"", "trial.next", LH_ERR_INVALID},
    {"h:2", "h", "trial.address", LH_ERR_INVALID},
    {"\"error\":\"\"", "\"error\":1", "trial.error", LH_ERR_INVALID},
    {"\"kv\":{\"pages_total\":10,\"pages_free\":9,\"page_positions\":64,\"page_bytes\":4096,"
     "\"sequences\":1,\"epoch\":6}",
     "\"kv\":null", NULL, LH_OK},
    {"\"tls\":null", "\"tls\":\"a.example:1\"", NULL, LH_OK},
    {"\"error\":null", "\"error\":\"disk\\u0007 full\"", NULL, LH_OK},
    {"\"threads\":8", "\"threads\":8,\"slowdown\":2.5", NULL, LH_OK},
    {"\"threads\":8", "\"threads\":8,\"speed\":{\"prompt_us\":12,\"token_us\":60.5}", NULL, LH_OK},
    {"\"threads\":8", "\"threads\":8,\"speed\":{\"prompt_us\":0,\"token_us\":60}",
     "speed.prompt_us", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"speed\":{\"prompt_us\":12}", "speed.token_us",
     LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"speed\":{\"prompt_us\":-1,\"token_us\":60}",
     "speed.prompt_us", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"speed\":7", "speed", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"slowdown\":0.5", "slowdown", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"slowdown\":1001", "slowdown", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8,\"slowdown\":\"2\"", "slowdown", LH_ERR_INVALID},
    {"\"protocol\":4", "\"protocol\":1", "version 1", LH_ERR_UNSUPPORTED},
    {"\"protocol\":4", "\"protocol\":\"1\"", "protocol", LH_ERR_INVALID},
    {"\"protocol\":4,", "", "protocol", LH_ERR_INVALID},
    {"00ff00ff00ff00ff", "00FF00FF00FF00FF", "instance", LH_ERR_INVALID},
    {"00ff00ff00ff00ff", "00ff", "instance", LH_ERR_INVALID},
    {"\"00ff00ff00ff00ff\"", "17", "instance", LH_ERR_INVALID},
    {"\"home\"", "\"ho me\"", "site", LH_ERR_INVALID},
    {"\"home\"", "\"\"", "site", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":0", "threads", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":-1", "threads", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":8.5", "threads", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":99999999", "threads", LH_ERR_INVALID},
    {"\"memory_bytes\":1000", "\"memory_bytes\":0", "memory_bytes", LH_ERR_INVALID},
    {"\"memory_bytes\":1000", "\"memory_bytes\":18446744073709551616", "", LH_ERR_MALFORMED},
    {"\"plain\":\"[::1]:7101\"", "\"plain\":null", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "host", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "host:0", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "host:65536", "addresses.plain", LH_ERR_INVALID},
    {"\"isa\":\"avx2\"", "\"isa\":7", "isa", LH_ERR_INVALID},
    {"\"isa\":\"avx2\",", "", "isa", LH_ERR_INVALID},
    {"\"isa\":\"avx2\"", "\"isa\":\"x2345678901234567890123456789012\"", "isa", LH_ERR_INVALID},
    {"\"version\":\"0.1.0\",", "", "version", LH_ERR_INVALID},
    {"\"kv_bytes\":500,", "", "kv_bytes", LH_ERR_INVALID},
    {"\"threads\":8", "\"threads\":65537", "threads", LH_ERR_INVALID},
    {"\"addresses\":{", "\"addresses\":null,\"other\":{", "addresses", LH_ERR_INVALID},
    {"[::1]:7101", "host:", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", ":7101", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "host:70000", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "host:71x", "addresses.plain", LH_ERR_INVALID},
    {"[::1]:7101", "user@host:71", "addresses.plain", LH_ERR_INVALID},
    {"\"state\":\"loading\"", "\"state\":\"idle\"", "assignment.state", LH_ERR_INVALID},
    {"\"state\":\"loading\"", "\"state\":3", "assignment.state", LH_ERR_INVALID},
    {"\"prepared\":{", "\"prepared\":null,\"other\":{", "", LH_OK},
    {"\"prepared\":{", "\"other\":{", "", LH_OK}, /* of an older worker */
    {",\"epoch\":6", "", NULL, LH_OK},            /* of an older worker */
    {"\"epoch\":6", "\"epoch\":-6", "kv.epoch", LH_ERR_INVALID},
    {"\"loaded\":{", "\"loaded\":null,\"other\":{", NULL, LH_OK},
    {"\"loaded\":{", "\"other\":{", NULL, LH_OK},
    {"\"loaded\":{", "\"cached\":[],\"loaded\":{", "", LH_OK},
    {"\"loaded\":{", "\"cached\":7,\"loaded\":{", "cached", LH_ERR_INVALID},
    {"\"loaded\":{", "\"cached\":[1],\"loaded\":{", "model", LH_ERR_INVALID},
    {"\"loaded\":{", "\"cached\":[{\"model\":\"abc\",\"layers\":\"0-1\"}],\"loaded\":{", "model",
     LH_ERR_INVALID},
    {"\"loaded\":{", "\"cached\":[{\"model\":\"" HEADER "\",\"layers\":\"1-0\"}],\"loaded\":{",
     "layers", LH_ERR_INVALID},
    {"\"loaded\":{", "\"cached\":[{},{},{},{},{}],\"loaded\":{", "cached", LH_ERR_INVALID},
    {"\"loaded\":{", "\"loaded\":3,\"other\":{", "loaded", LH_ERR_INVALID},
    {"\"model\":\"abc\"", "\"model\":7", "loaded.model", LH_ERR_INVALID},
    {"\"prepared\":{", "\"prepared\":[],\"other\":{", "prepared", LH_ERR_INVALID},
    {"\"hold\":true", "\"hold\":0", "prepared.hold", LH_ERR_INVALID},
    {"\"state\":\"failed\"", "\"state\":\"idle\"", "prepared.state", LH_ERR_INVALID},
    {"\"last_layer\":9", "\"last_layer\":-9", "prepared.last_layer", LH_ERR_INVALID},
    {"\"generation\":7", "\"generation\":null", "assignment.generation", LH_ERR_INVALID},
    {"\"page_positions\":64", "\"page_positions\":0", "kv.page_positions", LH_ERR_INVALID},
    {"\"connected\":true", "\"connected\":1", "next.connected", LH_ERR_INVALID},
    {"\"steps\":{\"active\":1,\"done\":2,\"failed\":3}", "\"steps\":null", "steps", LH_ERR_INVALID},
    {"\"leaving\":false", "\"leaving\":null", "leaving", LH_ERR_INVALID},
    {"\"leaving\":false", "\"leaving\":false,\"leaving\":true", "", LH_ERR_MALFORMED},
    {"\"unknown\":[1,2,3]", "\"unknown\":[1,2,3", "", LH_ERR_MALFORMED},
    {"\"home\"", "\"\\u0000\"", "", LH_ERR_MALFORMED},
    {"\"host\":{", "\"other\":{", "", LH_OK}, /* of an older worker */
    {"\"host\":{", "\"host\":null,\"other\":{", "", LH_OK},
    {"\"host\":{", "\"host\":[],\"other\":{", "host", LH_ERR_INVALID},
    {"\"memory_bytes\":7", "\"memory_bytes\":-7", "host.memory_bytes", LH_ERR_INVALID},
    {"\"seccomp\":0", "\"seccomp\":true", "host.seccomp", LH_ERR_INVALID},
};

static void each_wrong_field_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        lh_worker_report report;
        lh_error error = {0};
        char *text = replace(changes[i].old, changes[i].new);
        lh_status status = parse(text, &report, &error);
        if (status != changes[i].status)
            fail_msg("%s gave %s: %s", changes[i].new, lh_status_name(status), error.message);
        if (status != LH_OK && !strstr(error.message, changes[i].named))
            fail_msg("%s is not named: %s", changes[i].named, error.message);
        if (status == LH_OK)
            for (const char *at = report.assignment.error; *at; at++)
                assert_true((unsigned char)*at >= 0x20);
        free(text);
    }
}

static void hostile_bodies_are_refused(void **state) {
    (void)state;
    lh_worker_report report;
    lh_error error;
    static char deep[20000];
    memset(deep, '[', sizeof deep - 1);
    const char *bodies[] = {"", "null", "[]", "{}", "{\"protocol\":4}", "\xff\xfe", deep};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        assert_int_not_equal(parse(bodies[i], &report, &error), LH_OK);
    const char *names[] = {"", "a b", "a/b", "..%2f",
                           "x234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(lh_worker_report_parse(names[i], good, strlen(good), &report, &error),
                         LH_ERR_INVALID);
    for (size_t cut = 0; cut < sizeof good - 1; cut++)
        assert_int_not_equal(lh_worker_report_parse("w", good, cut, &report, &error), LH_OK);
    for (size_t at = 0; at < sizeof good - 1; at++) {
        char changed[sizeof good];
        memcpy(changed, good, sizeof good);
        for (int bit = 0; bit < 8; bit++) {
            changed[at] = (char)(good[at] ^ (1 << bit));
            (void)lh_worker_report_parse("w", changed, sizeof good - 1, &report, &error);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_written),        cmocka_unit_test(a_report_is_read),
        cmocka_unit_test(what_may_be_there_is_read),  cmocka_unit_test(each_wrong_field_is_named),
        cmocka_unit_test(hostile_bodies_are_refused),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
