/* A table. */
#include "gateway/openai/routes.h"

#include <stdlib.h>
#include <string.h>

#define READS  "GET, HEAD, OPTIONS"
#define WRITES "POST, OPTIONS"

enum {
    VERSIONED = 1, /* there with and without /v1 */
    REST = 2,      /* something follows the path */
    PUBLIC = 4,
    ADMIN = 8,
    OLLAMA = 16,
    AT_OLLAMA = 32 /* only on its port */
};

static const struct {
    const char *path;
    int traits;
    lh_openai_action action;
    const char *name, *methods;
} table[] = {
    {"/models", VERSIONED, LH_OPENAI_LIST_MODELS, "/v1/models", READS},
    {"/models/", VERSIONED | REST, LH_OPENAI_GET_MODEL, "/v1/models/{id}", READS},
    {"/chat/completions", VERSIONED, LH_OPENAI_POST_CHAT, "/v1/chat/completions", WRITES},
    {"/completions", VERSIONED, LH_OPENAI_POST_COMPLETION, "/v1/completions", WRITES},
    {"/responses", VERSIONED, LH_OPENAI_POST_RESPONSE, "/v1/responses", WRITES},
    {"/responses/input_tokens", VERSIONED, LH_OPENAI_POST_RESPONSE_COUNT,
     "/v1/responses/input_tokens", WRITES},
    {"/messages", VERSIONED, LH_OPENAI_POST_MESSAGE, "/v1/messages", WRITES},
    {"/messages/count_tokens", VERSIONED, LH_OPENAI_POST_COUNT, "/v1/messages/count_tokens",
     WRITES},
    {"/embeddings", VERSIONED, LH_OPENAI_POST_EMBEDDINGS, "/v1/embeddings", WRITES},
    {"/apply-template", 0, LH_OPENAI_POST_TEMPLATE, "/apply-template", WRITES},
    {"/tokenize", VERSIONED, LH_OPENAI_POST_TOKENIZE, "/tokenize", WRITES},
    {"/detokenize", VERSIONED, LH_OPENAI_POST_DETOKENIZE, "/detokenize", WRITES},
    {"/tokenizer_info", VERSIONED, LH_OPENAI_GET_TOKENIZER, "/tokenizer_info", READS},
    {"/health", PUBLIC, LH_OPENAI_GET_HEALTH, "/health", READS},
    {"/readyz", PUBLIC, LH_OPENAI_GET_HEALTH, "/readyz", READS},
    {"/livez", PUBLIC, LH_OPENAI_GET_LIFE, "/livez", READS},
    {"/version", 0, LH_OPENAI_GET_VERSION, "/version", READS},
    {"/openapi.json", 0, LH_OPENAI_GET_OPENAPI, "/openapi.json", READS},
    {"/fleet", ADMIN, LH_OPENAI_GET_FLEET, "/fleet", READS},
    {"/fleet/map", ADMIN, LH_OPENAI_GET_FLEET_MAP, "/fleet/map", READS},
    {"/trace/", ADMIN | REST, LH_OPENAI_GET_TRACE, "/trace/{id}", READS},
    {"/", PUBLIC | OLLAMA | AT_OLLAMA, LH_OPENAI_OLLAMA_GREET, "/", READS},
    {"/api/version", OLLAMA, LH_OPENAI_OLLAMA_GET_VERSION, "/api/version", READS},
    {"/api/tags", OLLAMA, LH_OPENAI_OLLAMA_LIST_MODELS, "/api/tags", READS},
    {"/api/ps", OLLAMA, LH_OPENAI_OLLAMA_LIST_RUNNING, "/api/ps", READS},
    {"/api/show", OLLAMA, LH_OPENAI_OLLAMA_POST_SHOW, "/api/show", WRITES},
    {"/api/chat", OLLAMA, LH_OPENAI_OLLAMA_POST_CHAT, "/api/chat", WRITES},
    {"/api/generate", OLLAMA, LH_OPENAI_OLLAMA_POST_GENERATE, "/api/generate", WRITES},
    {"/api/embed", OLLAMA, LH_OPENAI_OLLAMA_POST_EMBED, "/api/embed", WRITES},
    {"/api/embeddings", OLLAMA, LH_OPENAI_OLLAMA_POST_EMBEDDINGS, "/api/embeddings", WRITES},
    {"/api/pull", OLLAMA, LH_OPENAI_OLLAMA_FETCH, "/api/pull", WRITES},
    {"/api/push", OLLAMA, LH_OPENAI_OLLAMA_CHANGE, "/api/push", WRITES},
    {"/api/create", OLLAMA, LH_OPENAI_OLLAMA_CHANGE, "/api/create", WRITES},
    {"/api/copy", OLLAMA, LH_OPENAI_OLLAMA_CHANGE, "/api/copy", WRITES},
    {"/api/delete", OLLAMA, LH_OPENAI_OLLAMA_CHANGE, "/api/delete", "DELETE, OPTIONS"},
    {"/fleet/workers/", PUBLIC | REST, LH_OPENAI_TELL_FLEET_PORT, "/fleet/workers/{name}",
     "GET, HEAD, PUT, OPTIONS"},
    {"*", PUBLIC, LH_OPENAI_TELL_METHODS, "*", "GET, HEAD, POST, OPTIONS"},
};

