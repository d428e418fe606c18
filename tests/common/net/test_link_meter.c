/* The meter on a simulated link: segments queue, leave at the link's rate and are acknowledged a
 * round trip later; the sender has a window that grows as TCP's does. */
#include "common/net/link_meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEGMENT = 1448, SEGMENTS_MAX = 1 << 16 };

typedef struct simulation {
    double bytes_per_us;
    int64_t round_trip_us;
    int64_t jitter_us; /* acknowledgements come so much later at most, in order */
    /* a segment that is not full is acknowledged so much later, if none comes behind it */
    int64_t tail_us;
    bool is_tail_late, is_busy;
    /* sampled every millisecond, as its owner does where the estimate is old or in doubt */
    bool is_watched;
    uint64_t window, threshold;
    int64_t now_us, sampled_us;
    int64_t link_free_us, last_ack_us;
    int64_t acks[SEGMENTS_MAX]; /* when the segments in flight are acknowledged */
    uint64_t sizes[SEGMENTS_MAX];
    uint32_t first, count;
    uint64_t backlog, acked, written;
    lh_link_meter meter;
} simulation;

static void start(simulation *s, double bytes_per_us, int64_t round_trip_us, uint64_t threshold) {
    memset(s, 0, sizeof *s);
    s->bytes_per_us = bytes_per_us;
    s->round_trip_us = round_trip_us;
    s->window = 10 * SEGMENT;
    s->threshold = threshold;
    s->now_us = 1000000;
    lh_link_meter_connected(&s->meter);
}

static void transmit(simulation *s) {
    while (s->backlog > 0 && (uint64_t)(s->count + 1) * SEGMENT <= s->window) {
        uint64_t bytes = s->backlog < SEGMENT ? s->backlog : SEGMENT;
        int64_t begin_us = s->link_free_us > s->now_us ? s->link_free_us : s->now_us;
        s->link_free_us = begin_us + (int64_t)((double)bytes / s->bytes_per_us);
        int64_t ack_us = s->link_free_us + s->round_trip_us;
        if (s->jitter_us)
            ack_us += rand() % s->jitter_us;
        if (s->tail_us && bytes == SEGMENT && s->count && s->is_tail_late) {
            uint32_t tail = (s->first + s->count - 1) % SEGMENTS_MAX;
            s->acks[tail] = s->last_ack_us = s->acks[tail] < ack_us ? s->acks[tail] : ack_us;
        }
        s->is_tail_late = s->tail_us && bytes < SEGMENT;
        ack_us += s->is_tail_late ? s->tail_us : 0;
        s->last_ack_us = ack_us > s->last_ack_us ? ack_us : s->last_ack_us;
        assert_true(s->count < SEGMENTS_MAX);
        uint32_t place = (s->first + s->count++) % SEGMENTS_MAX;
        s->acks[place] = s->last_ack_us;
        s->sizes[place] = bytes;
        s->backlog -= bytes;
    }
}

static void acknowledge(simulation *s) {
    while (s->count > 0 && s->acks[s->first] <= s->now_us) {
        s->acked += s->sizes[s->first];
        s->first = (s->first + 1) % SEGMENTS_MAX;
        s->count--;
        if (s->window < s->threshold)
            s->window += SEGMENT;
    }
}

static bool is_bulk(const simulation *s) {
    return (uint64_t)s->count * SEGMENT + s->backlog >=
           (uint64_t)(s->is_busy ? LH_LINK_TAIL_BYTES : LH_LINK_BULK_BYTES);
}

static void sample(simulation *s) {
    lh_tcp_state state = {.acked_bytes = s->acked,
                          .in_flight_bytes = (uint64_t)s->count * SEGMENT,
                          .unsent_bytes = s->backlog,
                          .segment_bytes = SEGMENT,
                          .window_bytes = s->window,
                          .threshold_bytes = s->threshold,
                          .round_trip_min_us = s->round_trip_us};
    lh_link_meter_sample(&s->meter, s->now_us, &state);
    s->sampled_us = s->now_us;
    s->is_busy = is_bulk(s);
}

