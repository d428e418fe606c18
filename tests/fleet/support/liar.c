/* Lies by chance, within the bounds of its window. */
#include "tests/fleet/support/liar.h"

#include <math.h>

#define LIE_CHANCE   0.3
#define BURST_CHANCE 0.5

/* splitmix64: 0 to 1 */
static double roll(liar *l) {
    uint64_t x = l->dice += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static double roll_lie(liar *l) {
    double by = pow(1000, roll(l));
    return roll(l) < l->up ? by : 1 / by;
}

void liar_init(liar *l, uint64_t seed) {
    *l = (liar){.dice = seed};
    if (seed == 0)
        return;
    double habit = roll(l);
    l->up = habit < 0.4 ? 1 : habit < 0.6 ? 0 : 0.5;
    l->same = roll(l) < 0.3 ? roll_lie(l) : 0;
}

double liar_next(liar *l) {
    uint32_t lies = 0;
    for (uint32_t i = 0; i < LIAR_WINDOW; i++)
        lies += l->recent[i] && i != l->at; /* the oldest one leaves the window */
    bool is_lie = l->dice != 0 && lies < LIAR_LIES && (l->goes_on || roll(l) < LIE_CHANCE);
    l->goes_on = is_lie && !l->goes_on && roll(l) < BURST_CHANCE;
    l->recent[l->at] = is_lie;
    l->at = (l->at + 1) % LIAR_WINDOW;
    return !is_lie ? 1 : l->same > 0 ? l->same : roll_lie(l);
}
