/* TCP_CONGESTION, and /proc/sys/net/ipv4: settings of the network namespace, so of all connections
 * of this process. */
#include "common/net/congestion_control.h"

#include "common/base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME_BYTES = 16 /* TCP_CA_NAME_MAX */ };

/* 1 Gbit/s for 80 ms, and as much again for the kernel's own accounts. */
#define BUFFER_BYTES_WANTED 20000000ll

static const char usual[] = "cubic", plain[] = "reno";

/* The first line of a setting, without its end; "" where it cannot be read. */
static void read_setting(const char *path, char *text, int capacity) {
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    if (!file)
        return;
    if (!fgets(text, capacity, file))
        text[0] = '\0';
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
}

/* "" where the kernel does not tell. */
static void read_name(int descriptor, char name[NAME_BYTES]) {
    socklen_t length = NAME_BYTES;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0)
        name[0] = '\0';
}

bool lh_congestion_control_set(int descriptor, const char *name) {
    return setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

/* A socket with this congestion control ("": the system's), or -1 and errno. */
static int open_with(const char *name) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && name[0] && !lh_congestion_control_set(descriptor, name)) {
        int code = errno;
        close(descriptor);
        errno = code;
        return -1;
    }
    return descriptor;
}

lh_status lh_congestion_control_check(const char *name, lh_error *error) {
    char available[256];
    int descriptor = open_with(name);
    if (descriptor >= 0) {
        close(descriptor);
        return LH_OK;
    }
    int code = errno;
    read_setting("/proc/sys/net/ipv4/tcp_available_congestion_control", available,
                 sizeof available);
    return lh_fail(error, LH_ERR_INVALID, "congestion control '%.40s': %s; this system has: %.160s",
                   name,
                   code == ENOENT  ? "there is none of this name"
                   : code == EPERM ? "not allowed (net.ipv4.tcp_allowed_congestion_control)"
                                   : strerror(code),
                   available);
}

/* ---- Opening a window ---- */

/* A connection may have it from its route or the system's default without our being allowed to
 * choose it. */
static bool may_return_to_usual(void) {
    int trial = open_with(plain);
    bool may = trial >= 0 && lh_congestion_control_set(trial, usual);
    if (trial >= 0)
        close(trial);
    return may;
}

bool lh_congestion_control_begin_opening(int descriptor) {
    char name[NAME_BYTES];
    read_name(descriptor, name);
    return strncmp(name, usual, sizeof name) == 0 && may_return_to_usual() &&
           lh_congestion_control_set(descriptor, plain);
}

void lh_congestion_control_end_opening(int descriptor) {
    lh_congestion_control_set(descriptor, usual);
}

/* ---- What the kernel's settings mean ---- */

bool lh_congestion_control_decays(int descriptor) {
    char name[NAME_BYTES], setting[16];
    read_name(descriptor, name);
    if (strncmp(name, "bbr", 3) == 0)
        return false;
    read_setting("/proc/sys/net/ipv4/tcp_slow_start_after_idle", setting, sizeof setting);
    return setting[0] != '0'; /* the kernel's default, where it cannot be read */
}

/* The third of three numbers. */
static long long greatest_buffer(const char *path) {
    char text[128];
    long long least, middle, greatest;
    read_setting(path, text, sizeof text);
    return sscanf(text, "%lld %lld %lld", &least, &middle, &greatest) == 3 ? greatest : 0;
}

bool lh_congestion_control_will_decay(const char *name) {
    int descriptor = open_with(name);
    bool will = descriptor >= 0 && lh_congestion_control_decays(descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return will;
}

void lh_congestion_control_log(const char *name) {
    if (lh_congestion_control_will_decay(name))
        lh_log(LH_LOG_INFO, "tcp",
               "net.ipv4.tcp_slow_start_after_idle=1: connections that rest are slow again for "
               "some round trips; set it to 0, or give --congestion-control bbr");
    long long out = greatest_buffer("/proc/sys/net/ipv4/tcp_wmem"),
              in = greatest_buffer("/proc/sys/net/ipv4/tcp_rmem");
    if (out < BUFFER_BYTES_WANTED || in < BUFFER_BYTES_WANTED)
        lh_log(LH_LOG_DEBUG, "tcp",
               "net.ipv4.tcp_wmem ends at %lld and tcp_rmem at %lld: enough for links whose rate "
               "times round trip is half of that",
               out, in);
}
