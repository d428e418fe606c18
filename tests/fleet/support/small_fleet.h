/* A fleet of equal workers on equal links, which most tests want. */
#pragma once

#include "tests/fleet/support/simulation.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS 1000 /* microseconds */

/* Workers "a", "b", ... with room for `pages` pages of 16 positions; a step of n rows takes 1 ms +
 * n * 0.1 ms. */
toy_worker_options small_worker(int index);
/* So many workers, and a chain that is ready. Time then is a whole second. */
simulation *small_fleet_create(const simulation_options *options, int workers);
/* Time goes on by so much. */
void small_fleet_pass(simulation *sim, int64_t ms);
/* Streams 0, 1, ... of unequal prompts and so many tokens each. */
void small_fleet_submit(simulation *sim, int count, uint32_t tokens);
/* Runs until streams 0 to count - 1 have ended, each with all its tokens and the right ones. The
 * longest that one was silent, in microseconds. */
int64_t small_fleet_assert_finished(simulation *sim, int count);
/* No promise was broken, nothing is left on the workers but the prefixes that the gateway knows of,
 * to the page; waits for truncations to settle. */
void small_fleet_assert_clean(simulation *sim);
