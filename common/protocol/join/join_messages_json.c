/* In by the reader, out by jansson. */
#include "common/protocol/join/join_messages_json.h"

#include "common/json/json_reader.h"

#include <string.h>

/* The last second of the year 9999, where calendars and certificates end. */
#define TIME_S_MAX INT64_C(253402300799)
/* A gateway gives up long before. */
#define REACH_US_MAX INT64_C(3600000000)

/* Takes over the value. */
static char *dump(json_t *root) {
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *render_addresses(const char addresses[][LH_JOIN_HOST_BYTES], size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_string(addresses[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* ---- Fields ---- */

static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((*text < 0x20 || *text > 0x7e) && *text != '\n' && *text != '\r')
            return false;
    return true;
}

/* Lines of letters; whether they are PEM is seen where they are used. */
static void read_pem(const lh_json_reader *reader, const char *field, char *text, size_t capacity) {
    const char *value = lh_json_peek_string(reader, field);
    size_t length = value ? strlen(value) : 0;
    text[0] = '\0';
    if (length > 0 && length < capacity && is_printable(value))
        memcpy(text, value, length + 1);
    else
        lh_json_refuse(reader, field, "PEM of at most %zu bytes", capacity - 1);
}

static void read_secret(const lh_json_reader *reader, uint8_t secret[LH_JOIN_SECRET_BYTES]) {
    const char *value = lh_json_peek_string(reader, "secret");
    if (!value || !lh_base64url_parse(value, strlen(value), secret, LH_JOIN_SECRET_BYTES))
        lh_json_refuse(reader, "secret", "32 bytes as base64url");
}

/* A host, as it stands in a certificate or before a port. */
static bool is_host(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length < LH_JOIN_HOST_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:") ==
               length;
}

static size_t read_addresses(const lh_json_reader *reader, char addresses[][LH_JOIN_HOST_BYTES]) {
    size_t count = lh_json_read_array(reader, "addresses", LH_JOIN_ADDRESSES_MAX);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(json_object_get(reader->object, "addresses"), i);
        const char *text = json_string_value(value);
        if (!text || !is_host(text)) {
            lh_json_refuse(reader, "addresses", "names or IP addresses without ports");
            return 0;
        }
        memcpy(addresses[i], text, strlen(text) + 1);
    }
    return count;
}

static lh_status read_protocol(const lh_json_reader *reader) {
    lh_json_document *document = reader->document;
    int64_t protocol = lh_json_read_integer(reader, "protocol", 0, INT64_MAX);
    if (document->status == LH_OK && protocol != LH_JOIN_PROTOCOL_VERSION)
        document->status = lh_fail(document->error, LH_ERR_UNSUPPORTED,
                                   "%s: protocol %lld is not %d, which this program speaks: use "
                                   "the same version of Longhaul on both machines",
                                   document->name, (long long)protocol, LH_JOIN_PROTOCOL_VERSION);
    return document->status;
}

/* ---- Request and renewal ---- */

char *lh_join_request_render(const lh_join_request *request) {
    char secret[LH_JOIN_SECRET_LETTERS + 1];
    lh_base64url_render(request->secret, sizeof request->secret, secret);
    char *text = dump(json_pack(
        "{s:i,s:s,s:s,s:o,s:s,s:o,s:I,s:s}", "protocol", LH_JOIN_PROTOCOL_VERSION, "token",
        request->token, "secret", secret, "name", text_or_null(request->name), "csr", request->csr,
        "addresses", render_addresses(request->addresses, request->address_count), "time",
        (json_int_t)request->time_s, "version", request->version));
    explicit_bzero(secret, sizeof secret);
    return text;
}

lh_status lh_join_request_parse(const char *bytes, size_t length, lh_join_request *request,
                                lh_error *error) {
    lh_json_document document = {.name = "the request to join", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    memset(request, 0, sizeof *request);
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    if (read_protocol(&root) == LH_OK) {
        lh_json_read_hex(&root, "token", request->token, sizeof request->token - 1);
        read_secret(&root, request->secret);
        if (lh_json_is_there(&root, "name"))
            lh_json_read_name(&root, "name", request->name);
        read_pem(&root, "csr", request->csr, sizeof request->csr);
        request->address_count = read_addresses(&root, request->addresses);
        request->time_s = lh_json_read_integer(&root, "time", 0, TIME_S_MAX);
        lh_json_read_line(&root, "version", request->version, sizeof request->version);
    }
    return lh_json_document_close(&document);
}

char *lh_join_renewal_render(const lh_join_renewal *renewal) {
    return dump(json_pack("{s:i,s:s,s:o,s:I}", "protocol", LH_JOIN_PROTOCOL_VERSION, "csr",
                          renewal->csr, "addresses",
                          render_addresses(renewal->addresses, renewal->address_count), "time",
                          (json_int_t)renewal->time_s));
}

lh_status lh_join_renewal_parse(const char *bytes, size_t length, lh_join_renewal *renewal,
                                lh_error *error) {
    lh_json_document document = {.name = "the request for a certificate",
                                 .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    memset(renewal, 0, sizeof *renewal);
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    if (read_protocol(&root) == LH_OK) {
        read_pem(&root, "csr", renewal->csr, sizeof renewal->csr);
        renewal->address_count = read_addresses(&root, renewal->addresses);
        renewal->time_s = lh_json_read_integer(&root, "time", 0, TIME_S_MAX);
    }
    return lh_json_document_close(&document);
}

/* ---- Grant and refusal ---- */

char *lh_join_grant_render(const lh_join_grant *grant) {
    return dump(json_pack("{s:s,s:s,s:s,s:s,s:I,s:s}", "name", grant->name, "site", grant->site,
                          "certificate", grant->certificate, "trust", grant->trust, "time",
                          (json_int_t)grant->time_s, "observed", grant->observed));
}

lh_status lh_join_grant_parse(const char *bytes, size_t length, lh_join_grant *grant,
                              lh_error *error) {
    lh_json_document document = {.name = "the gateway's answer", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    memset(grant, 0, sizeof *grant);
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    lh_json_read_name(&root, "name", grant->name);
    lh_json_read_name(&root, "site", grant->site);
    read_pem(&root, "certificate", grant->certificate, sizeof grant->certificate);
    read_pem(&root, "trust", grant->trust, sizeof grant->trust);
    grant->time_s = lh_json_read_integer(&root, "time", 0, TIME_S_MAX);
    const char *observed = lh_json_peek_string(&root, "observed");
    if (observed && is_host(observed))
        memcpy(grant->observed, observed, strlen(observed) + 1);
    else
        lh_json_refuse(&root, "observed", "an IP address");
    return lh_json_document_close(&document);
}

char *lh_join_refusal_render(const lh_join_refusal *refusal) {
    return dump(json_pack("{s:{s:s,s:s}}", "error", "code", lh_join_refusal_name(refusal->code),
                          "message", refusal->message));
}

static lh_join_refusal_code code_of(const char *name) {
    lh_join_refusal_code code = LH_JOIN_MALFORMED;
    while (code < LH_JOIN_OTHER && (!name || strcmp(lh_join_refusal_name(code), name) != 0))
        code++;
    return code;
}

lh_status lh_join_refusal_parse(const char *bytes, size_t length, lh_join_refusal *refusal,
                                lh_error *error) {
    lh_json_document document = {.name = "the gateway's refusal", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root, inner;
    *refusal = (lh_join_refusal){.code = LH_JOIN_OTHER};
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    if (lh_json_read_object(&root, "error", false, &inner)) {
        refusal->code = code_of(lh_json_peek_string(&inner, "code"));
        lh_json_read_text(&inner, "message", refusal->message, sizeof refusal->message);
    }
    return lh_json_document_close(&document);
}

/* ---- Reach ---- */

char *lh_join_reach_request_render(const char *address) {
    return dump(json_pack("{s:s}", "address", address));
}

lh_status lh_join_reach_request_parse(const char *bytes, size_t length,
                                      char address[LH_JOIN_ADDRESS_BYTES], lh_error *error) {
    lh_json_document document = {.name = "the request for a test", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    lh_json_read_line(&root, "address", address, LH_JOIN_ADDRESS_BYTES);
    return lh_json_document_close(&document);
}

char *lh_join_reach_render(const lh_join_reach *reach) {
    return dump(reach->is_reached
                    ? json_pack("{s:b,s:I}", "reached", 1, "us", (json_int_t)reach->us)
                    : json_pack("{s:b,s:b,s:s}", "reached", 0, "tried", (int)!reach->is_untried,
                                "error", reach->error));
}

lh_status lh_join_reach_parse(const char *bytes, size_t length, lh_join_reach *reach,
                              lh_error *error) {
    lh_json_document document = {.name = "the gateway's answer", .refusal = LH_ERR_MALFORMED};
    lh_json_reader root;
    memset(reach, 0, sizeof *reach);
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    reach->is_reached = lh_json_read_bool(&root, "reached");
    if (reach->is_reached)
        reach->us = lh_json_read_integer(&root, "us", 0, REACH_US_MAX);
    else
        lh_json_read_text(&root, "error", reach->error, sizeof reach->error);
    if (lh_json_is_there(&root, "tried"))
        reach->is_untried = !lh_json_read_bool(&root, "tried");
    return lh_json_document_close(&document);
}
