/* /proc, the cgroup's limit, statvfs and getrlimit. */
#include "common/base/host_facts.h"

#include "common/base/memory_gauge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>

#define PATH_BYTES 512
#define LINE_BYTES 256

const char *lh_host_fact_name(lh_host_fact fact) {
    static const char *const names[] = {
#define X(fact, name) name,
        LH_HOST_FACT_TABLE(X)
#undef X
    };
    return names[fact];
}

void lh_host_facts_set(lh_host_facts *facts, lh_host_fact fact, int64_t value) {
    facts->known &= ~(1u << fact);
    facts->known |= value >= 0 ? 1u << fact : 0;
    facts->values[fact] = value;
}

bool lh_host_facts_know(const lh_host_facts *facts, lh_host_fact fact) {
    return facts->known & 1u << fact;
}

int64_t lh_host_facts_get(const lh_host_facts *facts, lh_host_fact fact) {
    return lh_host_facts_know(facts, fact) ? facts->values[fact] : -1;
}

/* The number at this place, from 0, of the first line of FOLDER/NAME; -1: there is none. */
static int64_t read_number(const char *folder, const char *name, int place) {
    char path[PATH_BYTES], line[LINE_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length > 0 && length < PATH_BYTES ? fopen(path, "re") : NULL;
    int64_t value = -1;
    if (!file)
        return -1;
    const char *at = fgets(line, sizeof line, file);
    for (int used = 0; at && place >= 0; place--, at += used)
        if (sscanf(at, "%" SCNd64 "%n", &value, &used) != 1) {
            value = -1;
            break;
        }
    fclose(file);
    return value;
}

static void read_memory(lh_host_facts *facts, const char *proc, const char *cgroup) {
    lh_memory_gauge *gauge = lh_memory_gauge_open(proc, cgroup);
    lh_host_facts_set(facts, LH_HOST_MEMORY_BYTES, lh_memory_gauge_all(gauge));
    lh_host_facts_set(facts, LH_HOST_MEMORY_FREE_BYTES, lh_memory_gauge_free(gauge));
    lh_memory_gauge_close(gauge);
}

static void read_open_files(lh_host_facts *facts) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        lh_host_facts_set(facts, LH_HOST_OPEN_FILES,
                          limit.rlim_max > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_max);
}

void lh_host_facts_read(lh_host_facts *facts, const char *proc, const char *cgroup) {
    lh_host_facts_read_clock(facts);
    read_memory(facts, proc, cgroup);
    read_open_files(facts);
    lh_host_facts_set(facts, LH_HOST_TCP_RMEM_MAX, read_number(proc, "sys/net/ipv4/tcp_rmem", 2));
    lh_host_facts_set(facts, LH_HOST_TCP_WMEM_MAX, read_number(proc, "sys/net/ipv4/tcp_wmem", 2));
    lh_host_facts_set(facts, LH_HOST_SLOW_START_AFTER_IDLE,
                      read_number(proc, "sys/net/ipv4/tcp_slow_start_after_idle", 0));
    lh_host_facts_set(facts, LH_HOST_SOMAXCONN, read_number(proc, "sys/net/core/somaxconn", 0));
}

void lh_host_facts_read_disk(lh_host_facts *facts, const char *folder) {
    char path[PATH_BYTES];
    struct statvfs disk;
    int length = snprintf(path, sizeof path, "%s", folder);
    bool is_there = length > 0 && length < PATH_BYTES;
    while (is_there && statvfs(path, &disk) != 0) {
        char *slash = strrchr(path, '/');
        is_there = slash && slash != path;
        if (is_there)
            *slash = '\0';
    }
    const int64_t unit = is_there ? (int64_t)disk.f_frsize : 0;
    lh_host_facts_set(facts, LH_HOST_DISK_BYTES, is_there ? (int64_t)disk.f_blocks * unit : -1);
    lh_host_facts_set(facts, LH_HOST_DISK_FREE_BYTES,
                      is_there ? (int64_t)disk.f_bavail * unit : -1);
}

void lh_host_facts_read_clock(lh_host_facts *facts) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) == 0)
        lh_host_facts_set(facts, LH_HOST_CLOCK_MS,
                          (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}
