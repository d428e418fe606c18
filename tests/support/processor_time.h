/* Time of processors, which what else the machine does hardly changes. */
#pragma once

/* So many times as long as in a build for use may work take in this one: sanitizers slow it down,
 * and builds for aarch64 are mostly run by an emulator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__aarch64__)
#define PROCESSOR_TIME_SCALE 20
#else
#define PROCESSOR_TIME_SCALE 1
#endif

/* Of this thread, in seconds. */
double processor_time_s(void);
