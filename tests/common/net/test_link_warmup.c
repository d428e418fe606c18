/* When probes go, on a link whose window grows by what is acknowledged. */
#include "common/net/link_warmup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { START_BYTES = 14480 };

typedef struct link {
    double bytes_per_us;
    int64_t round_trip_us;
    uint64_t known_from_bytes; /* a probe of this size shows the rate */
    double told_bytes_per_us;  /* instead of the rate that it has; 0: that */
    bool is_doubtful;
    uint64_t window_max;
    int64_t now_us;
    lh_link_condition condition;
    lh_link_warmup warmup;
    uint64_t probes, probe_bytes;
} link;

static void open_link(link *l, double bytes_per_us, int64_t round_trip_us, double share) {
    *l = (link){.bytes_per_us = bytes_per_us, .round_trip_us = round_trip_us, .now_us = 1000000};
    l->window_max = UINT64_MAX;
    l->condition.ready_bytes = START_BYTES;
    l->condition.estimate.bytes_per_us_is_bound = true;
    lh_link_warmup_init(&l->warmup, share, LH_LINK_PROBE_BYTES_MAX);
    lh_link_warmup_connected(&l->warmup);
}

/* One probe, if one is due; false: none. */
static bool probe(link *l) {
    uint64_t bytes = lh_link_warmup_next(&l->warmup, l->now_us, &l->condition);
    if (bytes == 0)
        return false;
    lh_link_condition *c = &l->condition;
    int64_t took_us = l->round_trip_us + (int64_t)((double)bytes / l->bytes_per_us);
    l->now_us += took_us;
    c->ready_bytes += bytes;
    if (c->ready_bytes > l->window_max)
        c->ready_bytes = l->window_max;
    bool shows = bytes >= l->known_from_bytes;
    c->estimate = (lh_link_estimate){.round_trip_us = l->round_trip_us,
                                     .bytes_per_us =
                                         shows ? l->bytes_per_us : (double)bytes / (double)took_us,
                                     .bytes_per_us_is_bound = !shows};
    c->estimate.bytes_per_us_is_doubtful = l->is_doubtful;
    if (shows && l->told_bytes_per_us > 0)
        c->estimate.bytes_per_us = l->told_bytes_per_us;
    lh_link_warmup_probed(&l->warmup, bytes, took_us, c);
    l->probes++;
    l->probe_bytes += bytes;
    return true;
}

static void probe_for(link *l, int64_t us) {
    for (int64_t end_us = l->now_us + us; l->now_us < end_us;)
        if (!probe(l))
            l->now_us += 100000;
}

static void the_window_opens_and_then_nothing_is_sent(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    l.known_from_bytes = 65536;
    probe_for(&l, 5000000);
    assert_true(l.condition.ready_bytes >= 900000);
    assert_in_range(l.probes, 5, 8);
    assert_in_range(l.probe_bytes, 800000, 2200000);
    uint64_t before = l.probes;
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
    lh_link_warmup_expect(&l.warmup, true);
    probe_for(&l, 600000000);
    assert_int_equal(l.probes, before);
}

/* 64 KiB would take a quarter of a second here. */
static void a_slow_link_is_asked_for_little(void **state) {
    (void)state;
    link l;
    open_link(&l, 0.25, 20000, 0.01);
    l.known_from_bytes = 16384;
    probe_for(&l, 60000000);
    assert_int_equal(l.probe_bytes, 16384);
}

static void a_window_that_grows_no_more_ends_it(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.5);
    l.window_max = 200000;
    probe_for(&l, 60000000);
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
    assert_true(l.probe_bytes < 1100000);
}

/* Of 10 Mbit/s and 20 ms the first probes fill the window already. */
static void what_is_measured_is_probed_for_as_long_as_it_takes(void **state) {
    (void)state;
    link l;
    open_link(&l, 1.25, 20000, 0.01);
    probe_for(&l, 10000000);
    assert_int_equal(l.probes, 1);
    open_link(&l, 1.25, 20000, 0.01);
    lh_link_warmup_measure(&l.warmup, 50000);
    probe_for(&l, 10000000);
    assert_int_equal(l.probes, 3);
    assert_int_equal(l.probe_bytes, (16 + 32 + 64) << 10);
    lh_link_warmup_connected(&l.warmup);
    probe_for(&l, 10000000);
    assert_int_equal(l.probes, 6);
    open_link(&l, 1.25, 100000, 0.01); /* far away: for two round trips */
    lh_link_warmup_measure(&l.warmup, 50000);
    probe_for(&l, 10000000);
    assert_int_equal(l.probe_bytes, (16 + 32 + 64 + 128 + 256) << 10);
}

