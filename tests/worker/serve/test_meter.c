/* The meter beside a simulated machine, whose true costs are known and change. */
#include "worker/serve/meter.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- The machine ---- */

typedef struct machine {
    double step_us, row_us, attention_us, draw_us, draw_more_us, shard_us;
    double factor; /* slower by it */
    double noise;  /* of each time: up to this part more or less */
    int64_t now_us;
    uint64_t dice;
} machine;

static const machine sound = {.step_us = 6000,
                              .row_us = 500,
                              .attention_us = 0.02,
                              .draw_us = 1500,
                              .draw_more_us = 250,
                              .shard_us = 30,
                              .factor = 1,
                              .noise = 0.05,
                              .dice = 1};

static double resync(machine *m) {
    m->dice = m->dice * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->dice >> 40) / (double)(1 << 24);
}

static double base_of(const machine *m, uint32_t rows) {
    return m->factor * (m->step_us + m->row_us * rows);
}

static double attended(uint32_t rows, uint32_t position) {
    return (double)rows * position + (double)rows * (rows - 1) / 2;
}

/* Runs one step: the clock goes on, the meter is told. */
static void run(machine *m, lh_stage_meter *meter, uint32_t rows, uint32_t position, uint32_t draws,
                uint32_t extra_shards) {
    lh_step_cost cost = {.rows = rows,
                         .attended = attended(rows, position),
                         .draws = draws,
                         .extra_shards = extra_shards};
    double draw_us = draws > 0 ? m->draw_us + m->draw_more_us * (draws - 1) : 0;
    double us = base_of(m, rows) + m->factor * (m->attention_us * cost.attended + draw_us +
                                                m->shard_us * extra_shards);
    cost.busy_us = (int64_t)lround(us * (1 + m->noise * (2 * resync(m) - 1)));
    m->now_us += cost.busy_us;
    lh_stage_meter_note_step(meter, &cost, m->now_us);
}

/* As a calibration would find it. */
static lh_compute_profile calibrated(const machine *m) {
    lh_compute_profile profile = {.us_per_row_position = m->attention_us * m->factor,
                                  .draw_us = m->draw_us * m->factor,
                                  .draw_more_us = m->draw_more_us * m->factor,
                                  .shard_us = m->shard_us * m->factor,
                                  .take_share = 0.06,
                                  .give_share = 0.03};
    for (uint32_t rows = 1; rows <= 512; rows *= 2)
        profile.points[profile.point_count++] = (lh_compute_point){rows, base_of(m, rows)};
    return profile;
}

static lh_stage_meter start(machine *m) {
    lh_stage_meter meter;
    lh_compute_profile profile = calibrated(m);
    lh_stage_meter_init(&meter, &profile, m->now_us);
    return meter;
}

static double point_us(const machine *m, const lh_stage_meter *meter, uint32_t rows) {
    lh_compute_profile profile;
    lh_stage_meter_read(meter, m->now_us, &profile);
    for (uint32_t i = 0; i < profile.point_count; i++)
        if (profile.points[i].rows == rows)
            return profile.points[i].us;
    fail_msg("no point of %u rows", rows);
    return 0;
}

static void assert_near(double value, double wanted, double part) {
    if (!(fabs(value - wanted) <= part * wanted))
        fail_msg("%g is not within %g %% of %g", value, part * 100, wanted);
}

/* ---- Tests ---- */

static void test_it_starts_as_calibrated(void **state) {
    (void)state;
    machine m = sound;
    m.now_us = 1000000;
    lh_compute_profile before = calibrated(&m), after;
    before.age_us = 300;
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &before, m.now_us);
    lh_stage_meter_read(&meter, m.now_us + 700, &after);
    assert_int_equal(after.point_count, before.point_count);
    for (uint32_t i = 0; i < after.point_count; i++) {
        assert_true(after.points[i].rows == before.points[i].rows &&
                    after.points[i].us == before.points[i].us);
    }
    assert_true(after.us_per_row_position == before.us_per_row_position &&
                after.draw_us == before.draw_us && after.draw_more_us == before.draw_more_us &&
                after.shard_us == before.shard_us && after.take_share == before.take_share &&
                after.give_share == before.give_share);
    assert_true(after.step_us > 0);
    assert_int_equal(after.age_us, 1000);
}

