/* Who says how a token is drawn where a request does not, and what is believed of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/text/sampling_defaults.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/log_capture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads the writer's file, and destroys the writer. Returns the log, which the caller frees. */
static char *read_from(gguf_writer *writer, lh_sampling_defaults *defaults) {
    size_t length;
    lh_gguf *gguf;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    *defaults = lh_sampling_api_defaults;
    log_capture_begin();
    lh_sampling_defaults_read(defaults, gguf);
    char *log = log_capture_end();
    lh_gguf_destroy(gguf);
    free(bytes);
    gguf_writer_destroy(writer);
    return log;
}

static void expect_text(const lh_sampling_defaults *defaults, const char *expected) {
    log_capture_begin();
    lh_sampling_defaults_log(defaults);
    char *log = log_capture_end();
    assert_non_null(strstr(log, expected));
    free(log);
}

static void a_file_that_says_nothing_leaves_the_apis(void **state) {
    (void)state;
    lh_sampling_defaults defaults;
    char *log = read_from(gguf_writer_create(1), &defaults);
    assert_string_equal(log, "");
    expect_text(&defaults, "temperature=1 top_p=1 top_k=0 min_p=0 repetition_penalty=1 "
                           "by_flags=- by_model=-");
    free(log);
}

static void a_file_may_recommend_each(void **state) {
    (void)state;
    lh_sampling_defaults defaults;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_f32(writer, "general.sampling.temp", 0.6f);
    gguf_writer_f32(writer, "general.sampling.top_p", 0.95f);
    gguf_writer_i32(writer, "general.sampling.top_k", 20);
    gguf_writer_f64(writer, "general.sampling.min_p", 0.05);
    gguf_writer_u8(writer, "general.sampling.penalty_repeat", 2);
    gguf_writer_i32(writer, "general.sampling.penalty_last_n", 64);
    char *log = read_from(writer, &defaults);
    assert_string_equal(log, "");
    expect_text(&defaults, "temperature=0.6 top_p=0.95 top_k=20 min_p=0.05 repetition_penalty=2 "
                           "by_flags=- "
                           "by_model=temperature,top_p,top_k,min_p,repetition_penalty");
    assert_true(defaults.values[LH_SAMPLING_TOP_P] == 0.95);
    free(log);
}

static void what_no_request_may_ask_is_ignored_by_name(void **state) {
    (void)state;
    lh_sampling_defaults defaults;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_f32(writer, "general.sampling.temp", 2.5f);
    gguf_writer_f32(writer, "general.sampling.top_p", 0);
    gguf_writer_f32(writer, "general.sampling.top_k", 0.5f);
    gguf_writer_f32(writer, "general.sampling.min_p", NAN);
    gguf_writer_text(writer, "general.sampling.penalty_repeat", "1.1");
    char *log = read_from(writer, &defaults);
    assert_memory_equal(&defaults, &lh_sampling_api_defaults, sizeof defaults);
    assert_non_null(strstr(log, "key=general.sampling.temp reason=\"2.5 is not at least 0"));
    assert_non_null(strstr(log, "key=general.sampling.top_p reason=\"0 is not above 0"));
    assert_non_null(strstr(log, "key=general.sampling.top_k reason=\"0.5 is not an integer"));
    assert_non_null(strstr(log, "key=general.sampling.min_p"));
    assert_non_null(strstr(log, "key=general.sampling.penalty_repeat"));
    free(log);
}

static void the_operator_has_the_last_word(void **state) {
    (void)state;
    lh_sampling_defaults defaults;
    lh_error error;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_f32(writer, "general.sampling.temp", 0.6f);
    gguf_writer_i32(writer, "general.sampling.top_k", -1);
    free(read_from(writer, &defaults));
    assert_int_equal(lh_sampling_defaults_set(&defaults, LH_SAMPLING_TEMPERATURE, "0.25", &error),
                     LH_OK);
    expect_text(&defaults, "temperature=0.25 top_p=1 top_k=-1 min_p=0 repetition_penalty=1 "
                           "by_flags=temperature by_model=top_k");
    static const char *const wrong[] = {"", "x", "0x1", "nan", "1 ", "2.5", "-0.5", "1e999", "1-"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(
            lh_sampling_defaults_set(&defaults, LH_SAMPLING_TEMPERATURE, wrong[i], &error),
            LH_ERR_INVALID);
    assert_true(defaults.values[LH_SAMPLING_TEMPERATURE] == 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_says_nothing_leaves_the_apis),
        cmocka_unit_test(a_file_may_recommend_each),
        cmocka_unit_test(what_no_request_may_ask_is_ignored_by_name),
        cmocka_unit_test(the_operator_has_the_last_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
