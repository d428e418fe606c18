/* Paths, ports and other processes, each tried from within: children, since nothing is given back.
 * What is tried is told as an errno, 0 where it works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/sandbox/landlock.h"
#include "tests/common/support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/longhaul-landlock-XXXXXX";

/* "folder/name"; at most two at a time. */
static const char *in_folder(const char *name) {
    static char paths[2][128];
    static unsigned turn;
    char *path = paths[turn++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void make_file(const char *name) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs("x", file);
    fclose(file);
}

static int open_error(const char *path, int flags) {
    int descriptor = open(path, flags | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return errno;
    close(descriptor);
    return 0;
}

typedef struct attempt {
    lh_sandbox_rules rules;
    int (*act)(void); /* an errno */
    int min_abi;
} attempt;

static int restricted(void *context) {
    attempt *a = context;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || a->rules.is_short ||
        lh_landlock_restrict(&a->rules, NULL) != LH_OK)
        return 255;
    return a->act();
}

/* What `act` comes to under these rules, which are used up. */
static int error_under(lh_sandbox_rules *rules, int (*act)(void)) {
    attempt a = {.rules = *rules, .act = act};
    int error = child_outcome(restricted, &a);
    lh_sandbox_rules_reset(rules);
    return error;
}

/* ---- Paths ---- */

static int read_named(void) {
    return open_error(in_folder("named"), O_RDONLY);
}

static int read_other(void) {
    return open_error(in_folder("other"), O_RDONLY);
}

static int write_named(void) {
    return open_error(in_folder("named"), O_WRONLY);
}

static int create_file(void) {
    return open_error(in_folder("new"), O_WRONLY | O_CREAT | O_EXCL);
}

static void a_file_is_readable_and_nothing_beside_it(void **state) {
    (void)state;
    int (*const acts[])(void) = {read_named, read_other, write_named, create_file};
    const int errors[] = {0, EACCES, EACCES, EACCES};
    for (size_t i = 0; i < 4; i++) {
        lh_sandbox_rules rules = {0};
        lh_sandbox_rules_allow_read(&rules, in_folder("named"));
        lh_sandbox_rules_allow_read(&rules, in_folder("missing"));
        lh_sandbox_rules_allow_read(&rules, "");
        assert_int_equal(error_under(&rules, acts[i]), errors[i]);
    }
}

static int replace_and_read(void) {
    int error = rename(in_folder("aside"), in_folder("named")) == 0 ? 0 : errno;
    return error ? error : read_named();
}

/* The file is replaced by somebody else, here before anything is given up but after the rules were
 * made: the folder counts, not the file that was in it. */
static int read_replaced(void) {
    return open_error(in_folder("linked/leaf"), O_RDONLY);
}

static void what_is_replaced_by_rename_can_be_read_again(void **state) {
    (void)state;
    lh_sandbox_rules rules = {0};
    assert_int_equal(mkdir(in_folder("first"), 0700), 0);
    make_file("first/leaf");
    assert_int_equal(symlink("first", in_folder("linked")), 0);
    lh_sandbox_rules_allow_read_replaced(&rules, in_folder("linked/leaf"));
    make_file("first/next");
    assert_int_equal(rename(in_folder("first/next"), in_folder("first/leaf")), 0);
    assert_int_equal(error_under(&rules, read_replaced), 0);
    /* a link to a file elsewhere, as certbot makes them */
    assert_int_equal(mkdir(in_folder("live"), 0700), 0);
    assert_int_equal(symlink("../first/leaf", in_folder("live/leaf")), 0);
    lh_sandbox_rules_allow_read_replaced(&rules, in_folder("live/leaf"));
    assert_int_equal(error_under(&rules, read_replaced), 0);
    lh_sandbox_rules_allow_read_replaced(&rules, in_folder("live/leaf"));
    assert_int_equal(error_under(&rules, read_other), EACCES);
}

static int use_folder(void) {
    int error = create_file();
    if (!error && rename(in_folder("new"), in_folder("kept")) != 0)
        error = errno;
    if (!error && mkdir(in_folder("deeper"), 0700) != 0)
        error = errno;
    if (!error && rename(in_folder("kept"), in_folder("deeper/kept")) != 0)
        error = lh_landlock_abi() > 1 ? errno : 0;
    if (!error && symlink("deeper", in_folder("link")) != 0)
        error = errno;
    if (!error)
        error = open_error(in_folder("deeper/kept"), O_WRONLY | O_TRUNC);
    if (!error && (unlink(in_folder("link")) || unlink(in_folder("deeper/kept")) ||
                   rmdir(in_folder("deeper"))))
        error = errno;
    return error;
}

static int run_from_folder(void) {
    execl(in_folder("program"), "program", (char *)NULL);
    return errno;
}

static int write_elsewhere(void) {
    return open_error("/tmp/longhaul-landlock-elsewhere", O_WRONLY | O_CREAT);
}

static void a_folder_to_write_to_has_all_but_programs(void **state) {
    (void)state;
    lh_sandbox_rules rules = {0};
    lh_sandbox_rules_allow_write(&rules, folder);
    assert_int_equal(error_under(&rules, use_folder), 0);
    lh_sandbox_rules_allow_write(&rules, folder);
    assert_int_equal(error_under(&rules, replace_and_read), 0);
    lh_sandbox_rules_allow_write(&rules, folder);
    assert_int_equal(error_under(&rules, write_elsewhere), EACCES);
    FILE *program = fopen(in_folder("program"), "w");
    fputs("#!/bin/sh\n", program);
    fclose(program);
    assert_int_equal(chmod(in_folder("program"), 0700), 0);
    lh_sandbox_rules_allow_write(&rules, folder);
    assert_int_equal(error_under(&rules, run_from_folder), EACCES);
}

static void a_folder_that_is_not_there_is_told(void **state) {
    (void)state;
    lh_sandbox_rules rules = {0};
    lh_error error;
    lh_sandbox_rules_allow_write(&rules, in_folder("missing"));
    assert_int_equal(lh_landlock_restrict(&rules, &error), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "missing"));
    lh_sandbox_rules_reset(&rules);
}