static void test_steady_traffic_changes_little(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 2000; i++) {
        run(&m, &meter, 1, 1000, 1, 0);
        if (i % 20 == 0)
            run(&m, &meter, 96, 64, i % 40 == 0, 3);
    }
    for (uint32_t rows = 1; rows <= 512; rows *= 2)
        assert_near(point_us(&m, &meter, rows), base_of(&m, rows), 0.1);
}

/* Two seconds of decode steps, the machine three times slower: every point shows it, and recovers.
 */
static void test_a_slower_machine_shows_within_two_seconds_of_decoding(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int phase = 0; phase < 4; phase++) {
        m.factor = phase % 2 == 0 ? 3 : 1;
        for (int64_t end_us = m.now_us + 2000000; m.now_us < end_us;)
            run(&m, &meter, 1, 500, 1, 0);
        assert_near(point_us(&m, &meter, 1), base_of(&m, 1), 0.1);
        /* what has not run is believed in part: nearer to three times than to once */
        double far = point_us(&m, &meter, 512) / base_of(&sound, 512);
        assert_true(phase % 2 == 0 ? far > 1.7 && far < 3.3 : far > 0.8 && far < 1.25);
    }
}

static void test_a_slower_machine_shows_within_two_seconds_of_prefill(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    m.factor = 3;
    for (int64_t end_us = m.now_us + 2000000; m.now_us < end_us;)
        run(&m, &meter, 256, 0, 0, 0); /* 400 ms each, now */
    assert_near(point_us(&m, &meter, 256), base_of(&m, 256), 0.2);
    m.factor = 1;
    for (int64_t end_us = m.now_us + 2000000; m.now_us < end_us;)
        run(&m, &meter, 256, 0, 0, 0);
    assert_near(point_us(&m, &meter, 256), base_of(&m, 256), 0.1);
}

/* A quarter of the time on this worker, as in a chain of four. */
static void test_a_slower_machine_shows_in_sparse_traffic(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    m.factor = 3;
    for (int64_t end_us = m.now_us + 2000000; m.now_us < end_us;) {
        run(&m, &meter, 1, 0, 0, 0);
        m.now_us += 60000;
    }
    assert_near(point_us(&m, &meter, 1), base_of(&m, 1), 0.25);
}

/* The thread loses its core for 20 times the step, now and then. */
static void test_outliers_move_nothing(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 1000; i++) {
        m.factor = i % 10 == 5 ? 20 : 1;
        run(&m, &meter, i % 2 == 0 ? 64 : 1, 0, 0, 0);
        m.factor = 1;
        assert_near(point_us(&m, &meter, 1), base_of(&m, 1), 0.15);
        assert_near(point_us(&m, &meter, 64), base_of(&m, 64), 0.15);
    }
}

/* Wrong by up to a thousandfold, once or twice in a row, also after a minute in which nothing came.
 */
static void test_one_or_two_wrong_samples_move_nothing(void **state) {
    (void)state;
    static const double factors[] = {1000, 30, 2, 0.5, 0.03, 0.001};
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 24; i++)
        run(&m, &meter, i % 2 == 0 ? 64 : 1, 0, 0, 0);
    for (int round = 0; round < 48; round++) {
        uint32_t rows = round % 3 == 0 ? 512 : round % 3 == 1 ? 64 : 1;
        if (round % 4 == 0)
            m.now_us += 60000000;
        m.factor = factors[round % 6];
        run(&m, &meter, rows, 0, 0, 0);
        m.factor = factors[round * 7 % 5];
        if (round % 2 == 0)
            run(&m, &meter, rows, 0, 0, 0);
        m.factor = 1;
        for (uint32_t i = 1; i <= 512; i *= 2)
            assert_near(point_us(&m, &meter, i), base_of(&m, i), 0.15);
        for (int i = 0; i < 8; i++)
            run(&m, &meter, rows, 0, 0, 0);
    }
}

