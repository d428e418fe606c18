/* Runs a libuv loop for as long as a test has to wait. Thread: the loop's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Until holds(context), which is asked after whatever happens on the loop; false: it did not within
 * timeout_ms. */
bool loop_run_until(uv_loop_t *loop, bool (*holds)(void *context), void *context,
                    uint64_t timeout_ms);
/* Until *flag, or fails the test after 20 seconds. */
void loop_run_until_set(uv_loop_t *loop, const bool *flag);
void loop_run_for(uv_loop_t *loop, uint64_t duration_ms);

/* A callback for those who take a void *context: sets the bool that it points to. */
void loop_set_flag(void *flag);
