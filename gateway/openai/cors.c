/* Exact matches alone: what an origin is has one spelling. */
#include "gateway/openai/cors.h"

#include <string.h>

/* scheme "://" host [":" port], lower case as browsers have it. */
static bool is_origin(const char *text, size_t length) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
    if (scheme == 0 || scheme + 3 >= length || strncmp(text + scheme, "://", 3) != 0)
        return false;
    const char *host = text + scheme + 3;
    return strspn(host, allowed) >= length - scheme - 3;
}

lh_status lh_cors_check(const char *list, lh_error *error) {
    while (list && *list) {
        size_t length = strcspn(list, ",");
        if (!is_origin(list, length))
            return lh_fail(error, LH_ERR_INVALID,
                           "\"%.*s\" is no origin, such as https://chat.example or "
                           "http://localhost:3000",
                           (int)(length < 80 ? length : 80), list);
        if (list[length] == ',' && !list[length + 1])
            return lh_fail(error, LH_ERR_INVALID, "an origin is expected behind the last comma");
        list += length + (list[length] == ',');
    }
    return LH_OK;
}

lh_cors_origin lh_cors_match(const char *list, const lh_http_request *request) {
    const char *origin = list ? lh_http_request_header(request, "Origin") : NULL;
    while (origin && *list) {
        size_t length = strcspn(list, ",");
        if (strlen(origin) == length && memcmp(list, origin, length) == 0)
            return (lh_cors_origin){list, length};
        list += length + (list[length] == ',');
    }
    return (lh_cors_origin){NULL, 0};
}

bool lh_cors_is_preflight(lh_cors_origin origin, const lh_http_request *request) {
    return origin.bytes && strcmp(request->method, "OPTIONS") == 0 &&
           lh_http_request_header(request, "Access-Control-Request-Method");
}

void lh_cors_add_headers(const char *list, lh_cors_origin origin, const char *methods,
                         lh_http_reply *reply) {
    if (!list || !list[0])
        return;
    lh_http_reply_add(reply, "Vary", "Origin"); /* also where it is not allowed */
    if (!origin.bytes)
        return;
    lh_http_reply_add(reply, "Access-Control-Allow-Origin", "%.*s", (int)origin.length,
                      origin.bytes);
    lh_http_reply_add(reply, "Access-Control-Expose-Headers", "*");
    if (!methods)
        return;
    lh_http_reply_add(reply, "Access-Control-Allow-Methods", "%s", methods);
    /* The asterisk stands for all but Authorization. */
    lh_http_reply_add(reply, "Access-Control-Allow-Headers", "Authorization, *");
    lh_http_reply_add(reply, "Access-Control-Max-Age", "600");
}
