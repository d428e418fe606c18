/* The page of a fleet: what stands in which row, what is marked, and that 80 columns are enough. */
#include "gateway/cli/bottleneck.h"
#include "gateway/cli/fleet_document_json.h"
#include "gateway/cli/status_json.h"
#include "gateway/cli/status_page.h"
#include "tests/gateway/support/fleet_documents.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *fleet;
static lh_text_buffer text;

static int set_up(void **state) {
    (void)state;
    fleet = load_fleet(SOUND_FLEET);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    json_decref(fleet);
    lh_text_buffer_reset(&text);
    return 0;
}

static const char *page(uint32_t width) {
    const lh_status_page_style style = {.width = width};
    lh_fleet_document document = document_of(fleet);
    lh_text_buffer_reset(&text);
    assert_int_equal(lh_status_page_render(&document, 41.25, &style, &text), LH_OK);
    assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
    lh_fleet_document_reset(&document);
    return text.bytes;
}

static void expect(const char *part) {
    const char *all = page(80);
    if (!strstr(all, part))
        fail_msg("no \"%s\" in\n%s", part, all);
}

static void a_fleet_is_drawn_along_its_ring(void **state) {
    (void)state;
    assert_string_equal(
        page(80),
        "tiny: ready, 2 workers at 2 sites\n"
        "2 streams, 0 waiting, 41.2 tokens/s; so far 120 tokens, 0 failed\n"
        "\n"
        "chain main, epoch 7: ready, 2 running, 0 waiting\n"
        "  site   worker     layers   state     machine     64 rows    KV\n"
        "         > home-1   100.0 Mbit/s, 20.0 ms, tokens, 3 s ago\n"
        "* home   home-1     0-14     ready     avx2 x4     20.0 ms    25 %\n"
        "         > office-1 100.0 Mbit/s, 20.0 ms, f32, 3 s ago\n"
        "  office office-1   15-29    ready     avx2 x4     15.0 ms    25 %\n"
        "         > gateway  100.0 Mbit/s, 20.0 ms, tokens, 3 s ago\n"
        "Prompts wait longest for home-1 (layers 0-14): 20.0 ms for 64 rows. The busiest\n"
        "link, home-1 > office-1, takes 11.8.\n"
        "A single stream's token takes 33.5 ms: 2.5 at the stages, 31.0 on the links, of\n"
        "which gateway > home-1 is 10.0 one way.\n");
}

static void who_computes_with_a_worker_stands_below_it(void **state) {
    (void)state;
    json_t *stage = json_array_get(
        json_object_get(json_array_get(json_object_get(fleet, "chains"), 0), "stages"), 0);
    json_object_set_new(stage, "members", json_pack("[s,s]", "office-1", "gone"));
    expect("* home   home-1     0-14     ready     avx2 x4     20.0 ms    25 %\n"
           "         + office-1                    avx2 x4\n"
           "         + gone\n");
}

static void a_link_that_holds_prompts_back_is_marked(void **state) {
    (void)state;
    plant(fleet, "chains.0.overlap.hops.1.bytes_per_us", "4.0");
    expect("*        > office-1 100.0 Mbit/s");
    expect("  home   home-1 ");
    expect("Prompts wait longest for the link home-1 > office-1: 36.9 ms for 64 rows at 32.0\n"
           "Mbit/s.");
    expect("--wire f16 would halve the link's\nbytes.");
}

static void who_is_slower_than_it_was_is_named(void **state) {
    (void)state;
    assert_null(strstr(page(80), "when its stage was loaded"));
    plant(fleet, "chains.0.overlap.stages.1.calibrated_times", "3.21");
    expect("office-1 takes 3.2 times as long as when its stage was loaded: something else\n"
           "uses the machine, or slows it down (longhaul-gateway doctor says what to do).\n");
}

static void what_is_not_there_is_said(void **state) {
    (void)state;
    plant(fleet, "chains.0.links.1.connected", "false");
    plant(fleet, "chains.0.links.1.error", "\"192.0.2.1:7101: refused\"");
    plant(fleet, "chains.0.links.2.bytes_per_us", "0");
    plant(fleet, "chains.0.overlap.stages", "[]");
    plant(fleet, "chains.0.overlap.lacks", "\"worker office-1 has not measured its stage\"");
    plant(fleet, "workers.1.role", "\"spare\"");
    plant(fleet, "workers.1.reason", "\"the chain would not be a fifth faster\"");
    plant(fleet, "state", "\"loading\"");
    plant(fleet, "reason", "\"2 workers load\"");
    expect("tiny: loading, 2 workers");
    expect("\n2 workers load\n");
    expect("> office-1 192.0.2.1:7101: refused\n");
    expect("> gateway  rate not known yet, 20.0 ms, tokens\n");
    expect("What holds it back is not known yet: worker office-1 has not measured its stage.\n");
    expect("  office office-1   spare    the chain would not be a fifth faster\n");
}

