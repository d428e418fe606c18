/* The difference of two differences. */
#include "gateway/membership/clock_jumps.h"

#include <stdlib.h>

int64_t lh_clock_jumps_note(lh_clock_jumps *jumps, int64_t wall_s, int64_t steady_us) {
    int64_t jump_s =
        jumps->is_begun ? wall_s - jumps->wall_s - (steady_us - jumps->steady_us) / 1000000 : 0;
    if (llabs(jump_s) <= LH_CLOCK_JUMP_S)
        jump_s = 0;
    if (jump_s)
        jumps->settled_us = steady_us + LH_CLOCK_SETTLES_US;
    else if (!jumps->is_begun)
        jumps->settled_us = steady_us;
    jumps->is_begun = true;
    jumps->wall_s = wall_s;
    jumps->steady_us = steady_us;
    return jump_s;
}

bool lh_clock_jumps_is_settled(const lh_clock_jumps *jumps) {
    return jumps->steady_us >= jumps->settled_us;
}
