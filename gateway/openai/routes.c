/* A table. */
#include "gateway/openai/routes.h"

#include <string.h>

#define READS  "GET, HEAD, OPTIONS"
#define WRITES "POST, OPTIONS"

static const struct {
    const char *path;
    bool versioned; /* there with and without /v1 */
    bool has_rest;
    lh_openai_route route;
} table[] = {
    {"/models", true, false, {LH_OPENAI_LIST_MODELS, "/v1/models", READS, "", false, false}},
    {"/models/", true, true, {LH_OPENAI_GET_MODEL, "/v1/models/{id}", READS, "", false, false}},
    {"/chat/completions",
     true,
     false,
     {LH_OPENAI_POST_CHAT, "/v1/chat/completions", WRITES, "", false, false}},
    {"/completions",
     true,
     false,
     {LH_OPENAI_POST_COMPLETION, "/v1/completions", WRITES, "", false, false}},
    {"/health", false, false, {LH_OPENAI_GET_HEALTH, "/health", READS, "", true, false}},
    {"/readyz", false, false, {LH_OPENAI_GET_HEALTH, "/readyz", READS, "", true, false}},
    {"/livez", false, false, {LH_OPENAI_GET_LIFE, "/livez", READS, "", true, false}},
    {"/version", false, false, {LH_OPENAI_GET_VERSION, "/version", READS, "", false, false}},
    {"/fleet", false, false, {LH_OPENAI_GET_FLEET, "/fleet", READS, "", false, true}},
    {"/trace/", false, true, {LH_OPENAI_GET_TRACE, "/trace/{id}", READS, "", false, true}},
    {"*", false, false, {LH_OPENAI_TELL_METHODS, "*", "GET, HEAD, POST, OPTIONS", "", true, false}},
};

static bool match(size_t index, const char *path, lh_openai_route *route) {
    if (table[index].versioned && strncmp(path, "/v1/", 4) == 0)
        path += 3;
    size_t length = strlen(table[index].path);
    if (strncmp(path, table[index].path, length) != 0 || (path[length] && !table[index].has_rest))
        return false;
    *route = table[index].route;
    route->rest = path + length;
    return true;
}

static bool allows(const char *methods, const char *method) {
    size_t length = strlen(method);
    for (const char *at = methods; at && *at; at = strchr(at, ' '), at += at != NULL)
        if (strncmp(at, method, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

bool lh_openai_route_find(const char *method, const char *path, lh_openai_route *route,
                          lh_openai_error *error) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!match(i, path, route))
            continue;
        if (!allows(route->methods, method)) {
            lh_openai_error_set(error, 405, "method_not_allowed",
                                "%.40s is not allowed here; allowed are %s.", method,
                                route->methods);
            return false;
        }
        if (strcmp(method, "OPTIONS") == 0)
            route->action = LH_OPENAI_TELL_METHODS;
        return true;
    }
    *route = (lh_openai_route){.name = "unknown"};
    lh_openai_error_set(error, 404, "unknown_url", "Unknown request URL: %.40s %.200s.", method,
                        path);
    return false;
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool lh_openai_route_decode(const char *text, char *out, size_t bytes) {
    size_t used = 0;
    for (; *text; text++) {
        int byte = (unsigned char)*text;
        if (*text == '%') {
            int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0)
                return false;
            byte = high * 16 + low;
            text += 2;
        }
        if (byte == 0 || used + 1 >= bytes)
            return false;
        out[used++] = (char)byte;
    }
    out[used] = '\0';
    return true;
}
