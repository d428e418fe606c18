#include "common/http2/liveness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* In ticks of a second, to the tick. */
static void deadlines_are_exact(void **state) {
    (void)state;
    static const struct {
        lh_h2_activity activity;
        bool pings, hears;
        int64_t ms;
        const char *words;
    } cases[] = {
        {{.ready = false}, false, true, 6000, "no HTTP/2 connection within 6000 ms"},
        {{.ready = true, .mid_headers = true}, false, true, 10000, "headers took more than 10000"},
        {{.ready = true, .writing = true}, false, true, 30000, "has not read for 30000 ms"},
        {{.ready = true}, false, false, 120000, "unused for 120000 ms"},
        {{.ready = true, .watched = true}, true, true, 18000, "no PING answer for 18000 ms"},
        {{.ready = true, .watched = true},
         true,
         false,
         6000,
         "no byte and no PING answer for 6000"},
    };
    lh_h2_limits even = limits;
    even.dead_after_ms = even.connect_timeout_ms = 6000;
    even.ping_interval_ms = 1000;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_h2_liveness l;
        lh_error error;
        uint64_t ping;
        int64_t ms = 0;
        lh_h2_liveness_init(&l, &even);
        assert_int_equal(l.tick_ms, 1000);
        if (cases[i].pings)
            lh_h2_liveness_start(&l);
        do {
            ms += l.tick_ms;
            if (cases[i].hears)
                lh_h2_liveness_heard(&l);
        } while (lh_h2_liveness_tick(&l, &cases[i].activity, &ping, &error) == LH_OK);
        assert_int_equal(ms, cases[i].ms);
        assert_int_equal(error.status, LH_ERR_TIMEOUT);
        assert_non_null(strstr(error.message, cases[i].words));
    }
}

/* Six of them in the shorter limit, and one for each PING at least. */
static void ticks_are_as_fine_as_the_limits(void **state) {
    (void)state;
    static const struct {
        int64_t ping_ms, dead_ms, connect_ms, tick_ms, interval_ms;
    } cases[] = {{500, 2000, 3000, 333, 500},
                 {100, 300, 200, 33, 100},
                 {10, 300, 200, 10, 10},
                 {60000, 1200, 1200, 200, 600},
                 {1000, 600, 6000, 100, 300},
                 {0, 1200, 600, 100, 0},
                 {5, 2, 2, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_h2_liveness l;
        lh_h2_limits odd = limits;
        odd.ping_interval_ms = cases[i].ping_ms;
        odd.dead_after_ms = cases[i].dead_ms;
        odd.connect_timeout_ms = cases[i].connect_ms;
        lh_h2_liveness_init(&l, &odd);
        assert_int_equal(l.tick_ms, cases[i].tick_ms);
        assert_int_equal(l.ping_interval_ms, cases[i].interval_ms);
    }
}

/* A peer that reads slowly is alive: each time that the kernel takes all, counting begins again. */
static void a_slow_reader_lives(void **state) {
    (void)state;
    static const lh_h2_activity writing = {.ready = true, .writing = true, .watched = true};
    lh_h2_liveness l;
    uint64_t ping;
    lh_h2_liveness_init(&l, &limits);
    for (int64_t ms = 0; ms < 100000; ms += l.tick_ms) {
        if (ms % 20000 < l.tick_ms)
            lh_h2_liveness_written(&l);
        assert_int_equal(lh_h2_liveness_tick(&l, &writing, &ping, NULL), LH_OK);
    }
}

/* Of a connection that does not stand, and of one on which nobody waits. */
static void no_ping_is_sent_for_nothing(void **state) {
    (void)state;
    lh_h2_liveness l;
    uint64_t ping;
    lh_h2_liveness_init(&l, &limits);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(lh_h2_liveness_tick(&l, &watched, &ping, NULL), LH_OK);
        assert_true(ping == 0);
    }
    lh_h2_liveness_answered(&l, lh_h2_liveness_start(&l));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(lh_h2_liveness_tick(&l, &unwatched, &ping, NULL), LH_OK);
        assert_true(ping == 0);
    }
    assert_int_equal(lh_h2_liveness_tick(&l, &watched, &ping, NULL), LH_OK);
    assert_true(ping != 0); /* somebody waits now */
}

static void an_answer_tells_the_round_trip(void **state) {
    (void)state;
    lh_h2_liveness l;
    lh_h2_liveness_init(&l, &limits);
    uint64_t ping = lh_h2_liveness_start(&l);
    usleep(3000);
    assert_true(lh_h2_liveness_answered(&l, ping) >= 3000);
    assert_int_equal(lh_h2_liveness_answered(&l, ping), 0); /* once */
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
        cmocka_unit_test(deadlines_are_exact),
        cmocka_unit_test(ticks_are_as_fine_as_the_limits),
        cmocka_unit_test(a_slow_reader_lives),
        cmocka_unit_test(no_ping_is_sent_for_nothing),
        cmocka_unit_test(an_answer_tells_the_round_trip),
        cmocka_unit_test(no_pings_no_verdict),
        cmocka_unit_test(the_interval_fits_the_limit),
    };
    return cmocka_run_group_tests(tests, defaults, NULL);
}