/* The first step of more rows than any before comes while the machine does something else. */
static void test_a_longer_step_alone_is_not_believed(void **state) {
    (void)state;
    machine m = sound;
    lh_compute_profile few = calibrated(&m);
    few.point_count = 4; /* up to 8 rows */
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &few, 0);
    m.factor = 100;
    run(&m, &meter, 52, 0, 0, 0);
    m.factor = 1;
    assert_near(point_us(&m, &meter, 52), base_of(&m, 52), 0.1);
    assert_near(point_us(&m, &meter, 8), base_of(&m, 8), 0.1);
}

/* The third that says so is believed, and by then wholly. */
static void test_three_samples_that_agree_are_believed(void **state) {
    (void)state;
    static const double factors[] = {3, 20, 0.1};
    for (int i = 0; i < 3; i++) {
        machine m = sound;
        lh_stage_meter meter = start(&m);
        for (int j = 0; j < 20; j++)
            run(&m, &meter, 64, 0, 0, 0);
        m.factor = factors[i];
        run(&m, &meter, 64, 0, 0, 0);
        run(&m, &meter, 64, 0, 0, 0);
        assert_near(point_us(&m, &meter, 64), base_of(&sound, 64), 0.15);
        run(&m, &meter, 64, 0, 0, 0);
        assert_near(point_us(&m, &meter, 64), base_of(&m, 64), 0.2);
    }
}

/* One kind alone is off, steps of another come in between: that takes five, and goes no further
 * than the kinds beside it allow. */
static void test_a_kind_alone_is_believed_after_five(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 40; i++)
        run(&m, &meter, i % 2 ? 64 : 1, 0, 0, 0);
    double before = point_us(&m, &meter, 64), alone = point_us(&m, &meter, 1);
    for (int i = 0; i < 5; i++) {
        assert_near(point_us(&m, &meter, 64), before, 0.1);
        m.factor = 100;
        run(&m, &meter, 64, 0, 0, 0);
        m.factor = 1;
        run(&m, &meter, 1, 0, 0, 0);
        run(&m, &meter, 1, 0, 0, 0);
    }
    assert_true(point_us(&m, &meter, 64) > 1.2 * before);
    assert_true(point_us(&m, &meter, 64) < 1.6 * base_of(&m, 128));
    assert_near(point_us(&m, &meter, 1), alone, 0.1);
    /* and what no more steps tell of is forgotten */
    for (int i = 0; i < 60; i++) {
        m.now_us += 30000000;
        run(&m, &meter, 1, 0, 0, 0);
    }
    assert_near(point_us(&m, &meter, 64), before, 0.2);
}

/* Nor are three believed of which each says something else. */
static void test_samples_that_disagree_are_not_believed(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 20; i++)
        run(&m, &meter, 64, 0, 0, 0);
    for (int i = 0; i < 30; i++) {
        m.factor = i % 3 == 0 ? 3 : i % 3 == 1 ? 12 : 50;
        run(&m, &meter, 64, 0, 0, 0);
        assert_near(point_us(&m, &meter, 64), base_of(&sound, 64), 0.15);
    }
}

/* At another place in a chain, or after a stop, two steps do not count at all. */
static void test_the_first_steps_of_a_new_place_do_not_count(void **state) {
    (void)state;
    machine m = sound, slow = sound;
    slow.factor = 1.3;
    lh_stage_meter meter = start(&m);
    double before = point_us(&m, &meter, 16);
    lh_stage_meter_unsettle(&meter);
    lh_stage_meter_note_overhead(&meter, 900);
    for (int i = 0; i < 2; i++) {
        run(&slow, &meter, 16, 0, 0, 0);
        assert_true(point_us(&m, &meter, 16) == before);
    }
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, slow.now_us, &profile);
    assert_true(profile.step_us == 100);
    run(&slow, &meter, 16, 0, 0, 0);
    assert_true(point_us(&slow, &meter, 16) > 1.1 * before);
}

