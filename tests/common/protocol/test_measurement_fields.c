/* Measurements there and back, and those of a worker that lies. */
#include "common/protocol/measurement_fields.h"
#include "common/protocol/measurements.h"
#include "tests/support/failing_malloc.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_compute_profile compute = {.point_count = 3,
                                           .points = {{1, 1850.5}, {64, 30000}, {512, 250000.25}},
                                           .us_per_row_position = 0.015625,
                                           .take_share = 0.0625,
                                           .give_share = 0.125,
                                           .draw_us = 1500,
                                           .draw_more_us = 200,
                                           .shard_us = 3.5,
                                           .step_us = 80,
                                           .calibrated_times = 1.5,
                                           .age_us = 123456};
static const lh_hop_profile hop = {.present = true,
                                   .connected = true,
                                   .round_trip_us = 20100,
                                   .bytes_per_us = 1.25,
                                   .bytes_per_us_deviation = 0.125,
                                   .bytes_per_us_is_bound = true,
                                   .ready_bytes = 14600,
                                   .age_us = 99,
                                   .bytes_sent = (uint64_t)1 << 40,
                                   .probe_bytes_sent = 4096};

/* Through the text that travels. */
static json_t *travelled(json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    json_decref(value);
    value = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    assert_non_null(value);
    return value;
}

/* A report with this one field; NULL: without it. Takes the value over. */
static lh_status in_report(const char *field, json_t *value, lh_json_document *document,
                           lh_json_reader *root, lh_error *error) {
    json_t *report = json_object();
    if (value)
        json_object_set_new(report, field, value);
    char *text = json_dumps(report, JSON_REAL_PRECISION(17));
    *document = (lh_json_document){.name = "the worker's report", .refusal = LH_ERR_INVALID};
    lh_status status = lh_json_document_open(document, text, strlen(text), error, root);
    free(text);
    json_decref(report);
    return status;
}

/* Reads this one field, which may be absent or null, into what has been all zeros. */
static lh_status take(const char *key, const lh_json_record *record, size_t mark, json_t *value,
                      void *got, lh_error *error) {
    const unsigned flags = LH_JSON_OPTIONAL | (mark ? LH_JSON_MARKED : 0);
    const lh_json_field field = {.key = key,
                                 .kind = LH_JSON_OBJECT,
                                 .flags = flags,
                                 .size = record->bytes,
                                 .mark = mark - 1,
                                 .inner = record};
    const lh_json_record report = {.bytes = record->bytes, .fields = &field, .count = 1};
    lh_json_document document;
    lh_json_reader root;
    memset(got, 0, record->bytes);
    assert_int_equal(in_report(key, value, &document, &root, error), LH_OK);
    lh_json_record_read(&report, &root, got);
    return lh_json_document_close(&document);
}

static lh_status take_speed(json_t *value, lh_machine_speed *got, lh_error *error) {
    return take("speed", &lh_machine_speed_record, 0, value, got, error);
}

static lh_status take_compute(json_t *value, lh_compute_profile *got, lh_error *error) {
    return take("compute", &lh_compute_profile_record, 0, value, got, error);
}

static lh_status take_hop(json_t *value, lh_hop_profile *got, lh_error *error) {
    return take("next", &lh_hop_profile_record, offsetof(lh_hop_profile, present) + 1, value, got,
                error);
}

static void assert_same_compute(const lh_compute_profile *a, const lh_compute_profile *b) {
    assert_int_equal(a->point_count, b->point_count);
    for (uint32_t i = 0; i < a->point_count; i++)
        assert_true(a->points[i].rows == b->points[i].rows && a->points[i].us == b->points[i].us);
    assert_true(a->us_per_row_position == b->us_per_row_position &&
                a->take_share == b->take_share && a->give_share == b->give_share &&
                a->draw_us == b->draw_us && a->draw_more_us == b->draw_more_us &&
                a->shard_us == b->shard_us && a->step_us == b->step_us &&
                a->calibrated_times == b->calibrated_times && a->age_us == b->age_us);
}

