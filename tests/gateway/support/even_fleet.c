/* Rows become machines. */
#include "tests/gateway/support/even_fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static lh_map_machine machine_of(const even_worker *worker) {
    lh_map_machine machine = {.threads = worker->threads,
                              .memory_bytes = worker->memory_bytes,
                              .start = worker->speed,
                              .kv_bytes = worker->kv_bytes,
                              .first_extra_bytes = worker->first_extra_bytes};
    snprintf(machine.name, sizeof machine.name, "%s", worker->name);
    lh_map_machine_set_speed(&machine, &worker->speed);
    return machine;
}

void even_fleet_make(even_fleet *f, const lh_model_profile *model, const even_worker *workers,
                     uint32_t count, const lh_aim *aim) {
    even_fleet_reset(f);
    assert_true(count <= EVEN_FLEET_MAX);
    for (uint32_t i = 0; i < count; i++) {
        f->machines[i] = machine_of(&workers[i]);
        f->sites[i] = workers[i].site;
    }
    lh_even_order_sites(f->machines, f->sites, count, aim->sites);
    assert_int_equal(lh_even_split_create(model, f->machines, count, aim, &f->split, NULL), LH_OK);
}

void even_fleet_reset(even_fleet *f) {
    lh_even_split_destroy(f->split);
    f->split = NULL;
}
