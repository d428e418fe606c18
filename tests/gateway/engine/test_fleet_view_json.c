/* What GET /fleet says of two chains: one that serves, one that has a worker too few. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/engine/fleet_view_json.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/gateway/support/tiny_model.h"
#include "tests/gateway/support/worker_reports.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static lh_model_file *file;
static lh_router *router;
static lh_worker_report a, b, c;
static int64_t now_us;

static lh_fleet_answer put(uint32_t chain, const lh_worker_report *report) {
    lh_fleet_answer answer;
    assert_int_equal(
        lh_chain_controller_put(lh_router_controller(router, chain), report, now_us, &answer, NULL),
        LH_OK);
    return answer;
}

/* Each holds half of the layers; c alone cannot be a chain. */
static lh_worker_report half(const char *name) {
    lh_worker_report report = report_of(name);
    report.memory_bytes = 250;
    return report;
}

static int set_up(void **state) {
    (void)state;
    const lh_fleet_options fleet = fleet_of_four_layers(4);
    const lh_scheduler_options scheduler = options_of(16);
    lh_log_set_level(LH_LOG_ERROR);
    file = open_tiny_model();
    now_us = 0;
    a = half("a");
    b = half("b");
    c = half("c");
    return lh_router_create(2, &fleet, &scheduler, &bench_sink, 0, &router, NULL) != LH_OK;
}

static int tear_down(void **state) {
    (void)state;
    lh_router_destroy(router);
    lh_model_file_close(file);
    return 0;
}

/* The first chain, of a and b, is planned when nobody else has come for a second. */
static lh_assignment form(void) {
    put(0, &a);
    put(0, &b);
    now_us += 1000 * MS;
    put(0, &a);
    return put(0, &b).assignment;
}

