/* Splits, revisions of a plan, and the speeds by which they are made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/even_fleet.h"
#include "tests/support/failing_malloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 30u
static lh_status split(const lh_model_profile *model, const even_worker *workers, uint32_t count,
                       const lh_aim *aim, lh_layout *layout, lh_error *error) {
    even_fleet f = {0};
    even_fleet_make(&f, model, workers, count, aim);
    lh_status status = lh_even_split_find_all(f.split, layout, error);
    even_fleet_reset(&f);
    return status;
}

static lh_status revise_beside(const lh_model_profile *model, const even_worker *workers,
                               uint32_t count, const lh_aim *aim, const lh_layout *present,
                               lh_layout *layout, lh_error *error) {
    even_fleet f = {0};
    even_fleet_make(&f, model, workers, count, aim);
    lh_status status = lh_even_split_revise(f.split, present, layout, error);
    even_fleet_reset(&f);
    return status;
}

/* Of bytes, not MiB. */
static double slowest(const lh_model_profile *model, const even_worker *workers, uint32_t count,
                      const lh_layout *layout) {
    even_fleet f = {0};
    even_fleet_make(&f, model, workers, count, &(lh_aim){0});
    const double us = lh_even_split_slowest_us(f.split, layout);
    even_fleet_reset(&f);
    return us * 1048576;
}

static lh_model_profile model_of(uint64_t layer, uint64_t embedding, uint64_t head) {
    lh_model_profile model = {.layers = LAYERS, .embedding_bytes = embedding, .head_bytes = head};
    for (uint32_t i = 0; i < LAYERS; i++)
        model.layer_bytes[i] = model.row_bytes[i] = layer;
    return model;
}

static void assert_covers(const lh_layout *plan, uint32_t layers) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        assert_int_equal(plan->stages[i].layers.first, next);
        assert_true(plan->stages[i].layers.last > next);
        next = plan->stages[i].layers.last;
    }
    assert_int_equal(next, layers);
}

static void equal_workers_get_equal_shares(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"c", "home", 4, 5000, BY(4), 0, 0},
                             {"a", "home", 4, 5000, BY(4), 0, 0},
                             {"b", "home", 4, 5000, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 3, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 3);
    assert_covers(&plan, LAYERS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(plan.stages[i].layers.last - plan.stages[i].layers.first, 10);
    assert_int_equal(plan.stages[0].machine, 1); /* by name: a, b, c */
    assert_int_equal(plan.stages[1].machine, 2);
    assert_int_equal(plan.stages[2].machine, 0);
}

/* A layer of experts holds many bytes, and costs those that a row meets. */
static void experts_count_whole_for_memory_and_in_part_for_time(void **state) {
    (void)state;
    lh_model_profile model = {
        .layers = 4, .layer_bytes = {800, 800, 100, 100}, .row_bytes = {100, 100, 100, 100}};
    even_worker workers[] = {{"a", "home", 4, 1600, BY(4), 0, 0},
                             {"b", "home", 4, 1600, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 2);
    workers[0].memory_bytes = 1599;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 1);
    assert_int_equal(lh_layout_stage_bytes(&model, (lh_map_layers){0, 2}), 1600);
}

/* Of a team each member has the embedding: the first layers take more of it than their bytes. */
static void the_first_layers_take_more_of_a_team(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 300, 0);
    even_worker workers[] = {{"a", "home", 4, 1900, BY(4), 0, 0},
                             {"b", "home", 4, 1900, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 15);
    workers[0].first_extra_bytes = 400;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 12); /* 1900 - 300 - 400 */
    assert_true(slowest(&model, workers, 2, &plan) < INFINITY);
    plan.stages[0].layers.last = plan.stages[1].layers.first = 13;
    assert_true(isinf(slowest(&model, workers, 2, &plan)));
}

static void shares_are_in_proportion_to_threads(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"a", "home", 2, 5000, BY(2), 0, 0},
                             {"b", "home", 8, 5000, BY(8), 0, 0},
                             {"c", "home", 5, 5000, BY(5), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 3, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_covers(&plan, LAYERS);
    assert_int_equal(plan.stages[0].layers.last, 4);
    assert_int_equal(plan.stages[1].layers.last, 20);
}