/* And two more when that is over. */
static void test_nothing_counts_while_another_stage_is_loaded(void **state) {
    (void)state;
    machine m = sound, slow = sound;
    slow.factor = 1.3;
    lh_stage_meter meter = start(&m);
    double before = point_us(&m, &meter, 16);
    lh_stage_meter_hold(&meter, true);
    lh_stage_meter_note_overhead(&meter, 900);
    for (int i = 0; i < 50; i++)
        run(&slow, &meter, 16, 0, 0, 0);
    lh_stage_meter_hold(&meter, true);
    lh_stage_meter_hold(&meter, false);
    run(&slow, &meter, 16, 0, 0, 0);
    lh_stage_meter_hold(&meter, false); /* it was not held: nothing begins anew */
    run(&slow, &meter, 16, 0, 0, 0);
    assert_true(point_us(&m, &meter, 16) == before);
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, slow.now_us, &profile);
    assert_true(profile.step_us == 100);
    run(&slow, &meter, 16, 0, 0, 0);
    assert_true(point_us(&slow, &meter, 16) > 1.1 * before);
}

/* Decoding is slower than was calibrated, prefill as it was: in the end each point follows its own
 * steps. */
static void test_each_kind_of_step_finds_its_own_time(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    machine slow = sound;
    slow.factor = 1.6;
    for (int i = 0; i < 600; i++) {
        slow.now_us = m.now_us;
        run(&slow, &meter, 1, 0, 0, 0);
        m.now_us = slow.now_us;
        if (i % 6 == 0)
            run(&m, &meter, 256, 0, 0, 0);
    }
    assert_near(point_us(&m, &meter, 1), 1.6 * base_of(&sound, 1), 0.1);
    assert_near(point_us(&m, &meter, 256), base_of(&sound, 256), 0.1);
}

/* A normal variable, nearly. */
static double roll_normal(machine *m) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += resync(m);
    return sum - 6;
}

/* The speed swings by a tenth and has forgotten after some seconds what it was. */
static void swing(machine *m, double *speed, int64_t elapsed_us) {
    double kept = exp(-(double)elapsed_us / 5e6);
    *speed = kept * *speed + sqrt(1 - kept * kept) * 0.1 * roll_normal(m);
    m->factor = exp(*speed);
}

/* Prompts in chunks of several lengths, each length at another time; after ten of each: how far off
 * is what a chunk of these rows is believed to cost beside one of those? */
static double compare_on_a_swinging_machine(uint64_t seed, uint32_t rows, uint32_t beside) {
    static const uint32_t lengths[] = {512, 16, 64, 32, 128, 256};
    machine m = sound;
    double speed = 0;
    m.dice = seed;
    lh_compute_profile profile = calibrated(&m);
    for (uint32_t i = 0; i < profile.point_count; i++)
        profile.points[i].us *= exp(0.06 * roll_normal(&m));
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &profile, m.now_us);
    for (uint32_t prompt = 0; prompt < 60; prompt++) {
        uint32_t length = lengths[prompt % 6];
        for (uint32_t position = 0; position < 512; position += length) {
            int64_t begin_us = m.now_us;
            run(&m, &meter, length, position, 0, 0);
            swing(&m, &speed, m.now_us - begin_us);
        }
        m.now_us += 3000000;
        swing(&m, &speed, 3000000);
    }
    return log(point_us(&m, &meter, rows) / point_us(&m, &meter, beside)) -
           log(base_of(&m, rows) / base_of(&m, beside));
}

/* Points are compared at one speed of the machine, though none was seen at the same time as
 * another: twenty fleets. */
static void test_a_machine_that_swings_does_not_bend_the_points(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = {{16, 32}, {16, 64}, {32, 128}};
    for (int pair = 0; pair < 3; pair++) {
        double squares = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            double off = compare_on_a_swinging_machine(7919 * seed, pairs[pair][0], pairs[pair][1]);
            squares += off * off / 20;
        }
        if (!(sqrt(squares) <= 0.032)) {
            fail_msg("%u rows beside %u: wrong by %.3f", pairs[pair][0], pairs[pair][1],
                     sqrt(squares));
        }
    }
}