/* One that has a stage is shown again where nothing serves without it. */
static void who_sends_wrong_results_is_shown(void **state) {
    (void)state;
    plant(fleet, "workers.1.misconduct",
          "{\"standing\":\"on_trial\",\"is_needed\":false,\"reason\":\"no such token\"}");
    assert_null(strstr(page(100), "no such token"));
    plant(fleet, "workers.1.misconduct",
          "{\"standing\":\"suspended\",\"is_needed\":true,\"reason\":\"no such token\"}");
    expect("  office office-1   stage    its results were refused, and nothing serves\n"
           "                             without it: no such token\n");
}

/* The hop that ends there, and no other one. */
static void a_relay_on_the_way_is_named(void **state) {
    (void)state;
    plant(fleet, "chains.0.stages.1.via", "\"barn\"");
    expect("         > office-1 100.0 Mbit/s, 20.0 ms, f32, 3 s ago, through relay barn\n");
    expect("         > home-1   100.0 Mbit/s, 20.0 ms, tokens, 3 s ago\n");
    plant(fleet, "chains.0.links.1.connected", "false");
    plant(fleet, "chains.0.links.1.error", "\"192.0.2.1:7101: refused\"");
    expect("> office-1 192.0.2.1:7101: refused, through relay barn\n");
}

static const char *way(const char *from, const char *to, const char *rest) {
    static char json[300];
    snprintf(json, sizeof json, "[{\"from\":\"%s\",\"to\":\"%s\",%s}]", from, to, rest);
    return json;
}

static void links_between_sites_are_listed(void **state) {
    (void)state;
    plant(fleet, "matrix",
          way("home", "office",
              "\"bytes_per_us\":6.0,\"bytes_per_us_is_bound\":false,\"round_trip_us\":10200,"
              "\"age_us\":65000000,\"source\":\"survey\""));
    expect("\n\nlinks between sites\n"
           "  home   > office 48.0 Mbit/s, 10.2 ms, survey, 65 s ago\n");
    plant(fleet, "matrix",
          way("office", "home",
              "\"bytes_per_us\":null,\"bytes_per_us_is_bound\":false,\"round_trip_us\":10200,"
              "\"age_us\":null,\"source\":\"hop\""));
    expect("  office > home   rate not known yet, 10.2 ms, hop\n");
    plant(fleet, "matrix", way("home", "home", "\"bytes_per_us\":6.0,\"source\":\"hop\""));
    assert_null(strstr(page(80), "links between sites"));
}

static void of_many_links_some_are_listed(void **state) {
    (void)state;
    json_t *matrix = json_array();
    for (int i = 0; i < 14; i++)
        json_array_append_new(matrix, json_pack("{s:s, s:s, s:f, s:s}", "from", "home", "to",
                                                "office", "bytes_per_us", 6.0, "source", "survey"));
    json_object_set_new(fleet, "matrix", matrix);
    expect("48.0 Mbit/s, survey, now\nand 2 more: status --json\n");
}

/* What was measured is of the chain before; the reason is said once. */
static void set_better(const char *objective, const char *unit, double present, double best) {
    json_t *better =
        json_pack("{s:s, s:s, s:f, s:f, s:[{s:s, s:s}, {s:s, s:s}]}", "objective", objective,
                  "unit", unit, "present", present, "best", best, "stages", "worker", "office-1",
                  "layers", "0-9", "worker", "home-1", "layers", "10-29");
    assert_int_equal(
        json_object_set_new(json_array_get(json_object_get(fleet, "chains"), 0), "better", better),
        0);
}

/* Less is better of a time, more of a rate. */
static void a_better_chain_is_told(void **state) {
    (void)state;
    set_better("tpot", "ms", 40.5, 30);
    expect("For tpot a better chain is known: 30.0 ms instead of 40.5");
    expect("office-1 0-9");
    set_better("tpot", "ms", 31, 30);
    assert_null(strstr(page(80), "better chain"));
    set_better("throughput", "tokens/s", 100, 90);
    assert_null(strstr(page(80), "better chain"));
    set_better("throughput", "tokens/s", 100, 120);
    expect("For throughput a better chain is known: 120.0 tokens/s");
}

static void a_chain_that_is_formed_has_no_costs(void **state) {
    (void)state;
    plant(fleet, "chains.0.state", "\"forming\"");
    plant(fleet, "chains.0.reason", "\"home-1 loads\"");
    plant(fleet, "reason", "\"home-1 loads\"");
    expect("  home   home-1     0-14     ready     avx2 x4     -          25 %\n");
    expect("What holds it back is not known yet.\n");
    assert_null(strstr(strstr(page(80), "home-1 loads") + 1, "home-1 loads"));
}

