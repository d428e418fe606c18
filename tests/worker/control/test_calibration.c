/* A calibration of a simulated stage, whose true costs are known. */
#include "tests/support/failing_malloc.h"
#include "worker/control/calibration.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct stage {
    double step_us, row_us, attention_us, draw_us, draw_more_us, shard_us, encode_us;
    double take_part, give_part; /* of row_us and step_us */
    double busy;                 /* others want the core: what passes is so many times as long */
    double noise;                /* times are longer by up to this part, and some by much more */
    lh_calibration_limits limits;
    bool is_first; /* of the chain: it takes no shards */
    uint64_t dice;
    /* what was asked for */
    uint32_t trials, rows_most, length;
    double spent_us;
} stage;

static const stage sound = {.step_us = 3000,
                            .row_us = 400,
                            .attention_us = 0.5,
                            .draw_us = 900,
                            .draw_more_us = 150,
                            .shard_us = 12,
                            .encode_us = 40,
                            .take_part = 0.06,
                            .give_part = 0.1,
                            .busy = 1,
                            .limits = {.attention_part = 5e-4,
                                       .draw_part = 0.5,
                                       .rows_max = 512,
                                       .positions_max = 2048,
                                       .sequences_max = 100,
                                       .column_blocks = 18,
                                       .budget_us = 800000},
                            .dice = 7};

static double resync(stage *s) {
    s->dice = s->dice * 6364136223846793005u + 1442695040888963407u;
    return (double)(s->dice >> 40) / (double)(1 << 24);
}

/* Mostly a little more, now and then the core was somebody else's. */
static double noisy(stage *s) {
    return 1 + s->noise * resync(s) + (resync(s) < s->noise ? 2 : 0);
}

static double base_of(const stage *s, uint32_t rows) {
    return s->step_us + s->row_us * rows;
}

static void run_trial(stage *s, const lh_calibration_trial *trial, lh_calibration_times *times) {
    assert_in_range(trial->rows, 1, s->limits.rows_max);
    assert_true(trial->position == 0 || trial->position == s->length);
    assert_true(trial->position + trial->rows <= s->limits.positions_max);
    assert_true(!trial->draws || s->limits.is_last);
    assert_true(!trial->draws || trial->rows == 1 || trial->rows <= s->limits.sequences_max);
    assert_in_range(trial->shards, 1, s->limits.column_blocks);
    s->length = trial->position + trial->rows;
    double rows = trial->rows, base = base_of(s, trial->rows), slower = noisy(s);
    double pairs = rows * trial->position + (trial->draws ? 0 : rows * (rows - 1) / 2);
    double draw_us = s->draw_us + s->draw_more_us * (rows - 1);
    double first = (double)(s->limits.column_blocks / trial->shards) / s->limits.column_blocks;
    double shards_us = s->limits.is_last ? 0 : trial->shards * s->shard_us;
    times->take_us = s->is_first ? 0 : slower * s->take_part * base;
    times->emit_us = s->limits.is_last
                         ? 0
                         : slower * (s->encode_us + shards_us + s->give_part * base * (1 - first));
    times->total_us =
        slower * (base + s->attention_us * pairs + shards_us + (trial->draws ? draw_us : 0));
    s->trials++;
    s->rows_most = trial->rows > s->rows_most ? trial->rows : s->rows_most;
    times->wall_us = times->total_us * s->busy;
    s->spent_us += times->wall_us;
}

static lh_compute_profile calibrate(stage *s) {
    lh_calibration calibration;
    lh_calibration_trial trial;
    lh_calibration_times times;
    lh_compute_profile profile;
    lh_calibration_start(&calibration, &s->limits);
    while (lh_calibration_next(&calibration, &trial)) {
        run_trial(s, &trial, &times);
        lh_calibration_note(&calibration, &times);
        assert_true(s->trials < 1000);
    }
    lh_calibration_read(&calibration, &profile);
    assert_true(profile.point_count > 0);
    for (uint32_t i = 1; i < profile.point_count; i++) {
        assert_true(profile.points[i].rows > profile.points[i - 1].rows &&
                    profile.points[i].us >= profile.points[i - 1].us);
    }
    return profile;
}

