/* The kernel's account of a thread: nanoseconds on a core, nanoseconds on the run queue, times that
 * it ran.
 * */
#include "worker/control/core_clock.h"

#include "common/base/clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int64_t waited_us(const lh_core_clock *clock) {
    char text[96];
    unsigned long long ran_ns, waited_ns;
    ssize_t length = clock->file >= 0 ? pread(clock->file, text, sizeof(text) - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    return sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2 ? (int64_t)(waited_ns / 1000) : 0;
}

void lh_core_clock_open(lh_core_clock *clock, const lh_slowdown *slowdown) {
    bool is_slowed = lh_slowdown_factor(slowdown) > 1;
    clock->slowdown = is_slowed ? slowdown : NULL;
    clock->file = is_slowed ? -1 : open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void lh_core_clock_close(lh_core_clock *clock) {
    if (clock->file >= 0)
        close(clock->file);
}

int64_t lh_core_clock_us(const lh_core_clock *clock) {
    if (clock->slowdown) {
        struct timespec worked;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
        return (int64_t)worked.tv_sec * 1000000 +
               (worked.tv_nsec + clock->slowdown->owed_ns) / 1000;
    }
    return lh_clock_us() - waited_us(clock);
}
