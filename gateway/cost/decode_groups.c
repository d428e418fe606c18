/* The period of each number of groups, and the least of them. */
#include "gateway/cost/decode_groups.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>

/* More steps must gain at least this share, since each has costs that no model knows. */
#define GAIN_MIN 0.01

/* Their greater one where they differ much; by a twelfth more where they are equal: the 8-norm. */
static double either(double a, double b) {
    double more = a > b ? a : b, ratio = (a < b ? a : b) / more, square = ratio * ratio;
    double eighth = square * square * (square * square);
    return more * sqrt(sqrt(sqrt(1 + eighth)));
}

double lh_decode_groups_period_us(double ring_us, double busy_us, uint32_t count) {
    return count > 1 ? either(ring_us, busy_us) : ring_us;
}

/* Groups differ by one row at most. */
static double period_of(const lh_cost_chain *chain, uint32_t position, uint32_t sequences,
                        uint32_t count) {
    uint32_t rows = sequences / count, larger_groups = sequences % count;
    lh_cost_step small = lh_cost_decode_step(chain, position, rows), large = small;
    if (larger_groups > 0)
        large = lh_cost_decode_step(chain, position, rows + 1);
    double busy_us = larger_groups * large.busiest_us + (count - larger_groups) * small.busiest_us;
    return lh_decode_groups_period_us(large.ring_us, busy_us, count);
}

lh_decode_groups lh_decode_groups_choose(const lh_cost_chain *chain, uint32_t position,
                                         uint32_t sequences, uint32_t count_max,
                                         uint32_t rows_max) {
    assert(sequences > 0 && count_max > 0 && rows_max > 0);
    uint32_t most = lh_min_u32(sequences, count_max);
    uint32_t count = lh_min_u32((sequences + rows_max - 1) / rows_max, most);
    double best_us = INFINITY, period_us;
    for (uint32_t i = count; i <= most; i++)
        best_us = fmin(best_us, period_of(chain, position, sequences, i));
    while ((period_us = period_of(chain, position, sequences, count)) > (1 + GAIN_MIN) * best_us)
        count++;
    return (lh_decode_groups){count, period_us};
}
