/* A list of paths and one of ports. */
#include "common/sandbox/sandbox_rules.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const system_paths[] = {
    /* what libraries read of their own beside them */
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
    /* the CAs of servers that weights come from */
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls", "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
    /* the machine */
    "/etc/localtime", "/usr/share/zoneinfo", "/proc/self", "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu", "/dev/null", "/dev/random", "/dev/urandom"};

/* The name service's. */
static const char *const name_paths[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                         "/etc/host.conf", "/etc/gai.conf"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void add(lh_sandbox_rules *rules, const char *path, size_t length,
                lh_sandbox_access access) {
    char *copy = strndup(path, length);
    if (!copy || !lh_growing_array_reserve(&rules->paths, &rules->path_capacity,
                                           rules->path_count + 1, sizeof *rules->paths)) {
        free(copy);
        rules->is_short = true;
        return;
    }
    rules->paths[rules->path_count++] = (lh_sandbox_path){copy, access};
}

void lh_sandbox_rules_allow_read(lh_sandbox_rules *rules, const char *path) {
    if (path[0])
        add(rules, path, strlen(path), LH_SANDBOX_READ);
}

/* The length of the part of `path` that names the folder, "/" included where it is the root; 0: the
 * working folder. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
}

static void read_folder_of(lh_sandbox_rules *rules, const char *path) {
    size_t length = folder_length(path);
    add(rules, length ? path : ".", length ? length : 1, LH_SANDBOX_READ);
}

void lh_sandbox_rules_allow_read_replaced(lh_sandbox_rules *rules, const char *path) {
    char target[PATH_MAX];
    if (!path[0])
        return;
    read_folder_of(rules, path);
    if (realpath(path, target))
        read_folder_of(rules, target);
}

void lh_sandbox_rules_allow_write(lh_sandbox_rules *rules, const char *folder) {
    if (folder[0])
        add(rules, folder, strlen(folder), LH_SANDBOX_WRITE);
}

void lh_sandbox_rules_allow_listen(lh_sandbox_rules *rules, int port) {
    assert(port >= 0 && port <= UINT16_MAX && rules->port_count < LH_SANDBOX_PORTS_MAX);
    rules->ports[rules->port_count++] = (uint16_t)port;
}

/* Programs that bring the network up replace /etc/resolv.conf, or what it leads to, by rename. So
 * the folder is allowed; but not all of /etc to root, to whom nothing there is closed. */
static void allow_names(lh_sandbox_rules *rules) {
    char target[PATH_MAX];
    for (size_t i = 0; i < COUNT(name_paths); i++)
        lh_sandbox_rules_allow_read(rules, name_paths[i]);
    if (geteuid() != 0)
        lh_sandbox_rules_allow_read(rules, "/etc");
    if (realpath("/etc/resolv.conf", target) && strncmp(target, "/etc/", 5) != 0)
        read_folder_of(rules, target);
}

void lh_sandbox_rules_allow_system(lh_sandbox_rules *rules) {
    for (size_t i = 0; i < COUNT(system_paths); i++)
        lh_sandbox_rules_allow_read(rules, system_paths[i]);
    allow_names(rules);
}

void lh_sandbox_rules_reset(lh_sandbox_rules *rules) {
    for (size_t i = 0; i < rules->path_count; i++)
        free(rules->paths[i].path);
    free(rules->paths);
    *rules = (lh_sandbox_rules){0};
}