static void assert_near(double value, double wanted, double part) {
    if (!(fabs(value - wanted) <= part * wanted))
        fail_msg("%g is not within %g %% of %g", value, part * 100, wanted);
}

static void test_it_finds_what_is_there(void **state) {
    (void)state;
    for (int place = 0; place < 4; place++) {
        stage s = sound;
        s.is_first = place & 1;
        s.limits.is_last = place & 2;
        s.noise = 0.02;
        lh_compute_profile profile = calibrate(&s);
        for (uint32_t i = 0; i < profile.point_count; i++) {
            double shard_us = s.limits.is_last ? 0 : s.shard_us;
            assert_near(profile.points[i].us, base_of(&s, profile.points[i].rows) + shard_us, 0.05);
        }
        assert_in_range(s.rows_most, 256, 512);
        assert_near(profile.us_per_row_position, s.attention_us, 0.25);
        assert_true(s.spent_us < s.limits.budget_us);
        if (s.is_first)
            assert_true(profile.take_share == 0);
        else
            assert_near(profile.take_share, s.take_part, 0.1);
        if (s.limits.is_last) {
            assert_true(profile.give_share == 0 && profile.shard_us == 0);
            assert_near(profile.draw_us, s.draw_us, 0.02);
            assert_near(profile.draw_more_us, s.draw_more_us, 0.05);
        } else {
            assert_true(profile.draw_us == 0 && profile.draw_more_us == 0);
            assert_near(profile.give_share, s.give_part, 0.1);
            assert_near(profile.shard_us, s.shard_us, 0.5);
        }
    }
}

/* On a machine where nothing disturbs. */
static void test_without_noise_it_is_exact(void **state) {
    (void)state;
    for (int place = 0; place < 4; place++) {
        stage s = sound;
        s.is_first = place & 1;
        s.limits.is_last = place & 2;
        lh_compute_profile profile = calibrate(&s);
        double shard_us = s.limits.is_last ? 0 : s.shard_us;
        for (uint32_t i = 0; i < profile.point_count; i++)
            assert_near(profile.points[i].us, base_of(&s, 1u << i) + shard_us, 1e-6);
        assert_near(profile.us_per_row_position, s.attention_us, 0.001);
        /* of what the step of 16 rows takes, with its rows' attention to each other */
        double whole_us = base_of(&s, 16) + shard_us + s.attention_us * 120;
        double part = base_of(&s, 16) / whole_us;
        assert_near(profile.take_share, s.is_first ? 0 : s.take_part * part, 1e-6);
        assert_near(profile.give_share, s.limits.is_last ? 0 : s.give_part * part, 1e-6);
        assert_near(profile.shard_us, shard_us, 1e-6);
        assert_near(profile.draw_us, s.limits.is_last ? s.draw_us : 0, 0.001);
        assert_near(profile.draw_more_us, s.limits.is_last ? s.draw_more_us : 0, 0.03);
    }
}

