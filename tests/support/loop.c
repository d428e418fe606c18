#include "tests/support/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Long after any test's patience is at its end on a busy machine under a sanitizer. */
#define DEADLINE_MS 20000

/* A turn of the loop may run its timers first and then wait for anything else that happens: uv_stop
 * keeps it from that. */
static void on_deadline(uv_timer_t *timer) {
    *(bool *)timer->data = true;
    uv_stop(timer->loop);
}

bool loop_run_until(uv_loop_t *loop, bool (*holds)(void *context), void *context,
                    uint64_t timeout_ms) {
    bool is_late = false, held;
    uv_timer_t *timer = malloc(sizeof *timer);
    assert_non_null(timer);
    uv_timer_init(loop, timer);
    timer->data = &is_late;
    uv_timer_start(timer, on_deadline, timeout_ms, 0);
    while (!(held = holds(context)) && !is_late)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)timer, (uv_close_cb)(void (*)(void))free);
    return held;
}

static bool is_set(void *flag) {
    return *(const bool *)flag;
}

void loop_run_until_set(uv_loop_t *loop, const bool *flag) {
    bool *context = (bool *)(uintptr_t)flag; /* is_set only reads it */
    assert_true(loop_run_until(loop, is_set, context, DEADLINE_MS));
}

static bool never(void *context) {
    (void)context;
    return false;
}

void loop_run_for(uv_loop_t *loop, uint64_t duration_ms) {
    loop_run_until(loop, never, NULL, duration_ms);
}

void loop_set_flag(void *flag) {
    *(bool *)flag = true;
}
