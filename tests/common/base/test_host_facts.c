/* Facts from folders that stand for /proc and the cgroup. */
#include "common/base/host_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static void run(const char *format, const char *text) {
    char command[512];
    snprintf(command, sizeof command, format, folder, text);
    assert_int_equal(system(command), 0);
}

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
    strcpy(folder, "/tmp/longhaul-facts-XXXXXX");
    assert_non_null(mkdtemp(folder));
    run("mkdir -p %s/%s", "sys/net/ipv4");
    run("mkdir -p %s/%s", "sys/net/core");
    run("mkdir -p %s/%s", "cgroup");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    run("rm -r %s%s", "");
    return 0;
}

static lh_host_facts read_facts(void) {
    lh_host_facts facts = {0};
    char cgroup[128];
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", folder);
    lh_host_facts_read(&facts, folder, cgroup);
    return facts;
}

static void what_the_kernel_says_is_known(void **state) {
    (void)state;
    put("meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
    put("sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
    put("sys/net/ipv4/tcp_wmem", "4096 16384 4194304\n");
    put("sys/net/ipv4/tcp_slow_start_after_idle", "1\n");
    put("sys/net/core/somaxconn", "4096\n");
    const lh_host_facts facts = read_facts();
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_MEMORY_BYTES), 16384 * 1024);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_MEMORY_FREE_BYTES), 8192 * 1024);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_TCP_RMEM_MAX), 33554432);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_TCP_WMEM_MAX), 4194304);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_SLOW_START_AFTER_IDLE), 1);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_SOMAXCONN), 4096);
    assert_true(lh_host_facts_get(&facts, LH_HOST_OPEN_FILES) > 0);
    assert_true(lh_host_facts_get(&facts, LH_HOST_CLOCK_MS) > 1600000000000);
    assert_false(lh_host_facts_know(&facts, LH_HOST_DISK_BYTES));
}

static void what_is_missing_or_no_number_is_not_known(void **state) {
    (void)state;
    put("meminfo", "MemTotal: much\n");
    put("sys/net/ipv4/tcp_wmem", "4096 16384\n");
    put("sys/net/core/somaxconn", "");
    const lh_host_facts facts = read_facts();
    assert_false(lh_host_facts_know(&facts, LH_HOST_MEMORY_BYTES));
    assert_false(lh_host_facts_know(&facts, LH_HOST_TCP_WMEM_MAX));
    assert_false(lh_host_facts_know(&facts, LH_HOST_TCP_RMEM_MAX));
    assert_false(lh_host_facts_know(&facts, LH_HOST_SOMAXCONN));
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_SOMAXCONN), -1);
}

static void a_containers_limit_counts_where_it_is_less(void **state) {
    (void)state;
    put("meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");
    put("cgroup/memory.max", "max\n");
    lh_host_facts facts = read_facts();
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_MEMORY_BYTES), 16384 * 1024);
    put("cgroup/memory.max", "1048576\n");
    put("cgroup/memory.current", "48576\n");
    facts = read_facts();
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_MEMORY_BYTES), 1048576);
    assert_int_equal(lh_host_facts_get(&facts, LH_HOST_MEMORY_FREE_BYTES), 1000000);
}

static void the_disk_of_a_folder_that_is_yet_to_come_is_that_above_it(void **state) {
    (void)state;
    lh_host_facts here = {0}, below = {0};
    char path[128];
    lh_host_facts_read_disk(&here, folder);
    snprintf(path, sizeof path, "%s/not/there", folder);
    lh_host_facts_read_disk(&below, path);
    assert_true(lh_host_facts_get(&here, LH_HOST_DISK_BYTES) > 0);
    assert_int_equal(lh_host_facts_get(&here, LH_HOST_DISK_BYTES),
                     lh_host_facts_get(&below, LH_HOST_DISK_BYTES));
    lh_host_facts_read_disk(&here, "");
    assert_false(lh_host_facts_know(&here, LH_HOST_DISK_BYTES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_kernel_says_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_missing_or_no_number_is_not_known, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_containers_limit_counts_where_it_is_less, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_disk_of_a_folder_that_is_yet_to_come_is_that_above_it,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
