/* Route by route, method by method. A NULL among the parts makes the whole NULL. */
#include "gateway/openai/openapi.h"

#include "common/json/json_text.h"
#include "gateway/openai/reading.h"
#include "gateway/openai/routes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SECURITY_NAME "key"

/* ---- Answers. ---- */

/* Which routes may be answered so: docs/API.md, "Errors". */
enum {
    ANY = 1,
    KEYED = 2, /* where keys are in force */
    ADMIN = 4,
    NAMED = 8, /* its path has an id */
    BODIED = 16,
    GENERATES = 32,
    READ = 64 /* takes long enough to be charged, without a body */
};

static const struct {
    unsigned status;
    int routes;
    const char *meaning;
} refusals[] = {
    {400, ANY, "A wrong value, or framing that is ambiguous."},
    {401, KEYED, "No key, a wrong or an expired one."},
    {403, ADMIN, "The key may not ask for that."},
    {404, NAMED | BODIED, "There is nothing of that name."},
    {408, ANY, "It did not come in time."},
    {413, BODIED, "The body is too large."},
    {414, ANY, "The target is too large."},
    {415, BODIED,
     "The body is not JSON, does not say so, or is compressed by something else than gzip."},
    {421, ANY, "The header Host is no name of this server."},
    {429, BODIED | READ, "A limit of the key's, or the queue is full."},
    {431, ANY, "The headers are too large."},
    {500, ANY, "The server's fault."},
    {503, ANY, "No complete chain of workers, draining, or short of connections."},
    {504, GENERATES, "It was not done in time."},
};

static json_t *json_content(json_t *schema) {
    return json_pack("{s:{s:o}}", "application/json", "schema", schema);
}

static json_t *refusal_json(const lh_openai_route *route, const char *meaning) {
    /* Messages and Ollama have errors of their own form, and so has a server's health. */
    bool is_own = route->is_ollama || route->action == LH_OPENAI_POST_MESSAGE ||
                  route->action == LH_OPENAI_POST_COUNT || route->action == LH_OPENAI_GET_HEALTH;
    return json_pack("{s:s, s:o}", "description", meaning, "content",
                     json_content(json_pack("{s:s}", "$ref",
                                            is_own ? "#/components/schemas/OtherError"
                                                   : "#/components/schemas/Error")));
}

static json_t *success_json(const lh_openai_route *route, bool streams) {
    json_t *content = json_content(json_pack("{s:s}", "type", "object"));
    if (streams)
        content =
            lh_json_set(content, route->is_ollama ? "application/x-ndjson" : "text/event-stream",
                        json_pack("{s:{s:s}}", "schema", "type", "string"));
    return json_pack("{s:s, s:o}", "description", "What was asked for.", "content", content);
}

static json_t *without_content(json_t *response) {
    json_object_del(response, "content");
    return response;
}

static json_t *responses_json(const lh_openai_route *route, int traits, const char *method) {
    bool is_question = strcmp(method, "options") == 0, is_bare = strcmp(method, "head") == 0;
    json_t *success = is_question ? json_pack("{s:s}", "description", "The methods, in Allow.")
                                  : success_json(route, traits & GENERATES);
    json_t *all = lh_json_set(json_object(), is_question ? "204" : "200",
                              is_bare ? without_content(success) : success);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char status[16];
        snprintf(status, sizeof status, "%u", refusals[i].status);
        if (!(refusals[i].routes & traits))
            continue;
        json_t *refusal = refusal_json(route, refusals[i].meaning);
        all = lh_json_set(all, status, is_bare ? without_content(refusal) : refusal);
    }
    return all;
}

/* ---- Operations. ---- */

static bool is_charged(const lh_openai_route *route) {
    lh_openai_reading_goal goal;
    return lh_openai_reading_goal_of(route->action, &goal) && !lh_openai_reading_has_body(goal);
}

static int traits_of(const lh_openai_service *service, const lh_openai_route *route,
                     bool reads_body, lh_openai_reading_goal goal) {
    bool has_keys = lh_authenticator_keys(service->config.authenticator) > 0;
    return ANY | (has_keys && !route->is_public ? KEYED : 0) | (route->is_admin ? ADMIN : 0) |
           (strchr(route->name, '{') ? NAMED : 0) | (reads_body ? BODIED : 0) |
           (is_charged(route) ? READ : 0) |
           (reads_body && lh_openai_reading_is_answered(goal) ? GENERATES : 0);
}

