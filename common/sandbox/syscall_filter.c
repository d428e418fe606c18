/* Three kinds of system calls:
 *
 * - **What the programs and their libraries do** is allowed, some of it by its arguments alone.
 * - **What only an intruder would do**, such as starting another program, ends the process at once
 *   (SIGSYS), and the kernel logs it (audit type 1326).
 * - **All else** fails with ENOSYS, as on a kernel that does not have it: then a library that is
 *   newer than this list takes its older way. EPERM would have it give up: glibc falls back from
 *   clone3, which cannot be judged since its arguments are in memory, to clone on ENOSYS alone.
 *
 * Names are resolved by libseccomp for the machine that it runs on; one that this machine or this
 * version of the library does not have is left out. Landlock says which paths may be opened; but
 * owners, modes, times and attributes are none of its business, so that of those calls only fchmod
 * is here, which needs an open file, and no file gets or is created with a bit of S_ISUID, S_ISGID
 * or S_ISVTX. Nor is it Landlock's business what is mapped: no file becomes code any more, so that
 * what somebody made the program write into its cache stays data (late_libraries.h). */
#include "common/sandbox/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const allowed[] = {
    /* files */
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "lseek",
    "close", "close_range", "stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs",
    "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getcwd", "getdents64", "fcntl",
    "dup", "dup2", "dup3", "flock", "fsync", "fdatasync", "fallocate", "fadvise64", "ftruncate",
    "umask", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2",
    "symlink", "symlinkat",
    /* sockets and waiting */
    "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "sendto",
    "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown", "setsockopt",
    "getsockopt", "sendfile", "poll", "ppoll", "select", "pselect6", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "pipe",
    "pipe2",
    /* memory */
    "brk", "munmap", "mremap", "madvise",
    /* threads, signals, time */
    "futex", "futex_waitv", "set_robust_list", "get_robust_list", "set_tid_address", "rseq",
    "membarrier", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
    "getcpu", "exit", "exit_group", "restart_syscall", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "nanosleep",
    "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time",
    /* who and where */
    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo",
    "getrusage", "getrlimit", "setrlimit", "getrandom"};

static const char *const deadly[] = {"execve",
                                     "execveat",
                                     "fork",
                                     "vfork",
                                     "ptrace",
                                     "process_vm_readv",
                                     "process_vm_writev",
                                     "pidfd_getfd",
                                     "mount",
                                     "umount2",
                                     "move_mount",
                                     "open_tree",
                                     "fsopen",
                                     "fsmount",
                                     "pivot_root",
                                     "chroot",
                                     "setns",
                                     "unshare",
                                     "open_by_handle_at",
                                     "bpf",
                                     "perf_event_open",
                                     "userfaultfd",
                                     "init_module",
                                     "finit_module",
                                     "delete_module",
                                     "kexec_load",
                                     "kexec_file_load",
                                     "reboot",
                                     "iopl",
                                     "ioperm",
                                     "setuid",
                                     "setgid",
                                     "setreuid",
                                     "setregid",
                                     "setresuid",
                                     "setresgid"};

enum {
    BEYOND_ACCESS = S_ISUID | S_ISGID | S_ISVTX,
    CREATES = O_CREAT | (O_TMPFILE & ~O_DIRECTORY)
};

enum { TYPE_MASK = 0xf }; /* of a socket's type: the rest is SOCK_CLOEXEC and SOCK_NONBLOCK */

/* Numbers of <sys/socket.h> and <netinet/in.h>, which are for rooms that use sockets. */
enum { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16, STREAM = 1, DATAGRAM = 2, RAW = 3 };
enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };

typedef struct call_rule {
    const char *name;
    uint32_t count;
    struct scmp_arg_cmp arguments[3];
} call_rule;

#define IS(index, value) {index, SCMP_CMP_EQ, (scmp_datum_t)(value), 0}
#define HAS(index, mask, value)                                                                    \
    {index, SCMP_CMP_MASKED_EQ, (scmp_datum_t)(mask), (scmp_datum_t)(value)}
#define SOCKET(domain, type, protocol)                                                             \
    {                                                                                              \
        "socket", 3, {                                                                             \
            IS(0, domain), HAS(1, TYPE_MASK, type), IS(2, protocol)                                \
        }                                                                                          \
    }