/* A long prompt needs it once: far less than a layer. */
static void the_head_counts_little_and_memory_binds(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 1000, 1000);
    even_worker workers[] = {{"a", "home", 4, 5000, BY(4), 0, 0},
                             {"b", "home", 4, 5000, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_covers(&plan, LAYERS);
    assert_int_equal(plan.stages[0].layers.last, 15);
    workers[0].memory_bytes = 1000 + 10 * 100;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 10);
    workers[1].memory_bytes = 1000 + 20 * 100 - 1;
    lh_error error;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "no split fits"));
}

/* By the same measure as the plans are made: 512 rows of the layers, one of the head. */
static void plans_are_compared_by_their_slowest_stage(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 70, 300);
    even_worker workers[] = {{"a", "home", 2, 5000, BY(2), 0, 0},
                             {"b", "home", 4, 5000, BY(4), 0, 0}};
    lh_layout plan = {2, {{0, {0, 10}}, {1, {10, 30}}}};
    assert_true(slowest(&model, workers, 2, &plan) == (512 * 2000 + 6 * 300) / 4.0);
    plan = (lh_layout){2, {{1, {0, 18}}, {0, {18, 30}}}};
    assert_true(slowest(&model, workers, 2, &plan) == (512 * 1200 + 6 * 300) / 2.0);
    workers[0].memory_bytes = 1200 + 299;
    assert_true(isinf(slowest(&model, workers, 2, &plan)));
    assert_int_equal(lh_layout_stage_bytes(&model, (lh_map_layers){0, 18}), 1870);
    assert_int_equal(lh_layout_stage_bytes(&model, (lh_map_layers){18, 30}), 1500);
    assert_int_equal(lh_layout_stage_bytes(&model, (lh_map_layers){0, 30}), 3370);
}

/* 30 layers over 4: the slowest has 8 however they lie, and the one with the head may have the
 * fewest. */
static void the_head_counts_where_prompts_do_not_care(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 800);
    even_worker workers[] = {{"a", "s", 4, 9000, BY(4), 0, 0},
                             {"b", "s", 4, 9000, BY(4), 0, 0},
                             {"c", "s", 4, 9000, BY(4), 0, 0},
                             {"d", "s", 4, 9000, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 4, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_covers(&plan, LAYERS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(plan.stages[i].layers.last - plan.stages[i].layers.first, 8);
}

/* A layer of 400 is the slowest stage whatever becomes of the four of 100 behind it: those are
 * divided so that tokens are fast, whichever stage is the slow one, and else evenly. */
static void what_the_slowest_stage_leaves_open_is_made_good_use_of(void **state) {
    (void)state;
    const lh_model_profile model = {.layers = 5,
                                    .layer_bytes = {400, 100, 100, 100, 100},
                                    .row_bytes = {400, 100, 100, 100, 100}};
    const struct {
        double token_us[3];
        uint32_t second_ends;
    } cases[] = {{{1, 1, 1}, 3}, {{1, 10, 1}, 2}, {{1, 1, 10}, 4}};
    for (int i = 0; i < 3; i++) {
        const double *us = cases[i].token_us;
        even_worker workers[] = {{"a", "s", 1, 5000, {1, us[0]}, 0, 0},
                                 {"b", "s", 1, 5000, {1, us[1]}, 0, 0},
                                 {"c", "s", 1, 5000, {1, us[2]}, 0, 0}};
        lh_layout plan;
        assert_int_equal(split(&model, workers, 3, &(lh_aim){0}, &plan, NULL), LH_OK);
        assert_covers(&plan, 5);
        assert_int_equal(plan.stages[1].layers.first, 1);
        assert_int_equal(plan.stages[1].layers.last, cases[i].second_ends);
    }
}

/* b has fewer threads and is twice as fast. */
static void measured_speeds_count_rather_than_threads(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"a", "s", 8, 9000, {2, 12}, 0, 0}, {"b", "s", 2, 9000, {1, 6}, 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 10);
    assert_int_equal(split(&model, workers, 2, &(lh_aim){.stages = 1}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].machine, 1);
}

static void sites_give_the_order(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"a", "cloud", 4, 5000, BY(4), 0, 0},
                             {"b", "office", 4, 5000, BY(4), 0, 0},
                             {"c", "home", 4, 5000, BY(4), 0, 0},
                             {"d", "annex", 4, 5000, BY(4), 0, 0}};
    lh_aim options = {.sites = "home,office"};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 4, &options, &plan, NULL), LH_OK);
    const uint32_t expected[] = {2, 1, 3, 0}; /* home, office, then annex and cloud by name */
    for (int i = 0; i < 4; i++)
        assert_int_equal(plan.stages[i].machine, expected[i]);
    options.sites = "office,annex,an"; /* as long as another, and the beginning of another */
    assert_int_equal(split(&model, workers, 4, &options, &plan, NULL), LH_OK);
    const uint32_t others[] = {1, 3, 0, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(plan.stages[i].machine, others[i]);
}

