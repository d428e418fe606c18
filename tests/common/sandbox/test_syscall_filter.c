/* System calls, each tried from within: children, since nothing is given back. What is tried is
 * told as an errno, 0 where it works; a child that is killed as minus the signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/sandbox/sandbox.h"
#include "common/sandbox/syscall_filter.h"
#include "tests/common/support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct attempt {
    lh_sandbox_rules rules;
    int (*act)(void);
} attempt;

static int filtered(void *context) {
    const attempt *a = context;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        lh_syscall_filter_load(&a->rules, NULL) != LH_OK)
        return 255;
    return a->act();
}

static int outcome(int (*act)(void)) {
    attempt a = {.act = act};
    return child_outcome(filtered, &a);
}

static int error_of(long result) {
    return result >= 0 ? 0 : errno;
}

/* ---- What an intruder would do ---- */

static int start_program(void) {
    return error_of(execl("/bin/true", "true", (char *)NULL));
}

static int start_program_by_descriptor(void) {
    return error_of(syscall(SYS_execveat, -1, "/bin/true", NULL, NULL, 0));
}

static int trace_parent(void) {
    return error_of(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int read_parent(void) {
    return error_of(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}

static int mount_something(void) {
    return error_of(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int leave_namespace(void) {
    return error_of(syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */));
}

static int become_root(void) {
    return error_of(syscall(SYS_setuid, 0));
}

static void what_only_an_intruder_does_ends_the_process(void **state) {
    (void)state;
    int (*const acts[])(void) = {start_program,   start_program_by_descriptor,
                                 trace_parent,    read_parent,
                                 mount_something, leave_namespace,
                                 become_root};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        assert_int_equal(outcome(acts[i]), -SIGSYS);
}

static void *start_in_thread(void *context) {
    return start_program() == 0 ? context : NULL;
}

static int start_from_thread(void) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, start_in_thread, NULL);
    pthread_join(thread, NULL);
    return error;
}

static void the_whole_process_ends_whichever_thread_did_it(void **state) {
    (void)state;
    assert_int_equal(outcome(start_from_thread), -SIGSYS);
}

/* ---- What the programs do not do ---- */

static int open_socket(int domain, int type, int protocol) {
    int descriptor = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    int error = error_of(descriptor);
    close(descriptor);
    return error;
}

static int packet_socket(void) {
    return open_socket(AF_PACKET, SOCK_RAW, 0);
}

static int raw_socket(void) {
    return open_socket(AF_INET, SOCK_RAW, 1);
}

static int unix_socket(void) {
    return open_socket(AF_UNIX, SOCK_STREAM, 0);
}

static int multipath_socket(void) {
    return open_socket(AF_INET, SOCK_STREAM, 262); /* MPTCP, which Landlock's ports do not bound */
}

static int crypto_socket(void) {
    return open_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static int audit_socket(void) {
    return open_socket(AF_NETLINK, SOCK_RAW, 9);
}

static int fork_child(void) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    return error_of(child);
}

static int change_mode(void) {
    return error_of(chmod("/tmp/nothing", 0777));
}

static int change_owner(void) {
    return error_of(chown("/tmp/nothing", 0, 0));
}

static int signal_parent(void) {
    return error_of(kill(getppid(), 0));
}

static int push_terminal_input(void) {
    return error_of(ioctl(0, TIOCSTI, "x"));
}

static int be_dumped(void) {
    return error_of(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

static int limit_parent(void) {
    struct rlimit limit;
    return error_of(prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
}

static int use_ring(void) {
    return error_of(syscall(SYS_io_uring_setup, 1, NULL));
}

static void what_the_programs_do_not_do_is_not_there(void **state) {
    (void)state;
    int (*const acts[])(void) = {
        packet_socket, raw_socket,   unix_socket, multipath_socket,    crypto_socket,
        audit_socket,  fork_child,   change_mode, change_owner,        signal_parent,
        be_dumped,     limit_parent, use_ring,    push_terminal_input,
    };
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        assert_int_equal(outcome(acts[i]), ENOSYS);
}

/* ---- Code ---- */

static int make_code(void) {
    void *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? errno : 0;
}

static int turn_data_into_code(void) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? 1 : error_of(mprotect(memory, 4096, PROT_READ | PROT_EXEC));
}

static int use_data(void) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? 1 : error_of(mprotect(memory, 4096, PROT_READ));
}

static void memory_is_data_or_code(void **state) {
    (void)state;
    assert_int_equal(outcome(use_data), 0);
    assert_int_equal(outcome(make_code), ENOSYS);
    assert_int_equal(outcome(turn_data_into_code), ENOSYS);
    attempt compiler = {.rules = {.makes_code = true}, .act = make_code};
    assert_int_equal(child_outcome(filtered, &compiler), 0);
}

/* As a library is loaded, or a file that was written before. */
static int map_file_as_code(void) {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    return memory == MAP_FAILED ? errno : 0;
}

static int map_file_as_data(void) {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    return memory == MAP_FAILED ? errno : error_of(mprotect(memory, 4096, PROT_READ | PROT_EXEC));
}

static void no_file_becomes_code(void **state) {
    (void)state;
    const bool makes_code[] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        attempt as_code = {.rules = {.makes_code = makes_code[i]}, .act = map_file_as_code};
        attempt as_data = {.rules = {.makes_code = makes_code[i]}, .act = map_file_as_data};
        assert_int_equal(child_outcome(filtered, &as_code), ENOSYS);
        assert_int_equal(child_outcome(filtered, &as_data), ENOSYS);
    }
}

/* ---- Files that give others their owner's rights ---- */

static int new_file(void) {
    char path[] = "/tmp/longhaul-filter-XXXXXX";
    int file = mkstemp(path);
    unlink(path);
    return file;
}

static int become_program_of_its_owner(void) {
    return error_of(fchmod(new_file(), 04755));
}

static int become_program_of_its_group(void) {
    return error_of(fchmod(new_file(), 02755));
}

static int become_readable(void) {
    return error_of(fchmod(new_file(), 0644));
}

static int create_error(int flags, mode_t mode) {
    const char path[] = "/tmp/longhaul-filter-created";
    int error = error_of(open(path, flags | O_CLOEXEC, mode));
    unlink(path);
    return error;
}

static int create_program_of_its_owner(void) {
    return create_error(O_WRONLY | O_CREAT | O_EXCL, 04755);
}

static int create_unnamed_program_of_its_owner(void) {
    return error_of(open("/tmp", O_WRONLY | O_TMPFILE | O_CLOEXEC, 04755));
}

static int create_file(void) {
    return create_error(O_WRONLY | O_CREAT | O_EXCL, 0600);
}

/* What lies behind the flags is no mode where nothing is created. */
static int open_with_any_mode(void) {
    return error_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 07777));
}

