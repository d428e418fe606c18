/* Signs for workers and for the gateway itself, with the CA that signs. */
#include "gateway/membership/issuer.h"

#include "common/net/tls_identity.h"
#include "gateway/membership/admission.h"
#include "gateway/membership/authority_files.h"
#include "gateway/membership/host_name.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = LH_JOIN_ADDRESSES_MAX + 1 };

void lh_issuer_init(lh_issuer *issuer, const char *folder, int64_t life_s, const char *const *hosts,
                    size_t host_count) {
    assert(host_count <= LH_ISSUER_HOSTS_MAX);
    *issuer = (lh_issuer){.life_s = life_s};
    snprintf(issuer->folder, sizeof issuer->folder, "%s", folder);
    for (size_t i = 0; i < host_count; i++)
        if (lh_host_name_is_valid(hosts[i]))
            snprintf(issuer->hosts[issuer->host_count++], LH_HOST_NAME_BYTES, "%s", hosts[i]);
}

/* ---- For workers ---- */

static bool is_own(const lh_issuer *issuer, const char *host) {
    for (size_t i = 0; i < issuer->host_count; i++)
        if (lh_host_name_is_same(issuer->hosts[i], host))
            return true;
    return false;
}

/* Adds a host that may stand in a worker's certificate. */
static size_t add_host(const lh_issuer *issuer, const char *host, const char **hosts,
                       size_t count) {
    if (!lh_host_name_is_valid(host) || is_own(issuer, host))
        return count;
    for (size_t i = 0; i < count; i++)
        if (lh_host_name_is_same(hosts[i], host))
            return count;
    hosts[count] = host;
    return count + 1;
}

/* The certificate that whoever asks again has got before, and perhaps never seen. */
static const lh_member *find_same(const lh_records *records, const lh_applicant *a, int64_t now_s) {
    const lh_member *same = lh_member_list_find_key(
        &records->members, a->name, lh_certificate_request_key_sha256(a->request), now_s);
    return same && lh_admission_is_fresh(records, same, now_s) ? same : NULL;
}

/* Signs, and adds the certificate to the records where it is not there. */
static lh_status issue(const lh_issuer *issuer, lh_records_change *change, const lh_applicant *a,
                       int64_t now_s, lh_text_buffer *pem, lh_error *error) {
    char uri[LH_TLS_URI_BYTES];
    lh_tls_identity identity = {.kind = LH_TLS_WORKER};
    const char *hosts[HOSTS_MAX];
    lh_member member = {.issued_s = now_s, .expires_s = now_s + issuer->life_s};
    const lh_member *same = find_same(&change->records, a, now_s);
    if (same)
        member = *same;
    size_t host_count = add_host(issuer, a->observed, hosts, 0);
    for (size_t i = 0; i < a->address_count; i++)
        host_count = add_host(issuer, a->addresses[i], hosts, host_count);
    snprintf(identity.name, sizeof identity.name, "%s", a->name);
    snprintf(identity.site, sizeof identity.site, "%s", a->site);
    lh_tls_identity_render(&identity, uri);
    const lh_certificate_terms terms = {.common_name = a->name,
                                        .uri = uri,
                                        .hosts = hosts,
                                        .host_count = host_count,
                                        .not_before_s = member.issued_s - LH_JOIN_BACKDATED_S,
                                        .not_after_s = member.expires_s};
    lh_certificate_authority *authority;
    const char *id = lh_authority_list_signing(&change->records.authorities)->id;
    lh_status status = lh_authority_files_load(issuer->folder, id, &authority, error);
    if (status != LH_OK)
        return status;
    status = lh_certificate_authority_issue(authority, lh_certificate_request_key(a->request),
                                            &terms, member.serial, pem, error);
    lh_certificate_authority_destroy(authority);
    if (status != LH_OK || same)
        return status;
    snprintf(member.name, sizeof member.name, "%s", a->name);
    snprintf(member.site, sizeof member.site, "%s", a->site);
    snprintf(member.authority, sizeof member.authority, "%s", id);
    snprintf(member.observed, sizeof member.observed, "%s", a->observed);
    memcpy(member.key_sha256, lh_certificate_request_key_sha256(a->request), LH_SHA256_BYTES);
    lh_records_prune(&change->records, now_s);
    return lh_member_list_add(&change->records.members, &member, &change->records.authorities,
                              now_s, error);
}

/* Text into a field of the grant. */
static lh_status fill(char *field, size_t capacity, const lh_text_buffer *text, lh_error *error) {
    if (text->length >= capacity)
        return lh_fail(error, LH_ERR_LIMIT, "a certificate or bundle is over %zu bytes",
                       capacity - 1);
    memcpy(field, text->bytes, text->length);
    field[text->length] = '\0';
    return LH_OK;
}

