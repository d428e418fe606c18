/* Free memory from folders that stand for /proc and the cgroups. */
#include "common/base/memory_gauge.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], groups[80];

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    char command[256];
    strcpy(folder, "/tmp/longhaul-memory-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(groups, sizeof groups, "%s/cgroup", folder);
    snprintf(command, sizeof command,
             "mkdir -p %s/self %s/cgroup/home.slice/worker %s/cgroup/memory/box", folder, folder,
             folder);
    assert_int_equal(system(command), 0);
    put("meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void assert_memory(const lh_memory_gauge *gauge, int64_t all, int64_t free_bytes) {
    assert_int_equal(lh_memory_gauge_all(gauge), all);
    assert_int_equal(lh_memory_gauge_free(gauge), free_bytes);
}

static void a_machine_without_limits(void **state) {
    (void)state;
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 16384 * 1024, 8192 * 1024);
    put("meminfo", "MemTotal:       16384 kB\nMemAvailable:    512 kB\n");
    assert_memory(gauge, 16384 * 1024, 512 * 1024); /* read anew, of the file that is open */
    put("meminfo", "MemTotal: much\n");
    assert_memory(gauge, -1, -1);
    lh_memory_gauge_close(gauge);
}

static void the_narrowest_group_counts(void **state) {
    (void)state;
    put("self/cgroup", "3:memory:/elsewhere\n0::/home.slice/worker\n");
    put("cgroup/home.slice/memory.max", "4000000\n");
    put("cgroup/home.slice/memory.current", "3500000\n");
    put("cgroup/home.slice/worker/memory.max", "max\n");
    put("cgroup/home.slice/worker/memory.current", "3500000\n");
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 4000000, 500000);
    put("cgroup/home.slice/worker/memory.max", "1000000\n");
    put("cgroup/home.slice/worker/memory.current", "900000\n");
    assert_memory(gauge, 1000000, 100000);
    put("cgroup/home.slice/worker/memory.current", "1000001\n");
    assert_memory(gauge, 1000000, 0);
    lh_memory_gauge_close(gauge);
}

static void files_that_were_read_are_no_loss(void **state) {
    (void)state;
    put("self/cgroup", "0::/\n");
    put("cgroup/memory.max", "1000000\n");
    put("cgroup/memory.current", "900000\n");
    put("cgroup/memory.stat", "anon 1\nfile 9\ninactive_file 300000\nactive_file 200000\n");
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 1000000, 600000);
    lh_memory_gauge_close(gauge);
}

/* As in a container that sees the path of the machine outside. */
static void a_group_that_is_not_there_leaves_those_above(void **state) {
    (void)state;
    put("self/cgroup", "0::/docker/0123\n");
    put("cgroup/memory.max", "1000000\n");
    put("cgroup/memory.current", "0\n");
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 1000000, 1000000);
    lh_memory_gauge_close(gauge);
}

static void groups_of_version_1_count(void **state) {
    (void)state;
    put("self/cgroup", "5:cpu,cpuacct:/other\n4:pids,memory:/box\n3:memory_other:/home.slice\n");
    put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cgroup/memory/memory.usage_in_bytes", "12000000\n");
    put("cgroup/memory/box/memory.limit_in_bytes", "1000000\n");
    put("cgroup/memory/box/memory.usage_in_bytes", "900000\n");
    put("cgroup/memory/box/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 200000\n");
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 1000000, 600000);
    lh_memory_gauge_close(gauge);
}

/* systemd's hybrid: version 2 has the processes, version 1 the memory. */
static void both_versions_count_where_both_are_there(void **state) {
    (void)state;
    put("self/cgroup", "4:memory:/box\n0::/home.slice\n");
    put("cgroup/memory/box/memory.limit_in_bytes", "1000000\n");
    put("cgroup/memory/box/memory.usage_in_bytes", "400000\n");
    put("cgroup/home.slice/memory.max", "2000000\n");
    put("cgroup/home.slice/memory.current", "1900000\n");
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, groups);
    assert_memory(gauge, 1000000, 100000);
    lh_memory_gauge_close(gauge);
}

static void nothing_is_known_of_nothing(void **state) {
    (void)state;
    lh_memory_gauge *gauge = lh_memory_gauge_open("/nowhere", "/nowhere");
    assert_memory(gauge, -1, -1);
    lh_memory_gauge_close(gauge);
    assert_memory(NULL, -1, -1);
    lh_memory_gauge_close(NULL);
    failing_malloc_arm(1);
    assert_null(lh_memory_gauge_open(folder, groups));
    assert_true(failing_malloc_disarm());
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ROW(a_machine_without_limits),         ROW(the_narrowest_group_counts),
        ROW(files_that_were_read_are_no_loss), ROW(a_group_that_is_not_there_leaves_those_above),
        ROW(groups_of_version_1_count),        ROW(both_versions_count_where_both_are_there),
        ROW(nothing_is_known_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
