/* The parts together, and what the log says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/sandbox/landlock.h"
#include "common/sandbox/sandbox.h"
#include "tests/common/support/child.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netdb.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the user's rights are those of any other, but for opening files and ports. */
static bool has_no_rights_but(unsigned long long kept) {
    char line[256];
    unsigned long long found = ~0ULL;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "CapPrm: %llx", &found);
    if (file)
        fclose(file);
    return (found & ~kept) == 0;
}

/* A field of /proc/self/status; -1: it is not there. */
static int status_of(const char *field) {
    char line[256];
    int value = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            value = atoi(line + strlen(field));
    if (file)
        fclose(file);
    return value;
}

static bool logs(lh_sandbox_rules *rules, lh_status wanted, const char *words) {
    log_capture_begin();
    lh_status status = lh_sandbox_enter(rules, "test", NULL);
    char *text = log_capture_end();
    bool found = strstr(text, words);
    if (!found || status != wanted)
        print_message("%d: %s", (int)status, text);
    free(text);
    return found && status == wanted;
}

#define BIT(capability) (1ULL << (capability))
#define KEPT                                                                                       \
    (BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_NET_BIND_SERVICE) |                \
     BIT(CAP_SYS_RESOURCE))

static int give_up(void *context) {
    lh_sandbox_rules rules = {0};
    (void)context;
    if (!logs(&rules, LH_OK, "seccomp=on") || status_of("NoNewPrivs:") != 1 ||
        status_of("Seccomp:") != 2)
        return 1;
    return has_no_rights_but(KEPT) ? 0 : 2;
}

static void all_parts_are_in_force(void **state) {
    (void)state;
    assert_int_equal(child_outcome(give_up, NULL), 0);
}

static void *see_status(void *context) {
    *(int *)context = status_of("Seccomp:") == 2 && open("/usr/bin/env", O_RDONLY) < 0 ? 0 : 1;
    return NULL;
}

/* What is not dumpable belongs to root in /proc. */
static bool is_closed_to_its_user(void) {
    struct stat info;
    return stat("/proc/self/status", &info) == 0 && info.st_uid != geteuid();
}

/* A user without rights: who is root keeps some that others have not. */
static int serve_as_nobody(void *context) {
    lh_sandbox_rules rules = {0};
    struct addrinfo *list;
    pthread_t thread;
    int result = 1;
    (void)context;
    if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
        return 2;
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) || is_closed_to_its_user())
        return 6;
    if (lh_sandbox_enter(&rules, "test", NULL) != LH_OK)
        return 3;
    if (getaddrinfo("localhost", "1", NULL, &list) != 0)
        return 4;
    if (pthread_create(&thread, NULL, see_status, &result) || pthread_join(thread, NULL))
        return 5;
    return is_closed_to_its_user() && has_no_rights_but(0) ? result : 7;
}

static void a_user_without_rights_can_give_up_some(void **state) {
    (void)state;
    assert_int_equal(child_outcome(serve_as_nobody, NULL), 0);
}

static int stay_out(void *context) {
    lh_sandbox_rules rules = {.is_off = true};
    (void)context;
    return logs(&rules, LH_OK, "sandbox off") && status_of("NoNewPrivs:") == 0 ? 0 : 1;
}

static void it_can_be_left_off(void **state) {
    (void)state;
    assert_int_equal(child_outcome(stay_out, NULL), 0);
}

/* As a container's own filter may do it, or an older kernel. */
static bool forbid(const char *const *names, size_t count) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    bool is_forbidden = filter;
    for (size_t i = 0; i < count && is_forbidden; i++)
        is_forbidden = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
                                        seccomp_syscall_resolve_name(names[i]), 0) == 0;
    is_forbidden = is_forbidden && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return is_forbidden;
}

static int lack_landlock(void *context) {
    static const char *const names[] = {"landlock_create_ruleset", "landlock_restrict_self"};
    lh_sandbox_rules rules = {0};
    (void)context;
    if (!forbid(names, 2))
        return 2;
    return logs(&rules, LH_OK, "seccomp=on landlock=\"off (Operation not permitted)\"") &&
                   status_of("Seccomp_filters:") == 2
               ? 0
               : 1;
}

static int lack_seccomp(void *context) {
    static const char *const names[] = {"seccomp"};
    lh_sandbox_rules rules = {0};
    (void)context;
    if (!forbid(names, 1))
        return 2;
    return logs(&rules, LH_OK, "seccomp=\"off (") && status_of("NoNewPrivs:") == 1 ? 0 : 1;
}

static void what_is_missing_is_said_and_the_rest_holds(void **state) {
    (void)state;
    assert_int_equal(child_outcome(lack_landlock, NULL), 0);
    assert_int_equal(child_outcome(lack_seccomp, NULL), 0);
}

static int lack_folder(void *context) {
    lh_sandbox_rules rules = {0};
    (void)context;
    lh_sandbox_rules_allow_write(&rules, "/nowhere/at/all");
    return lh_sandbox_enter(&rules, "test", NULL) == LH_ERR_NOT_FOUND ? 0 : 1;
}

static void a_folder_that_is_not_there_is_an_error(void **state) {
    (void)state;
    if (!lh_landlock_abi())
        skip();
    assert_int_equal(child_outcome(lack_folder, NULL), 0);
}

static int enter_with_failing(void *context) {
    lh_sandbox_rules rules = {0};
    failing_malloc_arm(*(const size_t *)context);
    lh_sandbox_rules_allow_read_replaced(&rules, "/tmp/x");
    lh_status status = lh_sandbox_enter(&rules, "test", NULL);
    bool has_failed = failing_malloc_disarm();
    lh_sandbox_rules_reset(&rules);
    return !has_failed && status == LH_OK ? 0 : has_failed && status == LH_ERR_NO_MEMORY ? 1 : 2;
}

static void an_allocation_that_fails_is_an_error(void **state) {
    (void)state;
    int outcome = 1;
    for (size_t n = 1; outcome; n++) {
        outcome = child_outcome(enter_with_failing, &n);
        assert_in_range(outcome, 0, 1);
    }
}

int main(void) {
    if (!lh_sandbox_is_built_in()) {
        puts("skipped: there is none under sanitizers");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_in_force),
        cmocka_unit_test(a_user_without_rights_can_give_up_some),
        cmocka_unit_test(it_can_be_left_off),
        cmocka_unit_test(what_is_missing_is_said_and_the_rest_holds),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(an_allocation_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
