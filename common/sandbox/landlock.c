/* Three system calls without a library. Numbers are those of the kernel's
 * include/uapi/linux/landlock.h: the headers of Debian 12 know no more than ABI 2, the kernel that
 * the program runs on perhaps does. */
#include "common/sandbox/landlock.h"

#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET_VERSION = 1, RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2 };

enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_SYM = 1 << 12,
    REFER = 1 << 13,     /* ABI 2 */
    TRUNCATE = 1 << 14,  /* ABI 3 */
    IOCTL_DEV = 1 << 15, /* ABI 5 */

    READING = READ_FILE | READ_DIR,
    WRITING = READING | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG |
              MAKE_SYM | REFER,
    OF_A_FILE = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
};

enum { BIND_TCP = 1 << 0 };                                       /* ABI 4 */
enum { SCOPE_ABSTRACT_SOCKETS = 1 << 0, SCOPE_SIGNALS = 1 << 1 }; /* ABI 6 */

struct ruleset_attr {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

struct path_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct port_attr {
    uint64_t allowed_access, port;
};

int lh_landlock_abi(void) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return version > 0 ? (int)version : 0;
}

/* All that this kernel can refuse. Connecting is not among it: an assignment may name any port. */
static struct ruleset_attr handled_by(int abi) {
    unsigned rights = abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13;
    return (struct ruleset_attr){.handled_access_fs = (UINT64_C(1) << rights) - 1,
                                 .handled_access_net = abi >= 4 ? BIND_TCP : 0,
                                 .scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0};
}

static lh_status fail_rule(lh_error *error, const char *what) {
    return lh_fail(error, LH_ERR_IO, "sandbox: Landlock refuses %.200s: %s", what, strerror(errno));
}

static lh_status add_open(int ruleset, const struct ruleset_attr *handled,
                          const lh_sandbox_path *path, int descriptor, lh_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return fail_rule(error, path->path);
    uint64_t access = path->access == LH_SANDBOX_WRITE ? WRITING : READING;
    access &= S_ISDIR(info.st_mode) ? UINT64_MAX : OF_A_FILE;
    const struct path_attr rule = {access & handled->handled_access_fs, descriptor};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0)
        return fail_rule(error, path->path);
    lh_log(LH_LOG_DEBUG, "sandbox", "%s path=%s",
           path->access == LH_SANDBOX_WRITE ? "may write" : "may read", path->path);
    return LH_OK;
}

static lh_status add_path(int ruleset, const struct ruleset_attr *handled,
                          const lh_sandbox_path *path, lh_error *error) {
    int descriptor = open(path->path, O_PATH | O_CLOEXEC);
    if (descriptor < 0 && path->access == LH_SANDBOX_WRITE)
        return lh_fail(error, LH_ERR_NOT_FOUND, "sandbox: %.200s: %s", path->path, strerror(errno));
    if (descriptor < 0)
        return LH_OK;
    lh_status status = add_open(ruleset, handled, path, descriptor, error);
    close(descriptor);
    return status;
}

static lh_status add_ports(int ruleset, const lh_sandbox_rules *rules, lh_error *error) {
    for (size_t i = 0; i < rules->port_count; i++) {
        const struct port_attr rule = {BIND_TCP, rules->ports[i]};
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) != 0)
            return fail_rule(error, "a port");
    }
    return LH_OK;
}

static lh_status fill(int ruleset, const struct ruleset_attr *handled,
                      const lh_sandbox_rules *rules, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < rules->path_count && status == LH_OK; i++)
        status = add_path(ruleset, handled, &rules->paths[i], error);
    if (status == LH_OK && handled->handled_access_net)
        status = add_ports(ruleset, rules, error);
    return status;
}

lh_status lh_landlock_restrict(const lh_sandbox_rules *rules, lh_error *error) {
    int abi = lh_landlock_abi();
    if (!abi)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "%s", strerror(errno));
    const struct ruleset_attr handled = handled_by(abi);
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (ruleset < 0)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "%s", strerror(errno));
    lh_status status = fill(ruleset, &handled, rules, error);
    if (status == LH_OK && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        status = lh_fail(error, LH_ERR_UNSUPPORTED, "%s", strerror(errno));
    close(ruleset);
    return status;
}
