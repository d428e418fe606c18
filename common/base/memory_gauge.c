/* meminfo, and for each cgroup memory.max, memory.current and memory.stat. */
#include "common/base/memory_gauge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 512
/* All of meminfo and of memory.stat: some 60 lines. */
#define TEXT_BYTES 8192
/* Cgroups within each other: systemd and Kubernetes have six. */
#define GROUPS_MAX 12u

typedef struct group {
    int limit, taken, parts; /* memory.max, memory.current, memory.stat; -1: not there */
} group;

struct lh_memory_gauge {
    int meminfo;
    group groups[GROUPS_MAX];
    uint32_t count;
};

/* -1: there is none. */
static int open_file(const char *folder, const char *name) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* "": nothing could be read. */
static const char *read_text(int file, char text[TEXT_BYTES]) {
    ssize_t length = file < 0 ? -1 : pread(file, text, TEXT_BYTES - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

/* The number behind `key` at the begin of a line, or the first of all with ""; -1: none. */
static int64_t find_number(int file, const char *key) {
    char text[TEXT_BYTES];
    size_t key_bytes = strlen(key);
    for (const char *line = read_text(file, text); line; line = strchr(line, '\n')) {
        int64_t value;
        line += line[0] == '\n';
        if (strncmp(line, key, key_bytes) == 0 &&
            sscanf(line + key_bytes, "%" SCNd64, &value) == 1 && value >= 0)
            return value;
    }
    return -1;
}

static void add_group(lh_memory_gauge *gauge, const char *folder) {
    group *g = &gauge->groups[gauge->count];
    g->limit = open_file(folder, "memory.max");
    if (g->limit < 0)
        return;
    g->taken = open_file(folder, "memory.current");
    g->parts = open_file(folder, "memory.stat");
    gauge->count++;
}

/* "0::/system.slice/longhaul-worker.service", and all above it up to the root. In a container the
 * path may be one that only the machine outside can see: then what is there of it counts. */
static void add_groups(lh_memory_gauge *gauge, const char *proc, const char *cgroup) {
    char text[TEXT_BYTES], path[PATH_BYTES];
    int file = open_file(proc, "self/cgroup");
    const char *line = strstr(read_text(file, text), "0::/");
    int root = snprintf(path, sizeof path, "%s", cgroup);
    int length = line ? snprintf(path, sizeof path, "%s%.*s", cgroup,
                                 (int)strcspn(line + strlen("0::"), "\n"), line + strlen("0::"))
                      : root;
    if (file >= 0)
        close(file);
    if (root < 0 || length < root || length >= PATH_BYTES)
        return;
    while (gauge->count < GROUPS_MAX) {
        add_group(gauge, path);
        char *slash = strrchr(path, '/');
        if (!slash || slash - path < root)
            return;
        *slash = '\0';
    }
}

lh_memory_gauge *lh_memory_gauge_open(const char *proc, const char *cgroup) {
    lh_memory_gauge *gauge = calloc(1, sizeof *gauge);
    if (!gauge)
        return NULL;
    gauge->meminfo = open_file(proc, "meminfo");
    add_groups(gauge, proc, cgroup);
    return gauge;
}

static void close_file(int file) {
    if (file >= 0)
        close(file);
}

void lh_memory_gauge_close(lh_memory_gauge *gauge) {
    if (!gauge)
        return;
    close_file(gauge->meminfo);
    for (uint32_t i = 0; i < gauge->count; i++) {
        close_file(gauge->groups[i].limit);
        close_file(gauge->groups[i].taken);
        close_file(gauge->groups[i].parts);
    }
    free(gauge);
}

static int64_t meminfo_bytes(const lh_memory_gauge *gauge, const char *key) {
    int64_t kib = gauge ? find_number(gauge->meminfo, key) : -1;
    return kib >= 0 && kib < INT64_MAX / 1024 ? kib * 1024 : -1;
}

int64_t lh_memory_gauge_all(const lh_memory_gauge *gauge) {
    int64_t all = meminfo_bytes(gauge, "MemTotal:");
    for (uint32_t i = 0; all >= 0 && i < gauge->count; i++) {
        int64_t limit = find_number(gauge->groups[i].limit, "");
        all = limit >= 0 && limit < all ? limit : all;
    }
    return all;
}

/* Files that were read are kept while there is room, and given back when there is none. */
static int64_t left_of(const group *g) {
    int64_t limit = find_number(g->limit, ""), taken = find_number(g->taken, ""),
            inactive = find_number(g->parts, "inactive_file "),
            active = find_number(g->parts, "active_file ");
    if (limit < 0)
        return INT64_MAX;
    taken -= (inactive > 0 ? inactive : 0) + (active > 0 ? active : 0);
    return taken <= 0 ? limit : taken < limit ? limit - taken : 0;
}

int64_t lh_memory_gauge_free(const lh_memory_gauge *gauge) {
    int64_t available = meminfo_bytes(gauge, "MemAvailable:");
    for (uint32_t i = 0; available >= 0 && i < gauge->count; i++) {
        int64_t left = left_of(&gauge->groups[i]);
        available = left < available ? left : available;
    }
    return available;
}
