/* proc(5): /proc/net/tcp has the inodes of sockets, /proc/PID/fd those that a process has open. */
#include "common/net/port_owner.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's numbers of states (include/net/tcp_states.h). */
#define TIME_WAIT    0x06u
#define LISTENS      0x0Au
#define PATH_BYTES   64
#define ADDRESS_HEX  33   /* of IPv6, with the end */
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

/* A line of one of the tables. IPv4 addresses are mapped into IPv6, as the kernel maps them. */
typedef struct socket_line {
    struct in6_addr local, remote;
    uint16_t local_port, remote_port;
    unsigned state;
    uint64_t inode; /* 0: no process has it open any more */
} socket_line;

/* Words of 32 bits, each in this machine's order of bytes. */
static struct in6_addr read_address(const char *hex) {
    struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    bool is_v4 = strlen(hex) == 8;
    for (size_t word = 0; word < (is_v4 ? 1 : 4); word++) {
        char digits[9] = "";
        memcpy(digits, hex + 8 * word, 8);
        uint32_t value = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&address.s6_addr[is_v4 ? 12 : 4 * word], &value, sizeof value);
    }
    return address;
}

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 26513 ..." */
static bool read_line(const char *text, socket_line *line) {
    char local[ADDRESS_HEX], remote[ADDRESS_HEX];
    unsigned local_port, remote_port;
    if (sscanf(text, " %*u: %32[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x %*s %*s %*s %*u %*u %" SCNu64,
               local, &local_port, remote, &remote_port, &line->state, &line->inode) != 6 ||
        (strlen(local) != 8 && strlen(local) != 32) || strlen(remote) != strlen(local) ||
        local_port > UINT16_MAX || remote_port > UINT16_MAX)
        return false;
    line->local = read_address(local);
    line->remote = read_address(remote);
    line->local_port = (uint16_t)local_port;
    line->remote_port = (uint16_t)remote_port;
    return true;
}

/* Calls `see` for each TCP socket of this machine, until it returns false. */
static void visit_lines(bool (*see)(void *context, const socket_line *line), void *context) {
    static const char *const paths[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < 2; i++) {
        char text[512];
        socket_line line;
        FILE *file = fopen(paths[i], "re");
        while (file && goes_on && fgets(text, sizeof text, file))
            if (read_line(text, &line))
                goes_on = see(context, &line);
        if (file)
            fclose(file);
    }
}

static bool add_listening(void *context, const socket_line *line) {
    socket_list *list = context;
    if (line->state == LISTENS)
        list->sockets[list->count++] = (listening_socket){line->inode, line->local_port};
    return list->count < SOCKETS_MAX;
}

/* NULL: no memory. The caller frees. */
static socket_list *list_sockets(void) {
    socket_list *list = calloc(1, sizeof *list);
    if (list)
        visit_lines(add_listening, list);
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

typedef struct socket_search {
    bool (*is_wanted)(const void *context, uint64_t inode);
    const void *context;
    bool is_found;
} socket_search;

static bool see_for_search(void *context, uint64_t inode) {
    socket_search *search = context;
    search->is_found = search->is_found || search->is_wanted(search->context, inode);
    return !search->is_found;
}

/* The process that has open a socket that is_wanted. */
static bool find_process(bool (*is_wanted)(const void *context, uint64_t inode),
                         const void *context, lh_port_owner *owner) {
    socket_search search = {.is_wanted = is_wanted, .context = context};
    DIR *proc = opendir("/proc");
    for (pid_t pid; proc && !search.is_found && (pid = next_process(proc));) {
        visit_sockets(pid, see_for_search, &search);
        if (search.is_found) {
            owner->pid = pid;
            read_program(pid, owner->program);
        }
    }
    if (proc)
        closedir(proc);
    return search.is_found;
}

typedef struct port_search {
    const socket_list *list;
    uint16_t port;
} port_search;

static bool listens_at_port(const void *context, uint64_t inode) {
    const port_search *search = context;
    for (size_t i = 0; i < search->list->count; i++)
        if (search->list->sockets[i].inode == inode &&
            search->list->sockets[i].port == search->port)
            return true;
    return false;
}

bool lh_port_owner_find(uint16_t port, lh_port_owner *owner) {
    socket_list *list = list_sockets();
    const port_search search = {.list = list, .port = port};
    bool is_found = list && find_process(listens_at_port, &search, owner);
    free(list);
    return is_found;
}

/* ---- What stands in the way of a listener ---- */

typedef struct use_search {
    struct in6_addr address;
    uint16_t port;
    lh_port_use use;
    socket_line connection;
} use_search;

static bool is_any(const struct in6_addr *address) {
    static const struct in6_addr any_v4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_IS_ADDR_UNSPECIFIED(address) || IN6_ARE_ADDR_EQUAL(address, &any_v4);
}

/* A listener is the answer wherever there is one. */
static bool see_for_use(void *context, const socket_line *line) {
    use_search *search = context;
    if (line->local_port != search->port || (!is_any(&line->local) && !is_any(&search->address) &&
                                             !IN6_ARE_ADDR_EQUAL(&line->local, &search->address)))
        return true;
    search->use = line->state == LISTENS ? LH_PORT_USE_LISTENER : LH_PORT_USE_CONNECTION;
    search->connection = *line;
    return search->use != LH_PORT_USE_LISTENER;
}

static bool is_inode(const void *context, uint64_t inode) {
    return *(const uint64_t *)context == inode;
}

static void describe_connection(const socket_line *line, char text[LH_PORT_USE_BYTES]) {
    char remote[INET6_ADDRSTRLEN];
    lh_port_owner owner;
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(&line->remote);
    inet_ntop(is_v4 ? AF_INET : AF_INET6, &line->remote.s6_addr[is_v4 ? 12 : 0], remote,
              sizeof remote);
    int length = snprintf(text, LH_PORT_USE_BYTES,
                          is_v4 ? "a connection to %s:%u" : "a connection to [%s]:%u", remote,
                          line->remote_port);
    size_t rest = LH_PORT_USE_BYTES - (size_t)length;
    if (line->state == TIME_WAIT)
        snprintf(text + length, rest, " that has ended (TIME_WAIT)");
    else if (line->inode && find_process(is_inode, &line->inode, &owner))
        snprintf(text + length, rest, " of %s, process %d", owner.program, (int)owner.pid);
}

lh_port_use lh_port_owner_use(const struct sockaddr *address, char text[LH_PORT_USE_BYTES]) {
    use_search search = {.address = {.s6_addr = {[10] = 0xff, [11] = 0xff}}};
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        search.address = v6->sin6_addr;
        search.port = ntohs(v6->sin6_port);
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        memcpy(&search.address.s6_addr[12], &v4->sin_addr, sizeof v4->sin_addr);
        search.port = ntohs(v4->sin_port);
    }
    visit_lines(see_for_use, &search);
    text[0] = '\0';
    if (search.use == LH_PORT_USE_CONNECTION)
        describe_connection(&search.connection, text);
    return search.use;
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