/* Prompts of 512, in one chunk or in some, after each of which tokens are drawn, some seconds
 * apart. Returns the greatest factor by which a prompt's chunks were believed to take more, or
 * less, than they do. */
static double serve_and_compare(machine *m, lh_stage_meter *meter, uint32_t prompts) {
    static const uint32_t lengths[] = {512, 32, 16, 512, 16, 64};
    double worst = 1;
    for (uint32_t prompt = 0; prompt < prompts; prompt++) {
        uint32_t length = lengths[prompt % 6];
        double factor = point_us(m, meter, length) / base_of(m, length);
        worst = fmax(worst, fmax(factor, 1 / factor));
        for (uint32_t position = 0; position < 512; position += length)
            run(m, meter, length, position, 0, 0);
        for (uint32_t token = 0; token < 12; token++) {
            run(m, meter, 1, 512 + token, 1, 0);
            m->now_us += 40000;
        }
        m->now_us += 5000000;
    }
    return worst;
}

/* Single rows were calibrated while something else had the core, chunks were not: the machine does
 * not turn faster with each token and slower with each prompt. */
static void test_points_of_two_moments_are_told_from_a_machine_that_changes(void **state) {
    (void)state;
    static const double factors[] = {3, 2, 0.5};
    for (int i = 0; i < 3; i++) {
        machine m = sound;
        lh_compute_profile profile = calibrated(&m);
        for (uint32_t point = 0; point < 5; point++)
            profile.points[point].us *= factors[i];
        lh_stage_meter meter;
        lh_stage_meter_init(&meter, &profile, m.now_us);
        serve_and_compare(&m, &meter, 12);
        double after = serve_and_compare(&m, &meter, 12);
        assert_near(after, 1, 0.1);
    }
}

/* One row was calibrated slower than sixteen are: what has been seen counts, and not what was
 * believed of fewer rows. */
static void test_points_that_were_seen_are_not_lifted_by_others(void **state) {
    (void)state;
    machine m = sound;
    m.noise = 0;
    lh_compute_profile profile = calibrated(&m);
    profile.points[0].us = 3 * base_of(&m, 16);
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &profile, m.now_us);
    for (int i = 0; i < 64; i++)
        run(&m, &meter, 16, 0, 0, 0);
    assert_near(point_us(&m, &meter, 16), base_of(&m, 16), 0.1);
    assert_true(point_us(&m, &meter, 1) <= point_us(&m, &meter, 16));
}

/* Sequences that grow long take longer for what is known of attention, and the machine is not
 * blamed for it. */
static void test_attention_is_not_taken_for_slowness(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 2000; i++) {
        run(&m, &meter, 64, 64 * (uint32_t)(i % 128), 0, 0);
        assert_near(point_us(&m, &meter, 64), base_of(&m, 64), 0.1);
    }
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, m.now_us, &profile);
    assert_near(profile.us_per_row_position, m.attention_us, 0.1);
}

/* What was guessed of it, twice as much as is true or half, a few prompts correct: their later
 * chunks tell it from the rest. */
static void test_attention_is_learned(void **state) {
    (void)state;
    static const double guesses[] = {2, 0.5};
    for (int guess = 0; guess < 2; guess++) {
        machine m = sound;
        m.attention_us = 0.5;
        lh_compute_profile profile = calibrated(&m);
        profile.us_per_row_position *= guesses[guess];
        lh_stage_meter meter;
        lh_stage_meter_init(&meter, &profile, m.now_us);
        for (uint32_t prompt = 0; prompt < 6; prompt++)
            for (uint32_t position = 0; position < 512; position += 32)
                run(&m, &meter, 32, position, 0, 0);
        lh_stage_meter_read(&meter, m.now_us, &profile);
        assert_near(profile.us_per_row_position, m.attention_us, 0.2);
        assert_near(point_us(&m, &meter, 32), base_of(&m, 32), 0.1);
    }
}

/* Other work holds up a machine for minutes, steps of some rows far more than single ones: what
 * comes then, whatever it is, tells that it is over for all. */
