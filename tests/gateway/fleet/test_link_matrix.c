/* Which of several figures of a link between two sites counts, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/link_matrix.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

#define S INT64_C(1000000)

static lh_link_matrix *create(void) {
    lh_link_matrix *matrix;
    assert_int_equal(lh_link_matrix_create(&matrix, NULL), LH_OK);
    return matrix;
}

static lh_link_value value_of(const char *from, const char *to, double rate, bool is_bound,
                              int64_t at_us) {
    lh_link_value value = {.bytes_per_us = rate,
                           .bytes_per_us_is_bound = is_bound,
                           .rate_at_us = at_us,
                           .source = LH_LINK_HOP};
    snprintf(value.from, sizeof value.from, "%s", from);
    snprintf(value.to, sizeof value.to, "%s", to);
    return value;
}

/* Between home and cloud, at the time at which it was measured. */
static void note(lh_link_matrix *matrix, const char *from, double rate, bool is_bound,
                 int64_t at_us) {
    const lh_link_value value = value_of(from, "c", rate, is_bound, at_us);
    lh_link_matrix_note(matrix, "home", "cloud", &value, at_us);
}

static lh_link_value read(const lh_link_matrix *matrix) {
    lh_link_value value;
    assert_true(lh_link_matrix_read(matrix, "home", "cloud", &value));
    return value;
}

static void assert_rate(const lh_link_matrix *matrix, double rate, bool is_bound,
                        const char *from) {
    lh_link_value value = read(matrix);
    assert_true(value.bytes_per_us == rate);
    assert_int_equal(value.bytes_per_us_is_bound, is_bound);
    assert_string_equal(value.from, from);
}

static void directions_have_rates_of_their_own(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    lh_link_value value;
    note(matrix, "a", 12, false, S);
    assert_rate(matrix, 12, false, "a");
    assert_false(lh_link_matrix_read(matrix, "cloud", "home", &value));
    assert_false(lh_link_matrix_read(matrix, "home", "home", &value));
    assert_false(lh_link_matrix_read(matrix, "home", "attic", &value));
    value = value_of("c", "a", 3, false, S);
    lh_link_matrix_note(matrix, "cloud", "home", &value, S);
    assert_rate(matrix, 12, false, "a");
    assert_true(lh_link_matrix_read(matrix, "cloud", "home", &value));
    assert_true(value.bytes_per_us == 3);
    lh_link_matrix_destroy(matrix);
}

static void the_round_trip_serves_both_directions(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    lh_link_value value = value_of("a", "", 0, false, 0);
    value.round_trip_us = 20000;
    value.source = LH_LINK_SURVEY;
    lh_link_matrix_note(matrix, "home", "cloud", &value, S);
    assert_true(lh_link_matrix_read(matrix, "cloud", "home", &value));
    assert_int_equal(value.round_trip_us, 20000);
    assert_true(value.bytes_per_us == 0);
    assert_string_equal(value.from, "");
    assert_string_equal(value.to, "a");
    assert_int_equal(value.source, LH_LINK_SURVEY);
    assert_int_equal(value.seen_at_us, S);
    value = value_of("c", "a", 5, false, 2 * S);
    lh_link_matrix_note(matrix, "cloud", "home", &value, 2 * S);
    assert_true(lh_link_matrix_read(matrix, "cloud", "home", &value));
    assert_int_equal(value.round_trip_us, 20000);
    assert_true(value.bytes_per_us == 5);
    value.round_trip_us = 30000;
    lh_link_matrix_note(matrix, "cloud", "home", &value, 3 * S);
    assert_true(lh_link_matrix_read(matrix, "cloud", "home", &value));
    assert_int_equal(value.round_trip_us, 30000);
    assert_int_equal(read(matrix).round_trip_us, 20000);
    lh_link_matrix_destroy(matrix);
}

/* Of a rate alone that says nothing of a round trip, the other direction has nothing. */
static void a_rate_says_nothing_of_the_way_back(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    lh_link_value value = value_of("a", "c", 0, false, 0);
    lh_link_matrix_note(matrix, "home", "cloud", &value, S);
    assert_false(lh_link_matrix_read(matrix, "home", "cloud", &value));
    note(matrix, "a", 5, false, S);
    assert_false(lh_link_matrix_read(matrix, "cloud", "home", &value));
    lh_link_matrix_destroy(matrix);
}

static void of_one_pair_the_newest_counts(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    note(matrix, "a", 12, false, S);
    note(matrix, "a", 6, false, 2 * S);
    assert_rate(matrix, 6, false, "a");
    note(matrix, "a", 9, false, 1 * S);
    assert_rate(matrix, 6, false, "a");
    assert_int_equal(read(matrix).rate_at_us, 2 * S);
    lh_link_matrix_destroy(matrix);
}

static void a_bound_only_raises(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    note(matrix, "a", 2, true, S);
    assert_rate(matrix, 2, true, "a");
    note(matrix, "a", 1, true, 2 * S);
    assert_rate(matrix, 2, true, "a");
    note(matrix, "a", 1.5, false, 3 * S);
    assert_rate(matrix, 1.5, false, "a");
    note(matrix, "a", 1.25, true, 4 * S);
    assert_rate(matrix, 1.5, false, "a");
    assert_int_equal(read(matrix).rate_at_us, 3 * S);
    note(matrix, "a", 7, true, 5 * S);
    assert_rate(matrix, 7, true, "a");
    lh_link_matrix_destroy(matrix);
}

