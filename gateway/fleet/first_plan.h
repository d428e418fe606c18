/* When workers that have never been planned are planned: at once when all that are expected are
 * there, or, where any number will do, when the same ones have been there for a while. A pure
 * function. */
#pragma once

#include <stdint.h>

/* How many there are; how many are expected (0: any number); for how long they must have been the
 * same; since when they are waited for, and when one last came or went. */
int64_t lh_first_plan_due_us(uint32_t workers, uint32_t expected, int64_t plan_delay_us,
                             int64_t created_us, int64_t changed_us);
