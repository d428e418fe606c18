/* Measurements to JSON and back. From a peer no number is believed that is not finite and within
 * what a real one can be. */
#include "common/protocol/measurements_json.h"

#include "common/protocol/step.h"

#include <math.h>

/* Eleven days for one step, a terabyte at once, a terabyte in a second: far above any real one, and
 * sums and products of a few of them are far from the end of a double. */
#define TIME_US_MAX      1e12
#define BYTES_MAX        1e12
#define BYTES_PER_US_MAX 1e6
#define TIMES_MAX        1e12
#define AGE_US_MAX       INT64_C(1000000000000000)

/* ---- Out ---- */

/* What is rendered here is taken there: an estimate that went wrong costs the estimate, not the
 * report. */
static double within(double value, double maximum) {
    if (!(value > 0))
        return 0;
    return value < maximum ? value : isinf(value) ? 0 : maximum;
}

static json_int_t integer_within(int64_t value, int64_t maximum) {
    return value < 0 ? 0 : value < maximum ? value : maximum;
}

/* JSON's integers are signed; no count comes near the end. */
static json_int_t integer(uint64_t value) {
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static bool is_measured(const lh_machine_speed *speed) {
    return speed->prompt_us > 0 && speed->token_us > 0;
}

json_t *lh_machine_speed_render(const lh_machine_speed *speed) {
    return is_measured(speed)
               ? json_pack("{s:f,s:f}", "prompt_us", within(speed->prompt_us, TIME_US_MAX),
                           "token_us", within(speed->token_us, TIME_US_MAX))
               : json_null();
}

static json_t *render_points(const lh_compute_profile *profile) {
    json_t *points = json_array();
    for (uint32_t i = 0; points && i < profile->point_count; i++) {
        const lh_compute_point *point = &profile->points[i];
        if (json_array_append_new(points, json_pack("{s:I,s:f}", "rows", (json_int_t)point->rows,
                                                    "us", within(point->us, TIME_US_MAX))) != 0) {
            json_decref(points);
            points = NULL;
        }
    }
    return points;
}

json_t *lh_compute_profile_render(const lh_compute_profile *profile) {
    if (profile->point_count == 0)
        return json_null();
    return json_pack(
        "{s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I}", "points", render_points(profile),
        "us_per_row_position", within(profile->us_per_row_position, TIME_US_MAX), "take_share",
        within(profile->take_share, 1), "give_share", within(profile->give_share, 1), "draw_us",
        within(profile->draw_us, TIME_US_MAX), "draw_more_us",
        within(profile->draw_more_us, TIME_US_MAX), "shard_us",
        within(profile->shard_us, TIME_US_MAX), "step_us", within(profile->step_us, TIME_US_MAX),
        "calibrated_times", within(profile->calibrated_times, TIMES_MAX), "age_us",
        integer_within(profile->age_us, AGE_US_MAX));
}

json_t *lh_hop_profile_render(const lh_hop_profile *profile) {
    if (!profile->present)
        return json_null();
    return json_pack("{s:b,s:b,s:I,s:f,s:b,s:f,s:f,s:I,s:I,s:I}", "connected",
                     (int)profile->connected, "refused", (int)profile->refused, "round_trip_us",
                     integer_within(profile->round_trip_us, AGE_US_MAX), "bytes_per_us",
                     within(profile->bytes_per_us, BYTES_PER_US_MAX), "bytes_per_us_is_bound",
                     (int)profile->bytes_per_us_is_bound, "bytes_per_us_deviation",
                     within(profile->bytes_per_us_deviation, BYTES_PER_US_MAX), "ready_bytes",
                     within(profile->ready_bytes, BYTES_MAX), "age_us",
                     integer_within(profile->age_us, AGE_US_MAX), "bytes_sent",
                     integer(profile->bytes_sent), "probe_bytes_sent",
                     integer(profile->probe_bytes_sent));
}

/* ---- In ---- */

static double read_number(const lh_json_reader *r, const char *field, double most) {
    return lh_json_read_number(r, field, 0, most);
}

static double optional_number(const lh_json_reader *r, const char *field, double most) {
    return lh_json_is_present(r, field) ? read_number(r, field, most) : 0;
}

static int64_t optional_integer(const lh_json_reader *r, const char *field, int64_t most) {
    return lh_json_is_present(r, field) ? lh_json_read_integer(r, field, 0, most) : 0;
}

static bool optional_bool(const lh_json_reader *r, const char *field) {
    return lh_json_is_present(r, field) && lh_json_read_bool(r, field);
}

/* False: nothing is measured. */
static bool enter(const lh_json_reader *reader, const char *field, lh_json_reader *inner) {
    return lh_json_is_present(reader, field) && lh_json_read_object(reader, field, true, inner);
}

static void read_points(const lh_json_reader *r, lh_compute_profile *profile) {
    uint32_t count = (uint32_t)lh_json_read_array(r, "points", LH_COMPUTE_POINTS_MAX), before = 0;
    for (uint32_t i = 0; i < count; i++) {
        const lh_json_reader element = lh_json_element(r, "points", i);
        lh_compute_point *point = &profile->points[i];
        point->rows = (uint32_t)lh_json_read_integer(&element, "rows", 0, LH_STEP_ROWS_MAX);
        point->us = read_number(&element, "us", TIME_US_MAX);
        if (point->rows <= before)
            lh_json_refuse(r, "points", "ascending in rows, from 1");
        before = point->rows;
    }
    profile->point_count = count;
}

void lh_machine_speed_read(const lh_json_reader *reader, const char *field,
                           lh_machine_speed *speed) {
    lh_json_reader r;
    *speed = (lh_machine_speed){0};
    if (!enter(reader, field, &r))
        return;
    speed->prompt_us = read_number(&r, "prompt_us", TIME_US_MAX);
    speed->token_us = read_number(&r, "token_us", TIME_US_MAX);
    if (!is_measured(speed))
        lh_json_refuse(&r, speed->prompt_us > 0 ? "token_us" : "prompt_us", "more than 0");
    if (!lh_json_is_good(&r))
        *speed = (lh_machine_speed){0};
}

void lh_compute_profile_read(const lh_json_reader *reader, const char *field,
                             lh_compute_profile *profile) {
    lh_json_reader r;
    *profile = (lh_compute_profile){0};
    if (!enter(reader, field, &r))
        return;
    read_points(&r, profile);
    profile->us_per_row_position = read_number(&r, "us_per_row_position", TIME_US_MAX);
    profile->take_share = read_number(&r, "take_share", 1);
    profile->give_share = read_number(&r, "give_share", 1);
    profile->draw_us = read_number(&r, "draw_us", TIME_US_MAX);
    profile->draw_more_us = read_number(&r, "draw_more_us", TIME_US_MAX);
    profile->shard_us = read_number(&r, "shard_us", TIME_US_MAX);
    profile->step_us = read_number(&r, "step_us", TIME_US_MAX);
    profile->calibrated_times = optional_number(&r, "calibrated_times", TIMES_MAX);
    profile->age_us = lh_json_read_integer(&r, "age_us", 0, AGE_US_MAX);
    if (!lh_json_is_good(&r))
        *profile = (lh_compute_profile){0};
}

void lh_hop_profile_read(const lh_json_reader *reader, const char *field, lh_hop_profile *profile) {
    lh_json_reader r;
    *profile = (lh_hop_profile){0};
    if (!enter(reader, field, &r))
        return;
    profile->present = true;
    profile->connected = lh_json_read_bool(&r, "connected");
    profile->refused = optional_bool(&r, "refused");
    profile->round_trip_us = optional_integer(&r, "round_trip_us", AGE_US_MAX);
    profile->bytes_per_us = optional_number(&r, "bytes_per_us", BYTES_PER_US_MAX);
    profile->bytes_per_us_is_bound = optional_bool(&r, "bytes_per_us_is_bound");
    profile->bytes_per_us_deviation =
        optional_number(&r, "bytes_per_us_deviation", BYTES_PER_US_MAX);
    profile->ready_bytes = optional_number(&r, "ready_bytes", BYTES_MAX);
    profile->age_us = optional_integer(&r, "age_us", AGE_US_MAX);
    profile->bytes_sent = (uint64_t)optional_integer(&r, "bytes_sent", INT64_MAX);
    profile->probe_bytes_sent = (uint64_t)optional_integer(&r, "probe_bytes_sent", INT64_MAX);
    if (!lh_json_is_good(&r))
        *profile = (lh_hop_profile){0};
}
