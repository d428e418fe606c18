/* What may be asked of a worker's server: paths, and who takes them. */
#include "worker/server/server_state.h"

#include "common/h2_probe.h"
#include "worker/api/step_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(lh_server *server, lh_h2_stream *stream, int http_status, lh_status status,
                   const char *message) {
    char *body = lh_step_answer_render(server->name, status, message);
    if (body == NULL || lh_h2_stream_respond(stream, http_status, body) != LH_OK) {
        lh_h2_stream_cancel(stream);
    }
    free(body);
}

/* "/chains/{chain}{middle}{rest}" into its parts; false: another path. */
static bool parse_path(const char *path, const char *middle, char chain[LH_WORKER_NAME_BYTES],
                       const char **rest) {
    static const char head[] = "/chains/";
    if (strncmp(path, head, sizeof(head) - 1) != 0) {
        return false;
    }
    path += sizeof(head) - 1;
    const char *end = strchr(path, '/');
    if (end == NULL || end == path || (size_t)(end - path) >= LH_WORKER_NAME_BYTES ||
        strncmp(end, middle, strlen(middle)) != 0) {
        return false;
    }
    memcpy(chain, path, (size_t)(end - path));
    chain[end - path] = '\0';
    *rest = end + strlen(middle);
    return true;
}

/* Decimal, without sign or leading zeros. */
static bool parse_step(const char *text, uint64_t *number) {
    if (*text == '\0' || (*text == '0' && text[1] != '\0')) {
        return false;
    }
    *number = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*number, (uint64_t)10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*text - '0'), number)) {
            return false;
        }
    }
    return true;
}

static void answer_status(lh_server *server, lh_h2_stream *stream) {
    char body[512];
    const lh_server_place *place = &server->place;
    snprintf(body, sizeof(body),
             "{\"name\":\"%s\",\"chain\":%s%s%s,\"epoch\":%u,\"steps\":{\"active\":%u,\"done\":%llu,"
             "\"failed\":%llu}}",
             server->name, server->routed ? "\"" : "", server->routed ? place->chain : "null",
             server->routed ? "\"" : "", server->routed ? place->route.epoch : 0, server->step_count,
             (unsigned long long)server->steps_done, (unsigned long long)server->steps_failed);
    lh_h2_stream_respond(stream, 200, body);
}

static lh_status check_step(const lh_server *server, const char *chain, lh_error *error) {
    if (!server->routed || strcmp(chain, server->place.chain) != 0) {
        return lh_fail(error, LH_ERR_NOT_FOUND, "this worker is not in chain '%s'", chain);
    }
    if (server->leaving) {
        return lh_fail(error, LH_ERR_UNAVAILABLE, "this worker is leaving");
    }
    if (server->step_count >= LH_STEPS_OPEN_MAX) {
        return lh_fail(error, LH_ERR_BUSY, "%u steps are in progress; the limit is %u", server->step_count,
                       LH_STEPS_OPEN_MAX);
    }
    return LH_OK;
}

static void on_step_request(lh_server *server, lh_h2_stream *stream, const char *chain,
                            const char *number_text, const char *query, const lh_h2_stream_events **events,
                            void **context) {
    uint64_t number;
    lh_error error;
    lh_server_step *step;
    if (!parse_step(number_text, &number)) {
        refuse(server, stream, 400, LH_ERR_MALFORMED, "the path's step is not a decimal number");
        return;
    }
    lh_status status = check_step(server, chain, &error);
    if (status == LH_OK) {
        status =
            lh_server_step_create(server, stream, number, strcmp(query, "shards=apart") == 0, &step, &error);
    }
    if (status != LH_OK) {
        lh_server_on_step_lost(server, NULL);
        refuse(server, stream, lh_step_answer_http_status(status), status, error.message);
        return;
    }
    *events = &lh_server_step_stream_events;
    *context = step;
}

/* "{epoch}/{step}" */
static void on_shards_request(lh_server *server, lh_h2_stream *stream, const char *chain, const char *rest,
                              const lh_h2_stream_events **events, void **context) {
    char epoch_text[16];
    uint64_t epoch, number;
    const char *slash = strchr(rest, '/');
    size_t length = slash != NULL ? (size_t)(slash - rest) : sizeof(epoch_text);
    if (length < sizeof(epoch_text)) {
        memcpy(epoch_text, rest, length);
        epoch_text[length] = '\0';
    }
    if (length >= sizeof(epoch_text) || !parse_step(epoch_text, &epoch) || epoch > UINT32_MAX ||
        !parse_step(slash + 1, &number)) {
        refuse(server, stream, 400, LH_ERR_MALFORMED, "the path's epoch and step are not decimal numbers");
    } else if (!server->routed || strcmp(chain, server->place.chain) != 0) {
        refuse(server, stream, 404, LH_ERR_NOT_FOUND, "this worker is not in that chain");
    } else {
        lh_server_shards_take(server, stream, (uint32_t)epoch, number, events, context);
    }
}

void lh_server_on_request(void *server_context, lh_h2_stream *stream, const lh_h2_request *request,
                          const lh_h2_stream_events **events, void **context) {
    lh_server *server = server_context;
    char chain[LH_WORKER_NAME_BYTES];
    const char *step;
    bool is_get = strcmp(request->method, "GET") == 0;
    bool is_post = strcmp(request->method, "POST") == 0;
    bool is_step = parse_path(request->path, "/steps/", chain, &step);
    if (is_step && is_post) {
        on_step_request(server, stream, chain, step, request->query, events, context);
    } else if (is_step) {
        refuse(server, stream, 405, LH_ERR_INVALID, "steps are submitted with POST");
    } else if (is_post && parse_path(request->path, "/shards/", chain, &step)) {
        on_shards_request(server, stream, chain, step, events, context);
    } else if (is_post && strcmp(request->path, LH_H2_PROBE_PATH) == 0) {
        lh_h2_probe_take(stream, events, context);
    } else if (is_get && strcmp(request->path, "/health") == 0) {
        lh_h2_stream_respond(stream, 200, "{\"status\":\"ok\"}");
    } else if (is_get && strcmp(request->path, "/status") == 0) {
        answer_status(server, stream);
    } else {
        refuse(server, stream, 404, LH_ERR_NOT_FOUND, "no such path");
    }
}
