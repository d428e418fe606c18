/* One name of a subjectAltName, compared byte by byte. */
#include "common/net/tls_identity.h"

#include <assert.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

static const lh_tls_identity stranger = {.kind = LH_TLS_STRANGER};

/* ---- One name ---- */

/* Moves behind `words`, where the text begins with them. */
static bool skip(const char **text, const char *end, const char *words) {
    size_t length = strlen(words);
    if ((size_t)(end - *text) < length || memcmp(*text, words, length) != 0)
        return false;
    *text += length;
    return true;
}

static bool take_name(const char *text, const char *end, char name[LH_NAME_BYTES]) {
    size_t length = (size_t)(end - text);
    if (length >= LH_NAME_BYTES || memchr(text, '\0', length))
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return lh_name_is_valid(name);
}

lh_tls_identity lh_tls_identity_parse(const char *uri, size_t length) {
    const char *text = uri, *end = uri + length;
    lh_tls_identity identity = stranger;
    if (!skip(&text, end, "longhaul://"))
        return stranger;
    if ((size_t)(end - text) == strlen("gateway") && skip(&text, end, "gateway"))
        return (lh_tls_identity){.kind = LH_TLS_GATEWAY};
    if (!skip(&text, end, "worker/"))
        return stranger;
    const char *mark = memchr(text, '?', (size_t)(end - text)), *site = mark;
    if (!mark || !skip(&site, end, "?site=") || !take_name(text, mark, identity.name) ||
        !take_name(site, end, identity.site))
        return stranger;
    identity.kind = LH_TLS_WORKER;
    return identity;
}

void lh_tls_identity_render(const lh_tls_identity *identity, char uri[LH_TLS_URI_BYTES]) {
    assert(identity->kind == LH_TLS_WORKER || identity->kind == LH_TLS_GATEWAY);
    if (identity->kind == LH_TLS_WORKER)
        snprintf(uri, LH_TLS_URI_BYTES, "longhaul://worker/%s?site=%s", identity->name,
                 identity->site);
    else
        snprintf(uri, LH_TLS_URI_BYTES, "longhaul://gateway");
}

/* ---- A certificate ---- */

/* Whoever writes another case or a wrong path has meant one of ours, which is none then. */
static bool is_of_our_scheme(const char *uri, size_t length) {
    static const char scheme[] = "longhaul:";
    return length >= sizeof scheme - 1 && strncasecmp(uri, scheme, sizeof scheme - 1) == 0;
}

lh_tls_identity lh_tls_identity_of(const X509 *certificate) {
    lh_tls_identity found = stranger;
    int count = 0;
    GENERAL_NAMES *names =
        certificate ? X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL) : NULL;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        const ASN1_IA5STRING *uri = name->d.uniformResourceIdentifier;
        const char *text = (const char *)ASN1_STRING_get0_data(uri);
        size_t length = (size_t)ASN1_STRING_length(uri);
        if (!is_of_our_scheme(text, length))
            continue;
        found = lh_tls_identity_parse(text, length);
        count++;
    }
    GENERAL_NAMES_free(names);
    if (count != 1)
        return stranger;
    lh_tls_serial_of(certificate, found.serial);
    return found;
}

/* ---- Whom is meant ---- */

lh_tls_identity lh_tls_identity_named(const char *worker) {
    lh_tls_identity identity = {.kind = worker[0] ? LH_TLS_WORKER : LH_TLS_GATEWAY};
    snprintf(identity.name, sizeof identity.name, "%s", worker);
    return identity;
}

bool lh_tls_identity_is_worker(const lh_tls_identity *identity, const char *name) {
    return identity->kind == LH_TLS_WORKER && strcmp(identity->name, name) == 0;
}

bool lh_tls_identity_meets(const lh_tls_identity *identity, const lh_tls_identity *expected) {
    if (identity->kind != LH_TLS_WORKER && identity->kind != LH_TLS_GATEWAY)
        return false;
    return expected->kind == LH_TLS_NONE ||
           (identity->kind == expected->kind && strcmp(identity->name, expected->name) == 0);
}

void lh_tls_identity_describe(const lh_tls_identity *identity,
                              char text[LH_TLS_IDENTITY_TEXT_BYTES]) {
    static const char *const others[] = {[LH_TLS_NONE] = "a peer without TLS",
                                         [LH_TLS_STRANGER] = "a stranger to the fleet",
                                         [LH_TLS_GATEWAY] = "the gateway"};
    if (identity->kind != LH_TLS_WORKER)
        snprintf(text, LH_TLS_IDENTITY_TEXT_BYTES, "%s", others[identity->kind]);
    else
        snprintf(text, LH_TLS_IDENTITY_TEXT_BYTES, "worker %s%s%s", identity->name,
                 identity->site[0] ? " of site " : "", identity->site);
}