static void fewer_stages_take_the_fastest(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"a", "s", 1, 5000, BY(1), 0, 0},
                             {"b", "s", 8, 5000, BY(8), 0, 0},
                             {"c", "s", 2, 5000, BY(2), 0, 0},
                             {"d", "s", 8, 5000, BY(8), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 4, &(lh_aim){.stages = 2}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.stages[0].machine, 1);
    assert_int_equal(plan.stages[1].machine, 3);
}

static void a_worker_too_small_for_a_layer_is_left_out(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 0, 0);
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"b", "s", 64, 99, BY(64), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 3, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 2);
    assert_covers(&plan, LAYERS);
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.stages[0].machine, 0);
}

static void more_workers_than_layers(void **state) {
    (void)state;
    lh_model_profile model = model_of(100, 10, 10);
    model.layers = 2;
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"b", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 3, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 2);
    assert_covers(&plan, 2);
    assert_int_equal(split(&model, workers, 0, &(lh_aim){0}, &plan, NULL), LH_ERR_UNAVAILABLE);
}

static uint64_t next_random(uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* The order of registration is no matter, and every worker's memory is kept. */
static void random_fleets(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        lh_model_profile model =
            model_of(100, next_random(&random) % 500, next_random(&random) % 2000);
        model.layers = 2 + (uint32_t)(next_random(&random) % (LAYERS - 1));
        for (uint32_t i = 0; i < model.layers; i++)
            model.layer_bytes[i] = model.row_bytes[i] = 50 + next_random(&random) % 100;
        even_worker workers[6], reversed[6];
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
        uint32_t count = 1 + (uint32_t)(next_random(&random) % 6);
        for (uint32_t i = 0; i < count; i++) {
            workers[i] = (even_worker){names[i],
                                       next_random(&random) % 2 ? "x" : "y",
                                       1 + (uint32_t)(next_random(&random) % 16),
                                       500 + next_random(&random) % 6000,
                                       BY(1),
                                       0,
                                       0};
            reversed[count - 1 - i] = workers[i];
        }
        lh_layout plan, again;
        lh_status status = split(&model, workers, count, &(lh_aim){0}, &plan, NULL);
        assert_int_equal(split(&model, reversed, count, &(lh_aim){0}, &again, NULL), status);
        if (status != LH_OK)
            continue;
        assert_covers(&plan, model.layers);
        assert_int_equal(plan.stage_count, again.stage_count);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            assert_int_equal(plan.stages[s].machine, count - 1 - again.stages[s].machine);
            assert_int_equal(plan.stages[s].layers.last, again.stages[s].layers.last);
            uint64_t held = (s == 0 ? model.embedding_bytes : 0) +
                            (s + 1 == plan.stage_count ? model.head_bytes : 0);
            for (uint32_t i = plan.stages[s].layers.first; i < plan.stages[s].layers.last; i++)
                held += model.layer_bytes[i];
            assert_true(held <= workers[plan.stages[s].machine].memory_bytes);
        }
    }
}

/* ---- After a loss: a spare in the very place, or all anew ---- */

static const lh_model_profile torn_model = {
    .layers = 12, .layer_bytes = {[0 ... 11] = 100}, .row_bytes = {[0 ... 11] = 100}};
static const lh_aim no_options;

/* The second of three stages has lost its worker. */
static const lh_layout torn = {3, {{0, {0, 4}}, {LH_LAYOUT_NOBODY, {4, 8}}, {1, {8, 12}}}};

static lh_layout revise(const even_worker *workers, uint32_t count, const lh_aim *options) {
    lh_layout plan;
    assert_int_equal(revise_beside(&torn_model, workers, count, options, &torn, &plan, NULL),
                     LH_OK);
    return plan;
}

static void assert_filled(const lh_layout *plan, uint32_t worker) {
    assert_int_equal(plan->stage_count, 3);
    assert_int_equal(plan->stages[0].machine, 0);
    assert_int_equal(plan->stages[1].machine, worker);
    assert_int_equal(plan->stages[2].machine, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(plan->stages[i].layers.first, torn.stages[i].layers.first);
}

static void a_spare_fills_the_gap(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"z", "s", 4, 5000, BY(4), 0, 0}};
    lh_layout plan = revise(workers, 3, &no_options);
    assert_filled(&plan, 2);
}

