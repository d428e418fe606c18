/* What a program may still touch once it has entered its sandbox (sandbox.h): files and folders by
 * path, and the TCP ports that it listens on. Filled at start from the program's settings, one line
 * for each setting that names a path. A path that is "" is one that was not given, and ignored; the
 * texts are copied. An allocation that fails is told by lh_sandbox_enter. Thread: start-up only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Three ports of the gateway, three of a worker; more are a programmer's error. */
#define LH_SANDBOX_PORTS_MAX 8

typedef enum lh_sandbox_access { LH_SANDBOX_READ, LH_SANDBOX_WRITE } lh_sandbox_access;

typedef struct lh_sandbox_path {
    char *path;
    lh_sandbox_access access;
} lh_sandbox_path;

typedef struct lh_sandbox_rules {
    lh_sandbox_path *paths;
    size_t path_count, path_capacity;
    uint16_t ports[LH_SANDBOX_PORTS_MAX];
    size_t port_count;
    bool is_off; /* nothing is given up */
    /* why it is off, for the log, where that is not --sandbox off */
    const char *off_reason;
    bool makes_code;   /* has a just-in-time compiler, which needs memory to write and execute;
                        * never a file */
    bool logs_denials; /* the kernel logs each system call that is refused */
    bool keeps_network_admin; /* root's right to take a congestion control that others may not */
    bool is_short;            /* of memory: a path is missing */
    /* Set by lh_sandbox_enter: what is in force now. */
    bool has_landlock, has_seccomp;
} lh_sandbox_rules;

/* A file as it is now, or whatever lies below a folder. One that is not there is left out. */
void lh_sandbox_rules_allow_read(lh_sandbox_rules *rules, const char *path);
/* A file that others replace by rename while the program runs, such as a certificate: all of the
 * folder that it lies in, and of the one that it leads to where it is a symbolic link. */
void lh_sandbox_rules_allow_read_replaced(lh_sandbox_rules *rules, const char *path);
/* Below this folder, which must be there when the sandbox is entered: read, write, create, rename
 * and remove. Modes are for open, mkdir and fchmod; there is no chmod by path. */
void lh_sandbox_rules_allow_write(lh_sandbox_rules *rules, const char *folder);
/* 0: any port that the kernel picks. Connecting is not bound to ports. */
void lh_sandbox_rules_allow_listen(lh_sandbox_rules *rules, int port);
/* What the C library, OpenSSL and libcurl read while a program runs: libraries, CA certificates,
 * the name service's files, this process in /proc, the processors in /sys. */
void lh_sandbox_rules_allow_system(lh_sandbox_rules *rules);

void lh_sandbox_rules_reset(lh_sandbox_rules *rules);