/* Of a bound that never becomes a rate a longer probe would tell no more. */
static void a_link_that_nothing_fills_is_probed_no_longer(void **state) {
    (void)state;
    link l;
    open_link(&l, 1000, 100, 0.01);
    l.known_from_bytes = UINT64_MAX;
    lh_link_warmup_measure(&l.warmup, 50000);
    probe_for(&l, 10000000);
    assert_int_equal(l.probe_bytes, (4096 - 16) << 10);
}

/* Where the first segments were held up, the rate looks as if they had lasted. */
static void how_long_a_probe_lasts_is_told_by_the_clock(void **state) {
    (void)state;
    link l;
    open_link(&l, 1.25, 20000, 0.05);
    l.told_bytes_per_us = 0.125;
    lh_link_warmup_measure(&l.warmup, 50000);
    probe_for(&l, 10000000);
    assert_int_equal(l.probe_bytes, (16 + 32 + 64) << 10);
}

static void what_is_doubtful_is_probed_on(void **state) {
    (void)state;
    link l;
    open_link(&l, 1.25, 20000, 0.05);
    l.is_doubtful = true;
    lh_link_warmup_measure(&l.warmup, 50000);
    while (l.probes < 4)
        assert_true(probe(&l));
    l.is_doubtful = false;
    assert_true(probe(&l));
    assert_false(probe(&l));
}

/* Loopback: no rate ever shows. */
static void a_link_without_a_rate_ends_it(void **state) {
    (void)state;
    link l;
    open_link(&l, 5000, 100, 0.01);
    l.known_from_bytes = UINT64_MAX;
    probe_for(&l, 60000000);
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
    assert_in_range(l.probe_bytes, 2 << 20, 8 << 20);
}

/* A peer that connects again and again gets no more than the share. */
static void the_budget_holds(void **state) {
    (void)state;
    link l;
    open_link(&l, 1.25, 80000, 0.01);
    int64_t begin_us = l.now_us;
    for (int i = 0; i < 600; i++) {
        lh_link_warmup_connected(&l.warmup);
        l.condition.ready_bytes = START_BYTES;
        probe_for(&l, 1000000);
    }
    double seconds = (double)(l.now_us - begin_us) / 1e6;
    double allowed = 0.01 * 1.25e6 * (seconds + 60);
    assert_true((double)l.probe_bytes <= allowed);
    assert_true((double)l.probe_bytes > allowed / 2);
}

static void no_share_no_probe(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0);
    lh_link_warmup_expect(&l.warmup, true);
    l.condition.window_decays = true;
    probe_for(&l, 10000000);
    assert_int_equal(l.probes, 0);
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
}

/* A window that the kernel takes back is opened again when bulk is announced, and only then. */
static void a_decayed_window_is_opened_for_what_is_announced(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    l.condition.window_decays = true;
    probe_for(&l, 3000000);
    uint64_t before = l.probes;
    l.condition.ready_bytes = START_BYTES;
    probe_for(&l, 30000000);
    assert_int_equal(l.probes, before);
    lh_link_warmup_expect(&l.warmup, true);
    probe_for(&l, 2000000);
    assert_true(l.probes > before);
    assert_true(l.condition.ready_bytes >= 900000);
    lh_link_warmup_expect(&l.warmup, false);
    l.condition.ready_bytes = START_BYTES;
    before = l.probes;
    probe_for(&l, 30000000);
    assert_int_equal(l.probes, before);
}

/* Steps came before there was a quiet moment, and have opened the window. */
static void what_is_warm_already_is_left_alone(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    l.condition.ready_bytes = 1000000;
    l.condition.estimate = (lh_link_estimate){.bytes_per_us = 12.5, .round_trip_us = 80000};
    probe_for(&l, 1000000);
    assert_int_equal(l.probes, 0);
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
}

static void small_messages_need_small_probes(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    lh_link_warmup_init(&l.warmup, 0.01, 64 << 10);
    lh_link_warmup_connected(&l.warmup);
    probe_for(&l, 10000000);
    assert_int_equal(l.probe_bytes, (16 + 32 + 64) << 10);
    assert_false(lh_link_warmup_used(&l.warmup, l.now_us));
}

/* A warm link, whose rate was learned so long ago. */
static void open_known(link *l, int64_t age_us) {
    open_link(l, 1.25, 80000, 0.01);
    probe_for(l, 5000000);
    l->condition.ready_bytes = 200000;
    l->condition.estimate.age_us = age_us;
    l->probes = l->probe_bytes = 0;
}

