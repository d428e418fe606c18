/* CLOCK_MONOTONIC and SCHED_FIFO. */
#include "link/punctuality.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

/* Above what is measured, below the kernel's own threads. */
#define PRIORITY 10
/* Of those without real time the first. */
#define NICEST (-20)

int64_t lh_link_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool lh_link_become_punctual(void) {
    struct sched_param priority = {.sched_priority = PRIORITY};
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    if (sched_setscheduler(0, SCHED_FIFO, &priority) == 0)
        return true;
    /* A container's control group may have no real time to give. */
    setpriority(PRIO_PROCESS, 0, NICEST);
    return false;
}
