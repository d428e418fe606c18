/* One thread polls all connections; answers are written at once, so a test must read what it asks
 * for. */
#include "tests/worker/support/range_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 32
#define FILES_MAX       4

typedef struct connection {
    int descriptor; /* -1: none */
    char request[4096];
    size_t length;
} connection;

typedef struct served_file {
    char path[64];
    const uint8_t *bytes;
    size_t length;
} served_file;

struct range_server {
    pthread_t thread;
    pthread_mutex_t lock;
    int listener, stop[2];
    char url[64];
    served_file files[FILES_MAX];
    size_t file_count;
    range_fault range_fault, whole_fault;
    unsigned range_times, whole_times, requests;
    connection connections[CONNECTIONS_MAX];
};

static bool send_all(int descriptor, const void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(descriptor, (const uint8_t *)bytes + done, length - done, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += (size_t)sent;
    }
    return true;
}

static bool send_head(int descriptor, const char *status, size_t length, const char *more) {
    char head[512];
    int size = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
                        length, more);
    return send_all(descriptor, head, (size_t)size);
}

/* What goes wrong with this request, if anything. */
static range_fault take_fault(range_server *server, bool is_range) {
    range_fault fault = RANGE_SOUND;
    unsigned *times = is_range ? &server->range_times : &server->whole_times;
    pthread_mutex_lock(&server->lock);
    server->requests++;
    if (*times > 0) {
        (*times)--;
        fault = is_range ? server->range_fault : server->whole_fault;
    }
    pthread_mutex_unlock(&server->lock);
    return fault;
}

static bool send_endless(int descriptor, const char *range) {
    static const uint8_t zeros[65536];
    char head[256];
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 206 Partial Content\r\nConnection: close\r\n%s\r\n", range);
    bool open = send_all(descriptor, head, (size_t)size);
    while (open)
        open = send_all(descriptor, zeros, sizeof zeros);
    return false;
}

/* The bytes from `first` on, and `stride` apart. */
static bool send_damaged(int descriptor, const uint8_t *bytes, size_t length, size_t first,
                         size_t stride) {
    uint8_t *copy = malloc(length);
    assert(copy);
    memcpy(copy, bytes, length);
    for (size_t i = first; i < length; i += stride)
        copy[i] ^= 1;
    bool open = send_all(descriptor, copy, length);
    free(copy);
    return open;
}

/* Answers with bytes [first, last] of the file; false: hang up. */
static bool answer_range(int descriptor, const served_file *file, size_t first, size_t last,
                         range_fault fault) {
    static const char partial[] = "206 Partial Content";
    static const uint8_t extra[100];
    char range[128];
    if (fault == RANGE_ANSWERS_LESS)
        last = first + (last - first) / 2;
    size_t length = last - first + 1, shift = fault == RANGE_OTHER_RANGE,
           longer = fault == RANGE_LONGER_RANGE;
    snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", first + shift,
             last + shift + longer, file->length);
    const uint8_t *bytes = file->bytes + first;
    switch (fault) {
    case RANGE_NO_RANGE:
        return send_head(descriptor, partial, length, "") && send_all(descriptor, bytes, length);
    case RANGE_LONGER_BODY:
        return send_head(descriptor, partial, length + sizeof extra, range) &&
               send_all(descriptor, bytes, length) && send_all(descriptor, extra, sizeof extra);
    case RANGE_ENDLESS_BODY:
        return send_endless(descriptor, range);
    case RANGE_WRONG_BYTE:
        return send_head(descriptor, partial, length, range) &&
               send_damaged(descriptor, bytes, length, length / 2, length);
    case RANGE_WRONG_BYTES:
        return send_head(descriptor, partial, length, range) &&
               send_damaged(descriptor, bytes, length, 0, 16);
    case RANGE_STALLS:
        return send_head(descriptor, partial, length, range) &&
               send_all(descriptor, bytes, length / 2);
    case RANGE_BREAKS_OFF:
        (void)(send_head(descriptor, partial, length, range) &&
               send_all(descriptor, bytes, length / 2));
        return false;
    default:
        return send_head(descriptor, partial, length, range) && send_all(descriptor, bytes, length);
    }
}

static const served_file *find_file(const range_server *server, const char *path) {
    for (size_t i = 0; i < server->file_count; i++)
        if (strcmp(server->files[i].path, path) == 0)
            return &server->files[i];
    return NULL;
}

