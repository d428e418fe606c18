/* What a machine gives a program, as far as somebody who looks for faults wants to know: memory,
 * disk, the kernel's settings, what of the sandbox is in force. A program reads it before it enters
 * its sandbox, and tells it others; a fact that nobody could read is not known. Plain values.
 * Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whole numbers of at least 0. Memory is that of the machine or of its cgroup, free what could be
 * taken without swapping. The disk is the one below the program's folder, free what is there for a
 * user who is not root. TCP's buffers are the most that may be received and not read, and sent and
 * not acknowledged; 1 of slow_start_after_idle holds for the program's own connections. open_files
 * is to where the program may raise its limit. seccomp and landlock are 1 where they are in force.
 * The certificate is the program's own. Times are Unix time. */
#define LH_HOST_FACT_TABLE(X)                                                                      \
    X(LH_HOST_CLOCK_MS, "clock_ms")                                                                \
    X(LH_HOST_MEMORY_BYTES, "memory_bytes")                                                        \
    X(LH_HOST_MEMORY_FREE_BYTES, "memory_free_bytes")                                              \
    X(LH_HOST_DISK_BYTES, "disk_bytes")                                                            \
    X(LH_HOST_DISK_FREE_BYTES, "disk_free_bytes")                                                  \
    X(LH_HOST_TCP_RMEM_MAX, "tcp_rmem_max")                                                        \
    X(LH_HOST_TCP_WMEM_MAX, "tcp_wmem_max")                                                        \
    X(LH_HOST_SLOW_START_AFTER_IDLE, "slow_start_after_idle")                                      \
    X(LH_HOST_SOMAXCONN, "somaxconn")                                                              \
    X(LH_HOST_OPEN_FILES, "open_files")                                                            \
    X(LH_HOST_SECCOMP, "seccomp")                                                                  \
    X(LH_HOST_LANDLOCK, "landlock")                                                                \
    X(LH_HOST_CERTIFICATE_BEGINS_S, "certificate_begins_s")                                        \
    X(LH_HOST_CERTIFICATE_ENDS_S, "certificate_ends_s")

typedef enum lh_host_fact {
#define X(fact, name) fact,
    LH_HOST_FACT_TABLE(X)
#undef X
        LH_HOST_FACT_COUNT
} lh_host_fact;

/* All zeros: nothing is known. */
typedef struct lh_host_facts {
    uint32_t known; /* a bit for each fact */
    int64_t values[LH_HOST_FACT_COUNT];
} lh_host_facts;

/* "memory_bytes". */
const char *lh_host_fact_name(lh_host_fact fact);

/* A value below 0 is not known. */
void lh_host_facts_set(lh_host_facts *facts, lh_host_fact fact, int64_t value);
bool lh_host_facts_know(const lh_host_facts *facts, lh_host_fact fact);
/* -1: not known. */
int64_t lh_host_facts_get(const lh_host_facts *facts, lh_host_fact fact);

/* Reads what the kernel says now, all but disk and sandbox. proc, cgroup: "/proc" and
 * "/sys/fs/cgroup", or folders that stand for them. */
void lh_host_facts_read(lh_host_facts *facts, const char *proc, const char *cgroup);
/* The disk below a folder, or below the nearest one above it that is there. May be called within
 * the sandbox. */
void lh_host_facts_read_disk(lh_host_facts *facts, const char *folder);
/* The time now. */
void lh_host_facts_read_clock(lh_host_facts *facts);
