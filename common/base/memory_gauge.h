/* How much memory a program could take now without swapping: of its machine, or of the cgroup that
 * it runs in, which a container or a service manager bounds; the least of them counts. The kernel's
 * files are opened once, since a sandbox closes the way to them, and read anew each time. Thread:
 * any; reading changes nothing. */
#pragma once

#include <stdint.h>

typedef struct lh_memory_gauge lh_memory_gauge;

/* proc, cgroup: "/proc" and "/sys/fs/cgroup", or folders that stand for them. Of cgroups, versions
 * 1 and 2, it is the one that `proc`/self/cgroup names, and all above it. NULL: out of memory; what
 * cannot be opened is not known. */
lh_memory_gauge *lh_memory_gauge_open(const char *proc, const char *cgroup);
/* NULL is allowed. */
void lh_memory_gauge_close(lh_memory_gauge *gauge);

/* Bytes of the machine, or of the narrowest limit; -1: not known. A NULL gauge knows nothing. */
int64_t lh_memory_gauge_all(const lh_memory_gauge *gauge);
/* Of these, what is free or can be freed at once: page caches count as free. At least 0; -1: not
 * known. */
int64_t lh_memory_gauge_free(const lh_memory_gauge *gauge);
