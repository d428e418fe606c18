/* What GET /fleet says of the cost model. */
#include "gateway/cost/overlap_json.h"

#include "common/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static lh_cost_chain chain_of_two(void) {
    lh_cost_chain chain = {.stage_count = 2, .width = 576};
    for (uint32_t s = 0; s < 2; s++)
        chain.stages[s] = (lh_compute_profile){.point_count = 2,
                                               .points = {{1, 1000}, {512, 300e3}},
                                               .take_share = 0.02,
                                               .give_share = 0.02,
                                               .shard_us = 20,
                                               .step_us = 200};
    for (uint32_t h = 0; h <= 2; h++)
        chain.hops[h] = (lh_cost_hop){.bytes_per_us = 1.25,
                                      .delay_us = 10e3,
                                      .row_bytes = h == 1 ? 1170 : 0,
                                      .step_bytes = 150};
    return chain;
}

static void it_says_what_it_reckons_with(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_ERROR);
    lh_overlap_planner *planner;
    assert_int_equal(lh_overlap_planner_create(512, 64, &planner, NULL), LH_OK);
    json_t *json = lh_overlap_json_render(planner);
    assert_string_equal(json_string_value(json_object_get(json, "lacks")), "there is no chain");
    assert_int_equal(json_array_size(json_object_get(json, "stages")), 0);
    assert_int_equal(json_array_size(json_object_get(json, "plans")), 3);
    json_decref(json);

    lh_cost_chain chain = chain_of_two();
    lh_overlap_planner_update(planner, &chain);
    json = lh_overlap_json_render(planner);
    assert_true(json_is_null(json_object_get(json, "lacks")));
    assert_int_equal(json_array_size(json_object_get(json, "hops")), 3);
    json_t *stage = json_array_get(json_object_get(json, "stages"), 1);
    assert_true(json_real_value(json_object_get(stage, "rows_512_ms")) == 300);
    /* around the ring: two rows, their overheads, some 1.6 kB, three delays */
    double token_ms = json_real_value(json_object_get(json, "token_ms"));
    assert_true(token_ms > 2 * 1.2 + 30 && token_ms < 2 * 1.2 + 30 + 2);
    json_t *plans = json_object_get(json, "plans"), *plan;
    size_t i, j;
    json_array_foreach(plans, i, plan) {
        json_int_t sum = 0;
        json_t *chunk, *chunks = json_object_get(plan, "chunks");
        json_array_foreach(chunks, j, chunk) {
            sum += json_integer_value(chunk);
        }
        assert_int_equal(sum, json_integer_value(json_object_get(plan, "prompt")));
        double predicted_ms = json_real_value(json_object_get(plan, "predicted_ms"));
        assert_true(predicted_ms >= json_real_value(json_object_get(plan, "bound_ms")));
        assert_true(predicted_ms <= json_real_value(json_object_get(plan, "off_ms")));
        json_t *ends = json_array_get(json_object_get(plan, "column_ends"), 0);
        assert_int_equal(json_integer_value(json_array_get(ends, json_array_size(ends) - 1)), 576);
    }
    json_decref(json);
    lh_overlap_planner_destroy(planner);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_what_it_reckons_with)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