/* The fastest of them. */
static void of_several_spares_the_best_one(void **state) {
    (void)state;
    const lh_aim three = {.stages = 3};
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"x", "s", 4, 5000, BY(4), 0, 0},
                             {"y", "s", 6, 5000, BY(6), 0, 0},
                             {"z", "s", 64, 399, BY(64), 0, 0}};
    lh_layout plan = revise(workers, 5, &three);
    assert_filled(&plan, 3);
    workers[3].speed = workers[2].speed; /* of equal ones the first */
    plan = revise(workers, 5, &three);
    assert_filled(&plan, 2);
}

/* Each time that a chain goes from one site to another is a slow link. */
static void a_spare_of_the_same_site_is_preferred(void **state) {
    (void)state;
    const lh_aim three = {.stages = 3};
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"x", "far", 4, 5000, BY(4), 0, 0},
                             {"y", "s", 4, 5000, BY(4), 0, 0}};
    lh_layout plan = revise(workers, 4, &three);
    assert_filled(&plan, 3);
}

static void a_spare_that_is_much_slower_is_not_worth_it(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"z", "s", 2, 5000, BY(2), 0, 0}};
    lh_layout plan = revise(workers, 3, &no_options);
    assert_int_equal(plan.stage_count, 3);
    assert_true(plan.stages[2].layers.last - plan.stages[2].layers.first < 4);
}

/* A fifth at most: a split anew would give it less, and 500 to the slowest stage. */
static void a_spare_may_be_a_fifth_slower(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 1, 5000, {1, 1}, 0, 0},
                             {"c", "s", 1, 5000, {1, 1}, 0, 0},
                             {"z", "s", 1, 5000, {1.49, 1}, 0, 0}};
    lh_layout plan = revise(workers, 3, &no_options);
    assert_filled(&plan, 2);
    workers[2].speed.prompt_us = 1.51;
    plan = revise(workers, 3, &no_options);
    assert_true(plan.stages[2].machine == 2 && plan.stages[2].layers.first > 8);
}

static void without_a_spare_all_is_planned_anew(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"z", "s", 4, 99, BY(4), 0, 0}};
    lh_layout plan = revise(workers, 2, &no_options);
    assert_int_equal(plan.stage_count, 2);
    plan = revise(workers, 3, &no_options); /* too small for any layer */
    assert_int_equal(plan.stage_count, 2);
}

/* In the middle of a chain inside one site, somebody from afar: two slow links more. */
static void a_spare_from_afar_does_not_tear_a_site_apart(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"x", "far", 4, 5000, BY(4), 0, 0}};
    lh_layout plan = revise(workers, 3, &no_options);
    assert_int_equal(plan.stages[0].machine, 2); /* its site goes before the other, by name */
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 500, BY(4), 0, 0}, {"c", "s", 4, 500, BY(4), 0, 0}};
    lh_layout plan;
    lh_error error;
    assert_int_equal(revise_beside(&torn_model, workers, 2, &no_options, &torn, &plan, &error),
                     LH_ERR_LIMIT);
}

/* What a layer keeps of a page is 64 x 16 bytes; three pages are wanted. */
static lh_model_profile model_that_keeps(void) {
    lh_model_profile model = model_of(100, 0, 0);
    model.kv = (lh_kv_need){.position_bytes = 16, .heads = 2, .pages = 3};
    return model;
}

static void assert_layers(const lh_model_profile *model, const even_worker *workers, uint32_t first,
                          uint32_t second) {
    lh_layout plan;
    assert_int_equal(split(model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.stages[0].layers.last, first);
    assert_int_equal(plan.stages[1].layers.last - plan.stages[1].layers.first, second);
}

/* The faster one would have two thirds. */
static void no_layers_without_room_for_keys_and_values(void **state) {
    (void)state;
    const lh_model_profile model = model_that_keeps();
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 3 * 1024 * 14, 0},
                             {"b", "s", 2, 5000, BY(2), 3 * 1024 * 20, 0}};
    lh_layout plan = {1, {{0, {0, 15}}}};
    assert_layers(&model, workers, 14, 16);
    workers[0].kv_bytes--;
    assert_layers(&model, workers, 13, 17);
    workers[0].kv_bytes = 0; /* nobody knows */
    assert_layers(&model, workers, 20, 10);
    workers[0].kv_bytes = 1024 * 15; /* as it stands a plan needs one page */
    assert_true(isfinite(slowest(&model, workers, 2, &plan)));
    workers[0].kv_bytes--;
    assert_true(isinf(slowest(&model, workers, 2, &plan)));
}