static void the_best_pair_stands_for_its_sites(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    note(matrix, "a", 12, false, S);
    note(matrix, "b", 6, false, 2 * S);
    assert_rate(matrix, 12, false, "a");
    note(matrix, "b", 20, false, 3 * S);
    assert_rate(matrix, 20, false, "b");
    note(matrix, "b", 7, false, 4 * S);
    note(matrix, "a", 11, false, 5 * S);
    assert_rate(matrix, 11, false, "a");
    const lh_link_value before = value_of("b", "c", 13, false, 4 * S); /* a little earlier */
    lh_link_matrix_note(matrix, "home", "cloud", &before, 6 * S);
    assert_rate(matrix, 13, false, "b");
    lh_link_matrix_destroy(matrix);
}

static void a_pair_that_is_no_longer_measured_gives_way(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    note(matrix, "a", 12, false, S);
    note(matrix, "b", 6, false, S + LH_LINK_FRESH_US);
    assert_rate(matrix, 12, false, "a");
    note(matrix, "b", 5, true, 2 * S + LH_LINK_FRESH_US);
    assert_rate(matrix, 12, false, "a");
    note(matrix, "b", 6, false, 3 * S + LH_LINK_FRESH_US);
    assert_rate(matrix, 6, false, "b");
    lh_link_matrix_destroy(matrix);
}

/* That is told again and again, with the age that it has by now. */
static void an_old_figure_of_a_fast_pair_is_not_fresh(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    int64_t now_us = 2 * LH_LINK_FRESH_US;
    const lh_link_value old = value_of("a", "c", 12, false, S);
    note(matrix, "b", 6, false, now_us);
    lh_link_matrix_note(matrix, "home", "cloud", &old, now_us);
    assert_rate(matrix, 6, false, "b");
    lh_link_matrix_destroy(matrix);
}

static lh_link_value round_trip_of(const char *from, int64_t round_trip_us) {
    lh_link_value value = value_of(from, "c", 0, false, 0);
    value.round_trip_us = round_trip_us;
    return value;
}

/* Of the pair that stands for its sites, until it has been silent for long. */
static void a_round_trip_is_of_the_pair_whose_rate_it_is(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    lh_link_value value = round_trip_of("a", 20000);
    lh_link_matrix_note(matrix, "home", "cloud", &value, S);
    value = round_trip_of("b", 30000);
    lh_link_matrix_note(matrix, "home", "cloud", &value, 2 * S);
    assert_int_equal(read(matrix).round_trip_us, 20000);
    assert_int_equal(read(matrix).seen_at_us, S);
    value = round_trip_of("a", 21000);
    lh_link_matrix_note(matrix, "home", "cloud", &value, 3 * S);
    assert_int_equal(read(matrix).round_trip_us, 21000);
    assert_int_equal(read(matrix).seen_at_us, 3 * S);
    value = round_trip_of("b", 31000);
    lh_link_matrix_note(matrix, "home", "cloud", &value, 4 * S + LH_LINK_FRESH_US);
    assert_int_equal(read(matrix).round_trip_us, 31000);
    assert_string_equal(read(matrix).from, "b");
    lh_link_matrix_destroy(matrix);
}

static void all_that_is_known_is_listed(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    const char *from, *to;
    char all[64] = "";
    size_t length = 0;
    lh_link_value value = value_of("a", "b", 4, false, S);
    note(matrix, "a", 12, false, S);
    lh_link_matrix_note(matrix, "home", "home", &value, S);
    value.round_trip_us = 9;
    lh_link_matrix_note(matrix, "cloud", "attic", &value, S);
    for (uint32_t at = 0; lh_link_matrix_next(matrix, &at, &from, &to, &value);)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s>%s ", from, to);
    assert_string_equal(all, "home>home home>cloud cloud>attic attic>cloud ");
    lh_link_matrix_destroy(matrix);
}

static void of_too_many_sites_the_longest_unseen_gives_way(void **state) {
    (void)state;
    lh_link_matrix *matrix = create();
    lh_link_value value = value_of("a", "b", 4, false, S);
    char name[LH_NAME_BYTES];
    for (uint32_t i = 0; i < LH_LINK_SITES_MAX; i++) {
        snprintf(name, sizeof name, "site-%u", i);
        lh_link_matrix_note(matrix, name, "site-0", &value, S + i);
    }
    lh_link_matrix_note(matrix, "site-65", "site-66", &value, 2 * S);
    assert_true(lh_link_matrix_read(matrix, "site-65", "site-66", &value));
    assert_false(lh_link_matrix_read(matrix, "site-65", "site-0", &value));
    assert_false(lh_link_matrix_read(matrix, "site-1", "site-0", &value));
    assert_false(lh_link_matrix_read(matrix, "site-2", "site-0", &value));
    assert_true(lh_link_matrix_read(matrix, "site-3", "site-0", &value));
    lh_link_matrix_destroy(matrix);
}

static void without_memory_there_is_none(void **state) {
    (void)state;
    lh_link_matrix *matrix;
    lh_error error;
    failing_malloc_arm(1);
    lh_status status = lh_link_matrix_create(&matrix, &error);
    assert_true(failing_malloc_disarm());
    assert_int_equal(status, LH_ERR_NO_MEMORY);
    lh_link_matrix_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directions_have_rates_of_their_own),
        cmocka_unit_test(the_round_trip_serves_both_directions),
        cmocka_unit_test(a_rate_says_nothing_of_the_way_back),
        cmocka_unit_test(of_one_pair_the_newest_counts),
        cmocka_unit_test(a_bound_only_raises),
        cmocka_unit_test(the_best_pair_stands_for_its_sites),
        cmocka_unit_test(a_pair_that_is_no_longer_measured_gives_way),
        cmocka_unit_test(an_old_figure_of_a_fast_pair_is_not_fresh),
        cmocka_unit_test(a_round_trip_is_of_the_pair_whose_rate_it_is),
        cmocka_unit_test(all_that_is_known_is_listed),
        cmocka_unit_test(of_too_many_sites_the_longest_unseen_gives_way),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