static void test_there_and_back(void **state) {
    (void)state;
    lh_compute_profile got_compute;
    lh_hop_profile got;
    assert_int_equal(
        take_compute(travelled(lh_json_record_render(&lh_compute_profile_record, &compute)),
                     &got_compute, NULL),
        LH_OK);
    assert_same_compute(&got_compute, &compute);
    assert_int_equal(
        take_hop(travelled(lh_json_record_render(&lh_hop_profile_record, &hop)), &got, NULL),
        LH_OK);
    assert_true(got.present && got.connected && got.round_trip_us == hop.round_trip_us);
    assert_true(got.bytes_per_us == hop.bytes_per_us && got.ready_bytes == hop.ready_bytes);
    assert_true(got.bytes_per_us_is_bound);
    assert_true(got.bytes_per_us_deviation == hop.bytes_per_us_deviation &&
                got.age_us == hop.age_us);
    assert_true(got.bytes_sent == hop.bytes_sent && got.probe_bytes_sent == hop.probe_bytes_sent);
}

static void test_speed(void **state) {
    (void)state;
    const lh_machine_speed speed = {12.25, 60.5};
    lh_machine_speed got;
    json_t *value = travelled(lh_json_record_render(&lh_machine_speed_record, &speed));
    assert_int_equal(take_speed(value, &got, NULL), LH_OK);
    assert_true(got.prompt_us == speed.prompt_us && got.token_us == speed.token_us);
    /* half a measurement is none */
    value = travelled(lh_json_record_render(&lh_machine_speed_record, &(lh_machine_speed){12, 0}));
    assert_true(json_is_null(value));
    assert_int_equal(take_speed(value, &got, NULL), LH_OK);
    assert_true(got.prompt_us == 0 && got.token_us == 0);
}

static void test_nothing_measured(void **state) {
    (void)state;
    lh_compute_profile got_compute = compute;
    lh_hop_profile got = hop;
    json_t *none =
        lh_json_record_render(&lh_compute_profile_record, &(lh_compute_profile){.step_us = 3});
    assert_true(json_is_null(none));
    assert_int_equal(take_compute(none, &got_compute, NULL), LH_OK);
    assert_int_equal(got_compute.point_count, 0);
    assert_int_equal(take_hop(json_null(), &got, NULL), LH_OK);
    assert_false(got.present);
    got_compute = compute;
    assert_int_equal(take_compute(NULL, &got_compute, NULL), LH_OK);
    assert_int_equal(got_compute.point_count, 0);
    /* A hop that is there, of which nothing is known yet. */
    assert_int_equal(
        take_hop(lh_json_record_render(&lh_hop_profile_record,
                                       &(lh_hop_profile){.present = true, .refused = true}),
                 &got, NULL),
        LH_OK);
    assert_true(got.present && got.refused && !got.connected);
    assert_int_equal(take_hop(json_pack("{s:b}", "connected", 1), &got, NULL), LH_OK);
    assert_false(got.refused);
    assert_true(got.present && got.connected && got.bytes_per_us == 0 && got.round_trip_us == 0);
}

/* An estimate that went wrong on this side is unknown on the other one, and the report is taken. */
static void test_what_went_wrong_here_is_taken_there(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lh_compute_profile wrong = compute, got_compute;
        lh_hop_profile wrong_hop = hop, got;
        wrong.points[1].us = wrong.us_per_row_position = wrong.take_share = wrong.give_share =
            bad[i];
        wrong.draw_us = wrong.draw_more_us = wrong.shard_us = wrong.step_us = bad[i];
        wrong.age_us = INT64_MIN;
        wrong_hop.bytes_per_us = wrong_hop.bytes_per_us_deviation = wrong_hop.ready_bytes = bad[i];
        wrong_hop.round_trip_us = wrong_hop.age_us = INT64_MAX;
        wrong_hop.bytes_sent = UINT64_MAX;
        assert_int_equal(
            take_compute(travelled(lh_json_record_render(&lh_compute_profile_record, &wrong)),
                         &got_compute, NULL),
            LH_OK);
        assert_int_equal(got_compute.point_count, 3);
        assert_int_equal(
            take_hop(travelled(lh_json_record_render(&lh_hop_profile_record, &wrong_hop)), &got,
                     NULL),
            LH_OK);
        assert_true(isfinite(got.bytes_per_us) && got.bytes_per_us >= 0);
    }
}

#define REST                                                                                       \
    "\"us_per_row_position\":0,\"take_share\":0.1,\"give_share\":0.1,\"draw_us\":1,\"draw_more_"   \
    "us\":1,"                                                                                      \
    "\"shard_us\":1,\"step_"                                                                       \
    "us\":1,\"age_"                                                                                \
    "us\":1"

