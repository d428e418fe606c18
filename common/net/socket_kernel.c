/* /proc/sys/net/ipv4. */
#include "common/net/socket_kernel.h"

#include "common/base/log.h"
#include "common/net/socket_tcp_state.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* 1 Gbit/s for 80 ms, and as much again for the kernel's own accounts. */
#define BUFFER_BYTES_WANTED 20000000ll

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

static int open_with(const char *congestion_control) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && congestion_control[0] &&
        setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, congestion_control,
                   (socklen_t)strlen(congestion_control)) != 0) {
        int code = errno;
        close(descriptor);
        errno = code;
        return -1;
    }
    return descriptor;
}

lh_status lh_socket_check_congestion_control(const char *name, lh_error *error) {
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

/* The third of three numbers. */
static long long greatest_buffer(const char *path) {
    char text[128];
    long long least, usual, greatest;
    read_setting(path, text, sizeof text);
    return sscanf(text, "%lld %lld %lld", &least, &usual, &greatest) == 3 ? greatest : 0;
}

void lh_socket_log_kernel(const char *congestion_control) {
    int descriptor = open_with(congestion_control);
    if (descriptor >= 0 && lh_socket_window_decays(descriptor))
        lh_log(LH_LOG_INFO, "tcp",
               "net.ipv4.tcp_slow_start_after_idle=1: connections that rest are slow again for "
               "some round trips; set it to 0, or give --congestion-control bbr");
    if (descriptor >= 0)
        close(descriptor);
    long long out = greatest_buffer("/proc/sys/net/ipv4/tcp_wmem"),
              in = greatest_buffer("/proc/sys/net/ipv4/tcp_rmem");
    if (out < BUFFER_BYTES_WANTED || in < BUFFER_BYTES_WANTED)
        lh_log(LH_LOG_DEBUG, "tcp",
               "net.ipv4.tcp_wmem ends at %lld and tcp_rmem at %lld: enough for links whose rate "
               "times round trip is half of that",
               out, in);
}
