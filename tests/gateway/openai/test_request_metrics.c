/* What is noted is told, and no label is a client's. */
#include "gateway/openai/request_metrics.h"
#include "gateway/openai/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static lh_request_metrics metrics;
static lh_text_buffer text;

static void render(void) {
    lh_exposition exposition = {0};
    lh_text_buffer_reset(&text);
    lh_request_metrics_render(&metrics, &exposition);
    assert_int_equal(lh_exposition_take(&exposition, &text, NULL), LH_OK);
}

static void expect(const char *line) {
    if (!memmem(text.bytes, text.length, line, strlen(line)))
        fail_msg("it does not say %s", line);
}

static void requests_are_counted_by_how_they_went(void **state) {
    (void)state;
    lh_openai_route route;
    lh_openai_error error;
    lh_request_metrics_init(&metrics);
    lh_request_metrics_note_prompt(&metrics, 300);
    lh_request_metrics_note_first_token(&metrics, 70000);
    lh_request_metrics_note_next_token(&metrics, 4000);
    lh_request_metrics_note_end(&metrics, LH_REQUEST_LENGTH, 2, 90000);
    lh_request_metrics_note_end(&metrics, LH_REQUEST_ABORT, 7, 90000);
    lh_request_metrics_note_unknown_fields(&metrics, 3);
    assert_true(lh_openai_route_find("POST", "/v1/chat/completions", false, &route, &error));
    lh_request_metrics_note_answer(&metrics, route.number, 200);
    lh_request_metrics_note_answer(&metrics, route.number, 418);
    render();
    expect("\nlonghaul_prompt_tokens_total 300\n");
    expect("\nlonghaul_generation_tokens_total 2\n");
    expect("\nlonghaul_request_time_to_first_token_seconds_bucket{le=\"0.06\"} 0\n");
    expect("\nlonghaul_request_time_to_first_token_seconds_bucket{le=\"0.08\"} 1\n");
    expect("\nlonghaul_time_per_output_token_seconds_bucket{le=\"0.005\"} 1\n");
    expect("\nlonghaul_request_generation_tokens_count 1\n");
    expect("\nlonghaul_request_unknown_fields_total 3\n");
    expect("\nlonghaul_request_finished_total{finished_reason=\"length\"} 1\n");
    expect("\nlonghaul_request_finished_total{finished_reason=\"abort\"} 1\n");
    expect("\nlonghaul_http_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1\n");
    expect("\nlonghaul_http_requests_total{route=\"/v1/chat/completions\",status=\"other\"} 1\n");
}

static void what_has_no_name_counts_as_other(void **state) {
    (void)state;
    lh_openai_route route;
    lh_openai_error error;
    lh_request_metrics_init(&metrics);
    lh_request_metrics_note_refusal(&metrics, NULL);
    lh_request_metrics_note_refusal(&metrics, "never_heard_of");
    lh_request_metrics_note_refusal(&metrics, "queue_full");
    lh_request_metrics_note_refusal(&metrics, "invalid_json");
    assert_false(lh_openai_route_find("GET", "/a\"b", false, &route, &error));
    lh_request_metrics_note_answer(&metrics, route.number, 404);
    render();
    expect("\nlonghaul_request_refusals_total{reason=\"other\"} 2\n");
    expect("\nlonghaul_request_refusals_total{reason=\"queue_full\"} 1\n");
    expect("\nlonghaul_request_refusals_total{reason=\"invalid_json\"} 1\n");
    expect("\nlonghaul_http_requests_total{route=\"unknown\",status=\"404\"} 1\n");
    lh_text_buffer_reset(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_counted_by_how_they_went),
        cmocka_unit_test(what_has_no_name_counts_as_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