/* Time goes on in tenths of a millisecond; samples are taken as link_meter.h asks for: so the end
 * of a piece is only seen at the beginning of the next one. */
static void run_for(simulation *s, int64_t us) {
    for (int64_t end_us = s->now_us + us; s->now_us < end_us; s->now_us += 100) {
        acknowledge(s);
        transmit(s);
        int64_t interval_us = s->is_watched ? 1000 : s->window < s->threshold ? 2000 : 10000;
        if ((s->is_busy || is_bulk(s)) && s->now_us - s->sampled_us >= interval_us)
            sample(s);
    }
}

/* Gives TCP a piece, and nothing behind it. */
static void write_piece(simulation *s, uint64_t bytes) {
    s->backlog += bytes;
    s->written += bytes;
    lh_link_meter_ran_dry(&s->meter, s->written);
}

static void transfer(simulation *s, uint64_t bytes) {
    write_piece(s, bytes);
    do
        run_for(s, 1000);
    while (s->count || s->backlog);
    run_for(s, 20000);
}

/* With a window that is open, and a rate that is known. */
static void start_warm(simulation *s, double bytes_per_us, int64_t round_trip_us) {
    start(s, bytes_per_us, round_trip_us, 1 << 20);
    s->window = 1 << 20;
    transfer(s, 1000000);
}

static lh_link_estimate estimate(const simulation *s) {
    return lh_link_meter_read(&s->meter, s->now_us);
}

static void assert_near(double value, double wanted, double share) {
    if (value < wanted * (1 - share) || value > wanted * (1 + share))
        fail_msg("%.3f instead of %.3f", value, wanted);
}

/* 2 to 1000 Mbit/s, 1 to 80 ms, cold: one transfer is enough, though its throughput is far less. At
 * 1000 Mbit/s 600 KB would be gone before the second sample. */
static void one_cold_transfer_tells_the_rate(void **state) {
    (void)state;
    static const struct {
        double bytes_per_us;
        uint64_t bytes;
    } links[] = {{0.25, 600000}, {1.25, 600000}, {12.5, 600000}, {125, 8000000}};
    static const int64_t round_trips[] = {1000, 20000, 80000};
    static simulation s;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        for (size_t t = 0; t < sizeof round_trips / sizeof round_trips[0]; t++) {
            start(&s, links[i].bytes_per_us, round_trips[t], LH_TCP_NO_THRESHOLD);
            transfer(&s, links[i].bytes);
            assert_false(estimate(&s).bytes_per_us_is_bound);
            assert_near(estimate(&s).bytes_per_us, links[i].bytes_per_us, 0.1);
        }
}

/* Where the window stays small, that is what the connection carries. */
static void a_window_held_down_counts(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 80000, 40 * SEGMENT);
    s.window = 40 * SEGMENT;
    transfer(&s, 2000000);
    assert_near(estimate(&s).bytes_per_us, 40.0 * SEGMENT / 80000, 0.1);
}

static void a_drop_by_ten_shows_within_a_second(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, 300 * SEGMENT);
    transfer(&s, 2000000);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    s.bytes_per_us = 1.25;
    write_piece(&s, 8000000);
    run_for(&s, 1000000);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.15);
    assert_true(estimate(&s).age_us < 100000);
    s.bytes_per_us = 12.5;
    run_for(&s, 1000000);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.15);
}

/* The slots of the slow link are long, so that the mean would go on being theirs. */
static void a_rise_by_ten_shows_after_two_slots(void **state) {
    (void)state;
    static simulation s;
    start_warm(&s, 1.25, 20000);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.1);
    assert_false(estimate(&s).bytes_per_us_is_doubtful);
    s.bytes_per_us = 12.5;
    s.is_watched = true;
    transfer(&s, 65536);
    assert_true(estimate(&s).bytes_per_us_is_doubtful);
    for (int i = 0; i < 5; i++)
        transfer(&s, 65536);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    assert_false(estimate(&s).bytes_per_us_is_doubtful);
}

