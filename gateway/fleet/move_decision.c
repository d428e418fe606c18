/* A gain, a cost, and margins between the two. */
#include "gateway/fleet/move_decision.h"

#include <math.h>

/* What is gained must be so many times what it costs: how long it lasts is a guess. */
#define GAIN_MIN 2.0
/* For how long at least, and at most, a plan is taken to be right. */
#define LASTS_MIN_US 60e6
#define LASTS_MAX_US 3600e6

/* To tell the workers, without the replay: measured at 35 to 60 ms on one machine, and a few round
 * trips more between sites. */
#define PAUSE_US 200e3
/* All who wait for a token feel a pause, which counts for more than steps that are a little slower:
 * while many long sequences run, a move waits until they are fewer, or until it has long been
 * wanted. */
#define PAUSE_WEIGHT 2.5
/* What fetching and unpacking weights take of the machine and of its link meanwhile. */
#define LOADING_SHARE 0.2

static double lasts_us(const lh_move *move) {
    return fmin(fmax((double)move->unchanged_us, LASTS_MIN_US), LASTS_MAX_US);
}

double lh_move_gain_us(const lh_move *move) {
    return isinf(move->value_now) ? lasts_us(move)
                                  : lasts_us(move) * (1 - move->value_next / move->value_now);
}

static double cost_us(const lh_move *move) {
    return PAUSE_WEIGHT * (PAUSE_US + move->replay_us) + LOADING_SHARE * move->loading_us;
}

bool lh_move_is_worthwhile(const lh_move *move) {
    return move->value_next * LH_MOVE_BETTER_MIN <= move->value_now &&
           lh_move_gain_us(move) >= GAIN_MIN * cost_us(move);
}
