/* A worker that computes its stage together with another one, whom the test plays. */
#include "common/net/listener.h"
#include "tests/support/loop.h"
#include "tests/worker/support/reconciler_bench.h"
#include "worker/mesh/mesh.h"
#include "worker/team/order_code.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The first member of the worker's team, played by a thread: forms, says how many pages it has, and
 * lets the worker rest where that prepares; then it is there until `goes`. */
typedef struct first_member {
    int listener;
    char address[32];
    bool prepares;
    _Atomic bool goes;
    pthread_t thread;
} first_member;

static void play(lh_mesh *mesh, bool prepares) {
    const uint64_t number = UINT64_MAX, pages = 100;
    const lh_stage_order rest = {.kind = LH_ORDER_REST};
    const void *theirs;
    void *bytes;
    if (lh_mesh_open(mesh, sizeof pages, &bytes, NULL) != LH_OK)
        return;
    memcpy(bytes, &pages, sizeof pages);
    lh_mesh_post_gather(mesh, number, NULL);
    lh_mesh_take_gather(mesh, number, 1, sizeof pages, &theirs, NULL);
    if (!prepares || lh_mesh_open(mesh, lh_order_bytes(&rest), &bytes, NULL) != LH_OK)
        return;
    lh_order_encode(&rest, bytes, NULL);
    lh_mesh_post_order(mesh, NULL);
    lh_mesh_flush(mesh, NULL);
}

static void *be_first_member(void *context) {
    first_member *f = context;
    const lh_address addresses[2] = {0};
    const lh_mesh_options options = {.identity = {"c", 7, 2, 0, {0}},
                                     .addresses = addresses,
                                     .listener = f->listener,
                                     .forming_ms = 20000,
                                     .wait_ms = 20000,
                                     .payload_bytes_max = 1024};
    lh_mesh *mesh;
    if (lh_mesh_create(&options, &mesh, NULL) != LH_OK)
        return NULL;
    play(mesh, f->prepares);
    while (!atomic_load(&f->goes))
        usleep(1000);
    lh_mesh_destroy(mesh);
    return NULL;
}

static void first_member_come(first_member *f, bool prepares) {
    f->prepares = prepares;
    f->goes = false;
    pthread_create(&f->thread, NULL, be_first_member, f);
}

static void first_member_go(first_member *f) {
    atomic_store(&f->goes, true);
    pthread_join(f->thread, NULL);
}

static void first_member_open(first_member *f) {
    uint16_t port;
    *f = (first_member){0};
    assert_int_equal(lh_listener_open("127.0.0.1:0", &f->listener, &port, NULL), LH_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%u", port);
}

/* Its team has formed and rests by then, and begins when the stage is in place. */
static void test_a_prepared_part_takes_the_place_of_the_old_stage(void **state) {
    (void)state;
    reconciler_bench b;
    first_member f;
    reconciler_bench_open_serving(&b);
    first_member_open(&f);
    wanted next = wanted_whole;
    next.generation = 11;
    next.first_member = f.address;
    want_prepared(&b, &next, true);
    expect_report(&b, "\"prepared\":{\"first_layer\":0,\"last_layer\":4,\"hold\":true,\"state\":"
                      "\"loading\"");
    await_reports(&b, 3);
    assert_true(report_has(&b, "\"team_epoch\":7"));
    assert_false(report_has(&b, "\"hold\":true,\"state\":\"ready\"")); /* nobody has come */
    first_member_come(&f, true);
    expect_report(&b, "\"prepared\":{\"first_layer\":0,\"last_layer\":4,\"hold\":true,\"state\":"
                      "\"ready\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    unsigned requests = range_server_requests(b.files);
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_true(report_has(&b, "\"prepared\":null"));
    assert_int_equal(range_server_requests(b.files), requests);
    char text[300];
    lh_reconciler_describe(b.reconciler, text, sizeof text);
    assert_string_equal(text, "Computes layers 0-3 of tiny together with v");
    first_member_go(&f);
    reconciler_bench_close(&b);
    close(f.listener);
}

static bool is_held(void *context) {
    return ((reconciler_bench *)context)->gateway.held;
}

/* The others may have heard sooner that there is another chain: what was wanted until then is not
 * built again. */
static void test_a_team_that_has_failed_is_built_again_when_the_gateway_says_so(void **state) {
    (void)state;
    reconciler_bench b;
    first_member f;
    reconciler_bench_open(&b);
    first_member_open(&f);
    wanted part = wanted_whole;
    part.first_member = f.address;
    first_member_come(&f, false);
    want(&b, &part);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    b.gateway.holds = true;
    assert_true(loop_run_until(&b.loop, is_held, &b, 20000));
    unsigned requests = range_server_requests(b.files);
    first_member_go(&f);
    loop_run_for(&b.loop, 200);
    lh_worker_report report;
    lh_reconciler_read_report(b.reconciler, &report);
    assert_false(report.loaded.present);
    assert_int_equal(report.assignment.state, LH_WORKER_LOADING);
    control_gateway_answer_held(&b.gateway); /* to a report of before: the same again */
    want_nothing(&b);
    await_reports(&b, 3);
    assert_int_equal(range_server_requests(b.files), requests);
    want(&b, &part);
    first_member_come(&f, false);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    first_member_go(&f);
    first_member_come(&f, false); /* it is still wanted */
    await_reports(&b, 3);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    first_member_go(&f);
    reconciler_bench_close(&b);
    close(f.listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_prepared_part_takes_the_place_of_the_old_stage),
        cmocka_unit_test(test_a_team_that_has_failed_is_built_again_when_the_gateway_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
