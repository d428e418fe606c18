/* For how long the gateway has not answered, and when that is to be told: at once, and again with
 * growing pauses. Plain data, begun with zeros; it never asks for the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_gateway_absence {
    bool is_away;
    int64_t since_us; /* where it is away */
    int64_t tell_again_us, pause_us;
} lh_gateway_absence;

/* Whether it is to be told if the gateway does not answer now. */
bool lh_gateway_absence_is_due(const lh_gateway_absence *absence, int64_t now_us);
/* It has not answered. is_told: that is told now. */
void lh_gateway_absence_note(lh_gateway_absence *absence, bool is_told, int64_t now_us);
/* It has answered. True: it was away. */
bool lh_gateway_absence_end(lh_gateway_absence *absence);
