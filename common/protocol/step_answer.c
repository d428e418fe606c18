/* Status to HTTP code and JSON, and back. */
#include "common/protocol/step_answer.h"

#include "common/json/json_text.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

int lh_step_answer_http_status(lh_status status) {
    switch (status) {
    case LH_OK:
        return 200;
    case LH_ERR_INVALID:
    case LH_ERR_MALFORMED:
    case LH_ERR_UNSUPPORTED:
    case LH_ERR_CORRUPT:
    case LH_ERR_LIMIT:
        return 400;
    case LH_ERR_NOT_FOUND:
        return 404;
    case LH_ERR_STALE:
        return 409;
    case LH_ERR_BUSY:
        return 429;
    case LH_ERR_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

static lh_status status_from_http(int http_status) {
    switch (http_status) {
    case 200:
        return LH_OK;
    case 404:
        return LH_ERR_NOT_FOUND;
    case 409:
        return LH_ERR_STALE;
    case 429:
        return LH_ERR_BUSY;
    case 502:
    case 503:
        return LH_ERR_UNAVAILABLE;
    case 504:
        return LH_ERR_TIMEOUT;
    default:
        return http_status >= 400 && http_status < 500 ? LH_ERR_MALFORMED : LH_ERR_INTERNAL;
    }
}

/* Only names of failures count. */
static lh_status status_from_name(const char *name, lh_status otherwise) {
    static const struct {
        const char *name;
        lh_status status;
    } names[] = {
#define X(code, text) {#code, code},
        LH_STATUS_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].name, name) == 0 && names[i].status != LH_OK &&
            names[i].status != LH_AGAIN && names[i].status != LH_ERR_FATAL_FIRST) {
            return names[i].status;
        }
    }
    return otherwise;
}

char *lh_step_answer_render(const char *worker, lh_status status, const char *message) {
    json_t *problem =
        json_pack("{s:{s:o,s:s,s:o}}", "error", "worker", lh_json_text(worker, strlen(worker)),
                  "status", lh_status_name(status), "message",
                  lh_json_text(message, strlen(message))); /* it may quote a peer */
    if (!problem)
        return NULL;
    char *text = json_dumps(problem, JSON_COMPACT);
    json_decref(problem);
    return text;
}

/* A 200 that says who has read the step. */
static void read_name(const char *body, size_t length, lh_step_answer *answer) {
    json_t *root = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
    const char *worker = NULL;
    if (json_unpack(root, "{s:s}", "worker", &worker) == 0 &&
        (worker[0] == '\0' || lh_name_is_valid(worker))) {
        answer->is_named = true;
        snprintf(answer->worker, sizeof(answer->worker), "%s", worker);
    }
    json_decref(root);
}

void lh_step_answer_parse(int http_status, const char *body, size_t length,
                          lh_step_answer *answer) {
    *answer = (lh_step_answer){.status = status_from_http(http_status)};
    if (answer->status == LH_OK) {
        if (length > strlen("{}")) /* nothing is allocated for an ordinary step */
            read_name(body, length, answer);
        return;
    }
    snprintf(answer->message, sizeof(answer->message), "HTTP %d without a reason", http_status);
    json_t *root = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
    const char *worker = NULL, *status = NULL, *message = NULL;
    if (json_unpack(root, "{s:{s:s,s:s,s:s}}", "error", "worker", &worker, "status", &status,
                    "message", &message) == 0) {
        answer->status = status_from_name(status, answer->status);
        snprintf(answer->worker, sizeof(answer->worker), "%s", worker);
        snprintf(answer->message, sizeof(answer->message), "%s", message);
    }
    json_decref(root);
}
