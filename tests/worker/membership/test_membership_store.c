/* The folder of a member: whoever is killed while he writes finds the old set or the new one. */
#include "worker/membership/membership_store.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], state_folder[80];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/longhaul-member-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(state_folder, sizeof state_folder, "%s/deep/worker", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static lh_membership_store *open_store(void) {
    lh_membership_store *store;
    lh_error error;
    if (lh_membership_store_open(state_folder, &store, &error) != LH_OK)
        fail_msg("%s", error.message);
    return store;
}

/* All fields tell which one it is. */
static const lh_own_membership *make_set(int number) {
    static lh_own_membership set;
    memset(&set, 0, sizeof set);
    snprintf(set.gateway_url, sizeof set.gateway_url, "https://192.0.2.%d:7100", number);
    snprintf(set.name, sizeof set.name, "office-%d", number);
    snprintf(set.site, sizeof set.site, "office%d", number);
    snprintf(set.token, sizeof set.token, "%016d", number);
    snprintf(set.key, sizeof set.key, "-----KEY %d\n", number);
    snprintf(set.certificate, sizeof set.certificate, "-----CERTIFICATE %d\n", number);
    snprintf(set.trust, sizeof set.trust, "-----TRUST %d\n", number);
    snprintf(set.observed, sizeof set.observed, "192.0.2.%d", number);
    return &set;
}

static void save(lh_membership_store *store, int number) {
    lh_error error;
    if (lh_membership_store_save(store, make_set(number), &error) != LH_OK)
        fail_msg("%s", error.message);
}

static int count_sets(void) {
    char command[192];
    snprintf(command, sizeof command, "ls -d %s/set-* 2>/dev/null | wc -l", state_folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static void what_is_saved_is_loaded(void **state) {
    (void)state;
    static lh_own_membership found;
    assert_false(lh_membership_store_is_joined(state_folder));
    lh_membership_store *store = open_store();
    assert_int_equal(lh_membership_store_load(store, &found, NULL), LH_ERR_NOT_FOUND);
    for (int number = 1; number <= 3; number++) {
        save(store, number);
        assert_int_equal(lh_membership_store_load(store, &found, NULL), LH_OK);
        assert_memory_equal(&found, make_set(number), sizeof found);
    }
    assert_int_equal(count_sets(), 1);
    assert_true(lh_membership_store_is_joined(state_folder));
    lh_membership_store_close(store);
}

static void nobody_else_may_read_it(void **state) {
    (void)state;
    lh_membership_store *store = open_store();
    struct stat info;
    save(store, 1);
    assert_int_equal(stat(state_folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(lh_membership_store_key_file(store), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    lh_membership_store_close(store);
}

static void a_folder_is_for_one_worker(void **state) {
    (void)state;
    lh_membership_store *store = open_store(), *second;
    lh_error error;
    assert_int_equal(lh_membership_store_open(state_folder, &second, &error), LH_ERR_BUSY);
    assert_non_null(strstr(error.message, "--state-dir"));
    lh_membership_store_close(store);
    lh_membership_store_close(open_store());
}

static void the_folder_tells_which_machine_uses_it(void **state) {
    (void)state;
    char path[128];
    assert_false(lh_membership_store_was_used_here(state_folder));
    lh_membership_store_close(open_store());
    assert_true(lh_membership_store_was_used_here(state_folder));
    snprintf(path, sizeof path, "%s/in-use", state_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a machine with another, longer name than any that this one would have", file);
    fclose(file);
    assert_false(lh_membership_store_was_used_here(state_folder));
    lh_membership_store_close(open_store());
    assert_true(lh_membership_store_was_used_here(state_folder));
}

static void a_pending_key_stays_until_a_set_is_saved(void **state) {
    (void)state;
    lh_membership_store *store = open_store();
    char first[LH_OWN_KEY_BYTES], again[LH_OWN_KEY_BYTES], next[LH_OWN_KEY_BYTES];
    assert_int_equal(lh_membership_store_pending_key(store, first, NULL), LH_OK);
    lh_membership_store_close(store);
    store = open_store();
    assert_int_equal(lh_membership_store_pending_key(store, again, NULL), LH_OK);
    assert_string_equal(first, again);
    save(store, 1);
    assert_int_equal(lh_membership_store_pending_key(store, next, NULL), LH_OK);
    assert_string_not_equal(first, next);
    lh_membership_store_close(store);
}

static void damage_is_named(void **state) {
    (void)state;
    static lh_own_membership found;
    lh_membership_store *store = open_store();
    lh_error error;
    save(store, 1);
    assert_int_equal(truncate(lh_membership_store_trust_file(store), 0), 0);
    assert_int_equal(lh_membership_store_load(store, &found, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "trust.pem"));
    assert_int_equal(unlink(lh_membership_store_trust_file(store)), 0);
    assert_int_not_equal(lh_membership_store_load(store, &found, &error), LH_OK);
    assert_non_null(strstr(error.message, "trust.pem"));
    lh_membership_store_close(store);
}

/* ---- Killed ---- */

static _Noreturn void save_under_trace(int number) {
    lh_membership_store *store;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (lh_membership_store_open(state_folder, &store, NULL) != LH_OK)
        _exit(1);
    raise(SIGSTOP);
    _exit(lh_membership_store_save(store, make_set(number), NULL) == LH_OK ? 0 : 1);
}

/* Lets a process save a set, and kills it as it enters or leaves a call of the system for the n-th
 * time. False: it was through before. */
static bool is_killed_at(int n, int number) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        save_under_trace(number);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    for (int i = 0; i < n && WIFSTOPPED(status); i++) {
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (!WIFSTOPPED(status)) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return false;
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return true;
}

static void killed_at_any_moment_a_set_is_whole(void **state) {
    (void)state;
    static lh_own_membership found;
    lh_membership_store *store = open_store();
    save(store, 1);
    lh_membership_store_close(store);
    int kills = 0, old = 0;
    for (; is_killed_at(kills + 1, 2); kills++) {
        store = open_store();
        assert_int_equal(lh_membership_store_load(store, &found, NULL), LH_OK);
        bool is_old = strcmp(found.name, "office-1") == 0;
        assert_memory_equal(&found, make_set(is_old ? 1 : 2), sizeof found);
        old += is_old;
        assert_int_equal(count_sets(), 1); /* what it has left is swept away */
        save(store, 1);
        lh_membership_store_close(store);
    }
    print_message("killed at %d places; at %d of them the old set counted\n", kills, old);
    assert_true(old > 20 && kills - old > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_saved_is_loaded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nobody_else_may_read_it, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_is_for_one_worker, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_folder_tells_which_machine_uses_it, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_pending_key_stays_until_a_set_is_saved, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(killed_at_any_moment_a_set_is_whole, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
