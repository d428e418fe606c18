/* What a stage asks of its gathers (gather.h), over sockets: two numbers under way, step after
 * step. */
#include "worker/mesh/mesh_gather.h"

#include "tests/worker/support/mesh_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4, NUMBERS = 12 };

static uint8_t content(uint32_t step, uint32_t number, uint32_t member) {
    return (uint8_t)(step * 131 + number * 17 + member);
}

static size_t length_of(uint32_t number, uint32_t member) {
    return 1 + number * 777 + member * 64;
}

static void post(const lh_gather *gather, const lh_mesh_step *step, uint32_t number) {
    uint32_t own = lh_mesh_own(step->mesh);
    void *bytes;
    assert_int_equal(gather->open(gather->context, number, length_of(number, own), &bytes, NULL),
                     LH_OK);
    assert_int_equal((uintptr_t)bytes % 64, 0);
    memset(bytes, content(step->step, number, own), length_of(number, own));
    assert_int_equal(gather->post(gather->context, number, NULL), LH_OK);
}

static void take_all(const lh_gather *gather, const lh_mesh_step *step, uint32_t number) {
    for (uint32_t i = 0; i < lh_mesh_members(step->mesh); i++) {
        const void *taken;
        size_t length = length_of(number, i);
        uint8_t wanted = content(step->step, number, i);
        if (i == lh_mesh_own(step->mesh))
            continue;
        assert_int_equal(gather->take(gather->context, number, i, length, &taken, NULL), LH_OK);
        const uint8_t *bytes = taken;
        assert_int_equal((uintptr_t)bytes % 64, 0);
        assert_int_equal(bytes[0], wanted);
        assert_memory_equal(bytes, bytes + 1, length - 1); /* all alike */
    }
}

static void run_steps(mesh_member *m) {
    for (uint32_t s = 0; s < STEPS; s++) {
        lh_mesh_step step = {m->mesh, s};
        const lh_gather gather = lh_mesh_gather(&step);
        post(&gather, &step, 0);
        for (uint32_t n = 0; n < NUMBERS; n++) {
            if (n + 1 < NUMBERS)
                post(&gather, &step, n + 1);
            take_all(&gather, &step, n);
        }
    }
    assert_int_equal(lh_mesh_flush(m->mesh, NULL), LH_OK);
}

static void steps_follow_each_other(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 4);
    mesh_group_run(&group, run_steps);
    mesh_group_end(&group);
}

/* One that is at another step, which it would be after a mistake in its orders. */
static void run_another_step(mesh_member *m) {
    uint32_t own = lh_mesh_own(m->mesh);
    lh_mesh_step step = {m->mesh, own == 1 ? 8 : 7};
    const lh_gather gather = lh_mesh_gather(&step);
    const void *taken;
    lh_error error;
    void *bytes;
    assert_int_equal(gather.open(gather.context, 0, 64, &bytes, NULL), LH_OK);
    memset(bytes, 0, 64);
    if (gather.post(gather.context, 0, NULL) != LH_OK)
        return; /* the other one has found out */
    lh_status status = gather.take(gather.context, 0, 1 - own, 64, &taken, &error);
    assert_true(status == LH_ERR_PROTOCOL || status == LH_ERR_CLOSED);
}

static void another_step_is_no_gather_of_this_one(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 2);
    mesh_group_run(&group, run_another_step);
    mesh_group_end(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_each_other),
        cmocka_unit_test(another_step_is_no_gather_of_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