static void test_what_held_up_a_machine_is_forgotten_in_three_steps(void **state) {
    (void)state;
    static const uint32_t after[] = {1, 64, 512};
    for (int i = 0; i < 6; i++) {
        machine m = sound, slow = sound;
        lh_stage_meter meter = start(&m);
        slow.factor = 50;
        for (int step = 0; step < 400; step++) {
            slow.now_us = m.now_us;
            run(&slow, &meter, step < 20 ? 104 : 8, 0, 0, 0);
            m.now_us = slow.now_us;
            for (int token = 0; i >= 3 && token < 2; token++)
                run(&m, &meter, 1, 500, 0, 0);
        }
        for (int step = 0; step < 3; step++)
            run(&m, &meter, after[i % 3], 0, 0, 0);
        double times = point_us(&m, &meter, after[i % 3]) / base_of(&m, after[i % 3]);
        assert_true(times < 2.01 && times > 0.8);
        for (uint32_t rows = 1; rows <= 512; rows *= 2) {
            double factor = point_us(&m, &meter, rows) / base_of(&m, rows) / times;
            assert_true(factor < 2.01 && factor > 0.49);
        }
    }
}

static void test_overhead_recovers_in_three_steps(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    lh_compute_profile profile;
    for (int i = 0; i < 400; i++)
        lh_stage_meter_note_overhead(&meter, i < 200 ? 120 : 6000);
    for (int i = 0; i < 3; i++)
        lh_stage_meter_note_overhead(&meter, 120 + i);
    lh_stage_meter_read(&meter, m.now_us, &profile);
    assert_near(profile.step_us, 120, 0.1);
}

/* How far the machine is from its calibration. */
static void test_it_tells_how_many_times_as_slow_as_calibrated(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, 0, &profile);
    assert_near(profile.calibrated_times, 1, 1e-6);
    m.factor = 8;
    for (int i = 0; i < 12; i++)
        run(&m, &meter, 16, 0, 0, 0);
    lh_stage_meter_read(&meter, m.now_us, &profile);
    assert_near(profile.calibrated_times, 8, 0.1);
    lh_stage_meter_init(&meter, &(lh_compute_profile){0}, 0);
    run(&m, &meter, 16, 0, 0, 0);
    lh_stage_meter_read(&meter, 0, &profile);
    assert_true(profile.calibrated_times == 0);
}

static void test_longer_steps_make_points(void **state) {
    (void)state;
    machine m = sound;
    m.noise = 0;
    lh_compute_profile two = calibrated(&m);
    /* a slow stage: 1 and 2 rows were calibrated, and the line through them is wrong */
    two.point_count = 2;
    two.points[1].us = two.points[0].us * 1.001;
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &two, 0);
    for (int i = 0; i < 8; i++)
        run(&m, &meter, 256, 0, 0, 0);
    assert_near(point_us(&m, &meter, 256), base_of(&m, 256), 0.02);
    assert_near(point_us(&m, &meter, 1), two.points[0].us, 0.15);
    for (uint32_t rows = 1; rows <= 8192; rows += 7)
        run(&m, &meter, rows, 0, 0, 0);
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, m.now_us, &profile);
    assert_in_range(profile.point_count, 4, LH_COMPUTE_POINTS_MAX);
}

static void test_without_a_calibration(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter;
    lh_compute_profile profile;
    lh_stage_meter_init(&meter, &(lh_compute_profile){0}, 0);
    lh_stage_meter_read(&meter, 0, &profile);
    assert_int_equal(profile.point_count, 0);
    run(&m, &meter, 1, 0, 0, 0);
    for (int i = 0; i < 4; i++)
        run(&m, &meter, 128, 0, 0, 0);
    assert_near(point_us(&m, &meter, 128), base_of(&m, 128), 0.1);
}

static void test_overhead(void **state) {
    (void)state;
    machine m = sound;
    lh_stage_meter meter = start(&m);
    for (int i = 0; i < 200; i++)
        lh_stage_meter_note_overhead(&meter, i % 10 == 9 ? 50000 : 240);
    lh_stage_meter_note_overhead(&meter, 0);
    lh_stage_meter_note_overhead(&meter, -5);
    lh_compute_profile profile;
    lh_stage_meter_read(&meter, m.now_us, &profile);
    assert_near(profile.step_us, 240, 0.1);
}

