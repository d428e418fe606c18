/* Measurements to JSON and back. From a peer no number is believed that is not finite and within what a real
 * one can be. */
#include "worker/api/measurements_json.h"

#include "worker/api/step.h"

#include <math.h>
#include <string.h>

/* Eleven days for one step, a terabyte at once, a terabyte in a second: far above any real one, and sums and
 * products of a few of them are far from the end of a double. */
#define TIME_US_MAX      1e12
#define BYTES_MAX        1e12
#define BYTES_PER_US_MAX 1e6
#define AGE_US_MAX       INT64_C(1000000000000000)

/* ---- Out ---------------------------------------------------------------------------------------- */

/* What is rendered here is taken there: an estimate that went wrong costs the estimate, not the report. */
static double within(double value, double maximum) {
    if (!(value > 0)) {
        return 0;
    }
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
    return is_measured(speed) ? json_pack("{s:f,s:f}", "prompt_us", within(speed->prompt_us, TIME_US_MAX),
                                          "token_us", within(speed->token_us, TIME_US_MAX))
                              : json_null();
}

static json_t *render_points(const lh_compute_profile *profile) {
    json_t *points = json_array();
    for (uint32_t i = 0; points != NULL && i < profile->point_count; i++) {
        const lh_compute_point *point = &profile->points[i];
        if (json_array_append_new(points, json_pack("{s:I,s:f}", "rows", (json_int_t)point->rows, "us",
                                                    within(point->us, TIME_US_MAX))) != 0) {
            json_decref(points);
            points = NULL;
        }
    }
    return points;
}

json_t *lh_compute_profile_render(const lh_compute_profile *profile) {
    if (profile->point_count == 0) {
        return json_null();
    }
    return json_pack("{s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I}", "points", render_points(profile),
                     "us_per_row_position", within(profile->us_per_row_position, TIME_US_MAX), "take_share",
                     within(profile->take_share, 1), "give_share", within(profile->give_share, 1), "draw_us",
                     within(profile->draw_us, TIME_US_MAX), "draw_more_us",
                     within(profile->draw_more_us, TIME_US_MAX), "shard_us",
                     within(profile->shard_us, TIME_US_MAX), "step_us", within(profile->step_us, TIME_US_MAX),
                     "age_us", integer_within(profile->age_us, AGE_US_MAX));
}

json_t *lh_hop_profile_render(const lh_hop_profile *profile) {
    if (!profile->present) {
        return json_null();
    }
    return json_pack(
        "{s:b,s:b,s:I,s:f,s:b,s:f,s:f,s:I,s:I,s:I}", "connected", (int)profile->connected, "refused",
        (int)profile->refused, "round_trip_us", integer_within(profile->round_trip_us, AGE_US_MAX),
        "bytes_per_us", within(profile->bytes_per_us, BYTES_PER_US_MAX), "bytes_per_us_is_bound",
        (int)profile->bytes_per_us_is_bound, "bytes_per_us_deviation",
        within(profile->bytes_per_us_deviation, BYTES_PER_US_MAX), "ready_bytes",
        within(profile->ready_bytes, BYTES_MAX), "age_us", integer_within(profile->age_us, AGE_US_MAX),
        "bytes_sent", integer(profile->bytes_sent), "probe_bytes_sent", integer(profile->probe_bytes_sent));
}

/* ---- In ----------------------------------------------------------------------------------------- */

/* One object's fields; the first failure stays. */
typedef struct fields {
    const json_t *object;
    const char *path;
    lh_status status;
    lh_error *error;
} fields;

static void refuse(fields *f, const char *field, const char *wanted) {
    if (f->status == LH_OK) {
        f->status =
            lh_fail(f->error, LH_ERR_INVALID, "the worker's report: %s%s must be %s", f->path, field, wanted);
    }
}

static bool read_bool(fields *f, const char *field, bool is_optional) {
    const json_t *value = json_object_get(f->object, field);
    if (!json_is_boolean(value) && !(value == NULL && is_optional)) {
        refuse(f, field, "true or false");
    }
    return json_is_true(value);
}

static double read_number(fields *f, const char *field, double maximum, bool is_optional) {
    const json_t *value = json_object_get(f->object, field);
    if (value == NULL && is_optional) {
        return 0;
    }
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= maximum)) {
        refuse(f, field, "a number of at least 0, and not beyond reason");
        return 0;
    }
    return number;
}

static int64_t read_integer(fields *f, const char *field, int64_t maximum, bool is_optional) {
    const json_t *value = json_object_get(f->object, field);
    if (value == NULL && is_optional) {
        return 0;
    }
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || number > maximum) {
        refuse(f, field, "a whole number of at least 0, and not beyond reason");
        return 0;
    }
    return number;
}

