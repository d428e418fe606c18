/* proc(5): /proc/net/tcp has the inodes of sockets, /proc/PID/fd those that a process has open. */
#include "common/net/port_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENS      0x0Au
#define PATH_BYTES   64
#define SOCKETS_MAX  4096 /* listening ones of a machine; more are not looked at */
#define PROGRAM_READ 15

typedef struct listening_socket {
    uint64_t inode;
    uint16_t port;
} listening_socket;

typedef struct socket_list {
    listening_socket sockets[SOCKETS_MAX];
    size_t count;
} socket_list;

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 26513 ..." */
static bool read_line(const char *line, listening_socket *found) {
    unsigned port, state;
    uint64_t inode;
    if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %" SCNu64,
               &port, &state, &inode) != 3 ||
        state != LISTENS || port > UINT16_MAX)
        return false;
    *found = (listening_socket){inode, (uint16_t)port};
    return true;
}

static void read_table(const char *path, socket_list *list) {
    char line[512];
    FILE *file = fopen(path, "re");
    while (file && list->count < SOCKETS_MAX && fgets(line, sizeof line, file))
        list->count += read_line(line, &list->sockets[list->count]);
    if (file)
        fclose(file);
}

/* NULL: no memory. The caller frees. */
static socket_list *list_sockets(void) {
    socket_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    read_table("/proc/net/tcp", list);
    read_table("/proc/net/tcp6", list);
    return list;
}

static void read_program(pid_t pid, char program[16]) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(program, 1, PROGRAM_READ, file) : 0;
    if (file)
        fclose(file);
    program[length] = '\0';
    program[strcspn(program, "\n")] = '\0';
}

/* Calls `see` for each socket that the process has open, until it returns false. */
static void visit_sockets(pid_t pid, bool (*see)(void *context, uint64_t inode), void *context) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char target[PATH_BYTES];
        uint64_t inode;
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (sscanf(target, "socket:[%" SCNu64 "]", &inode) == 1 && !see(context, inode))
            break;
    }
    closedir(folder);
}

/* The next process; 0: there is none. */
static pid_t next_process(DIR *proc) {
    for (struct dirent *entry; (entry = readdir(proc));)
        if (isdigit((unsigned char)entry->d_name[0]))
            return (pid_t)atoi(entry->d_name);
    return 0;
}

/* ---- Whose a port is ---- */

typedef struct port_search {
    const socket_list *list;
    uint16_t port;
    bool is_found;
} port_search;

static bool see_for_port(void *context, uint64_t inode) {
    port_search *search = context;
    for (size_t i = 0; i < search->list->count; i++)
        if (search->list->sockets[i].inode == inode &&
            search->list->sockets[i].port == search->port)
            search->is_found = true;
    return !search->is_found;
}

bool lh_port_owner_find(uint16_t port, lh_port_owner *owner) {
    socket_list *list = list_sockets();
    port_search search = {.list = list, .port = port};
    DIR *proc = list ? opendir("/proc") : NULL;
    for (pid_t pid; proc && !search.is_found && (pid = next_process(proc));) {
        visit_sockets(pid, see_for_port, &search);
        if (search.is_found) {
            owner->pid = pid;
            read_program(pid, owner->program);
        }
    }
    if (proc)
        closedir(proc);
    free(list);
    return search.is_found;
}

/* ---- Which processes and ports there are ---- */

size_t lh_port_owner_processes(const char *program, pid_t *pids, size_t most) {
    size_t count = 0;
    DIR *proc = opendir("/proc");
    for (pid_t pid; proc && count < most && (pid = next_process(proc));) {
        char name[16];
        read_program(pid, name);
        if (name[0] && strncmp(name, program, PROGRAM_READ) == 0)
            pids[count++] = pid;
    }
    if (proc)
        closedir(proc);
    return count;
}

typedef struct port_list {
    const socket_list *list;
    uint16_t *ports;
    size_t count, most;
} port_list;

static void add_port(port_list *found, uint16_t port) {
    for (size_t i = 0; i < found->count; i++)
        if (found->ports[i] == port)
            return;
    found->ports[found->count++] = port;
}

static bool see_for_list(void *context, uint64_t inode) {
    port_list *found = context;
    for (size_t i = 0; i < found->list->count && found->count < found->most; i++)
        if (found->list->sockets[i].inode == inode)
            add_port(found, found->list->sockets[i].port);
    return found->count < found->most;
}

size_t lh_port_owner_ports(pid_t pid, uint16_t *ports, size_t most) {
    socket_list *list = list_sockets();
    port_list found = {.list = list, .ports = ports, .most = most};
    if (list)
        visit_sockets(pid, see_for_list, &found);
    free(list);
    return found.count;
}