/* Numbers that no machine gives: estimates stay finite, positive and in order. */
static void test_hostile_samples(void **state) {
    (void)state;
    static const int64_t times[] = {INT64_MIN, -1, 0, 1, 1000, INT64_MAX};
    static const double depths[] = {-1, NAN, INFINITY, 0, 1e18};
    machine m = sound;
    lh_stage_meter meter = start(&m);
    lh_compute_profile profile;
    for (int i = 0; i < 20000; i++) {
        lh_step_cost cost = {.rows =
                                 resync(&m) < 0.1 ? 0 : (uint32_t)(resync(&m) * 4e9) >> (i % 32),
                             .attended = depths[(int)(resync(&m) * 5)],
                             .draws = (uint32_t)(resync(&m) * 4e9) >> (i % 31),
                             .extra_shards = (uint32_t)(resync(&m) * 4e9) >> (i % 29),
                             .busy_us = times[(int)(resync(&m) * 6)]};
        lh_stage_meter_note_step(&meter, &cost, (int64_t)(resync(&m) * 1e9));
        lh_stage_meter_note_overhead(&meter, cost.busy_us);
        lh_stage_meter_read(&meter, 2000000000, &profile);
        double before = 0;
        for (uint32_t j = 0; j < profile.point_count; j++) {
            assert_true(isfinite(profile.points[j].us) && profile.points[j].us >= before);
            assert_true(j == 0 || profile.points[j].rows > profile.points[j - 1].rows);
            before = profile.points[j].us;
        }
        assert_true(isfinite(profile.us_per_row_position) && isfinite(profile.draw_us) &&
                    isfinite(profile.draw_more_us) && isfinite(profile.shard_us) &&
                    isfinite(profile.step_us));
    }
    /* and it finds its way back */
    m.now_us = 4000000000;
    for (int i = 0; i < 3000; i++)
        run(&m, &meter, 1 + (uint32_t)(i % 64), 0, 0, 0);
    assert_near(point_us(&m, &meter, 1), base_of(&m, 1), 0.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_starts_as_calibrated),
        cmocka_unit_test(test_steady_traffic_changes_little),
        cmocka_unit_test(test_a_slower_machine_shows_within_two_seconds_of_decoding),
        cmocka_unit_test(test_a_slower_machine_shows_within_two_seconds_of_prefill),
        cmocka_unit_test(test_a_slower_machine_shows_in_sparse_traffic),
        cmocka_unit_test(test_outliers_move_nothing),
        cmocka_unit_test(test_one_or_two_wrong_samples_move_nothing),
        cmocka_unit_test(test_a_longer_step_alone_is_not_believed),
        cmocka_unit_test(test_three_samples_that_agree_are_believed),
        cmocka_unit_test(test_a_kind_alone_is_believed_after_five),
        cmocka_unit_test(test_samples_that_disagree_are_not_believed),
        cmocka_unit_test(test_the_first_steps_of_a_new_place_do_not_count),
        cmocka_unit_test(test_nothing_counts_while_another_stage_is_loaded),
        cmocka_unit_test(test_each_kind_of_step_finds_its_own_time),
        cmocka_unit_test(test_a_machine_that_swings_does_not_bend_the_points),
        cmocka_unit_test(test_points_of_two_moments_are_told_from_a_machine_that_changes),
        cmocka_unit_test(test_points_that_were_seen_are_not_lifted_by_others),
        cmocka_unit_test(test_attention_is_not_taken_for_slowness),
        cmocka_unit_test(test_attention_is_learned),
        cmocka_unit_test(test_what_held_up_a_machine_is_forgotten_in_three_steps),
        cmocka_unit_test(test_overhead_recovers_in_three_steps),
        cmocka_unit_test(test_it_tells_how_many_times_as_slow_as_calibrated),
        cmocka_unit_test(test_longer_steps_make_points),
        cmocka_unit_test(test_without_a_calibration),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_hostile_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