/* One request, whole and terminated; false: hang up. */
static bool answer(range_server *server, connection *c) {
    char path[64] = "";
    size_t first = 0, last = 0;
    sscanf(c->request, "GET %63s", path);
    const served_file *file = find_file(server, path);
    const char *header = strcasestr(c->request, "\r\nRange: bytes=");
    bool is_range = header && sscanf(header + 15, "%zu-%zu", &first, &last) == 2;
    range_fault fault = take_fault(server, is_range);
    if (!file || fault == RANGE_404)
        return send_head(c->descriptor, "404 Not Found", 9, "") &&
               send_all(c->descriptor, "not here\n", 9);
    switch (fault) {
    case RANGE_CLOSES:
        return false;
    case RANGE_SILENT:
        return true;
    case RANGE_500:
        return send_head(c->descriptor, "500 Internal Server Error", 5, "") &&
               send_all(c->descriptor, "oops\n", 5);
    case RANGE_302:
        return send_head(c->descriptor, "302 Found", 0, "Location: /elsewhere\r\n");
    default:
        break;
    }
    if (!is_range || fault == RANGE_NOT_PARTIAL)
        return send_head(c->descriptor, "200 OK", file->length, "") &&
               send_all(c->descriptor, file->bytes,
                        fault == RANGE_BREAKS_OFF ? file->length / 2 : file->length) &&
               fault != RANGE_BREAKS_OFF;
    if (last >= file->length || first > last)
        return send_head(c->descriptor, "416 Range Not Satisfiable", 0, "");
    return answer_range(c->descriptor, file, first, last, fault);
}

static void hang_up(connection *c) {
    close(c->descriptor);
    c->descriptor = -1;
    c->length = 0;
}

static void receive(range_server *server, connection *c) {
    ssize_t got = recv(c->descriptor, c->request + c->length, sizeof c->request - 1 - c->length, 0);
    if (got <= 0) {
        hang_up(c);
        return;
    }
    c->length += (size_t)got;
    c->request[c->length] = 0;
    if (strstr(c->request, "\r\n\r\n")) {
        bool open = answer(server, c);
        c->length = 0;
        if (!open)
            hang_up(c);
    }
}

static void accept_one(range_server *server) {
    int descriptor = accept(server->listener, NULL, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX && descriptor >= 0; i++) {
        if (server->connections[i].descriptor < 0) {
            server->connections[i].descriptor = descriptor;
            return;
        }
    }
    close(descriptor);
}

static void *serve(void *context) {
    range_server *server = context;
    for (;;) {
        struct pollfd polled[CONNECTIONS_MAX + 2] = {{server->stop[0], POLLIN, 0},
                                                     {server->listener, POLLIN, 0}};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            polled[2 + i] = (struct pollfd){server->connections[i].descriptor, POLLIN, 0};
        poll(polled, CONNECTIONS_MAX + 2, -1);
        if (polled[0].revents)
            return NULL;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            if (polled[2 + i].revents && server->connections[i].descriptor >= 0)
                receive(server, &server->connections[i]);
        if (polled[1].revents)
            accept_one(server);
    }
}

range_server *range_server_create(void) {
    range_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    assert(server);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        server->connections[i].descriptor = -1;
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(server->listener, 16) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &size) != 0 ||
        pipe(server->stop) != 0 || pthread_create(&server->thread, NULL, serve, server) != 0) {
        perror("range_server");
        abort();
    }
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    return server;
}

void range_server_destroy(range_server *server) {
    close(server->stop[1]);
    pthread_join(server->thread, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (server->connections[i].descriptor >= 0)
            close(server->connections[i].descriptor);
    close(server->stop[0]);
    close(server->listener);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

void range_server_add(range_server *server, const char *path, const void *bytes, size_t length) {
    pthread_mutex_lock(&server->lock);
    assert(server->file_count < FILES_MAX);
    served_file *file = &server->files[server->file_count++];
    snprintf(file->path, sizeof file->path, "%s", path);
    file->bytes = bytes;
    file->length = length;
    pthread_mutex_unlock(&server->lock);
}

void range_server_fail(range_server *server, range_fault fault, unsigned times) {
    pthread_mutex_lock(&server->lock);
    server->range_fault = fault;
    server->range_times = times;
    pthread_mutex_unlock(&server->lock);
}

void range_server_fail_whole(range_server *server, range_fault fault, unsigned times) {
    pthread_mutex_lock(&server->lock);
    server->whole_fault = fault;
    server->whole_times = times;
    pthread_mutex_unlock(&server->lock);
}

const char *range_server_url(const range_server *server) {
    return server->url;
}

unsigned range_server_requests(range_server *server) {
    pthread_mutex_lock(&server->lock);
    unsigned requests = server->requests;
    pthread_mutex_unlock(&server->lock);
    return requests;
}
