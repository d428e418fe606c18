/* Pauses that double. */
#include "worker/control/gateway_absence.h"

#include "common/base/arithmetic.h"

#define PAUSE_US     (INT64_C(10) * 1000000)
#define PAUSE_US_MAX (INT64_C(600) * 1000000)

bool lh_gateway_absence_is_due(const lh_gateway_absence *absence, int64_t now_us) {
    return !absence->is_away || now_us >= absence->tell_again_us;
}

void lh_gateway_absence_note(lh_gateway_absence *absence, bool is_told, int64_t now_us) {
    if (!absence->is_away)
        *absence = (lh_gateway_absence){.is_away = true, .since_us = now_us};
    if (!is_told)
        return;
    absence->pause_us =
        absence->pause_us ? lh_min_i64(absence->pause_us * 2, PAUSE_US_MAX) : PAUSE_US;
    absence->tell_again_us = now_us + absence->pause_us;
}

bool lh_gateway_absence_end(lh_gateway_absence *absence) {
    bool was_away = absence->is_away;
    *absence = (lh_gateway_absence){0};
    return was_away;
}