static const struct {
    const char *text, *named;
} bad_computes[] = {
    {"[]", "compute must"},
    {"7", "compute must"},
    {"{" REST "}", "compute.points"},
    {"{\"points\":{}," REST "}", "compute.points"},
    {"{\"points\":[7]," REST "}", "compute.rows"},
    {"{\"points\":[{\"rows\":1}]," REST "}", "compute.us"},
    {"{\"points\":[{\"rows\":1,\"us\":-1}]," REST "}", "compute.us"},
    {"{\"points\":[{\"rows\":1,\"us\":1e300}]," REST "}", "compute.us"},
    {"{\"points\":[{\"rows\":1,\"us\":\"1\"}]," REST "}", "compute.us"},
    {"{\"points\":[{\"rows\":0,\"us\":1}]," REST "}", "compute.points"},
    {"{\"points\":[{\"rows\":1.5,\"us\":1}]," REST "}", "compute.rows"},
    {"{\"points\":[{\"rows\":99999999,\"us\":1}]," REST "}", "compute.rows"},
    {"{\"points\":[{\"rows\":2,\"us\":1},{\"rows\":2,\"us\":1}]," REST "}", "ascending"},
    {"{\"points\":[{\"rows\":2,\"us\":1},{\"rows\":1,\"us\":1}]," REST "}", "ascending"},
    {"{\"points\":[{},{},{},{},{},{},{},{},{},{},{},{},{}]," REST "}", "compute.points"},
    {"{\"points\":[]}", "compute.us_per_row_position"},
    {"{\"points\":[],\"us_per_row_position\":0,\"take_share\":1.01}", "compute.take_share"},
    {"{\"points\":[],\"us_per_row_position\":0,\"take_share\":0,\"give_share\":null}",
     "compute.give_share"},
};

static const struct {
    const char *text, *named;
} bad_hops[] = {
    {"[]", "next must"},
    {"{}", "next.connected"},
    {"{\"connected\":1}", "next.connected"},
    {"{\"connected\":true,\"round_trip_us\":-1}", "next.round_trip_us"},
    {"{\"connected\":true,\"round_trip_us\":1.5}", "next.round_trip_us"},
    {"{\"connected\":true,\"bytes_per_us\":-0.5}", "next.bytes_per_us"},
    {"{\"connected\":true,\"bytes_per_us\":1e7}", "next.bytes_per_us"},
    {"{\"connected\":true,\"bytes_per_us_deviation\":\"0\"}", "next.bytes_per_us_deviation"},
    {"{\"connected\":true,\"bytes_per_us_is_bound\":1}", "next.bytes_per_us_is_bound"},
    {"{\"connected\":true,\"ready_bytes\":1e13}", "next.ready_bytes"},
    {"{\"connected\":true,\"ready_bytes\":null}", "next.ready_bytes"},
    {"{\"connected\":true,\"age_us\":9223372036854775807}", "next.age_us"},
    {"{\"connected\":true,\"bytes_sent\":true}", "next.bytes_sent"},
    {"{\"connected\":true,\"probe_bytes_sent\":-1}", "next.probe_bytes_sent"},
};

static void assert_names(const lh_error *error, const char *text, const char *named) {
    if (!strstr(error->message, named))
        fail_msg("%s: '%s' does not name %s", text, error->message, named);
}

static void test_what_cannot_be_is_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(bad_computes) / sizeof(bad_computes[0]); i++) {
        lh_compute_profile got;
        lh_error error = {0};
        json_t *value = json_loads(bad_computes[i].text, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_int_equal(take_compute(value, &got, &error), LH_ERR_INVALID);
        assert_int_equal(got.point_count, 0);
        assert_names(&error, bad_computes[i].text, bad_computes[i].named);
    }
    for (size_t i = 0; i < sizeof(bad_hops) / sizeof(bad_hops[0]); i++) {
        lh_hop_profile got;
        lh_error error = {0};
        json_t *value = json_loads(bad_hops[i].text, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_int_equal(take_hop(value, &got, &error), LH_ERR_INVALID);
        assert_false(got.present);
        assert_names(&error, bad_hops[i].text, bad_hops[i].named);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_nothing_measured),
        cmocka_unit_test(test_what_went_wrong_here_is_taken_there),
        cmocka_unit_test(test_what_cannot_be_is_refused_by_name),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