static void a_drop_by_ten_shows_after_a_few_pieces(void **state) {
    (void)state;
    static simulation s;
    start_warm(&s, 12.5, 20000);
    s.bytes_per_us = 1.25;
    s.is_watched = true;
    for (int i = 0; i < 6; i++)
        transfer(&s, 18931);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.15);
}

/* Losses: between the pauses it is fast, as before; that is no other link. */
static void pauses_now_and_then_count(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, 40 * SEGMENT);
    s.window = 1 << 20;
    write_piece(&s, 40 << 20);
    for (int i = 0; i < 40; i++) {
        run_for(&s, 60000);
        s.link_free_us += 100000;
        for (uint32_t k = 0; k < s.count; k++)
            s.acks[(s.first + k) % SEGMENTS_MAX] += 100000;
        s.last_ack_us += 100000;
        run_for(&s, 100000);
        if (i > 10)
            assert_near(estimate(&s).bytes_per_us, 12.5 * 60 / 160, 0.4);
    }
}

/* Pieces that come more slowly than the link could take them, as shards do while they are computed.
 */
static void a_slow_sender_is_not_a_slow_link(void **state) {
    (void)state;
    static simulation s;
    start_warm(&s, 12.5, 20000);
    for (int i = 0; i < 100; i++) {
        write_piece(&s, 9000);
        run_for(&s, 5000);
    }
    for (int i = 0; i < 20; i++) {
        write_piece(&s, 150000);
        run_for(&s, 50000);
    }
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    assert_true(s.meter.mark_count < LH_LINK_MARKS);
}

/* Chunks of 16 rows, each through in a millisecond and a half, with a few small frames behind it
 * whose acknowledgement the receiver delays: what is seen of them is mostly pauses. */
static void short_pieces_with_late_tails_are_not_a_slow_link(void **state) {
    (void)state;
    static simulation s;
    start_warm(&s, 12.5, 20000);
    s.tail_us = 40000;
    for (int i = 0; i < 500; i++) {
        write_piece(&s, 18931);
        run_for(&s, 300);
        write_piece(&s, 107);
        run_for(&s, 30000 + rand() % 20000);
    }
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.15);
}

/* More pieces under way than there are marks: nothing is learned, and nothing wrong. */
static void marks_may_run_out(void **state) {
    (void)state;
    static simulation s;
    start_warm(&s, 12.5, 80000);
    for (int i = 0; i < 500; i++) {
        write_piece(&s, 2000);
        run_for(&s, 1000);
    }
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    run_for(&s, 200000);
    assert_in_range(s.meter.mark_count, 0, 1);
    transfer(&s, 1000000);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    assert_true(estimate(&s).age_us < 100000);
}

static void jitter_is_no_rate(void **state) {
    (void)state;
    static simulation s;
    srand(1);
    start(&s, 1.25, 20000, 200 * SEGMENT);
    s.window = 200 * SEGMENT;
    s.jitter_us = 30000;
    transfer(&s, 2000000);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.15);
    assert_true(estimate(&s).bytes_per_us_deviation > 0);
}

/* Nothing is counted from the beginning of a transfer to its first acknowledgement. */
static void warm_transfers_tell_the_rate(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 80000, 1 << 20);
    s.window = 1 << 20;
    for (int i = 0; i < 20; i++) {
        transfer(&s, 600000);
        run_for(&s, 300000);
        assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
        write_piece(&s, 17); /* a PING */
        run_for(&s, 300000);
    }
}

static void stall(simulation *s, int64_t us) {
    s->link_free_us += us;
    for (uint32_t k = 0; k < s->count; k++)
        s->acks[(s->first + k) % SEGMENTS_MAX] += us;
    s->last_ack_us += us;
    run_for(s, us);
}

/* The receiver is stopped for a second: nothing is learned of the link. A second time within half a
 * minute shows. */