/* ---- Ports ---- */

static int bind_error(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0), error = 0;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0)
        error = errno;
    close(descriptor);
    return error;
}

static int bind_any(void) {
    return bind_error(0);
}

static int bind_given(void) {
    int error = bind_error(19);
    return error == EADDRINUSE || error == EPERM ? 0 : error;
}

static int bind_other(void) {
    return bind_error(20);
}

static int connect_anywhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(20)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    int result = connect(descriptor, (struct sockaddr *)&address, sizeof address);
    return result == 0 || errno == ECONNREFUSED ? 0 : errno;
}

static void it_listens_on_its_own_ports_alone(void **state) {
    (void)state;
    if (lh_landlock_abi() < 4)
        skip();
    lh_sandbox_rules rules = {0};
    assert_int_equal(error_under(&rules, bind_any), EACCES);
    lh_sandbox_rules_allow_listen(&rules, 0);
    assert_int_equal(error_under(&rules, bind_any), 0);
    lh_sandbox_rules_allow_listen(&rules, 0);
    assert_int_equal(error_under(&rules, bind_other), EACCES);
    lh_sandbox_rules_allow_listen(&rules, 0);
    lh_sandbox_rules_allow_listen(&rules, 19);
    assert_int_equal(error_under(&rules, bind_given), 0);
    assert_int_equal(error_under(&rules, connect_anywhere), 0);
}

/* ---- Others ---- */

static int signal_parent(void) {
    return kill(getppid(), 0) == 0 ? 0 : errno;
}

static void nobody_outside_gets_a_signal(void **state) {
    (void)state;
    if (lh_landlock_abi() < 6)
        skip();
    lh_sandbox_rules rules = {0};
    assert_int_equal(error_under(&rules, signal_parent), EPERM);
}

static int setup(void **state) {
    (void)state;
    if (!lh_landlock_abi() || !mkdtemp(folder))
        return -1;
    make_file("named");
    make_file("other");
    make_file("aside");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) {
    if (!lh_landlock_abi()) {
        puts("skipped: this kernel has no Landlock");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_readable_and_nothing_beside_it),
        cmocka_unit_test(what_is_replaced_by_rename_can_be_read_again),
        cmocka_unit_test(a_folder_to_write_to_has_all_but_programs),
        cmocka_unit_test(a_folder_that_is_not_there_is_told),
        cmocka_unit_test(it_listens_on_its_own_ports_alone),
        cmocka_unit_test(nobody_outside_gets_a_signal),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
