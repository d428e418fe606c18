#include "common/http2/liveness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_h2_activity watched = {.ready = true, .watched = true}, unwatched = {.ready = true};

static lh_h2_limits limits;

static int defaults(void **state) {
    (void)state;
    limits = lh_h2_default_limits();
    return 0;
}

/* Ticks until the connection is given up: for how long, or -1 when `max_ms` have passed. */
static int64_t lives_for(lh_h2_liveness *l, const lh_h2_activity *activity, int64_t max_ms) {
    uint64_t ping;
    for (int64_t now_ms = l->tick_ms; now_ms <= max_ms; now_ms += l->tick_ms)
        if (lh_h2_liveness_tick(l, activity, &ping, NULL) != LH_OK)
            return now_ms;
    return -1;
}

static void silence_kills_in_time(void **state) {
    (void)state;
    lh_h2_liveness l;
    lh_h2_liveness_init(&l, &limits);
    assert_true(lh_h2_liveness_start(&l) != 0);
    int64_t ms = lives_for(&l, &watched, 10000);
    assert_in_range(ms, 1900, 2500);
}

/* While answers are late: they may stand behind much else. */
static void any_byte_keeps_it_alive(void **state) {
    (void)state;
    lh_h2_liveness l;
    uint64_t ping, last;
    lh_h2_liveness_init(&l, &limits);
    last = lh_h2_liveness_start(&l);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 3; k++) {
            lh_h2_liveness_heard(&l);
            assert_int_equal(lives_for(&l, &watched, 1500), -1);
        }
        lh_h2_liveness_heard(&l);
        lh_h2_liveness_answered(&l, last);
        for (ping = 0; !ping;)
            assert_int_equal(lh_h2_liveness_tick(&l, &watched, &ping, NULL), LH_OK);
        last = ping;
    }
}

/* But not for ever: whoever sends and never answers is out of step. */
static void bytes_without_answers_kill_in_time(void **state) {
    (void)state;
    lh_h2_liveness l;
    int64_t ms = 0;
    uint64_t ping;
    lh_h2_liveness_init(&l, &limits);
    lh_h2_liveness_start(&l);
    do {
        ms += l.tick_ms;
        lh_h2_liveness_heard(&l);
    } while (lh_h2_liveness_tick(&l, &watched, &ping, NULL) == LH_OK);
    assert_in_range(ms, 5500, 6500);
}

/* The next PING goes an interval after the last one was answered, and never two at once. */
static void pings_follow_answers(void **state) {
    (void)state;
    lh_h2_liveness l;
    uint64_t ping, last;
    lh_h2_liveness_init(&l, &limits);
    last = lh_h2_liveness_start(&l);
    /* of another connection, or invented */
    assert_int_equal(lh_h2_liveness_answered(&l, last + 1), 0);
    assert_true(lh_h2_liveness_answered(&l, last) > 0);
    int pings = 0;
    for (int64_t ms = 0; ms < 10000; ms += l.tick_ms) {
        lh_h2_liveness_heard(&l);
        assert_int_equal(lh_h2_liveness_tick(&l, &watched, &ping, NULL), LH_OK);
        if (!ping)
            continue;
        pings++;
        lh_h2_liveness_answered(&l, ping);
    }
    assert_in_range(pings, 14, 20);
}

static void nobody_waits_nobody_dies(void **state) {
    (void)state;
    lh_h2_liveness l;
    lh_h2_liveness_init(&l, &limits);
    lh_h2_liveness_start(&l);
    assert_in_range(lives_for(&l, &unwatched, 1000000), 110000, 130000);
}

static void deadlines(void **state) {
    (void)state;
    static const struct {
        lh_h2_activity activity;
        int64_t least_ms, most_ms;
        const char *words;
    } cases[] = {
        {{.ready = false}, 2500, 3500, "no HTTP/2 connection"},
        {{.ready = true, .mid_headers = true}, 9000, 11000, "headers took"},
        {{.ready = true, .writing = true}, 29000, 31000, "has not read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_h2_liveness l;
        lh_error error;
        uint64_t ping;
        int64_t ms = 0;
        lh_h2_liveness_init(&l, &limits);
        do {
            ms += l.tick_ms;
            lh_h2_liveness_heard(&l); /* a drop now and then does not help */
        } while (lh_h2_liveness_tick(&l, &cases[i].activity, &ping, &error) == LH_OK);
        assert_in_range(ms, cases[i].least_ms, cases[i].most_ms);
        assert_int_equal(error.status, LH_ERR_TIMEOUT);
        assert_non_null(strstr(error.message, cases[i].words));
    }
}

static void no_pings_no_verdict(void **state) {
    (void)state;
    lh_h2_liveness l;
    lh_h2_limits quiet = limits;
    quiet.ping_interval_ms = 0;
    lh_h2_liveness_init(&l, &quiet);
    assert_true(lh_h2_liveness_start(&l) == 0);
    assert_int_equal(lives_for(&l, &watched, 1000000), -1);
}

/* An interval that is longer than the limit of silence does not make live peers look dead. */
static void the_interval_fits_the_limit(void **state) {
    (void)state;
    lh_h2_liveness l;
    lh_h2_limits odd = limits;
    uint64_t ping;
    odd.ping_interval_ms = 60000;
    lh_h2_liveness_init(&l, &odd);
    lh_h2_liveness_answered(&l, lh_h2_liveness_start(&l));
    for (int64_t ms = 0; ms < 100000; ms += l.tick_ms) {
        assert_int_equal(lh_h2_liveness_tick(&l, &watched, &ping, NULL), LH_OK);
        if (!ping)
            continue;
        lh_h2_liveness_heard(&l);
        lh_h2_liveness_answered(&l, ping);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_kills_in_time),
        cmocka_unit_test(any_byte_keeps_it_alive),
        cmocka_unit_test(bytes_without_answers_kill_in_time),
        cmocka_unit_test(pings_follow_answers),
        cmocka_unit_test(nobody_waits_nobody_dies),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(no_pings_no_verdict),
        cmocka_unit_test(the_interval_fits_the_limit),
    };
    return cmocka_run_group_tests(tests, defaults, NULL);
}
