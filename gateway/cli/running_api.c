/* /proc says which ports are a gateway's, and each of them whether it is the API's. */
#include "gateway/cli/running_api.h"

#include "common/net/address.h"
#include "common/net/port_owner.h"
#include "gateway/cli/api_transfer.h"

#include <stdio.h>
#include <string.h>

#define PROGRAM        "longhaul-gateway"
#define PROCESSES_MAX  16
#define PORTS_MAX      16
#define URL_BYTES      32
#define HINT_BYTES     200
#define ASK_TIMEOUT_MS 2000L

static bool forget(void *context, const char *bytes, size_t length) {
    (void)context, (void)bytes, (void)length;
    return true;
}

/* The other ports of a gateway know no such path, or speak another protocol. */
static bool is_api(uint16_t port, char url[URL_BYTES]) {
    const lh_api_request request = {.url = url,
                                    .path = "/version",
                                    .word = "",
                                    .key = "",
                                    .timeout_ms = ASK_TIMEOUT_MS,
                                    .on_bytes = forget};
    long http_status = 0;
    snprintf(url, URL_BYTES, "http://127.0.0.1:%u", port);
    return lh_api_transfer(&request, &http_status, NULL) == LH_OK &&
           (http_status == 200 || http_status == 401);
}

static bool find_api_of(pid_t pid, char url[URL_BYTES]) {
    uint16_t ports[PORTS_MAX];
    size_t count = lh_port_owner_ports(pid, ports, PORTS_MAX);
    for (size_t i = 0; i < count; i++)
        if (is_api(ports[i], url))
            return true;
    return false;
}

static bool find_api(char url[URL_BYTES]) {
    pid_t pids[PROCESSES_MAX];
    size_t count = lh_port_owner_processes(PROGRAM, pids, PROCESSES_MAX);
    for (size_t i = 0; i < count; i++)
        if (find_api_of(pids[i], url))
            return true;
    return false;
}

/* The port of a URL of this machine; 0: it is another machine's, or none. */
static uint16_t own_port(const char *url) {
    lh_address address;
    char text[LH_HOST_BYTES];
    const char *begin = strstr(url, "://");
    if (!begin)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(begin + 3, "/"), begin + 3);
    bool is_own =
        lh_address_parse(text, &address, NULL) == LH_OK && lh_address_is_loopback(&address);
    return is_own ? (uint16_t)address.port : 0;
}

/* Nobody listens at `port`, 0 where it is another machine's. */
static void hint_of_nobody(uint16_t port, char hint[HINT_BYTES]) {
    char api[URL_BYTES];
    if (port && find_api(api))
        snprintf(hint, HINT_BYTES,
                 "; a gateway has its API at %s: say so with --url or LONGHAUL_URL", api);
    else
        snprintf(hint, HINT_BYTES,
                 "; start the gateway, or say with --url or LONGHAUL_URL where its API is");
}

static void hint_of_other(uint16_t port, char hint[HINT_BYTES]) {
    char api[URL_BYTES];
    lh_port_owner owner;
    bool is_known = port && lh_port_owner_find(port, &owner);
    bool is_gateway = is_known && strncmp(owner.program, PROGRAM, sizeof owner.program - 1) == 0;
    if (is_gateway && find_api_of(owner.pid, api))
        snprintf(hint, HINT_BYTES,
                 "; that is the fleet port, the API is at %s: say so with --url or LONGHAUL_URL",
                 api);
    else if (is_known && !is_gateway)
        snprintf(hint, HINT_BYTES,
                 ", but %s, process %d; --url or LONGHAUL_URL says where the API is", owner.program,
                 (int)owner.pid);
    else
        snprintf(hint, HINT_BYTES,
                 ", perhaps a fleet port; the API is where the gateway's --listen says, at 8080 "
                 "unless told otherwise");
}

lh_status lh_running_api_explain(const char *url, const lh_error *cause, lh_error *error) {
    char hint[HINT_BYTES] = "";
    bool is_nobody = cause->status == LH_ERR_UNAVAILABLE,
         is_other = cause->status == LH_ERR_PROTOCOL;
    if (is_nobody)
        hint_of_nobody(own_port(url), hint);
    else if (is_other)
        hint_of_other(own_port(url), hint);
    return lh_fail(error,
                   is_other || cause->status == LH_ERR_IO ? LH_ERR_UNAVAILABLE : cause->status,
                   "%s%s", cause->message, hint);
}