static lh_status fill_trust(const lh_issuer *issuer, const lh_records *records,
                            lh_join_grant *grant, lh_error *error) {
    lh_text_buffer trust = {0};
    lh_status status =
        lh_authority_files_render_trust(issuer->folder, &records->authorities, &trust, error);
    if (status == LH_OK)
        status = fill(grant->trust, sizeof grant->trust, &trust, error);
    lh_text_buffer_reset(&trust);
    return status;
}

lh_status lh_issuer_grant(const lh_issuer *issuer, lh_records_change *change, const lh_applicant *a,
                          int64_t now_s, lh_join_grant *grant, lh_error *error) {
    lh_text_buffer pem = {0};
    lh_status status = issue(issuer, change, a, now_s, &pem, error);
    if (status == LH_OK)
        status = fill(grant->certificate, sizeof grant->certificate, &pem, error);
    lh_text_buffer_reset(&pem);
    if (status == LH_OK)
        status = fill_trust(issuer, &change->records, grant, error);
    snprintf(grant->name, sizeof grant->name, "%s", a->name);
    snprintf(grant->site, sizeof grant->site, "%s", a->site);
    snprintf(grant->observed, sizeof grant->observed, "%s", a->observed);
    grant->time_s = now_s;
    return status;
}

/* ---- For the gateway ---- */

#define OWN_BYTES_MAX (16u << 10)

/* `hosts` and `uri` outlive the terms. */
static lh_certificate_terms own_terms(const lh_issuer *issuer, int64_t now_s,
                                      const char *hosts[LH_ISSUER_HOSTS_MAX],
                                      char uri[LH_TLS_URI_BYTES]) {
    lh_tls_identity_render(&(lh_tls_identity){.kind = LH_TLS_GATEWAY}, uri);
    for (size_t i = 0; i < issuer->host_count; i++)
        hosts[i] = issuer->hosts[i];
    return (lh_certificate_terms){.common_name = "longhaul gateway",
                                  .uri = uri,
                                  .hosts = hosts,
                                  .host_count = issuer->host_count,
                                  .not_before_s = now_s - LH_JOIN_BACKDATED_S,
                                  .not_after_s = now_s + issuer->life_s};
}

bool lh_issuer_read_own(const lh_issuer *issuer, const char *file, const char *id,
                        lh_issued_life *life) {
    const char *hosts[LH_ISSUER_HOSTS_MAX];
    char uri[LH_TLS_URI_BYTES], *pem;
    size_t length;
    lh_certificate_authority *authority;
    lh_certificate_terms terms = own_terms(issuer, 0, hosts, uri);
    if (lh_state_file_read(issuer->folder, file, OWN_BYTES_MAX, &pem, &length, NULL) != LH_OK)
        return false;
    bool is_own = lh_authority_files_load(issuer->folder, id, &authority, NULL) == LH_OK;
    if (is_own) {
        is_own = lh_certificate_authority_has_issued(authority, pem, length, &terms);
        lh_certificate_authority_destroy(authority);
    }
    explicit_bzero(pem, length);
    free(pem);
    *life = (lh_issued_life){.issued_s = terms.not_before_s + LH_JOIN_BACKDATED_S,
                             .ends_s = terms.not_after_s};
    return is_own && life->ends_s - life->issued_s == issuer->life_s;
}

lh_status lh_issuer_issue_own(const lh_issuer *issuer, const char *file, const char *id,
                              int64_t now_s, lh_error *error) {
    const char *hosts[LH_ISSUER_HOSTS_MAX];
    char serial[LH_SERIAL_BYTES] = "", uri[LH_TLS_URI_BYTES];
    lh_text_buffer pem = {0};
    lh_certificate_authority *authority;
    const lh_certificate_terms terms = own_terms(issuer, now_s, hosts, uri);
    lh_status status = lh_authority_files_load(issuer->folder, id, &authority, error);
    if (status != LH_OK)
        return status;
    status = lh_certificate_authority_issue_pair(authority, &terms, serial, &pem, error);
    if (status == LH_OK)
        status = lh_certificate_authority_render_certificate(authority, &pem);
    if (status == LH_OK)
        status = lh_state_file_write(issuer->folder, file, pem.bytes, pem.length, error);
    if (pem.bytes)
        explicit_bzero(pem.bytes, pem.length);
    lh_text_buffer_reset(&pem);
    lh_certificate_authority_destroy(authority);
    return status;
}