static void read_point(fields *f, const json_t *value, lh_compute_profile *profile) {
    fields inner = {value, f->path, f->status, f->error};
    uint32_t before = profile->point_count > 0 ? profile->points[profile->point_count - 1].rows : 0;
    lh_compute_point *point = &profile->points[profile->point_count++];
    point->rows = (uint32_t)read_integer(&inner, "rows", LH_STEP_ROWS_MAX, false);
    point->us = read_number(&inner, "us", TIME_US_MAX, false);
    if (point->rows <= before) {
        refuse(&inner, "points", "ascending in rows, from 1");
    }
    f->status = inner.status;
}

static void read_points(fields *f, lh_compute_profile *profile) {
    const json_t *points = json_object_get(f->object, "points");
    if (!json_is_array(points) || json_array_size(points) > LH_COMPUTE_POINTS_MAX) {
        refuse(f, "points", "a list of at most 12");
        return;
    }
    for (size_t i = 0; i < json_array_size(points) && f->status == LH_OK; i++) {
        read_point(f, json_array_get(points, i), profile);
    }
}

/* False: nothing is measured. */
static bool enter(const json_t *value, const char *path, lh_error *error, fields *f) {
    *f = (fields){value, path, LH_OK, error};
    if (value == NULL || json_is_null(value)) {
        return false;
    }
    if (!json_is_object(value)) {
        f->status = lh_fail(error, LH_ERR_INVALID, "the worker's report: %.*s must be an object or null",
                            (int)strcspn(path, "."), path);
        return false;
    }
    return true;
}

lh_status lh_machine_speed_parse(const json_t *value, const char *path, lh_machine_speed *speed,
                                 lh_error *error) {
    fields f;
    *speed = (lh_machine_speed){0};
    if (!enter(value, path, error, &f)) {
        return f.status;
    }
    speed->prompt_us = read_number(&f, "prompt_us", TIME_US_MAX, false);
    speed->token_us = read_number(&f, "token_us", TIME_US_MAX, false);
    if (f.status == LH_OK && !is_measured(speed)) {
        refuse(&f, speed->prompt_us > 0 ? "token_us" : "prompt_us", "more than 0");
    }
    if (f.status != LH_OK) {
        *speed = (lh_machine_speed){0};
    }
    return f.status;
}

lh_status lh_compute_profile_parse(const json_t *value, const char *path, lh_compute_profile *profile,
                                   lh_error *error) {
    fields f;
    *profile = (lh_compute_profile){0};
    if (!enter(value, path, error, &f)) {
        return f.status;
    }
    read_points(&f, profile);
    profile->us_per_row_position = read_number(&f, "us_per_row_position", TIME_US_MAX, false);
    profile->take_share = read_number(&f, "take_share", 1, false);
    profile->give_share = read_number(&f, "give_share", 1, false);
    profile->draw_us = read_number(&f, "draw_us", TIME_US_MAX, false);
    profile->draw_more_us = read_number(&f, "draw_more_us", TIME_US_MAX, false);
    profile->shard_us = read_number(&f, "shard_us", TIME_US_MAX, false);
    profile->step_us = read_number(&f, "step_us", TIME_US_MAX, false);
    profile->age_us = read_integer(&f, "age_us", AGE_US_MAX, false);
    if (f.status != LH_OK) {
        *profile = (lh_compute_profile){0};
    }
    return f.status;
}

lh_status lh_hop_profile_parse(const json_t *value, const char *path, lh_hop_profile *profile,
                               lh_error *error) {
    fields f;
    *profile = (lh_hop_profile){0};
    if (!enter(value, path, error, &f)) {
        return f.status;
    }
    profile->present = true;
    profile->connected = read_bool(&f, "connected", false);
    profile->refused = read_bool(&f, "refused", true);
    profile->round_trip_us = read_integer(&f, "round_trip_us", AGE_US_MAX, true);
    profile->bytes_per_us = read_number(&f, "bytes_per_us", BYTES_PER_US_MAX, true);
    profile->bytes_per_us_is_bound = read_bool(&f, "bytes_per_us_is_bound", true);
    profile->bytes_per_us_deviation = read_number(&f, "bytes_per_us_deviation", BYTES_PER_US_MAX, true);
    profile->ready_bytes = read_number(&f, "ready_bytes", BYTES_MAX, true);
    profile->age_us = read_integer(&f, "age_us", AGE_US_MAX, true);
    profile->bytes_sent = (uint64_t)read_integer(&f, "bytes_sent", INT64_MAX, true);
    profile->probe_bytes_sent = (uint64_t)read_integer(&f, "probe_bytes_sent", INT64_MAX, true);
    if (f.status != LH_OK) {
        *profile = (lh_hop_profile){0};
    }
    return f.status;
}