/* Three pages have no room, one has. */
static void less_room_is_better_than_no_plan(void **state) {
    (void)state;
    const lh_model_profile model = model_that_keeps();
    const even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 1024 * 18, 0},
                                   {"b", "s", 2, 5000, BY(2), 1024 * 20, 0}};
    assert_layers(&model, workers, 18, 12);
}

static void a_worker_without_room_for_a_layer_spoils_nothing(void **state) {
    (void)state;
    const lh_model_profile model = model_that_keeps();
    const even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 3 * 1024 - 1, 0},
                                   {"b", "s", 2, 3000, BY(2), 3 * 1024 * 30, 0}};
    lh_layout plan;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, NULL), LH_OK);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.stages[0].machine, 1);
}

static void a_refusal_says_what_keys_and_values_take(void **state) {
    (void)state;
    const lh_model_profile model = model_that_keeps();
    const even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 1024 * 18, 0},
                                   {"b", "s", 2, 5000, BY(2), 1024 * 11, 0}};
    lh_layout plan;
    lh_error error;
    assert_int_equal(split(&model, workers, 2, &(lh_aim){0}, &plan, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "1 KiB of keys and values for each page of 64"));
    assert_non_null(strstr(error.message, "for those of 29 of the model's 30 layers"));
}

/* The spare is as fast, and would halve what the chain holds of sequences. */
static void a_spare_needs_the_room_that_the_split_has(void **state) {
    (void)state;
    const lh_model_profile model = model_that_keeps();
    const lh_layout before = {2, {{0, {0, 15}}, {LH_LAYOUT_NOBODY, {15, 30}}}};
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 3 * 1024 * 30, 0},
                             {"b", "s", 4, 5000, BY(4), 3 * 1024 * 15, 0}};
    lh_layout plan;
    workers[1].kv_bytes--;
    assert_int_equal(revise_beside(&model, workers, 2, &(lh_aim){0}, &before, &plan, NULL), LH_OK);
    assert_int_equal(plan.stages[0].layers.last, 16);
}

static void assert_offered(uint64_t first_bytes, uint64_t second_bytes, const char *offered) {
    const even_worker workers[] = {{"a", "s", 4, first_bytes, BY(4), 0, 0},
                                   {"c", "s", 4, second_bytes, BY(4), 0, 0}};
    lh_layout plan;
    lh_error error;
    char words[100];
    const lh_model_profile model = {.layers = 1, .head_bytes = UINT64_MAX >> 1};
    snprintf(words, sizeof words, "and 2 workers offer %s MiB: no split fits", offered);
    assert_int_equal(split(&model, workers, 2, &no_options, &plan, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, words));
}

/* Whole MiB, and no more than there may be. */
static void a_refusal_says_what_is_offered(void **state) {
    (void)state;
    assert_offered(3 << 20, 2 << 20, "5");
    assert_offered(3 << 20, (2 << 20) - 1, "4");
    assert_offered((uint64_t)1 << 62, (uint64_t)1 << 61, "6597069766656");
}

/* What was loaded under other options is no plan for these. */
static void a_plan_of_too_many_stages_is_not_kept(void **state) {
    (void)state;
    const lh_aim two = {.stages = 2};
    even_worker workers[] = {{"a", "s", 4, 5000, BY(4), 0, 0},
                             {"c", "s", 4, 5000, BY(4), 0, 0},
                             {"z", "s", 4, 5000, BY(4), 0, 0}};
    lh_layout plan = revise(workers, 3, &two);
    assert_int_equal(plan.stage_count, 2);
}

/* ---- Speeds beside each other ---- */

/* The ordinary assertion takes floats. */
static void assert_close(double a, double b) {
    assert_true(a > b - 1e-9 && a < b + 1e-9);
}

static void by_threads_where_one_has_not_measured(void **state) {
    (void)state;
    static const lh_machine_speed lacking[] = {{0, 0}, {0, 6}, {1, 0}};
    for (int i = 0; i < 3; i++) {
        lh_map_machine machines[] = {{.threads = 2, .start = {1, 6}},
                                     {.threads = 4, .start = lacking[i]}};
        lh_even_compare_speeds(machines, 2);
        assert_close(machines[0].start.prompt_us, 2 * machines[1].start.prompt_us);
        assert_close(machines[0].start.token_us, 2 * machines[1].start.token_us);
        assert_true(machines[0].start.token_us > machines[0].start.prompt_us);
    }
}