static void one_stall_is_held_back(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, 40 * SEGMENT);
    s.window = 1 << 20;
    write_piece(&s, 60 << 20);
    run_for(&s, 400000);
    for (int round = 0; round < 2; round++) {
        double least = 1e9;
        stall(&s, 1000000);
        for (int i = 0; i < 30; i++) {
            run_for(&s, 5000);
            double rate = estimate(&s).bytes_per_us;
            least = rate < least ? rate : least;
        }
        if (round == 0)
            assert_near(least, 12.5, 0.1);
        else
            assert_true(least < 12.5 / 2);
        run_for(&s, 400000);
        assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    }
}

/* A stall of seconds in the midst of a transfer shows, and is over when it is over. */
static void a_stall_passes(void **state) {
    (void)state;
    static simulation s;
    start(&s, 1.25, 20000, 100 * SEGMENT);
    s.window = 100 * SEGMENT;
    write_piece(&s, 4000000);
    run_for(&s, 1000000);
    s.link_free_us += 3000000;
    run_for(&s, 4000000);
    run_for(&s, 1000000);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.1);
}

/* On loopback nothing is ever on its way: the owner's lower bound stands in until an interval
 * forms. */
static void a_bound_stands_in(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, LH_TCP_NO_THRESHOLD);
    assert_true(estimate(&s).bytes_per_us == 0);
    lh_link_meter_bound(&s.meter, s.now_us, 1000000, 1000);
    lh_link_meter_bound(&s.meter, s.now_us, 1000000, 10000);
    lh_link_meter_bound(&s.meter, s.now_us, 1000000, 0);
    assert_near(estimate(&s).bytes_per_us, 1000, 0.001);
    assert_true(estimate(&s).bytes_per_us_is_bound);
    transfer(&s, 600000);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
}

/* A new connection to the same place: the estimate is kept and ages; positions begin anew. */
static void estimates_outlive_a_connection(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, LH_TCP_NO_THRESHOLD);
    transfer(&s, 600000);
    s.now_us += 5000000;
    lh_link_meter_connected(&s.meter);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
    assert_true(estimate(&s).age_us >= 5000000);
    s.acked = s.written = 0;
    s.window = 10 * SEGMENT;
    transfer(&s, 600000);
    assert_true(estimate(&s).age_us < 100000);
    assert_near(estimate(&s).bytes_per_us, 12.5, 0.1);
}

/* What was measured a minute ago does not dilute what is measured now. */
static void old_slots_do_not_count(void **state) {
    (void)state;
    static simulation s;
    start(&s, 12.5, 20000, 1 << 20);
    s.window = 1 << 20;
    transfer(&s, 3000000);
    s.now_us += 60000000;
    s.bytes_per_us = 1.25;
    transfer(&s, 100000);
    assert_near(estimate(&s).bytes_per_us, 1.25, 0.15);
}

/* Intervals that do not count leave the age of those that did. */
static void what_does_not_count_has_no_age(void **state) {
    (void)state;
    lh_link_meter m = {0};
    lh_tcp_state tcp = {
        .in_flight_bytes = 1 << 20, .window_bytes = 1 << 20, .threshold_bytes = 1 << 19};
    int64_t now_us = 5000000000;
    for (int i = 1; i <= 5; i++, now_us += 2000) {
        tcp.acked_bytes = (uint64_t)i * 20000;
        if (i == 4)
            lh_link_meter_ran_dry(&m, 70000);
        lh_link_meter_sample(&m, now_us, &tcp);
    }
    lh_link_estimate e = lh_link_meter_read(&m, now_us);
    assert_near(e.bytes_per_us, 10, 0.001);
    assert_int_equal(e.age_us, 6000); /* since the third sample */
}