static json_t *operation_json(const lh_openai_service *service, const lh_openai_route *route,
                              const char *method) {
    char name[96];
    lh_openai_reading_goal goal = LH_READING_CHAT;
    bool reads_body =
        strcmp(method, "post") == 0 && lh_openai_reading_goal_of(route->action, &goal);
    int traits = traits_of(service, route, reads_body, goal);
    snprintf(name, sizeof name, "%s %.80s", method, route->name);
    json_t *operation = json_pack("{s:s, s:o}", "operationId", name, "responses",
                                  responses_json(route, traits, method));
    if (traits & KEYED)
        operation = lh_json_set(operation, "security", json_pack("[{s:[]}]", SECURITY_NAME));
    if (reads_body)
        operation = lh_json_set(operation, "requestBody",
                                json_pack("{s:b, s:o}", "required", 1, "content",
                                          json_content(lh_openai_reading_describe(service, goal))));
    return operation;
}

/* What stands in braces in the path. */
static json_t *parameters_json(const char *path) {
    const char *begin = strchr(path, '{');
    if (!begin)
        return json_array();
    return json_pack("[{s:s#, s:s, s:b, s:{s:s, s:i}}]", "name", begin + 1, strcspn(begin + 1, "}"),
                     "in", "path", "required", 1, "schema", "type", "string", "minLength", 1);
}

static json_t *path_json(const lh_openai_service *service, const lh_openai_route *route) {
    json_t *path = json_pack("{s:o}", "parameters", parameters_json(route->name));
    for (const char *at = route->methods; *at; at += strcspn(at, " "), at += *at == ' ') {
        char method[16] = "";
        for (size_t i = 0; i + 1 < sizeof method && isalpha((unsigned char)at[i]); i++)
            method[i] = (char)tolower((unsigned char)at[i]);
        path = lh_json_set(path, method, operation_json(service, route, method));
    }
    return path;
}

/* ---- All of it. ---- */

/* What only tells that it is not there is no part of the API, nor is what one port has alone. */
static bool is_described(const lh_openai_route *route) {
    switch (route->action) {
    case LH_OPENAI_TELL_METHODS:
    case LH_OPENAI_TELL_FLEET_PORT:
    case LH_OPENAI_OLLAMA_GREET:
    case LH_OPENAI_OLLAMA_FETCH:
    case LH_OPENAI_OLLAMA_CHANGE:
        return false;
    default:
        return true;
    }
}

static json_t *paths_json(const lh_openai_service *service) {
    json_t *paths = json_object();
    for (uint32_t i = 0; i < lh_openai_route_count(); i++) {
        const lh_openai_route route = lh_openai_route_at(i);
        if (is_described(&route))
            paths = lh_json_set(paths, route.name, path_json(service, &route));
    }
    return paths;
}

static json_t *error_schema(void) {
    json_t *members = json_pack("{s:{s:s}, s:{s:s}, s:{s:[s, s]}, s:{s:[s, s]}}", "message", "type",
                                "string", "type", "type", "string", "param", "type", "string",
                                "null", "code", "type", "string", "null");
    return json_pack("{s:s, s:[s], s:{s:{s:s, s:[s, s, s, s], s:o}}}", "type", "object", "required",
                     "error", "properties", "error", "type", "object", "required", "message",
                     "type", "param", "code", "properties", members);
}

static json_t *components_json(void) {
    return json_pack("{s:{s:o, s:{s:s, s:[s]}}, s:{s:{s:s, s:s}}}", "schemas", "Error",
                     error_schema(), "OtherError", "type", "object", "required", "error",
                     "securitySchemes", SECURITY_NAME, "type", "http", "scheme", "bearer");
}

json_t *lh_openai_openapi_json(const lh_openai_service *service) {
    return json_pack("{s:s, s:{s:s, s:s}, s:o, s:o}", "openapi", "3.1.0", "info", "title",
                     "Longhaul", "version", LONGHAUL_VERSION, "paths", paths_json(service),
                     "components", components_json());
}