/* Each kind of step, and how often: five times where that is cheap, longer ones once. */
static void test_what_is_tried(void **state) {
    (void)state;
    static const struct {
        lh_calibration_phase phase;
        uint32_t rows, shards, times;
    } expected[] = {
        {LH_CALIBRATE_POINTS, 1, 1, 5},   {LH_CALIBRATE_POINTS, 2, 1, 5},
        {LH_CALIBRATE_POINTS, 4, 1, 5},   {LH_CALIBRATE_POINTS, 8, 1, 5},
        {LH_CALIBRATE_POINTS, 16, 1, 5},  {LH_CALIBRATE_POINTS, 32, 1, 2},
        {LH_CALIBRATE_POINTS, 64, 1, 1},  {LH_CALIBRATE_POINTS, 128, 1, 1},
        {LH_CALIBRATE_POINTS, 256, 1, 1}, {LH_CALIBRATE_ATTENTION, 32, 1, 2},
        {LH_CALIBRATE_EMIT, 16, 1, 5},    {LH_CALIBRATE_EMIT, 16, 2, 5},
        {LH_CALIBRATE_EMIT, 16, 8, 5},
    };
    lh_calibration c;
    lh_calibration_trial trial;
    lh_calibration_times times;
    stage s = sound;
    lh_calibration_start(&c, &s.limits);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        for (uint32_t k = 0; k < expected[i].times; k++) {
            assert_true(lh_calibration_next(&c, &trial));
            assert_int_equal(c.phase, expected[i].phase);
            assert_int_equal(trial.rows, expected[i].rows);
            assert_int_equal(trial.shards, expected[i].shards);
            assert_false(trial.draws);
            /* attention: on top of the longest, which is that of 256 rows */
            assert_int_equal(trial.position, trial.rows == 32 && c.phase == LH_CALIBRATE_ATTENTION
                                                 ? 256 + k * 32
                                                 : 0);
            run_trial(&s, &trial, &times);
            lh_calibration_note(&c, &times);
        }
    assert_false(lh_calibration_next(&c, &trial));
}

/* ---- To the microsecond ---- */

/* Each takes its time once: twice is more than a kind of step may. */
static const lh_calibration_limits tight = {.attention_part = 0.02,
                                            .draw_part = 0.32,
                                            .rows_max = 512,
                                            .positions_max = 2048,
                                            .sequences_max = 100,
                                            .column_blocks = 8,
                                            .budget_us = 1000};

static void time_next(lh_calibration *c, lh_calibration_phase phase, uint32_t rows, double wall_us,
                      double total_us) {
    lh_calibration_trial trial;
    const lh_calibration_times times = {.wall_us = wall_us, .total_us = total_us};
    assert_true(lh_calibration_next(c, &trial));
    assert_int_equal(c->phase, phase);
    assert_int_equal(trial.rows, rows);
    lh_calibration_note(c, &times);
}

static lh_calibration_phase next_phase(lh_calibration *c) {
    lh_calibration_trial trial;
    lh_calibration_next(c, &trial);
    return c->phase;
}

/* Seven tenths of it, as busy as the machine is. */
static void test_the_points_part_of_the_budget(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++)
        for (int busy = 1; busy < 3; busy++) {
            lh_calibration c;
            lh_calibration_limits limits = tight;
            limits.column_blocks = 1;
            lh_calibration_start(&c, &limits);
            time_next(&c, LH_CALIBRATE_POINTS, 1, 100 + over, (100.0 + over) / busy);
            time_next(&c, LH_CALIBRATE_POINTS, 2, 200, 200.0 / busy);
            assert_int_equal(next_phase(&c), over ? LH_CALIBRATE_DONE : LH_CALIBRATE_POINTS);
        }
}

static uint32_t repeats_of(double us) {
    lh_calibration c;
    lh_calibration_trial trial;
    uint32_t count = 0;
    lh_calibration_start(&c, &tight);
    for (; lh_calibration_next(&c, &trial) && trial.rows == 1; count++) {
        const lh_calibration_times times = {.wall_us = us, .total_us = us};
        lh_calibration_note(&c, &times);
    }
    return count;
}

static void test_a_kind_of_step_has_its_part_of_the_budget(void **state) {
    (void)state;
    assert_int_equal(repeats_of(30.5), 1);
    assert_int_equal(repeats_of(30), 2);
    assert_int_equal(repeats_of(15), 4);
    assert_int_equal(repeats_of(10), 5);
    assert_int_equal(repeats_of(0), 5);
}

