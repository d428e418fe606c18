/* Paths of the worker's server. */
#include "worker/serve/request.h"

#include "common/http2/probe.h"

#include <string.h>

static void refuse(lh_worker_request *request, int http_status, lh_status status,
                   const char *message) {
    request->kind = LH_REQUEST_REFUSED;
    request->http_status = http_status;
    request->status = status;
    request->message = message;
}

/* "/chains/{chain}{middle}{rest}" into its parts; false: another path. */
static bool parse_path(const char *path, const char *middle, char chain[LH_WORKER_NAME_BYTES],
                       const char **rest) {
    static const char head[] = "/chains/";
    if (strncmp(path, head, sizeof head - 1) != 0)
        return false;
    path += sizeof head - 1;
    const char *end = strchr(path, '/');
    if (!end || end == path || (size_t)(end - path) >= LH_WORKER_NAME_BYTES ||
        strncmp(end, middle, strlen(middle)) != 0)
        return false;
    memcpy(chain, path, (size_t)(end - path));
    chain[end - path] = '\0';
    *rest = end + strlen(middle);
    return true;
}

/* Decimal digits without leading zeros, up to `end`. */
static bool parse_number(const char *text, const char *end, uint64_t *number) {
    if (text == end || (*text == '0' && text + 1 != end))
        return false;
    *number = 0;
    for (; text != end; text++)
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*number, (uint64_t)10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*text - '0'), number))
            return false;
    return true;
}

static void read_step(const char *rest, const char *query, lh_worker_request *request) {
    request->kind = LH_REQUEST_STEP;
    request->shards_go_apart = strcmp(query, "shards=apart") == 0;
    if (!parse_number(rest, rest + strlen(rest), &request->number))
        refuse(request, 400, LH_ERR_MALFORMED, "the path's step is not a decimal number");
}

/* "{epoch}/{number}" */
static void read_shards(const char *rest, lh_worker_request *request) {
    uint64_t epoch = 0;
    const char *slash = strchr(rest, '/');
    request->kind = LH_REQUEST_SHARDS;
    if (!slash || !parse_number(rest, slash, &epoch) || epoch > UINT32_MAX ||
        !parse_number(slash + 1, slash + strlen(slash), &request->number))
        refuse(request, 400, LH_ERR_MALFORMED, "the path's epoch and step are not decimal numbers");
    request->epoch = (uint32_t)epoch;
}

static void read_trial(const char *rest, lh_worker_request *request) {
    request->kind = LH_REQUEST_TRIAL;
    if (!parse_number(rest, rest + strlen(rest), &request->number))
        refuse(request, 400, LH_ERR_MALFORMED, "the path's width is not a decimal number");
}

void lh_worker_request_read(const lh_h2_request *http, lh_worker_request *request) {
    const char *rest;
    bool is_get = strcmp(http->method, "GET") == 0, is_post = strcmp(http->method, "POST") == 0;
    *request = (lh_worker_request){.kind = LH_REQUEST_REFUSED};
    bool is_step = parse_path(http->path, "/steps/", request->chain, &rest);
    if (is_step && is_post)
        read_step(rest, http->query, request);
    else if (is_step)
        refuse(request, 405, LH_ERR_INVALID, "steps are submitted with POST");
    else if (is_post && parse_path(http->path, "/shards/", request->chain, &rest))
        read_shards(rest, request);
    else if (is_post && parse_path(http->path, "/trials/", request->chain, &rest))
        read_trial(rest, request);
    else if (is_post && strcmp(http->path, LH_H2_PROBE_PATH) == 0)
        request->kind = LH_REQUEST_PROBE;
    else if (is_get && strcmp(http->path, "/health") == 0)
        request->kind = LH_REQUEST_HEALTH;
    else if (is_get && strcmp(http->path, "/status") == 0)
        request->kind = LH_REQUEST_STATUS;
    else
        refuse(request, 404, LH_ERR_NOT_FOUND, "no such path");
}
