/* Tells what samples are wrong by: of ten in a row at most two, one by itself or two one after the
 * other, by up to a thousandfold. Some liars say more each time, some less, some the same lie. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LIAR_WINDOW 10u
#define LIAR_LIES   2u /* in the window */

typedef struct liar {
    uint64_t dice;
    double up, same; /* the chance that it says more; what it always says, 0: it does not */
    bool recent[LIAR_WINDOW];
    uint32_t at;
    bool goes_on; /* another lie follows the last one */
} liar;

/* seed 0: it never lies. */
void liar_init(liar *liar, uint64_t seed);
/* What the next sample is wrong by: 1, or up to 1000, or down to 0.001. */
double liar_next(liar *liar);