/* The shards are measured beyond its end, but nothing is repeated there. */
static void test_at_the_end_of_the_budget_nothing_is_repeated(void **state) {
    (void)state;
    static const struct {
        double each_us;
        int times;
    } cases[] = {{15, 1}, {5, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_calibration c;
        double each_us = cases[i].each_us;
        lh_calibration_start(&c, &tight);
        time_next(&c, LH_CALIBRATE_POINTS, 1, 100, 100);
        time_next(&c, LH_CALIBRATE_POINTS, 2, 200, 200);
        time_next(&c, LH_CALIBRATE_POINTS, 4, 690, 50);
        for (int k = 0; k < cases[i].times; k++)
            time_next(&c, LH_CALIBRATE_EMIT, 4, each_us, each_us);
        for (uint32_t number = 1; number < 3; number++) {
            time_next(&c, LH_CALIBRATE_EMIT, 4, each_us, each_us);
            assert_int_equal(c.number, number);
        }
        assert_int_equal(next_phase(&c), LH_CALIBRATE_DONE);
    }
}

/* Three steps may take a half more than is left, as busy as the machine is. */
static void test_shards_that_would_take_too_long_are_left_out(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++) {
        lh_calibration c;
        lh_calibration_start(&c, &tight);
        time_next(&c, LH_CALIBRATE_POINTS, 1, 300, 150);
        time_next(&c, LH_CALIBRATE_POINTS, 2, 300 + over, 150 + over / 2.0);
        assert_int_equal(next_phase(&c), over ? LH_CALIBRATE_DONE : LH_CALIBRATE_EMIT);
    }
}

