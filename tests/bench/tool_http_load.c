/* What an HTTP server adds to a request: clients that ask for the same thing over and over on
 * connections that stay open, each waiting for its answer before it asks again; and, without
 * --port, the least that a server could do for the same request, as the bound beside it: a thread
 * for each connection that reads the request and writes an answer of a fixed size.
 *
 * Prints a line of JSON: how many answers, and their times in microseconds. An answer ends with its
 * Content-Length, or with the chunk of no bytes. Exit status 1: an answer was not 200, or a
 * connection was cut. */
#include "common/base/clock.h"
#include "common/base/options.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_BYTES_MAX (1u << 20)

typedef struct load_options {
    int64_t port, clients, requests, pause_us;
    const char *path, *body, *key;
} load_options;

typedef struct client {
    const load_options *options;
    pthread_t thread;
    uint16_t port;
    int64_t *times_us; /* [requests] */
    size_t count;
    const char *failure;
} client;

static void *need(void *pointer) {
    if (!pointer)
        abort();
    return pointer;
}

static void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool send_all(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* ---- The bound. ---- */

/* The whole request is there: as long as its Content-Length says. */
static bool is_whole(const char *bytes) {
    const char *end = strstr(bytes, "\r\n\r\n"), *length = strcasestr(bytes, "\r\nContent-Length:");
    return end && (!length || length > end || strlen(end + 4) >= strtoul(length + 17, NULL, 10));
}

static void *answer_all(void *argument) {
    int fd = (int)(intptr_t)argument;
    static const char reply[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n";
    char out[sizeof reply - 1 + 400], *in = need(malloc(REPLY_BYTES_MAX));
    memcpy(out, reply, sizeof reply - 1);
    memset(out + sizeof reply - 1, 'x', 400);
    size_t used = 0;
    ssize_t got;
    while ((got = recv(fd, in + used, REPLY_BYTES_MAX - 1 - used, 0)) > 0) {
        used += (size_t)got;
        in[used] = '\0';
        if (!is_whole(in))
            continue;
        used = 0;
        if (!send_all(fd, out, sizeof out))
            break;
    }
    close(fd);
    free(in);
    return NULL;
}

static void *serve(void *argument) {
    int listener = (int)(intptr_t)argument;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        no_delay(fd);
        if (pthread_create(&thread, NULL, answer_all, (void *)(intptr_t)fd))
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

static uint16_t start_server(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    pthread_t thread;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&address, &length) ||
        pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd))
        abort();
    pthread_detach(thread);
    return ntohs(address.sin_port);
}

/* ---- Clients. ---- */

static bool is_complete(const char *in, size_t used) {
    const char *end = strstr(in, "\r\n\r\n"), *length = strcasestr(in, "\r\nContent-Length:");
    if (!end)
        return false;
    if (length && length < end)
        return used >= (size_t)(end + 4 - in) + strtoul(length + 17, NULL, 10);
    return used >= 5 && memcmp(in + used - 5, "0\r\n\r\n", 5) == 0;
}

static bool ask_once(int fd, const char *request, size_t length, char *in) {
    size_t used = 0;
    if (!send_all(fd, request, length))
        return false;
    do {
        ssize_t got = recv(fd, in + used, REPLY_BYTES_MAX - 1 - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
        in[used] = '\0';
    } while (!is_complete(in, used));
    return strncmp(in, "HTTP/1.1 200", 12) == 0;
}

static size_t make_request(const load_options *options, char **request) {
    char key[300] = "";
    if (options->key[0])
        snprintf(key, sizeof key, "Authorization: Bearer %s\r\n", options->key);
    int length =
        options->body[0]
            ? asprintf(request,
                       "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: "
                       "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       options->path, key, strlen(options->body), options->body)
            : asprintf(request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", options->path, key);
    if (length < 0)
        abort();
    return (size_t)length;
}

static void *run_client(void *argument) {
    client *c = argument;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(c->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char *request, *in = need(malloc(REPLY_BYTES_MAX));
    size_t length = make_request(c->options, &request);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        c->failure = "no connection";
    else
        no_delay(fd);
    while (!c->failure && c->count < (size_t)c->options->requests) {
        int64_t begun_us = lh_clock_us();
        if (!ask_once(fd, request, length, in))
            c->failure = "an answer that is not 200, or a connection that was cut";
        c->times_us[c->count++] = lh_clock_us() - begun_us;
        if (c->options->pause_us)
            usleep((useconds_t)c->options->pause_us);
    }
    close(fd);
    free(in);
    free(request);
    return NULL;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int run_all(const load_options *options) {
    size_t clients = (size_t)options->clients, each = (size_t)options->requests, count = 0;
    client *all = need(calloc(clients, sizeof *all));
    int64_t *times_us = need(calloc(clients * each, sizeof *times_us));
    uint16_t port = options->port ? (uint16_t)options->port : start_server();
    const char *failure = NULL;
    int64_t begun_us = lh_clock_us();
    for (size_t i = 0; i < clients; i++) {
        all[i] = (client){.options = options, .port = port, .times_us = times_us + i * each};
        if (pthread_create(&all[i].thread, NULL, run_client, &all[i]))
            abort();
    }
    for (size_t i = 0; i < clients; i++) {
        pthread_join(all[i].thread, NULL);
        failure = all[i].failure ? all[i].failure : failure;
        count += all[i].count;
    }
    int64_t elapsed_us = lh_clock_us() - begun_us;
    qsort(times_us, count, sizeof *times_us, compare);
    if (failure)
        fprintf(stderr, "http_load: %s\n", failure);
    else
        printf("{\"answers\":%zu,\"per_second\":%.0f,\"p50_us\":%lld,\"p90_us\":%lld,\"p99_us\":%"
               "lld,\"max_us\":%lld}\n",
               count, (double)count * 1e6 / (double)elapsed_us, (long long)times_us[count / 2],
               (long long)times_us[count * 9 / 10], (long long)times_us[count * 99 / 100],
               (long long)times_us[count - 1]);
    free(times_us);
    free(all);
    return failure != NULL;
}

#define AT(field) offsetof(load_options, field)

static const lh_option table[] = {
    {"port", LH_OPTION_NUMBER, AT(port), "0", "PORT", 0, 65535, NULL,
     "server to ask; 0: the bound"},
    {"clients", LH_OPTION_NUMBER, AT(clients), "1", "N", 1, 1000, NULL, "connections at a time"},
    {"requests", LH_OPTION_NUMBER, AT(requests), "1000", "N", 1, 1000000, NULL, "of each"},
    {"pause-us", LH_OPTION_NUMBER, AT(pause_us), "0", "US", 0, 1000000, NULL, "after each answer"},
    {"path", LH_OPTION_TEXT, AT(path), "/v1/models", "PATH", 0, 0, NULL, "what to ask for"},
    {"body", LH_OPTION_TEXT, AT(body), "", "JSON", 0, 0, NULL, "what to POST; default: GET"},
    {"key", LH_OPTION_TEXT, AT(key), "", "KEY", 0, 0, NULL, "API key to show"},
};

int main(int argc, char **argv) {
    const lh_option_table all = {.program = "http_load",
                                 .summary = "Times requests to an HTTP server",
                                 .options = table,
                                 .count = sizeof table / sizeof table[0]};
    load_options options = {0};
    lh_option_action action;
    lh_error error;
    if (lh_options_parse(&all, argc, argv, &options, stdout, &action, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    return action == LH_OPTIONS_EXIT ? 0 : run_all(&options);
}
