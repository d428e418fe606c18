/* Equal workers, equal links. */
#include <stddef.h>
#include <stdlib.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"
#include "tests/fleet/support/toy_model.h"

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

toy_worker_options small_worker(int index) {
    return (toy_worker_options){.name = names[index],
                                .site = "home",
                                .threads = 4,
                                .memory_bytes = 1 << 20,
                                .pages_total = 1000,
                                .page_positions = 16,
                                .step_us = 1 * MS,
                                .row_us = 100,
                                .load_us = 300 * MS};
}

simulation *small_fleet_create(const simulation_options *options, int workers) {
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    simulation *sim = simulation_create(options);
    for (int i = 0; i < workers; i++) {
        toy_worker_options worker = small_worker(i);
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    simulation_step_until(sim, (simulation_now_us(sim) / (1000 * MS) + 1) * 1000 * MS);
    return sim;
}

void small_fleet_pass(simulation *sim, int64_t ms) {
    simulation_step_until(sim, simulation_now_us(sim) + ms * MS);
}

void small_fleet_submit(simulation *sim, int count, uint32_t tokens) {
    for (int i = 0; i < count; i++)
        assert_true(simulation_submit(sim, 40 + 17 * (uint32_t)i, tokens, (uint64_t)i, NULL) >= 0);
}

int64_t small_fleet_assert_finished(simulation *sim, int count) {
    int64_t longest_us = 0;
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 200000 * MS));
    for (int i = 0; i < count; i++) {
        const simulation_stream *s = simulation_stream_at(sim, i);
        assert_true(s->is_finished && simulation_stream_is_true(s));
        assert_int_equal(s->count, s->max_tokens);
        longest_us = s->longest_gap_us > longest_us ? s->longest_gap_us : longest_us;
    }
    return longest_us;
}

static bool is_settled(simulation *sim) {
    const lh_scheduler *scheduler = lh_chain_controller_scheduler(simulation_controller(sim));
    lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler);
    return lh_scheduler_chain_is_up(scheduler) &&
           figures.running + figures.waiting + figures.truncating == 0 &&
           figures.decode_steps + figures.prefill_steps + figures.truncation_steps == 0;
}

void small_fleet_assert_clean(simulation *sim) {
    int64_t limit_us = simulation_now_us(sim) + 60000 * MS;
    while (!is_settled(sim) && simulation_now_us(sim) < limit_us)
        simulation_step_until(sim, simulation_now_us(sim) + 10 * MS);
    assert_true(is_settled(sim));
    assert_int_equal(simulation_breaches(sim), 0);
    const lh_scheduler *scheduler = lh_chain_controller_scheduler(simulation_controller(sim));
    const lh_kv_ledger *ledger = lh_scheduler_ledger(scheduler);
    assert_int_equal(ledger->blocks_live + ledger->blocks_returning, 0);
    const lh_chain *chain = lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)));
    for (int node = 1; simulation_worker(sim, node); node++) {
        toy_worker_figures figures = toy_worker_current_figures(simulation_worker(sim, node));
        int stage = lh_chain_find(chain, names[node - 1]);
        if (stage >= 0) {
            assert_int_equal(figures.sequences, lh_scheduler_current_figures(scheduler).prefixes);
            assert_int_equal(figures.pages,
                             lh_kv_ledger_pages(ledger, (uint32_t)stage, ledger->blocks_cached));
        }
    }
}
