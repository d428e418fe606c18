/* The least that an HTTP server on libmicrohttpd does for a request: it reads the body and answers
 * 400 bytes of JSON. What ours costs is told beside it (tests/system/test_gateway_cost.py). Prints
 * its port, and serves until its standard input ends. */
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum MHD_Result on_access(void *context, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *body,
                                 size_t *body_bytes, void **request) {
    (void)context, (void)url, (void)method, (void)version, (void)body;
    static char text[400];
    if (!*request) {
        *request = text;
        return MHD_YES;
    }
    if (*body_bytes) {
        *body_bytes = 0;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof text, memset(text, 'x', sizeof text), MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

int main(void) {
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_access, NULL,
                         MHD_OPTION_THREAD_POOL_SIZE, 4u, MHD_OPTION_END);
    if (!daemon)
        return 1;
    printf("%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    MHD_stop_daemon(daemon);
    return 0;
}
