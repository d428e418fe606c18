/* meminfo, and for each cgroup three files, which versions 1 and 2 call otherwise. */
#include "common/base/memory_gauge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 512
/* All of meminfo and of memory.stat: some 60 lines. */
#define TEXT_BYTES 8192
/* Cgroups within each other: systemd and Kubernetes have six. */
#define GROUPS_MAX 12u

/* A version of cgroups, as far as it bounds memory. */
typedef struct version {
    const char *controller;        /* in /proc/self/cgroup; "": of version 2, which names none */
    const char *folder;            /* below that of all cgroups */
    const char *limit, *taken;     /* files of a cgroup */
    const char *inactive, *active; /* keys in its memory.stat: all of the group, not itself alone */
} version;

static const version versions[] = {
    {"", "", "memory.max", "memory.current", "inactive_file ", "active_file "},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "},
};

typedef struct group {
    const version *version;
    int limit, taken, parts; /* the last is memory.stat; -1: not there */
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

static void add_group(lh_memory_gauge *gauge, const version *v, const char *folder) {
    group *g = &gauge->groups[gauge->count];
    g->version = v;
    g->limit = open_file(folder, v->limit);
    if (g->limit < 0)
        return;
    g->taken = open_file(folder, v->taken);
    g->parts = open_file(folder, "memory.stat");
    gauge->count++;
}

/* Whether "cpu,memory" has this word; "" is the only one of "". */
static bool has_word(const char *list, size_t length, const char *word) {
    size_t word_length = strlen(word);
    for (const char *end = list + length;; list++) {
        size_t here = strcspn(list, ",:");
        if (here == word_length && memcmp(list, word, here) == 0)
            return true;
        list += here;
        if (list >= end)
            return false;
    }
}

/* Finds the line of this version, such as "0::/system.slice/longhaul-worker.service" or
 * "4:cpu,memory:/docker/0123", and returns its path, which the line feed ends. NULL: there is no
 * such line. */
static const char *find_path(const char *text, const version *v) {
    for (const char *line = text; line && line[0]; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (path && path[1] == '/' && has_word(list + 1, (size_t)(path - list - 1), v->controller))
            return path + 1;
    }
    return NULL;
}

/* Adds the program's own cgroup, and all above it up to the root. In a container the path may be
 * one that only the machine outside can see: then those of its parts count that exist. */
static void add_groups(lh_memory_gauge *gauge, const version *v, const char *text,
                       const char *cgroup) {
    char path[PATH_BYTES];
    const char *own = find_path(text, v);
    int root = snprintf(path, sizeof path, "%s%s", cgroup, v->folder);
    int length = own ? snprintf(path, sizeof path, "%s%s%.*s", cgroup, v->folder,
                                (int)strcspn(own, "\n"), own)
                     : root;
    if (root < 0 || length < root || length >= PATH_BYTES)
        return;
    while (gauge->count < GROUPS_MAX) {
        add_group(gauge, v, path);
        char *slash = strrchr(path, '/');
        if (!slash || slash - path < root)
            return;
        *slash = '\0';
    }
}

static void open_groups(lh_memory_gauge *gauge, const char *proc, const char *cgroup) {
    char text[TEXT_BYTES];
    int file = open_file(proc, "self/cgroup");
    read_text(file, text);
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        add_groups(gauge, &versions[i], text, cgroup);
    if (file >= 0)
        close(file);
}

lh_memory_gauge *lh_memory_gauge_open(const char *proc, const char *cgroup) {
    lh_memory_gauge *gauge = calloc(1, sizeof *gauge);
    if (!gauge)
        return NULL;
    gauge->meminfo = open_file(proc, "meminfo");
    open_groups(gauge, proc, cgroup);
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
            inactive = find_number(g->parts, g->version->inactive),
            active = find_number(g->parts, g->version->active);
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