/* Names as long as they may be, and control characters that would drive the terminal. */
static void nothing_is_wider_than_the_terminal(void **state) {
    (void)state;
    char name[80] = "\"";
    memset(name + 1, 'n', 63);
    memcpy(name + 64, "\"", 2);
    const char *const places[] = {"workers.0.name", "workers.0.site", "chains.0.stages.0.worker",
                                  "chains.0.stages.0.site", "chains.0.links.0.to"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        plant(fleet, places[i], name);
    plant(fleet, "workers.1.name", "\"\\u001b[2Jevil\"");
    plant(fleet, "workers.1.role", "\"spare\"");
    for (uint32_t width = 60; width <= 120; width += 20) {
        const char *line = page(width);
        assert_null(strchr(line, '\033'));
        assert_non_null(strstr(line, "?[2Jevil"));
        for (; *line; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > width && !strstr(line, "nnnnnnnn"))
                fail_msg("%zu columns: %s", strcspn(line, "\n"), line);
    }
}

static void json_has_the_same_figures(void **state) {
    (void)state;
    plant(fleet, "matrix", way("home", "office", "\"bytes_per_us\":6.0,\"source\":\"survey\""));
    lh_fleet_document document = document_of(fleet);
    assert_int_equal(lh_status_json_render(&document, -1, &text), LH_OK);
    lh_fleet_document_reset(&document);
    json_t *json = json_loadb(text.bytes, text.length, 0, NULL);
    const json_t *chain = json_array_get(json_object_get(json, "chains"), 0);
    const json_t *back = json_object_get(chain, "holds_back");
    assert_true(json_is_null(json_object_get(json, "tokens_per_s")));
    assert_string_equal(json_string_value(json_object_get(back, "kind")), "stage");
    assert_string_equal(json_string_value(json_object_get(back, "worker")), "home-1");
    assert_true(json_number_value(json_object_get(back, "busy_ms")) == 20);
    assert_int_equal(json_array_size(json_object_get(chain, "links")), 3);
    const json_t *link = json_array_get(json_object_get(json, "matrix"), 0);
    assert_true(json_number_value(json_object_get(link, "mbit_per_s")) == 48);
    assert_true(json_is_null(json_object_get(link, "round_trip_ms")));
    assert_string_equal(json_string_value(json_object_get(link, "source")), "survey");
    json_decref(json);
}

/* What another program, or another version, may have written. */
static void other_documents_are_refused_or_read_as_far_as_they_go(void **state) {
    (void)state;
    lh_fleet_document document;
    lh_error error;
    static const char *const refused[] = {"", "[]", "{", "{}", "{\"state\":7}"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(lh_fleet_document_parse(refused[i], strlen(refused[i]), &document, &error),
                         LH_ERR_MALFORMED);
    static const char odd[] =
        "{\"state\":\"ready\",\"workers\":[7,null,{\"host\":[]}],\"chains\":"
        "[{\"stages\":[null],\"links\":[1e99],\"overlap\":{\"stages\":7}},"
        "false],\"matrix\":[7,{\"from\":1}],\"queue\":[],\"model\":{\"file_bytes\":1e300}}";
    const lh_status_page_style style = {.width = 80};
    assert_int_equal(lh_fleet_document_parse(odd, strlen(odd), &document, &error), LH_OK);
    assert_int_equal(document.worker_count, 3);
    assert_int_equal(lh_status_page_render(&document, 0, &style, &text), LH_OK);
    lh_fleet_document_reset(&document);
    json_t *many = json_array();
    for (size_t i = 0; i < 2000; i++)
        json_array_append_new(many, json_object());
    json_object_set_new(fleet, "workers", many);
    char *long_one = json_dumps(fleet, 0);
    assert_int_equal(lh_fleet_document_parse(long_one, strlen(long_one), &document, &error),
                     LH_ERR_LIMIT);
    free(long_one);
}

static void a_failed_allocation_is_an_error(void **state) {
    (void)state;
    plant(fleet, "matrix", way("home", "office", "\"bytes_per_us\":6.0"));
    char *whole = json_dumps(fleet, 0);
    const lh_status_page_style style = {.width = 80, .has_colours = true};
    for (size_t n = 1;; n++) {
        lh_fleet_document document = {0};
        lh_error error;
        lh_text_buffer out = {0};
        failing_malloc_arm(n);
        lh_status status = lh_fleet_document_parse(whole, strlen(whole), &document, &error);
        if (status == LH_OK)
            status = lh_status_page_render(&document, 1, &style, &out);
        bool has_failed = failing_malloc_disarm();
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_text_buffer_reset(&out);
        lh_fleet_document_reset(&document);
        if (!has_failed)
            break;
    }
    free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fleet_is_drawn_along_its_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_computes_with_a_worker_stands_below_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_that_holds_prompts_back_is_marked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_is_slower_than_it_was_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_sends_wrong_results_is_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_relay_on_the_way_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_between_sites_are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_many_links_some_are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_better_chain_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_that_is_formed_has_no_costs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_wider_than_the_terminal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_has_the_same_figures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_documents_are_refused_or_read_as_far_as_they_go,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_allocation_is_an_error, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