#define UNKNOWN "unknown"

uint32_t lh_openai_route_count(void) {
    return sizeof table / sizeof table[0];
}

const char *lh_openai_route_name(uint32_t number) {
    return number < lh_openai_route_count() ? table[number].name : UNKNOWN;
}

static lh_openai_route route_at(size_t index, const char *rest) {
    int traits = table[index].traits;
    return (lh_openai_route){.action = table[index].action,
                             .name = table[index].name,
                             .methods = table[index].methods,
                             .rest = rest,
                             .is_public = traits & PUBLIC,
                             .is_admin = traits & ADMIN,
                             .is_ollama = traits & OLLAMA,
                             .number = (uint32_t)index};
}

lh_openai_route lh_openai_route_at(uint32_t number) {
    return route_at(number, "");
}

static bool match(size_t index, const char *path, lh_openai_route *route) {
    int traits = table[index].traits;
    if (traits & VERSIONED && strncmp(path, "/v1/", 4) == 0)
        path += 3;
    size_t length = strlen(table[index].path);
    if (strncmp(path, table[index].path, length) != 0 || (path[length] && !(traits & REST)))
        return false;
    *route = route_at(index, path + length);
    return true;
}

static bool allows(const char *methods, const char *method) {
    size_t length = strlen(method);
    for (const char *at = methods; at && *at; at = strchr(at, ' '), at += at != NULL)
        if (strncmp(at, method, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

bool lh_openai_route_find(const char *method, const char *path, bool at_ollama,
                          lh_openai_route *route, lh_openai_error *error) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((table[i].traits & AT_OLLAMA && !at_ollama) || !match(i, path, route))
            continue;
        if (strcmp(method, "OPTIONS") == 0)
            route->action = LH_OPENAI_TELL_METHODS;
        return allows(route->methods, method) ||
               lh_openai_refuse(error, 405, NULL, "method_not_allowed",
                                "%.40s is not allowed here; allowed are %s.", method,
                                route->methods);
    }
    *route = (lh_openai_route){
        .name = UNKNOWN, .number = lh_openai_route_count(), .is_ollama = at_ollama};
    return lh_openai_refuse(error, 404, NULL, "unknown_url", "Unknown request URL: %.40s %.200s.",
                            method, path);
}

bool lh_openai_route_decode(const char *text, char *out, size_t bytes) {
    size_t used = 0;
    for (; *text; text++) {
        int byte = (unsigned char)*text;
        if (*text == '%') {
            const char digits[] = {text[1], text[1] ? text[2] : '\0', '\0'};
            if (strspn(digits, "0123456789abcdefABCDEF") != 2)
                return false;
            byte = (int)strtol(digits, NULL, 16);
            text += 2;
        }
        if (byte == 0 || used + 1 >= bytes)
            return false;
        out[used++] = (char)byte;
    }
    out[used] = '\0';
    return true;
}
