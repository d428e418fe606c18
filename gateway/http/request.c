/* RFC 9110 and 9112, read strictly. */
#include "gateway/http/request.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

static bool is_token(const char *text) {
    static const char bytes[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *text && !text[strspn(text, bytes)];
}

/* Visible ASCII, and what else Latin-1 and UTF-8 put there; no control characters but the tab. */
static bool is_field_value(const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return false;
    }
    return true;
}

static size_t count_headers(const lh_http_request *request, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += strcasecmp(request->headers[i].name, name) == 0;
    return count;
}

const char *lh_http_request_header(const lh_http_request *request, const char *name) {
    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

static unsigned refuse(lh_error *error, unsigned status, const char *message) {
    lh_fail(error, LH_ERR_MALFORMED, "%s", message);
    return status;
}

static unsigned check_target(const lh_http_request *request, lh_error *error) {
    const char *target = request->target;
    if (strlen(target) > LH_HTTP_TARGET_BYTES_MAX)
        return refuse(error, 414, "The request target is longer than 8192 bytes.");
    if (strcmp(target, "*") == 0 && strcmp(request->method, "OPTIONS") == 0)
        return 0;
    if (target[0] != '/')
        return refuse(error, 400, "The request target must begin with '/'.");
    for (; *target; target++)
        if (*target <= 0x20 || *target >= 0x7f || *target == '#')
            return refuse(error, 400,
                          "The request target has a character that a target may not hold.");
    return 0;
}

static unsigned check_headers(const lh_http_request *request, lh_error *error) {
    for (size_t i = 0; i < request->header_count; i++) {
        if (!is_token(request->headers[i].name))
            return refuse(error, 400, "The name of a header is malformed.");
        if (!is_field_value(request->headers[i].value))
            return refuse(error, 400, "The value of a header holds a control character.");
    }
    static const char *const single[] = {"Host", "Content-Length", "Transfer-Encoding",
                                         "Content-Type", "Authorization"};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        if (count_headers(request, single[i]) > 1) {
            lh_fail(error, LH_ERR_MALFORMED, "The header %s is given more than once.", single[i]);
            return 400;
        }
    return 0;
}

/* A port: nothing, or 1 to 5 digits after a colon. */
static bool is_port(const char *text) {
    if (!*text)
        return true;
    if (*text++ != ':')
        return false;
    size_t digits = strspn(text, "0123456789");
    return digits <= 5 && !text[digits];
}

/* uri-host [":" port] (RFC 9110, 7.2): a name, an IPv4 address or an IPv6 address in brackets. */
static bool is_host(const char *host) {
    if (*host == '[') {
        size_t length = strspn(host + 1, "0123456789abcdefABCDEF:.");
        return length > 1 && host[1 + length] == ']' && is_port(host + 2 + length);
    }
    static const char name[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%!$&'()*+,;=";
    return is_port(host + strspn(host, name));
}

static unsigned check_host(const lh_http_request *request, lh_error *error) {
    const char *host = lh_http_request_header(request, "Host");
    if (!host && strcmp(request->version, "HTTP/1.1") == 0)
        return refuse(error, 400, "The header Host is missing.");
    if (host && !is_host(host))
        return refuse(error, 400, "The header Host is malformed.");
    return 0;
}

static bool parse_length(const char *text, uint64_t *bytes) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits])
        return false;
    *bytes = 0;
    for (size_t i = 0; i < digits; i++)
        *bytes = *bytes * 10 + (uint64_t)(text[i] - '0');
    return true;
}

static unsigned check_framing(lh_http_request *request, lh_error *error) {
    const char *length = lh_http_request_header(request, "Content-Length");
    const char *encoding = lh_http_request_header(request, "Transfer-Encoding");
    request->chunked = encoding;
    request->announced_bytes = 0;
    if (length && encoding)
        return refuse(error, 400, "Content-Length and Transfer-Encoding may not stand together.");
    if (encoding && strcmp(request->version, "HTTP/1.1") != 0)
        return refuse(error, 400, "Transfer-Encoding needs HTTP/1.1.");
    if (encoding && strcasecmp(encoding, "chunked") != 0)
        return refuse(error, 501, "The only Transfer-Encoding known here is chunked.");
    if (length && !parse_length(length, &request->announced_bytes))
        return refuse(error, 400, "Content-Length is not a number of bytes.");
    return 0;
}

unsigned lh_http_request_check(lh_http_request *request, lh_error *error) {
    assert(request->method && request->version && request->target);
    if (strcmp(request->version, "HTTP/1.1") != 0 && strcmp(request->version, "HTTP/1.0") != 0)
        return refuse(error, 400, "The HTTP version must be 1.1 or 1.0.");
    if (!is_token(request->method))
        return refuse(error, 400, "The request method is malformed.");
    unsigned status;
    if ((status = check_target(request, error)) || (status = check_headers(request, error)) ||
        (status = check_host(request, error)))
        return status;
    return check_framing(request, error);
}

bool lh_http_request_is_type(const lh_http_request *request, const char *media_type) {
    const char *value = lh_http_request_header(request, "Content-Type");
    size_t length = strlen(media_type);
    if (!value || strncasecmp(value, media_type, length) != 0)
        return false;
    value += length;
    value += strspn(value, " \t");
    return *value == '\0' || *value == ';';
}

bool lh_http_request_may_be_a_page_s(const lh_http_request *request) {
    static const char *const marks[] = {"Origin", "Referer", "Cookie"};
    static const char fetch[] = "Sec-Fetch-", browser[] = "Mozilla/";
    const char *agent = lh_http_request_header(request, "User-Agent");
    if (agent && strncasecmp(agent, browser, sizeof browser - 1) == 0)
        return true;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (lh_http_request_header(request, marks[i]))
            return true;
    for (size_t i = 0; i < request->header_count; i++)
        if (strncasecmp(request->headers[i].name, fetch, sizeof fetch - 1) == 0)
            return true;
    return false;
}
