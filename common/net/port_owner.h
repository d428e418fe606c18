/* Finds who uses this machine's TCP ports, by /proc: root sees all processes, other users see their
 * own. Messages to people name them. Blocking, for milliseconds. Thread: any;
 * in a sandbox that hides /proc no process is found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef struct lh_port_owner {
    pid_t pid;
    char program[16]; /* as the kernel cuts it: "longhaul-gatewa" */
} lh_port_owner;

/* Finds the process that listens on the port. False: none does, or this user cannot see it. */
bool lh_port_owner_find(uint16_t port, lh_port_owner *owner);

#define LH_PORT_USE_BYTES 128u

/* Why a socket cannot listen at an address. */
typedef enum lh_port_use {
    LH_PORT_USE_NONE, /* nothing that is seen */
    LH_PORT_USE_LISTENER,
    /* An outgoing connection has it as its local port, so it becomes free when that closes. */
    LH_PORT_USE_CONNECTION,
} lh_port_use;

/* An IPv4 or IPv6 address. text: in words, which connection and of what process; "" otherwise. */
lh_port_use lh_port_owner_use(const struct sockaddr *address, char text[LH_PORT_USE_BYTES]);
/* All processes of that program that are seen; the first `most` of them go to pids[]. */
size_t lh_port_owner_processes(const char *program, pid_t *pids, size_t most);
/* The ports at which a process listens, each once; the first `most` of them go to ports[]. */
size_t lh_port_owner_ports(pid_t pid, uint16_t *ports, size_t most);