static void an_old_rate_is_checked_once_bulk_goes_by(void **state) {
    (void)state;
    link l;
    open_known(&l, 6000000);
    probe_for(&l, 10000000);
    assert_int_equal(l.probes, 0);
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    assert_true(lh_link_warmup_is_waiting(&l.warmup));
    assert_true(probe(&l)); /* which tells: the estimate's age is 0 */
    assert_int_equal(l.probe_bytes, LH_LINK_PROBE_BYTES_MIN);
    assert_false(probe(&l));
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
    assert_false(lh_link_warmup_used(&l.warmup, l.now_us)); /* not with each piece */
}

static void a_fresh_rate_is_not_checked(void **state) {
    (void)state;
    link l;
    open_known(&l, 1000000);
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    assert_false(probe(&l));
    assert_false(lh_link_warmup_is_waiting(&l.warmup));
}

/* Larger ones, but none that would have to wait for its window; and then a pause. */
static void a_doubt_that_stays_is_left_for_a_while(void **state) {
    (void)state;
    link l;
    open_known(&l, 0);
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    l.condition.estimate = (lh_link_estimate){
        .round_trip_us = 10000, .bytes_per_us = 12.5, .bytes_per_us_is_doubtful = true};
    uint64_t sizes = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t bytes = lh_link_warmup_next(&l.warmup, l.now_us, &l.condition);
        sizes += bytes;
        if (bytes)
            lh_link_warmup_probed(&l.warmup, bytes, 1000, &l.condition);
    }
    assert_int_equal(sizes, (16 + 32 + 64 + 5 * 128) << 10);
    l.now_us += 2000000;
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    assert_int_equal(lh_link_warmup_next(&l.warmup, l.now_us, &l.condition), 0);
    l.now_us += 4000000;
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    assert_int_equal(lh_link_warmup_next(&l.warmup, l.now_us, &l.condition),
                     LH_LINK_PROBE_BYTES_MIN);
}

/* What a fast link carried in a few milliseconds is no debt of the slow one that it has become. */
static void the_budget_is_the_links_time(void **state) {
    (void)state;
    link l;
    open_link(&l, 500, 1000, 0.01);
    probe_for(&l, 5000000);
    assert_true(l.probe_bytes >= 400000);
    l.condition.estimate =
        (lh_link_estimate){.round_trip_us = 1000, .bytes_per_us = 0.25, .age_us = 6000000};
    assert_true(lh_link_warmup_used(&l.warmup, l.now_us));
    assert_int_equal(lh_link_warmup_next(&l.warmup, l.now_us, &l.condition),
                     LH_LINK_PROBE_BYTES_MIN);
}

/* Bulk came in between: the same size goes again later. */
static void a_probe_cut_short_is_tried_again(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    uint64_t bytes = lh_link_warmup_next(&l.warmup, l.now_us, &l.condition);
    lh_link_warmup_probed(&l.warmup, bytes / 2, 1000, &l.condition);
    assert_int_equal(lh_link_warmup_next(&l.warmup, l.now_us, &l.condition), bytes);
}

static void a_peer_without_probes_gets_none(void **state) {
    (void)state;
    link l;
    open_link(&l, 12.5, 80000, 0.01);
    assert_true(probe(&l));
    lh_link_warmup_give_up(&l.warmup);
    assert_false(probe(&l));
    lh_link_warmup_connected(&l.warmup);
    assert_false(probe(&l));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_opens_and_then_nothing_is_sent),
        cmocka_unit_test(a_slow_link_is_asked_for_little),
        cmocka_unit_test(a_window_that_grows_no_more_ends_it),
        cmocka_unit_test(what_is_measured_is_probed_for_as_long_as_it_takes),
        cmocka_unit_test(a_link_that_nothing_fills_is_probed_no_longer),
        cmocka_unit_test(how_long_a_probe_lasts_is_told_by_the_clock),
        cmocka_unit_test(what_is_doubtful_is_probed_on),
        cmocka_unit_test(a_link_without_a_rate_ends_it),
        cmocka_unit_test(the_budget_holds),
        cmocka_unit_test(no_share_no_probe),
        cmocka_unit_test(a_decayed_window_is_opened_for_what_is_announced),
        cmocka_unit_test(what_is_warm_already_is_left_alone),
        cmocka_unit_test(small_messages_need_small_probes),
        cmocka_unit_test(an_old_rate_is_checked_once_bulk_goes_by),
        cmocka_unit_test(a_fresh_rate_is_not_checked),
        cmocka_unit_test(a_doubt_that_stays_is_left_for_a_while),
        cmocka_unit_test(the_budget_is_the_links_time),
        cmocka_unit_test(a_probe_cut_short_is_tried_again),
        cmocka_unit_test(a_peer_without_probes_gets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