static void no_file_gives_its_owners_rights_to_others(void **state) {
    (void)state;
    int (*const refused[])(void) = {become_program_of_its_owner, become_program_of_its_group,
                                    create_program_of_its_owner,
                                    create_unnamed_program_of_its_owner};
    int (*const allowed[])(void) = {become_readable, create_file, open_with_any_mode};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(outcome(refused[i]), ENOSYS);
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        assert_int_equal(outcome(allowed[i]), 0);
}

/* ---- What they do ---- */

static void *answer(void *context) {
    return context;
}

static int start_thread(void) {
    pthread_t thread;
    int value, error = pthread_create(&thread, NULL, answer, &value);
    void *result = NULL;
    if (!error)
        error = pthread_join(thread, &result);
    return error ? error : result == &value ? 0 : 1;
}

static int look_up_name(void) {
    struct addrinfo *list = NULL;
    int failed = getaddrinfo("localhost", "80", NULL, &list);
    if (!failed)
        freeaddrinfo(list);
    return failed ? 1 : 0;
}

static int open_streams(void) {
    return open_socket(AF_INET, SOCK_STREAM, 6) || open_socket(AF_INET6, SOCK_STREAM, 0) ||
           open_socket(AF_INET, SOCK_DGRAM, 0);
}

static int raise_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) || setrlimit(RLIMIT_NOFILE, &limit);
}

static void what_they_do_works(void **state) {
    (void)state;
    assert_int_equal(outcome(start_thread), 0);
    assert_int_equal(outcome(look_up_name), 0);
    assert_int_equal(outcome(open_streams), 0);
    assert_int_equal(outcome(raise_limit), 0);
}

static int fail_assertion(void) {
    close(STDERR_FILENO);
    abort();
}

static void who_fails_an_assertion_ends_by_it(void **state) {
    (void)state;
    assert_int_equal(outcome(fail_assertion), -SIGABRT);
}

static int nothing(void) {
    return 0;
}

int main(void) {
    if (!lh_sandbox_is_built_in() || outcome(nothing) != 0) {
        puts("skipped: no filter can be loaded here");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_an_intruder_does_ends_the_process),
        cmocka_unit_test(the_whole_process_ends_whichever_thread_did_it),
        cmocka_unit_test(what_the_programs_do_not_do_is_not_there),
        cmocka_unit_test(memory_is_data_or_code),
        cmocka_unit_test(no_file_becomes_code),
        cmocka_unit_test(no_file_gives_its_owners_rights_to_others),
        cmocka_unit_test(what_they_do_works),
        cmocka_unit_test(who_fails_an_assertion_ends_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
