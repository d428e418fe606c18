/* From whom a chain takes results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/chain_controller.h"

static uint64_t layer_bytes[] = {10, 10};
static const lh_model_profile model = {
    .layers = 2, .context = 256, .vocabulary = 300, .layer_bytes = layer_bytes};

static lh_chain_controller *make_controller(void) {
    const lh_fleet_options fleet = {.model = &model,
                                    .chain_name = "main",
                                    .origin = {"", false},
                                    .model_digest = "",
                                    .context = 256,
                                    .rows_max = 64,
                                    .lease_us = 1000,
                                    .workers_expected = 1,
                                    .first_epoch = 5};
    const lh_scheduler_options scheduler = {
        .sequences_max = 4, .queue_max = 4, .rows_max = 64, .vocabulary = 300};
    lh_chain_controller *controller;
    assert_int_equal(lh_chain_controller_create(&fleet, &scheduler, &(lh_scheduler_sink){0}, 0,
                                                &controller, NULL),
                     LH_OK);
    return controller;
}

static void only_the_last_workers_certificate_may_bring_results(void **state) {
    (void)state;
    lh_chain_controller *controller = make_controller();
    assert_true(lh_chain_controller_takes_results_of(controller, "anybody")); /* no chain yet */
    const lh_worker_report report = {.name = "w-1",
                                     .site = "berlin",
                                     .threads = 4,
                                     .plain_address = "10.0.0.1:9000",
                                     .memory_bytes = 1u << 30,
                                     .speed = {1, 6}};
    lh_fleet_answer answer;
    assert_int_equal(lh_chain_controller_put(controller, &report, 0, &answer, NULL), LH_OK);
    assert_true(answer.has_assignment);
    assert_true(lh_chain_controller_takes_results_of(controller, "w-1"));
    assert_true(lh_chain_controller_takes_results_of(controller, "berlin"));
    assert_false(lh_chain_controller_takes_results_of(controller, "w-2"));
    assert_false(lh_chain_controller_takes_results_of(controller, "ber"));
    assert_false(lh_chain_controller_takes_results_of(controller, ""));
    lh_chain_controller_destroy(controller);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_last_workers_certificate_may_bring_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