static json_t *view_with(const lh_hop_profile *first_hop) {
    const lh_fleet_model model = {"tiny", file, "/w", "/t", "/b", "/p"};
    lh_member issued[] = {
        {.name = "a", .serial = "4A", .authority = "old", .expires_s = 1},
        {.name = "a", .serial = "4B", .authority = "0123456789abcdef", .expires_s = 1800000000}};
    const lh_member_list members = {.members = issued, .count = 2};
    lh_self_description self = {.connections_max = 4096, .state_dir = "/s", .api_key_file = ""};
    lh_host_facts_set(&self.host, LH_HOST_OPEN_FILES, 1024);
    const lh_fleet_options numbers = {.has_fast_math = true, .kv_type = "f16"};
    const lh_fleet_view view = {.state = "loading",
                                .self = self,
                                .sequences_max = 8,
                                .queue_max = 40,
                                .members = &members,
                                .numbers = &numbers,
                                .first_hops = {*first_hop}};
    char *text = lh_fleet_view_render(router, &model, &view, now_us);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

static void assert_part(const json_t *json, const char *key, const char *expected) {
    char *text = json_dumps(json_object_get(json, key), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, expected);
    free(text);
}

static json_t *at(const json_t *json, const char *key, size_t index) {
    return json_array_get(json_object_get(json, key), index);
}

static void run(uint32_t chain, uint64_t sequences) {
    lh_scheduler *scheduler = lh_chain_controller_scheduler(lh_router_controller(router, chain));
    const lh_sequence_request request = request_of(20, 10);
    for (uint64_t i = 0; i < sequences; i++)
        assert_int_equal(submit_request(scheduler, &request, i, now_us), LH_OK);
    lh_action action;
    uint32_t index;
    while (lh_router_next_action(router, now_us, &index, &action))
        assert_true(action.kind == LH_ACTION_CONNECT || action.kind == LH_ACTION_SUBMIT);
}

/* The first chain serves; c has reported to the second one. */
static void bring_up(void) {
    uint32_t epoch = form().epoch;
    make_ready(&a, epoch);
    make_ready(&b, epoch);
    put(0, &a);
    put(0, &b);
    put(1, &c);
    lh_chain_controller_first_hop(lh_router_controller(router, 0), true, now_us, "");
}

/* What is not there is null; its compute time is as old as it was told, and what has passed since.
 */
static void a_worker_is_shown_as_it_reported(void **state) {
    (void)state;
    snprintf(a.version, sizeof a.version, "0.1.0");
    snprintf(a.isa, sizeof a.isa, "avx2");
    snprintf(a.tls_address, sizeof a.tls_address, "a:2");
    a.slowdown = 1.5;
    a.kv_bytes = 77;
    a.leaving = true;
    a.steps.active = 1;
    a.steps.done = 2;
    a.steps.failed = 3;
    a.assignment.state = LH_WORKER_FAILED;
    a.assignment.generation = 4000000000u;
    a.assignment.done_bytes = 5;
    a.assignment.total_bytes = 6;
    snprintf(a.assignment.error, sizeof a.assignment.error, "no room");
    a.prepared.state = LH_WORKER_LOADING;
    a.prepared.first_layer = 1;
    a.prepared.last_layer = 3;
    a.prepared.holds = true;
    a.prepared.done_bytes = 7;
    a.prepared.total_bytes = 8;
    snprintf(a.prepared.error, sizeof a.prepared.error, "?");
    a.kv.present = true;
    a.kv.pages_total = 10;
    a.kv.pages_free = 9;
    a.kv.page_positions = 16;
    a.kv.page_bytes = 4096;
    a.kv.sequences = 2;
    a.compute.point_count = 1;
    a.compute.points[0] = (lh_compute_point){1, 900.5};
    a.compute.age_us = 5;
    lh_host_facts_set(&a.host, LH_HOST_CLOCK_MS, 12345);
    lh_host_facts_set(&a.host, LH_HOST_SOMAXCONN, 128);
    a.clock_offset_ms = -7;
    a.relays = true;
    a.reach_count = 1;
    a.reaches[0] = (lh_relay_reach){
        .name = "z", .hop = {.present = true, .round_trip_us = 5}, .error = "refused"};
    put(0, &a);
    put(1, &c);
    now_us += 300 * MS;
    json_t *json = view_with(&(lh_hop_profile){0});
    json_t *worker = at(json, "workers", 0);
    static const char *const expected[][2] = {
        {"name", "\"a\""},
        {"site", "\"home\""},
        {"version", "\"0.1.0\""},
        {"isa", "\"avx2\""},
        {"threads", "1"},
        {"slowdown", "1.5"},
        {"addresses", "{\"tls\":\"a:2\",\"plain\":\"a:1\"}"},
        {"memory_bytes", "250"},
        {"kv_bytes", "77"},
        {"report_age_ms", "300"},
        {"lease_left_ms", "2700"},
        {"leaving", "true"},
        {"assignment", "{\"generation\":4000000000,\"state\":\"failed\",\"done_bytes\":5,\"total_"
                       "bytes\":6,\"error\":\"no room\"}"},
        {"prepared", "{\"first_layer\":1,\"last_layer\":3,\"hold\":true,\"state\":\"loading\","
                     "\"done_bytes\":7,\"total_bytes\":8,\"error\":\"?\"}"},
        {"kv", "{\"pages_total\":10,\"pages_free\":9,\"page_positions\":16,\"page_bytes\":4096,"
               "\"sequences\":2}"},
        {"steps", "{\"active\":1,\"done\":2,\"failed\":3}"},
        {"certificate", "{\"expires\":\"2027-01-15T08:00:00Z\",\"serial\":\"4B\",\"ca\":"
                        "\"0123456789abcdef\"}"},
        {"clock_offset_ms", "-7"},
        {"behind_relay", "false"},
        {"misconduct", "null"},
        {"reaches", "[{\"worker\":\"z\",\"connected\":false,\"round_trip_us\":5,\"error\":"
                    "\"refused\"}]"},
        {"host", "{\"clock_ms\":12345,\"somaxconn\":128}"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_part(worker, expected[i][0], expected[i][1]);
    assert_part(json_object_get(worker, "compute"), "age_us", "300005");
    json_t *idle = at(json, "workers", 1);
    assert_part(idle, "name", "\"c\"");
    assert_part(idle, "addresses", "{\"tls\":null,\"plain\":\"c:1\"}");
    assert_part(idle, "leaving", "false");
    assert_part(idle, "assignment", "null");
    assert_part(idle, "prepared", "null");
    assert_part(idle, "compute", "null");
    assert_part(idle, "kv", "null");
    assert_part(idle, "certificate", "null");
    assert_part(idle, "clock_offset_ms", "null");
    assert_part(idle, "reaches", "null");
    assert_part(idle, "host", "null");
    assert_part(json, "gateway",
                "{\"version\":\"" LONGHAUL_VERSION
                "\",\"protocol\":4,\"connections_max\":4096,\"host\":{\"open_files\":1024},"
                "\"files\":{\"state_dir\":\"/s\",\"api_key_file\":null,\"tls_key\":null}}");
    json_decref(json);
}

static void a_chain_that_forms_says_what_it_waits_for(void **state) {
    (void)state;
    json_t *json = view_with(&(lh_hop_profile){0});
    assert_part(json, "state", "\"loading\"");
    assert_part(json, "chains", "[]");
    assert_part(json, "workers", "[]");
    json_decref(json);
    form();
    json = view_with(&(lh_hop_profile){0});
    json_t *chain = at(json, "chains", 0);
    assert_part(chain, "state", "\"forming\"");
    assert_part(chain, "reason", "\"worker a has not taken its assignment yet\"");
    assert_part(json, "reason", "\"worker a has not taken its assignment yet\"");
    assert_part(
        chain, "stages",
        "[{\"worker\":\"a\",\"site\":\"home\",\"layers\":\"0-1\",\"first_layer\":0,\"last_layer\":"
        "2,"
        "\"address\":\"a:1\",\"via\":null,\"tls\":false,\"state\":\"idle\",\"members\":[]},"
        "{\"worker\":\"b\",\"site\":\"home\",\"layers\":\"2-3\",\"first_layer\":2,\"last_layer\":4,"
        "\"address\":\"b:1\",\"via\":null,\"tls\":false,\"state\":\"idle\",\"members\":[]}]");
    assert_part(chain, "next", "null");
    assert_part(json_object_get(json, "model"), "name", "\"tiny\"");
    assert_part(json, "numbers",
                "{\"activations\":\"q8\",\"gpu_math\":\"fast\",\"kv_type\":\"f16\"}");
    assert_true(json_integer_value(json_object_get(json_object_get(json, "model"), "file_bytes")) >
                0);
    json_decref(json);
}

/* The gateway's own hop, between the workers, and home; each as its near end has measured it. */
static void a_chain_that_serves_is_shown_hop_by_hop(void **state) {
    (void)state;
    a.next.bytes_per_us = 12.5;
    a.next.age_us = 7;
    bring_up();
    now_us += 300 * MS;
    json_t *json = view_with(&(lh_hop_profile){.round_trip_us = 77, .bytes_per_us = 0.5});
    json_t *chain = at(json, "chains", 0);
    assert_int_equal(json_array_size(json_object_get(json, "chains")), 1);
    assert_part(chain, "name", "\"main\"");
    assert_part(chain, "state", "\"ready\"");
    assert_part(chain, "reason", "null");
    assert_part(json, "reason", "\"no worker is registered\""); /* of the second one */
    static const char *const expected[][6] = {
        {"\"gateway\"", "\"a\"", "null", "77", "0.5", "0"},
        {"\"a\"", "\"b\"", "\"f32\"", "0", "12.5", "300007"},
        {"\"b\"", "\"gateway\"", "null", "0", "0.0", "0"},
    };
    static const char *const keys[] = {"from",          "to",           "wire",
                                       "round_trip_us", "bytes_per_us", "age_us"};
    assert_int_equal(json_array_size(json_object_get(chain, "links")), 3);
    for (size_t hop = 0; hop < 3; hop++)
        for (size_t k = 0; k < 6; k++)
            assert_part(at(chain, "links", hop), keys[k], expected[hop][k]);
    for (size_t stage = 0; stage < 2; stage++)
        assert_part(at(chain, "stages", stage), "state", "\"ready\"");
    assert_part(json, "matrix",
                "[{\"from\":\"home\",\"to\":\"home\",\"bytes_per_us\":12.5,"
                "\"bytes_per_us_is_bound\":false,\"round_trip_us\":null,\"age_us\":300007,"
                "\"source\":\"hop\",\"from_worker\":\"a\",\"to_worker\":\"b\"}]");
    json_decref(json);
    lh_chain_controller_forget(lh_router_controller(router, 0), "b", now_us);
    json = view_with(&(lh_hop_profile){0});
    assert_part(json, "chains", "[]");
    json_decref(json);
}

/* On the first chain four run and two wait; the second one has none, and no stages. */
static void the_chains_queues_are_added_up(void **state) {
    (void)state;
    bring_up();
    run(0, 6);
    json_t *json = view_with(&(lh_hop_profile){0});
    json_t *all = json_object_get(json, "queue"),
           *own = json_object_get(at(json, "chains", 0), "queue");
    assert_part(own, "sequences_max", "8");
    assert_part(all, "sequences_max", "16");
    assert_part(own, "decode", "{\"groups\":0,\"period_ms\":0.0}");
    assert_null(json_object_get(all, "decode"));
    json_t *const either[] = {own, all};
    for (int i = 0; i < 2; i++) {
        assert_part(either[i], "running", "4");
        assert_part(either[i], "waiting", "2");
        assert_part(either[i], "queue_max", "40");
        assert_part(either[i], "steps_in_flight", "{\"decode\":0,\"prefill\":6,\"release\":0}");
        assert_part(either[i], "totals",
                    "{\"steps\":6,\"rows\":60,\"tokens\":0,\"finished\":0,\"failed\":0,"
                    "\"cancelled\":0,\"replays\":0,\"replayed_rows\":0,\"results_ignored\":0,"
                    "\"preemptions\":0,\"prefix_hits\":0,\"cached_tokens\":0,"
                    "\"evicted_blocks\":0}");
        assert_int_equal(json_array_size(json_object_get(either[i], "kv")), 2);
        assert_part(at(either[i], "kv", 1), "pages_used", "8");
        assert_part(at(either[i], "kv", 1), "pages_total", "10");
        assert_part(at(either[i], "kv", 1), "pages_cached", "0");
        assert_part(at(either[i], "kv", 1), "page_positions", "16");
    }
    json_decref(json);
}

static void a_lone_chains_queue_is_the_whole(void **state) {
    (void)state;
    const lh_fleet_options fleet = fleet_of_four_layers(2);
    const lh_scheduler_options scheduler = options_of(16);
    lh_router_destroy(router);
    assert_int_equal(lh_router_create(1, &fleet, &scheduler, &bench_sink, 0, &router, NULL), LH_OK);
    json_t *json = view_with(&(lh_hop_profile){0});
    assert_part(json, "reason", "\"no worker is registered\"");
    assert_part(json_object_get(json, "queue"), "decode", "{\"groups\":0,\"period_ms\":0.0}");
    assert_part(json_object_get(json, "queue"), "sequences_max", "8");
    json_decref(json);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_is_shown_as_it_reported),
        TEST(a_chain_that_forms_says_what_it_waits_for),
        TEST(a_chain_that_serves_is_shown_hop_by_hop),
        TEST(the_chains_queues_are_added_up),
        TEST(a_lone_chains_queue_is_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
