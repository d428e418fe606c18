/* A debt in nanoseconds, paid when it is worth a system call. */
#include "worker/compute/slowdown.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/* A piece that begins so soon after another began where that ended: one reading of the clocks for
 * both. */
#define ADJACENT_NS 20000
/* What was lost to others while working is made up for within so much, else a long pause of the
 * host would be followed by a burst at the speed of the real machine. */
#define ADVANCE_MAX_NS 10000000

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void lh_slowdown_set(lh_slowdown *slowdown, double factor) {
    atomic_store(&slowdown->extra_per_mille, (uint32_t)lround((factor - 1) * 1000));
}

double lh_slowdown_factor(const lh_slowdown *slowdown) {
    return 1 + atomic_load(&slowdown->extra_per_mille) / 1000.0;
}

void lh_slowdown_begin(const lh_slowdown *slowdown, lh_slowdown_mark *mark) {
    if (atomic_load_explicit(&slowdown->extra_per_mille, memory_order_relaxed) == 0) {
        *mark = (lh_slowdown_mark){0};
        return;
    }
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    bool is_adjacent = now_ns - slowdown->ended.wall_ns < ADJACENT_NS;
    *mark = is_adjacent ? slowdown->ended
                        : (lh_slowdown_mark){now_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID)};
}

/* The thread's timers are late by 50 us unless it says that this matters. */
static void pay(lh_slowdown *slowdown) {
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    struct timespec pause = {slowdown->debt_ns / 1000000000, slowdown->debt_ns % 1000000000};
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    nanosleep(&pause, NULL);
    slowdown->debt_ns -= clock_ns(CLOCK_MONOTONIC) - begin_ns;
}

void lh_slowdown_end(lh_slowdown *slowdown, const lh_slowdown_mark *mark) {
    int64_t extra = atomic_load_explicit(&slowdown->extra_per_mille, memory_order_relaxed);
    if (mark->wall_ns == 0 || extra == 0) {
        slowdown->debt_ns = 0;
        return;
    }
    slowdown->ended =
        (lh_slowdown_mark){clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)};
    int64_t worked_ns = slowdown->ended.processor_ns - mark->processor_ns;
    int64_t lost_ns = slowdown->ended.wall_ns - mark->wall_ns - worked_ns;
    slowdown->owed_ns += worked_ns * extra / 1000;
    slowdown->debt_ns += worked_ns * extra / 1000 - (lost_ns > 0 ? lost_ns : 0);
    if (slowdown->debt_ns < -ADVANCE_MAX_NS)
        slowdown->debt_ns = -ADVANCE_MAX_NS;
    if (slowdown->debt_ns >= LH_SLOWDOWN_SLEEP_MIN_NS) {
        pay(slowdown);
        slowdown->ended = (lh_slowdown_mark){0};
    }
}

void lh_slowdown_settle(lh_slowdown *slowdown) {
    if (slowdown->debt_ns <= 0)
        return;
    pay(slowdown);
    slowdown->ended = (lh_slowdown_mark){0};
}

static const char *parse_factor(const char *text, double *factor) {
    char *end;
    *factor = strtod(text, &end);
    return end != text && *factor >= 1 && *factor <= LH_SLOWDOWN_MAX ? end : NULL;
}

lh_status lh_slowdown_parse(const char *text, double factors[2], lh_error *error) {
    const char *end = parse_factor(text, &factors[0]);
    factors[1] = factors[0];
    if (end && *end == ',')
        end = parse_factor(end + 1, &factors[1]);
    if (!end || *end != '\0') {
        return lh_fail(error, LH_ERR_INVALID,
                       "'%.40s' is not one factor from 1 to %g, or two with a comma", text,
                       LH_SLOWDOWN_MAX);
    }
    return LH_OK;
}
