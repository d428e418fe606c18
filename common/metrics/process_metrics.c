/* getrusage and /proc/self. */
#include "common/metrics/process_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* In /proc/self/stat, behind the name in brackets: starttime is field 22, the state field 3. */
#define FIELDS_TO_START 19

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void render_processor(lh_exposition *e) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    lh_exposition_family(e, "process_cpu_seconds_total", LH_METRIC_COUNTER,
                         "Processor time of this process, user and system.");
    lh_exposition_value(e, NULL, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
}

static void render_memory(lh_exposition *e) {
    unsigned long long virtual_pages, resident_pages;
    FILE *file = fopen("/proc/self/statm", "re");
    bool is_read = file && fscanf(file, "%llu %llu", &virtual_pages, &resident_pages) == 2;
    if (file)
        fclose(file);
    if (!is_read)
        return;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    lh_exposition_family(e, "process_resident_memory_bytes", LH_METRIC_GAUGE,
                         "Memory of this process that is in the machine's.");
    lh_exposition_count(e, NULL, resident_pages * page_bytes);
    lh_exposition_family(e, "process_virtual_memory_bytes", LH_METRIC_GAUGE,
                         "Address space of this process.");
    lh_exposition_count(e, NULL, virtual_pages * page_bytes);
}

static void render_descriptors(lh_exposition *e) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        lh_exposition_family(e, "process_max_fds", LH_METRIC_GAUGE,
                             "File descriptors that this process may have open.");
        lh_exposition_count(e, NULL, limit.rlim_cur);
    }
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return;
    uint64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    lh_exposition_family(e, "process_open_fds", LH_METRIC_GAUGE,
                         "File descriptors that this process has open.");
    lh_exposition_count(e, NULL, count - 1); /* without the folder's own */
}

/* Ticks from the system's start to the process's; 0: not known. */
static unsigned long long start_ticks(void) {
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    const char *field = strrchr(text, ')');
    for (int i = 0; field && i <= FIELDS_TO_START; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

static void render_start(lh_exposition *e) {
    struct timespec now, up;
    unsigned long long ticks = start_ticks();
    if (ticks == 0 || clock_gettime(CLOCK_REALTIME, &now) || clock_gettime(CLOCK_BOOTTIME, &up))
        return;
    double booted_s = (double)(now.tv_sec - up.tv_sec) + (double)(now.tv_nsec - up.tv_nsec) / 1e9;
    lh_exposition_family(e, "process_start_time_seconds", LH_METRIC_GAUGE,
                         "When this process began, as Unix time.");
    lh_exposition_value(e, NULL, booted_s + (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

void lh_process_metrics_render(lh_exposition *exposition) {
    render_processor(exposition);
    render_memory(exposition);
    render_descriptors(exposition);
    render_start(exposition);
}

void lh_build_metrics_render(lh_exposition *exposition, const char *program) {
    lh_exposition_family(exposition, "longhaul_build_info", LH_METRIC_GAUGE,
                         "Always 1: which program this is, and its version.");
    lh_exposition_count(exposition,
                        LH_METRIC_LABELS({"program", program}, {"version", LONGHAUL_VERSION}), 1);
}