/* Allowed with these arguments. */
static const call_rule rules_by_argument[] = {
    /* TCP; UDP to ask for names; the name service asks the kernel which addresses there are. No
     * Unix sockets: behind them are the system's own services. That of the service manager is open
     * by now (common/net/service_manager.h). */
    SOCKET(INET, STREAM, 0),
    SOCKET(INET, STREAM, PROTOCOL_TCP),
    SOCKET(INET6, STREAM, 0),
    SOCKET(INET6, STREAM, PROTOCOL_TCP),
    SOCKET(INET, DATAGRAM, 0),
    SOCKET(INET, DATAGRAM, PROTOCOL_UDP),
    SOCKET(INET6, DATAGRAM, 0),
    SOCKET(INET6, DATAGRAM, PROTOCOL_UDP),
    SOCKET(NETLINK, RAW, NETLINK_ROUTE),
    SOCKET(NETLINK, DATAGRAM, NETLINK_ROUTE),
    /* libcurl wakes its threads by a pair, which cannot be connected to anything else */
    {"socketpair", 2, {IS(0, UNIX), HAS(1, TYPE_MASK, STREAM)}},
    {"ioctl", 1, {IS(1, FIONBIO)}},
    {"ioctl", 1, {IS(1, FIONREAD)}},
    {"ioctl", 1, {IS(1, FIOCLEX)}},
    {"ioctl", 1, {IS(1, TCGETS)}},
    {"ioctl", 1, {IS(1, SIOCOUTQ)}},
    {"ioctl", 1, {IS(1, SIOCOUTQNSD)}},
    /* threads, no processes */
    {"clone", 1, {HAS(0, CLONE_THREAD, CLONE_THREAD)}},
    /* of the calling thread */
    {"getpriority", 2, {IS(0, PRIO_PROCESS), IS(1, 0)}},
    {"setpriority", 2, {IS(0, PRIO_PROCESS), IS(1, 0)}},
    {"prctl", 1, {IS(0, PR_SET_NAME)}},
    {"prctl", 1, {IS(0, PR_GET_NAME)}},
    {"prctl", 1, {IS(0, PR_SET_TIMERSLACK)}},
    {"prlimit64", 1, {IS(0, 0)}},
    /* no code but what is there */
    {"mprotect", 1, {HAS(2, PROT_EXEC, 0)}},
    {"mmap", 1, {HAS(2, PROT_EXEC, 0)}},
    /* no other user gets the rights of a file's owner; without CREATES the mode is not looked at */
    {"fchmod", 1, {HAS(1, BEYOND_ACCESS, 0)}},
    {"open", 1, {HAS(1, CREATES, 0)}},
    {"open", 1, {HAS(2, BEYOND_ACCESS, 0)}},
    {"openat", 1, {HAS(2, CREATES, 0)}},
    {"openat", 1, {HAS(3, BEYOND_ACCESS, 0)}},
};

/* Allowed to who makes code: memory of its own that it writes and executes. */
static const struct scmp_arg_cmp new_memory = HAS(3, MAP_ANONYMOUS, MAP_ANONYMOUS);

/* What this machine, or this version of the library, does not have is below 0. */
static int add_all(scmp_filter_ctx filter, uint32_t action, const char *const *names,
                   size_t count) {
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        if (number >= 0)
            result = seccomp_rule_add_array(filter, action, number, 0, NULL);
    }
    return result;
}

static int add_by_argument(scmp_filter_ctx filter) {
    int result = 0;
    for (size_t i = 0; i < COUNT(rules_by_argument) && result == 0; i++) {
        const call_rule *rule = &rules_by_argument[i];
        int number = seccomp_syscall_resolve_name(rule->name);
        if (number >= 0)
            result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, rule->count,
                                            rule->arguments);
    }
    return result;
}

/* What is allowed for this process alone, or this program. */
static int add_own(scmp_filter_ctx filter, bool makes_code) {
    const struct scmp_arg_cmp to_itself = IS(0, getpid());
    int result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW,
                                        seccomp_syscall_resolve_name("tgkill"), 1, &to_itself);
    if (result == 0 && makes_code)
        result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW,
                                        seccomp_syscall_resolve_name("mmap"), 1, &new_memory);
    return result;
}

/* SSB: kernels before 5.16 would turn speculation off for a process with a filter, which protects
 * others from what it runs, at the cost of its arithmetic; what it runs is its own. OPTIMIZE 2: a
 * tree instead of a list, where the kernel does not keep what is always allowed in a bitmap (5.11).
 */
static int set_attributes(scmp_filter_ctx filter, bool logs_denials) {
    const struct {
        enum scmp_filter_attr name;
        uint32_t value;
    } attributes[] = {{SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS},
                      {SCMP_FLTATR_CTL_TSYNC, 1},
                      {SCMP_FLTATR_CTL_SSB, 1},
                      {SCMP_FLTATR_CTL_OPTIMIZE, 2},
                      {SCMP_FLTATR_API_SYSRAWRC, 1},
                      {SCMP_FLTATR_CTL_LOG, logs_denials}};
    int result = 0;
    for (size_t i = 0; i < COUNT(attributes) && result == 0; i++) {
        result = seccomp_attr_set(filter, attributes[i].name, attributes[i].value);
        if (result == -EOPNOTSUPP)
            result = 0; /* an older kernel: it works without */
    }
    return result;
}

lh_status lh_syscall_filter_load(const lh_sandbox_rules *rules, lh_error *error) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter)
        return lh_fail(error, LH_ERR_NO_MEMORY, "sandbox: no memory for a filter");
    int result = set_attributes(filter, rules->logs_denials);
    if (result == 0)
        result = add_all(filter, SCMP_ACT_ALLOW, allowed, COUNT(allowed));
    if (result == 0)
        result = add_all(filter, SCMP_ACT_KILL_PROCESS, deadly, COUNT(deadly));
    if (result == 0)
        result = add_by_argument(filter);
    if (result == 0)
        result = add_own(filter, rules->makes_code);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    if (result == 0)
        return LH_OK;
    return result == -ENOMEM ? lh_fail(error, LH_ERR_NO_MEMORY, "sandbox: no memory for a filter")
                             : lh_fail(error, LH_ERR_UNSUPPORTED, "%s", strerror(-result));
}