static void close_ones_are_the_same(void **state) {
    (void)state;
    const lh_machine_speed measured[] = {{1.08, 9}, {2.1, 5}, {1.0, 5.4}, {2.0, 30}, {1.4, 7}};
    const double prompt[] = {1, 2, 1, 2, 1.4}, token[] = {9, 5, 5, 30, 7};
    lh_map_machine machines[5];
    for (int i = 0; i < 5; i++)
        machines[i] = (lh_map_machine){.threads = 1, .start = measured[i]};
    lh_even_compare_speeds(machines, 5);
    for (int i = 0; i < 5; i++) {
        assert_close(machines[i].start.prompt_us, prompt[i]);
        assert_close(machines[i].start.token_us, token[i]);
    }
    machines[0].start = (lh_machine_speed){4, 4};
    machines[1].start = (lh_machine_speed){5, 4.99}; /* a whole quarter is not close */
    lh_even_compare_speeds(machines, 2);
    assert_close(machines[1].start.prompt_us, 5);
    assert_close(machines[1].start.token_us, 4);
}

static void the_order_is_no_matter(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 200; round++) {
        lh_map_machine machines[9], reversed[9];
        double before[9];
        for (uint32_t i = 0; i < 9; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            before[i] = 1 + (double)(random >> 60) / 10;
            machines[i] = (lh_map_machine){.start = {before[i], 5 + (double)(random >> 56 & 15)}};
            reversed[8 - i] = machines[i];
        }
        lh_even_compare_speeds(machines, 9);
        lh_even_compare_speeds(reversed, 9);
        for (uint32_t i = 0; i < 9; i++) {
            assert_true(machines[i].start.prompt_us == reversed[8 - i].start.prompt_us);
            assert_true(machines[i].start.token_us == reversed[8 - i].start.token_us);
            assert_true(machines[i].start.prompt_us <= before[i] &&
                        machines[i].start.prompt_us * 1.25 >= before[i] * 0.999);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_workers_get_equal_shares),
        cmocka_unit_test(experts_count_whole_for_memory_and_in_part_for_time),
        cmocka_unit_test(the_first_layers_take_more_of_a_team),
        cmocka_unit_test(shares_are_in_proportion_to_threads),
        cmocka_unit_test(plans_are_compared_by_their_slowest_stage),
        cmocka_unit_test(the_head_counts_little_and_memory_binds),
        cmocka_unit_test(the_head_counts_where_prompts_do_not_care),
        cmocka_unit_test(what_the_slowest_stage_leaves_open_is_made_good_use_of),
        cmocka_unit_test(measured_speeds_count_rather_than_threads),
        cmocka_unit_test(sites_give_the_order),
        cmocka_unit_test(fewer_stages_take_the_fastest),
        cmocka_unit_test(a_worker_too_small_for_a_layer_is_left_out),
        cmocka_unit_test(more_workers_than_layers),
        cmocka_unit_test(random_fleets),
        cmocka_unit_test(a_spare_fills_the_gap),
        cmocka_unit_test(of_several_spares_the_best_one),
        cmocka_unit_test(a_spare_of_the_same_site_is_preferred),
        cmocka_unit_test(a_spare_that_is_much_slower_is_not_worth_it),
        cmocka_unit_test(a_spare_may_be_a_fifth_slower),
        cmocka_unit_test(without_a_spare_all_is_planned_anew),
        cmocka_unit_test(a_spare_from_afar_does_not_tear_a_site_apart),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(no_layers_without_room_for_keys_and_values),
        cmocka_unit_test(less_room_is_better_than_no_plan),
        cmocka_unit_test(a_worker_without_room_for_a_layer_spoils_nothing),
        cmocka_unit_test(a_refusal_says_what_keys_and_values_take),
        cmocka_unit_test(a_spare_needs_the_room_that_the_split_has),
        cmocka_unit_test(a_refusal_says_what_is_offered),
        cmocka_unit_test(a_plan_of_too_many_stages_is_not_kept),
        cmocka_unit_test(by_threads_where_one_has_not_measured),
        cmocka_unit_test(close_ones_are_the_same),
        cmocka_unit_test(the_order_is_no_matter),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
