/* Whether a better chain is worth the move to it. What is gained is time: by so much less each step
 * takes, for as long as the plan will be right; that is taken to be as long as everything has been
 * as it is. What it costs is the pause, in which the workers are told and the sequences replayed,
 * and what loading takes from the steps that are computed meanwhile. Both count while the chain is
 * asked something, so how often that is does not matter. Pure; thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Figures that are measured waver by a few per cent: a chain that is better by less may not be. */
#define LH_MOVE_BETTER_MIN 1.05

typedef struct lh_move {
    double value_now, value_next; /* of the aim: less is better; INFINITY: it cannot go on */
    double loading_us;
    double replay_us;     /* of the sequences that are there */
    int64_t unchanged_us; /* since machines and figures last changed */
} lh_move;

/* What it would gain while it lasts. */
double lh_move_gain_us(const lh_move *move);
bool lh_move_is_worthwhile(const lh_move *move);
