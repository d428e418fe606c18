/* The format to the byte; what a label may hold; memory that runs short. */
#include "common/metrics/exposition.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/published_text.h"
#include "tests/support/failing_malloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void expect_text(lh_exposition *exposition, const char *wanted) {
    lh_text_buffer text;
    assert_int_equal(lh_exposition_take(exposition, &text, NULL), LH_OK);
    assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
    assert_string_equal(text.bytes, wanted);
    lh_text_buffer_reset(&text);
}

static void families_and_samples_are_written_as_prometheus_reads_them(void **state) {
    (void)state;
    lh_exposition e = {0};
    lh_exposition_family(&e, "longhaul_steps_total", LH_METRIC_COUNTER, "Steps sent.");
    lh_exposition_count(&e, LH_METRIC_LABELS({"chain", "main"}, {"class", "decode"}), UINT64_MAX);
    lh_exposition_family(&e, "longhaul_rate", LH_METRIC_GAUGE, "A rate.");
    lh_exposition_value(&e, NULL, 1234567890.25);
    lh_exposition_value(&e, LH_METRIC_LABELS({"a", ""}), 12345678901234.0);
    lh_exposition_value(&e, LH_METRIC_LABELS({"a", "x"}), NAN);
    lh_exposition_value(&e, LH_METRIC_LABELS({"a", "y"}), -INFINITY);
    expect_text(&e, "# HELP longhaul_steps_total Steps sent.\n"
                    "# TYPE longhaul_steps_total counter\n"
                    "longhaul_steps_total{chain=\"main\",class=\"decode\"} 18446744073709551615\n"
                    "# HELP longhaul_rate A rate.\n"
                    "# TYPE longhaul_rate gauge\n"
                    "longhaul_rate 1234567890.25\n"
                    "longhaul_rate{a=\"\"} 12345678901234\n"
                    "longhaul_rate{a=\"x\"} NaN\n"
                    "longhaul_rate{a=\"y\"} -Inf\n");
}

static void a_histogram_adds_its_buckets_up(void **state) {
    (void)state;
    static const double bounds[] = {0.01, 2.5};
    lh_histogram histogram;
    lh_histogram_init(&histogram, bounds, 2);
    lh_histogram_observe_us(&histogram, 5000);
    lh_histogram_observe_us(&histogram, 2000000);
    lh_histogram_observe_us(&histogram, 9000000);
    lh_exposition e = {0};
    lh_exposition_family(&e, "longhaul_time_seconds", LH_METRIC_HISTOGRAM, "A time.");
    lh_exposition_histogram(&e, LH_METRIC_LABELS({"chain", "main"}), &histogram);
    expect_text(&e, "# HELP longhaul_time_seconds A time.\n"
                    "# TYPE longhaul_time_seconds histogram\n"
                    "longhaul_time_seconds_bucket{chain=\"main\",le=\"0.01\"} 1\n"
                    "longhaul_time_seconds_bucket{chain=\"main\",le=\"2.5\"} 2\n"
                    "longhaul_time_seconds_bucket{chain=\"main\",le=\"+Inf\"} 3\n"
                    "longhaul_time_seconds_sum{chain=\"main\"} 11.005\n"
                    "longhaul_time_seconds_count{chain=\"main\"} 3\n");
}

static void no_label_can_end_its_line_or_break_the_text(void **state) {
    (void)state;
    static const struct {
        const char *value, *wanted;
    } samples[] = {{"a\"b\\c\nd", "a\\\"b\\\\c\\nd"},
                   {"\x01\x7f\t", "???"},
                   {"Z\xc3\xbcrich", "Z\xc3\xbcrich"},
                   {"cut \xc3", "cut \xef\xbf\xbd"},
                   {"\xff\xfe!", "\xef\xbf\xbd\xef\xbf\xbd!"}};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        char wanted[160];
        lh_exposition e = {0};
        lh_exposition_family(&e, "x", LH_METRIC_GAUGE, "X.");
        lh_exposition_count(&e, LH_METRIC_LABELS({"l", samples[i].value}), 1);
        snprintf(wanted, sizeof wanted, "# HELP x X.\n# TYPE x gauge\nx{l=\"%s\"} 1\n",
                 samples[i].wanted);
        expect_text(&e, wanted);
    }
}

static void a_long_label_is_cut(void **state) {
    (void)state;
    char value[1000] = {0};
    lh_text_buffer text;
    memset(value, 'v', sizeof value - 1);
    lh_exposition e = {0};
    lh_exposition_family(&e, "x", LH_METRIC_GAUGE, "X.");
    lh_exposition_count(&e, LH_METRIC_LABELS({"l", value}), 1);
    assert_int_equal(lh_exposition_take(&e, &text, NULL), LH_OK);
    assert_true(text.length < LH_METRIC_VALUE_BYTES + 64);
    lh_text_buffer_reset(&text);
}

static void without_memory_there_is_no_half_of_a_text(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_exposition e = {0};
        lh_text_buffer text;
        failing_malloc_arm(n);
        lh_build_metrics_render(&e, "gateway");
        lh_process_metrics_render(&e);
        lh_status status = lh_exposition_take(&e, &text, NULL);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            lh_text_buffer_reset(&text);
            return;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_null(text.bytes);
    }
}

static void the_process_tells_of_itself(void **state) {
    (void)state;
    static const char *const names[] = {"\nprocess_cpu_seconds_total ",
                                        "\nprocess_resident_memory_bytes ",
                                        "\nprocess_open_fds ",
                                        "\nprocess_max_fds ",
                                        "\nprocess_virtual_memory_bytes ",
                                        "\nprocess_start_time_seconds "};
    lh_exposition e = {0};
    lh_text_buffer text;
    lh_process_metrics_render(&e);
    assert_int_equal(lh_exposition_take(&e, &text, NULL), LH_OK);
    assert_int_equal(lh_text_buffer_append(&text, "", 1, NULL), LH_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = strstr(text.bytes, names[i]);
        assert_non_null(at);
        assert_true(strtod(at + strlen(names[i]), NULL) >= 0);
    }
    const char *start = strstr(text.bytes, "\nprocess_start_time_seconds ") + 28;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    assert_true(fabs(strtod(start, NULL) - (double)now.tv_sec) < 600);
    lh_text_buffer_reset(&text);
}

static void put(lh_published_text *published, const char *words) {
    lh_text_buffer text = {0};
    assert_int_equal(lh_text_buffer_append(&text, words, strlen(words), NULL), LH_OK);
    lh_published_text_put(published, &text);
    assert_null(text.bytes);
}

static void the_last_text_that_was_published_is_read(void **state) {
    (void)state;
    lh_published_text *published;
    lh_exposition e = {0};
    assert_int_equal(lh_published_text_create(&published, NULL), LH_OK);
    lh_published_text_append_to(published, &e);
    expect_text(&e, "");
    put(published, "one");
    put(published, "two");
    lh_published_text_append_to(published, &e);
    lh_published_text_append_to(published, &e);
    expect_text(&e, "twotwo");
    lh_published_text_destroy(published);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_and_samples_are_written_as_prometheus_reads_them),
        cmocka_unit_test(a_histogram_adds_its_buckets_up),
        cmocka_unit_test(no_label_can_end_its_line_or_break_the_text),
        cmocka_unit_test(a_long_label_is_cut),
        cmocka_unit_test(without_memory_there_is_no_half_of_a_text),
        cmocka_unit_test(the_process_tells_of_itself),
        cmocka_unit_test(the_last_text_that_was_published_is_read),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