static void the_round_trip_is_the_least_of_late(void **state) {
    (void)state;
    lh_link_meter m = {0};
    int64_t now_us = 5000000;
    lh_link_meter_round_trip(&m, now_us, 150000, true); /* better than nothing */
    assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 150000);
    for (int i = 0; i < 5; i++)
        lh_link_meter_round_trip(&m, now_us += 1000000, 80000 + i * 100, false);
    lh_link_meter_round_trip(&m, now_us += 1000000, 300000, true);
    assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 80000);
    for (int i = 0; i < 25; i++) /* another way */
        lh_link_meter_round_trip(&m, now_us += 1000000, 120000, false);
    assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 120000);
    for (int i = 0; i < 100; i++)
        lh_link_meter_round_trip(&m, now_us += 1000000, 500000, true);
    lh_link_meter_round_trip(&m, now_us += 1000000, 110000, true);
    assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 110000);
}

/* A detour shows within some PINGs, not when the old minimum's periods are over; one late PING
 * shows nothing. */
static void a_longer_way_shows_soon(void **state) {
    (void)state;
    lh_link_meter m = {0};
    int64_t now_us = 5000000;
    for (int i = 0; i <= 20; i++) {
        lh_link_meter_round_trip(&m, now_us += 300000, i % 5 == 0 ? 20000 : 45000, false);
        assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 20000);
    }
    for (int i = 0; i < 8; i++)
        lh_link_meter_round_trip(&m, now_us += 300000, 80000 + i * 100, false);
    assert_in_range(lh_link_meter_read(&m, now_us).round_trip_us, 80000, 80200);
    lh_link_meter_round_trip(&m, now_us += 300000, 20000, false); /* and back */
    assert_int_equal(lh_link_meter_read(&m, now_us).round_trip_us, 20000);
}

static void an_idle_window_decays_as_the_kernel_does_it(void **state) {
    (void)state;
    lh_tcp_state s = {
        .segment_bytes = 1000, .window_bytes = 400000, .retransmit_timeout_us = 300000};
    s.idle_us = 299000;
    assert_int_equal(lh_link_ready_bytes(&s, true), 400000);
    s.idle_us = 301000;
    assert_int_equal(lh_link_ready_bytes(&s, true), 200000);
    s.idle_us = 901000;
    assert_int_equal(lh_link_ready_bytes(&s, true), 50000);
    assert_int_equal(lh_link_ready_bytes(&s, false), 400000);
    s.idle_us = 3600000000;
    assert_int_equal(lh_link_ready_bytes(&s, true), 10000);
    s.in_flight_bytes = 1000;
    assert_int_equal(lh_link_ready_bytes(&s, true), 400000);
    s.in_flight_bytes = 0;
    s.window_bytes = 4000; /* after losses it is less than the initial one, and stays so */
    assert_int_equal(lh_link_ready_bytes(&s, true), 4000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cold_transfer_tells_the_rate),
        cmocka_unit_test(a_window_held_down_counts),
        cmocka_unit_test(a_drop_by_ten_shows_within_a_second),
        cmocka_unit_test(a_rise_by_ten_shows_after_two_slots),
        cmocka_unit_test(a_drop_by_ten_shows_after_a_few_pieces),
        cmocka_unit_test(pauses_now_and_then_count),
        cmocka_unit_test(a_slow_sender_is_not_a_slow_link),
        cmocka_unit_test(short_pieces_with_late_tails_are_not_a_slow_link),
        cmocka_unit_test(marks_may_run_out),
        cmocka_unit_test(jitter_is_no_rate),
        cmocka_unit_test(warm_transfers_tell_the_rate),
        cmocka_unit_test(one_stall_is_held_back),
        cmocka_unit_test(a_stall_passes),
        cmocka_unit_test(a_bound_stands_in),
        cmocka_unit_test(estimates_outlive_a_connection),
        cmocka_unit_test(old_slots_do_not_count),
        cmocka_unit_test(what_does_not_count_has_no_age),
        cmocka_unit_test(the_round_trip_is_the_least_of_late),
        cmocka_unit_test(a_longer_way_shows_soon),
        cmocka_unit_test(an_idle_window_decays_as_the_kernel_does_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
