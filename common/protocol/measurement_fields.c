/* From a peer no number is believed that is not finite and within what a real one can be. */
#include "common/protocol/measurement_fields.h"

#include "common/protocol/measurements.h"
#include "common/protocol/step.h"

/* Eleven days for one step, a terabyte at once, a terabyte in a second: far above any real one, and
 * sums and products of a few of them are far from the end of a double. */
#define TIME_US_MAX      INT64_C(1000000000000)
#define BYTES_MAX        INT64_C(1000000000000)
#define BYTES_PER_US_MAX 1000000
#define TIMES_MAX        INT64_C(1000000000000)
#define AGE_US_MAX       INT64_C(1000000000000000)

#define FIELD(member, key, kind, flags) LH_JSON_FIELD(OWNER, member, key, kind, flags)

#define NUMBER(name, limit)                                                                        \
    .key = #name, .kind = LH_JSON_NUMBER, .flags = LH_JSON_ESTIMATE, .most = (limit),              \
    LH_JSON_MEMBER(OWNER, name)
/* Unknown where it is absent. */
#define KNOWN_NUMBER(name, limit)                                                                  \
    .key = #name, .kind = LH_JSON_NUMBER, .flags = LH_JSON_ESTIMATE | LH_JSON_ABSENT,              \
    .most = (limit), LH_JSON_MEMBER(OWNER, name)

/* ---- A machine's speed ---- */

#define OWNER lh_machine_speed
static const lh_json_field speed_fields[] = {
    {NUMBER(prompt_us, TIME_US_MAX),
     .meaning = "microseconds for each MiB of weights, for one row of many; more than 0"},
    {NUMBER(token_us, TIME_US_MAX), .meaning = "the same for a row alone; more than 0"},
};
#undef OWNER

static bool is_measured(const void *object) {
    const lh_machine_speed *speed = object;
    return speed->prompt_us > 0 && speed->token_us > 0;
}

static void check_speed(const lh_json_reader *reader, void *object) {
    const lh_machine_speed *speed = object;
    if (!is_measured(speed))
        lh_json_refuse(reader, speed->prompt_us > 0 ? "token_us" : "prompt_us", "more than 0");
}

const lh_json_record lh_machine_speed_record = {LH_JSON_RECORD(lh_machine_speed, speed_fields),
                                                .is_there = is_measured, .check = check_speed};

/* ---- A stage's times ---- */

#define OWNER lh_compute_point
static const lh_json_field point_fields[] = {
    {FIELD(rows, "rows", U32, 0), LH_JSON_RANGE(0, LH_STEP_ROWS_MAX),
     .meaning = "rows of a step, from 1 on; points ascend in them"},
    {NUMBER(us, TIME_US_MAX),
     .meaning = "time of a step of so many rows that attend to nothing but themselves, and of "
                "which none draws a token"},
};
#undef OWNER
static const lh_json_record point_record = {LH_JSON_RECORD(lh_compute_point, point_fields)};

#define OWNER lh_compute_profile
static const lh_json_field compute_fields[] = {
    {FIELD(points, "points", LIST, 0), LH_JSON_RANGE(0, LH_COMPUTE_POINTS_MAX),
     .count = offsetof(OWNER, point_count), .inner = &point_record,
     .meaning = "times of steps without attention; linear between them"},
    {NUMBER(us_per_row_position, TIME_US_MAX),
     .meaning = "what each row costs on top for each position before it: attention"},
    {NUMBER(take_share, 1),
     .meaning = "share of the time in the first products, which take column shards as they come"},
    {NUMBER(give_share, 1), .meaning = "share in the last product, which gives them"},
    {NUMBER(draw_us, TIME_US_MAX),
     .meaning = "what the first row of a step that draws a token costs on top; 0 but on the last "
                "stage"},
    {NUMBER(draw_more_us, TIME_US_MAX), .meaning = "the same for each further row that draws"},
    {NUMBER(shard_us, TIME_US_MAX), .meaning = "what each column shard after the first costs more"},
    {NUMBER(step_us, TIME_US_MAX),
     .meaning = "time outside of the arithmetic, for each step: queues, encoding, frames"},
    {KNOWN_NUMBER(calibrated_times, TIMES_MAX),
     .meaning = "how many times as long as when the stage was calibrated the last steps took; 0: "
                "unknown"},
    {FIELD(age_us, "age_us", I64, LH_JSON_ESTIMATE), LH_JSON_RANGE(0, AGE_US_MAX),
     .meaning = "age of the newest sample when the report left"},
};
#undef OWNER

static bool has_points(const void *object) {
    return ((const lh_compute_profile *)object)->point_count > 0;
}

static void check_points(const lh_json_reader *reader, void *object) {
    const lh_compute_profile *compute = object;
    for (uint32_t i = 0; i < compute->point_count; i++)
        if (compute->points[i].rows <= (i > 0 ? compute->points[i - 1].rows : 0))
            lh_json_refuse(reader, "points", "ascending in rows, from 1");
}

const lh_json_record lh_compute_profile_record = {
    LH_JSON_RECORD(lh_compute_profile, compute_fields), .is_there = has_points,
    .check = check_points};

/* ---- A hop ---- */

#define OWNER lh_hop_profile
#define COUNT(name, type, limit)                                                                   \
    .key = #name, .kind = (type), .flags = LH_JSON_ESTIMATE | LH_JSON_ABSENT, .most = (limit),     \
    LH_JSON_MEMBER(OWNER, name)
#define BOOL(name, may)                                                                            \
    .key = #name, .kind = LH_JSON_BOOL, .flags = (may), LH_JSON_MEMBER(OWNER, name)
static const lh_json_field hop_fields[] = {
    {BOOL(connected, 0), .meaning = "whether the connection stands"},
    {BOOL(refused, LH_JSON_ABSENT), .meaning = "it does not, since nobody listens there"},
    {COUNT(round_trip_us, LH_JSON_I64, AGE_US_MAX),
     .meaning = "the shortest of late, without queues; 0: unknown"},
    {KNOWN_NUMBER(bytes_per_us, BYTES_PER_US_MAX),
     .meaning = "what the connection carries one way when it is full; 0: unknown"},
    {BOOL(bytes_per_us_is_bound, LH_JSON_ABSENT), .meaning = "the rate is at least that"},
    {KNOWN_NUMBER(bytes_per_us_deviation, BYTES_PER_US_MAX),
     .meaning = "mean absolute deviation of the rate's samples"},
    {KNOWN_NUMBER(ready_bytes, BYTES_MAX),
     .meaning = "what may leave before anything is acknowledged: the congestion window"},
    {COUNT(age_us, LH_JSON_I64, AGE_US_MAX),
     .meaning = "age of the rate when the report left; `GET /fleet` adds the time since then"},
    {COUNT(bytes_sent, LH_JSON_U64, INT64_MAX), .meaning = "bytes sent over the connection"},
    {COUNT(probe_bytes_sent, LH_JSON_U64, INT64_MAX), .meaning = "those of them that were probes"},
};
#undef OWNER

const lh_json_record lh_hop_profile_record = {LH_JSON_RECORD(lh_hop_profile, hop_fields)};