/* What the rows' attention to each other is of a point: half of it at most. */
static void test_points_are_without_attention(void **state) {
    (void)state;
    static const struct {
        double part, us[3];
    } cases[] = {{0.02, {100, 195, 370}}, {0.2, {100, 150, 200}}, {0.4, {100, 100, 200}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_calibration c;
        lh_compute_profile profile;
        lh_calibration_limits limits = tight;
        limits.attention_part = cases[i].part;
        lh_calibration_start(&c, &limits);
        time_next(&c, LH_CALIBRATE_POINTS, 1, 100, 100);
        time_next(&c, LH_CALIBRATE_POINTS, 2, 200, 200);
        time_next(&c, LH_CALIBRATE_POINTS, 4, 400, 400);
        lh_calibration_read(&c, &profile);
        assert_int_equal(profile.point_count, 3);
        assert_near(profile.us_per_row_position, 2.5 * cases[i].part * 100, 1e-9);
        for (uint32_t k = 0; k < 3; k++)
            assert_near(profile.points[k].us, cases[i].us[k], 1e-9);
    }
}

/* More rows take no less. */
static void test_points_do_not_fall(void **state) {
    (void)state;
    lh_calibration c;
    lh_compute_profile profile;
    lh_calibration_start(&c, &tight);
    time_next(&c, LH_CALIBRATE_POINTS, 1, 100, 100);
    time_next(&c, LH_CALIBRATE_POINTS, 2, 80, 80);
    time_next(&c, LH_CALIBRATE_POINTS, 4, 120, 120);
    lh_calibration_read(&c, &profile);
    /* What fewer rows took beyond that was others' doing. */
    assert_near(profile.points[0].us, profile.points[1].us, 1e-9);
    assert_true(profile.points[1].us < 80 && profile.points[2].us > 80);
}

/* Of a step no end is less than nothing or more than half. */
static void test_shares_are_within_reason(void **state) {
    (void)state;
    static const struct {
        double take_us, share;
    } cases[] = {{-10, 0}, {0, 0}, {30, 0.3}, {50, 0.5}, {90, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_calibration c;
        lh_calibration_trial trial;
        lh_compute_profile profile;
        const lh_calibration_times times = {
            .wall_us = 100, .total_us = 100, .take_us = cases[i].take_us};
        lh_calibration_limits limits = tight;
        limits.rows_max = 1;
        lh_calibration_start(&c, &limits);
        assert_true(lh_calibration_next(&c, &trial));
        lh_calibration_note(&c, &times);
        lh_calibration_read(&c, &profile);
        assert_near(profile.take_share, cases[i].share, 1e-9);
        assert_near(profile.shard_us, 2, 1e-9); /* which nothing has measured */
        assert_true(profile.give_share == 0);
    }
}

/* The same whatever the number of shards: the least that one takes, and nothing of the step. */
static void test_shards_take_something(void **state) {
    (void)state;
    lh_calibration c;
    lh_calibration_trial trial;
    lh_compute_profile profile;
    lh_calibration_start(&c, &tight);
    while (lh_calibration_next(&c, &trial)) {
        const lh_calibration_times times = {.wall_us = 80, .total_us = 80, .emit_us = 10};
        lh_calibration_note(&c, &times);
    }
    lh_calibration_read(&c, &profile);
    assert_near(profile.shard_us, 2, 1e-9);
    assert_true(profile.give_share == 0);
}

/* A row that draws costs 64 us where a row costs 100, of which a draw may be between 4 and 256 us;
 * each further one what they say, within reason. */
static void test_draws_are_within_reason(void **state) {
    (void)state;
    static const struct {
        double one_us, more_us, expected_one_us, expected_more_us;
    } cases[] = {{64, 10, 64, 10},       {64, 70, 64, 64},        {64, 64, 64, 64},
                 {64, 0.5, 64, 1},       {64, -9, 64, 1},         {64, 1.5, 64, 1.5},
                 {0, 2, 4, 2 - 4 / 7.0}, {-5, 2, 4, 2 - 9 / 7.0}, {300, 10, 256, 10 + 44 / 7.0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_calibration c;
        lh_calibration_trial trial;
        lh_compute_profile profile;
        lh_calibration_limits limits = tight;
        limits.is_last = true;
        limits.rows_max = 16;
        limits.budget_us = 1e6;
        lh_calibration_start(&c, &limits);
        while (lh_calibration_next(&c, &trial)) {
            double us = 100.0 * trial.rows;
            if (trial.draws)
                us += cases[i].one_us + cases[i].more_us * (trial.rows - 1);
            const lh_calibration_times times = {.wall_us = us, .total_us = us};
            lh_calibration_note(&c, &times);
        }
        lh_calibration_read(&c, &profile);
        assert_near(profile.draw_us, cases[i].expected_one_us, 1e-9);
        assert_near(profile.draw_more_us, cases[i].expected_more_us, 1e-9);
        assert_true(profile.shard_us == 0);
    }
}

/* What rows take alone is read between two points, and beyond the last in proportion to it. */
static void test_draws_of_rows_that_are_no_point(void **state) {
    (void)state;
    static const struct {
        uint32_t rows_max, sequences_max;
        double step_us;
    } cases[] = {{512, 12, 3000}, {12, 100, 0}, {512, 8, 3000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stage s = sound;
        s.limits.is_last = true;
        s.attention_us = 0;
        s.step_us = cases[i].step_us;
        s.limits.rows_max = cases[i].rows_max;
        s.limits.sequences_max = cases[i].sequences_max;
        lh_compute_profile profile = calibrate(&s);
        assert_near(profile.draw_us, s.draw_us, 1e-9);
        assert_near(profile.draw_more_us, s.draw_more_us, 1e-9);
    }
}

/* Eight sequences would take too long where a draw is a good part of the budget; fewer tell, too,
 * that those after the first are cheap. */
static void test_dear_draws_are_tried_of_fewer_sequences(void **state) {
    (void)state;
    stage s = sound;
    s.limits.is_last = true;
    s.attention_us = 0;
    s.draw_us = s.limits.budget_us / 10;
    s.limits.draw_part = 20;
    s.draw_more_us = s.draw_us / 20;
    lh_compute_profile profile = calibrate(&s);
    assert_near(profile.draw_us, s.draw_us, 1e-3);
    assert_near(profile.draw_more_us, s.draw_more_us, 1e-3);
    assert_true(s.spent_us < 1.5 * s.limits.budget_us);
}

/* Whatever the clock says of attention, it stays within four times of what is guessed. */
static void test_attention_beyond_reason(void **state) {
    (void)state;
    static const struct {
        double attention_us, factor;
    } wrong[] = {{-10, 0.25}, {0.0001, 0.25}, {1000, 4}};
    for (int i = 0; i < 3; i++) {
        stage s = sound;
        lh_calibration c;
        lh_calibration_trial trial;
        lh_calibration_times times;
        lh_compute_profile profile;
        s.attention_us = wrong[i].attention_us;
        s.limits.attention_part = 1e-4;
        s.step_us = 1e6;
        s.row_us = 1e4;
        s.limits.budget_us = 1e9;
        lh_calibration_start(&c, &s.limits);
        while (lh_calibration_next(&c, &trial)) {
            run_trial(&s, &trial, &times);
            lh_calibration_note(&c, &times);
        }
        lh_calibration_read(&c, &profile);
        const lh_compute_point *longest = &c.points[c.point_count - 1];
        double guess_us = 2.5 * s.limits.attention_part * longest->us / longest->rows;
        assert_near(profile.us_per_row_position, wrong[i].factor * guess_us, 1e-9);
    }
}

static void test_a_slow_stage_gets_fewer_points(void **state) {
    (void)state;
    stage s = sound;
    s.step_us = 50000;
    s.row_us = 10000;
    lh_compute_profile profile = calibrate(&s);
    assert_in_range(profile.point_count, 3, 6);
    assert_true(s.spent_us < s.limits.budget_us);
    s = sound;
    s.step_us = 5e6;
    s.row_us = 1e6;
    s.limits.is_last = true;
    profile = calibrate(&s);
    assert_int_equal(profile.point_count, 2);
    assert_int_equal(s.trials, 3); /* two points, and a draw */
    assert_true(profile.draw_us > 0 && profile.draw_more_us == profile.draw_us);
    /* a guess, since nothing was long enough: 2.5 times what the multiplications are in proportion
     */
    assert_near(profile.us_per_row_position, 2.5 * 5e-4 * 3.5e6, 0.01);
}

static void test_a_busy_machine_gets_fewer_points(void **state) {
    (void)state;
    stage s = sound;
    s.busy = 6;
    lh_compute_profile profile = calibrate(&s);
    assert_in_range(profile.point_count, 5, 9);
    assert_true(s.spent_us < 1.1 * s.limits.budget_us);
    assert_near(profile.points[4].us, base_of(&s, 16) + s.shard_us, 0.05);
}

static void test_limits(void **state) {
    (void)state;
    static const lh_calibration_limits limits[] = {
        {.rows_max = 1, .positions_max = 1, .column_blocks = 1, .budget_us = 1e6},
        {.rows_max = 1, .positions_max = 1, .column_blocks = 2, .is_last = true, .budget_us = 1e6},
        {.rows_max = 8192, .positions_max = 64, .column_blocks = 3, .budget_us = 1e9},
        {.rows_max = 8192, .positions_max = 1u << 24, .column_blocks = 512, .budget_us = 1e9},
        {.rows_max = 100, .positions_max = 101, .column_blocks = 18, .budget_us = 1e6},
        {.rows_max = 512, .positions_max = 512, .column_blocks = 18, .budget_us = 0},
    };
    static const uint32_t points[] = {1, 1, 7, 12, 7, 2};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        stage s = sound;
        s.limits = limits[i];
        lh_compute_profile profile = calibrate(&s);
        assert_int_equal(profile.point_count, points[i]);
        assert_true(profile.give_share >= 0 && profile.give_share <= 1 && profile.shard_us >= 0);
    }
}

/* Between two points what the rows take alone is interpolated. */
static void test_draws_of_a_cache_for_few_sequences(void **state) {
    (void)state;
    stage s = sound;
    s.limits.is_last = true;
    s.limits.sequences_max = 12;
    lh_compute_profile profile = calibrate(&s);
    assert_near(profile.draw_us, s.draw_us, 0.02);
    assert_near(profile.draw_more_us, s.draw_more_us, 0.05);
}

/* A clock that stands still, or whose shards take no time: nothing but zeros and numbers follows.
 */
static void test_times_that_say_nothing(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        lh_calibration calibration;
        lh_calibration_trial trial;
        lh_compute_profile profile;
        stage s = sound;
        lh_calibration_start(&calibration, &s.limits);
        lh_calibration_read(&calibration, &profile);
        assert_int_equal(profile.point_count, 0);
        for (int i = 0; lh_calibration_next(&calibration, &trial); i++) {
            lh_calibration_times times = {.wall_us = kind > 0 ? 100 : 0,
                                          .total_us = kind > 0 ? 100 : 0,
                                          .take_us = kind > 1 ? 100 * resync(&s) : 0,
                                          .emit_us = kind > 1 ? 100 * resync(&s) : 0};
            lh_calibration_note(&calibration, &times);
            assert_true(i < 1000);
        }
        lh_calibration_read(&calibration, &profile);
        const double numbers[] = {
            profile.us_per_row_position, profile.take_share, profile.give_share,  profile.draw_us,
            profile.draw_more_us,        profile.shard_us,   profile.points[0].us};
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
            assert_true(isfinite(numbers[i]) && numbers[i] >= 0);
    }
}

/* Steps of so many rows have met others' work in each of their repeats, and take so many times as
 * long. */
static void test_points_that_met_others(void **state) {
    (void)state;
    static const struct {
        uint32_t rows;
        double times, most; /* what is then believed, in times of what is true */
    } cases[] = {{1, 9, 1.2}, {4, 5, 1.4}, {64, 4, 1.4}, {256, 4, 1.3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stage s = sound;
        lh_calibration c;
        lh_calibration_trial trial;
        lh_calibration_times times;
        lh_compute_profile profile;
        lh_calibration_start(&c, &s.limits);
        while (lh_calibration_next(&c, &trial)) {
            run_trial(&s, &trial, &times);
            if (trial.rows == cases[i].rows && c.phase == LH_CALIBRATE_POINTS)
                times.total_us *= cases[i].times;
            lh_calibration_note(&c, &times);
        }
        lh_calibration_read(&c, &profile);
        for (uint32_t j = 0; j < profile.point_count; j++) {
            const double is = base_of(&s, profile.points[j].rows) + s.shard_us;
            const bool has_met = profile.points[j].rows == cases[i].rows;
            assert_true(profile.points[j].us > 0.97 * is);
            assert_true(profile.points[j].us < 1.03 * (has_met ? cases[i].most : 1) * is);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_finds_what_is_there),
        cmocka_unit_test(test_without_noise_it_is_exact),
        cmocka_unit_test(test_what_is_tried),
        cmocka_unit_test(test_dear_draws_are_tried_of_fewer_sequences),
        cmocka_unit_test(test_points_that_met_others),
        cmocka_unit_test(test_attention_beyond_reason),
        cmocka_unit_test(test_the_points_part_of_the_budget),
        cmocka_unit_test(test_a_kind_of_step_has_its_part_of_the_budget),
        cmocka_unit_test(test_at_the_end_of_the_budget_nothing_is_repeated),
        cmocka_unit_test(test_shards_that_would_take_too_long_are_left_out),
        cmocka_unit_test(test_points_are_without_attention),
        cmocka_unit_test(test_points_do_not_fall),
        cmocka_unit_test(test_shares_are_within_reason),
        cmocka_unit_test(test_shards_take_something),
        cmocka_unit_test(test_draws_are_within_reason),
        cmocka_unit_test(test_draws_of_rows_that_are_no_point),
        cmocka_unit_test(test_a_slow_stage_gets_fewer_points),
        cmocka_unit_test(test_a_busy_machine_gets_fewer_points),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_draws_of_a_cache_for_few_sequences),
        cmocka_unit_test(test_times_that_say_nothing),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
