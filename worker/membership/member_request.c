/* Three routes of the fleet port. */
#include "worker/membership/member_request.h"

#include "common/net/address.h"
#include "common/protocol/join/join_messages_json.h"
#include "worker/membership/certificate.h"
#include "worker/membership/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXCHANGE_MS = 10000, PATH_BYTES = 160 };

static const char *address_of(const lh_own_membership *membership) {
    return membership->gateway_url + strlen("https://");
}

/* What is said beside 200. */
static lh_status refused(const lh_exchange_answer *answer, lh_error *error) {
    lh_join_refusal refusal;
    lh_error cause;
    if (lh_join_refusal_parse(answer->body, answer->length, &refusal, &cause) != LH_OK)
        snprintf(refusal.message, sizeof refusal.message, "%.*s",
                 (int)strcspn(answer->body, "\r\n"), answer->body);
    return lh_fail(error, answer->http_status >= 500 ? LH_ERR_UNAVAILABLE : LH_ERR_INVALID,
                   "the gateway answers %d: %.250s", answer->http_status, refusal.message);
}

/* LH_OK: 200, and the caller frees the body. */
static lh_status ask(const lh_tls_options *tls, const lh_own_membership *membership,
                     const char *method, const char *path, const char *body,
                     lh_exchange_answer *answer, lh_error *error) {
    lh_tls_options gateway = lh_tls_options_for(tls, "");
    lh_exchange_request request = {.method = method,
                                   .path = path,
                                   .body = body,
                                   .answer_bytes_max = LH_JOIN_ANSWER_BYTES_MAX,
                                   .timeout_ms = EXCHANGE_MS};
    lh_error cause;
    lh_status status = lh_exchange(address_of(membership), &gateway, &request, answer, &cause);
    if (status != LH_OK)
        return lh_fail(error, status, "%.100s: %.200s", address_of(membership), cause.message);
    if (answer->http_status == 200)
        return LH_OK;
    status = refused(answer, error);
    free(answer->body);
    answer->body = NULL;
    return status;
}

static void render_path(const lh_own_membership *membership, const char *what,
                        char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "/fleet/workers/%s/%s", membership->name, what);
}

/* ---- A certificate ---- */

static lh_status ask_grant(const lh_tls_options *tls, const lh_own_membership *membership,
                           const char *key, lh_join_grant *grant, lh_error *error) {
    lh_join_renewal renewal = {.time_s = (int64_t)time(NULL)};
    char path[PATH_BYTES];
    lh_exchange_answer answer;
    lh_status status = lh_own_key_request(key, renewal.csr, sizeof renewal.csr, error);
    if (status != LH_OK)
        return status;
    if (membership->host[0])
        memcpy(renewal.addresses[renewal.address_count++], membership->host,
               sizeof membership->host);
    char *body = lh_join_renewal_render(&renewal);
    if (!body)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    render_path(membership, "certificate", path);
    status = ask(tls, membership, "POST", path, body, &answer, error);
    free(body);
    if (status != LH_OK)
        return status;
    status = lh_join_grant_parse(answer.body, answer.length, grant, error);
    free(answer.body);
    return status;
}

/* It is for the one that we are, and no other. */
static lh_status check_grant(const lh_join_grant *grant, const lh_own_membership *membership,
                             const char *key, lh_error *error) {
    lh_error cause;
    lh_certificate_life life;
    lh_status status = lh_certificate_check(grant->certificate, key, grant->trust, membership->name,
                                            membership->site, &cause);
    if (status == LH_OK)
        status = lh_certificate_read_life(grant->certificate, &life, &cause);
    if (status == LH_OK && life.not_after_s <= (int64_t)time(NULL))
        status = lh_fail(&cause, LH_ERR_INVALID, "by this machine's clock it has ended already");
    return status == LH_OK
               ? LH_OK
               : lh_fail(error, LH_ERR_INVALID, "the new certificate: %.250s", cause.message);
}

lh_status lh_member_request_certificate(const lh_tls_options *tls, lh_membership_store *store,
                                        lh_own_membership *membership, lh_error *error) {
    char key[LH_OWN_KEY_BYTES];
    lh_join_grant grant;
    lh_status status = lh_membership_store_pending_key(store, key, error);
    if (status == LH_OK)
        status = ask_grant(tls, membership, key, &grant, error);
    if (status == LH_OK)
        status = check_grant(&grant, membership, key, error);
    if (status == LH_OK) {
        memcpy(membership->key, key, sizeof key);
        memcpy(membership->certificate, grant.certificate, sizeof grant.certificate);
        memcpy(membership->trust, grant.trust, sizeof grant.trust);
        memcpy(membership->observed, grant.observed, sizeof grant.observed);
    }
    explicit_bzero(key, sizeof key);
    return status;
}

/* ---- Whom the fleet trusts ---- */

static bool has_digest(const lh_exchange_answer *answer, const char *wanted) {
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    if (lh_sha256_digest(answer->body, answer->length, digest) != LH_OK)
        return false;
    lh_sha256_render(digest, hex);
    return strcmp(hex, wanted) == 0;
}

static lh_status take_trust(const lh_exchange_answer *answer, const char *digest,
                            lh_own_membership *membership, lh_error *error) {
    if (answer->length >= sizeof membership->trust)
        return lh_fail(error, LH_ERR_LIMIT, "the fleet's CAs take more than %zu bytes",
                       sizeof membership->trust);
    if (!has_digest(answer, digest))
        return lh_fail(error, LH_ERR_CORRUPT, "the fleet's CAs are others than the gateway said");
    lh_error cause;
    if (lh_certificate_check(membership->certificate, membership->key, answer->body,
                             membership->name, membership->site, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID,
                       "by the fleet's new CAs our certificate fails: %.200s", cause.message);
    memcpy(membership->trust, answer->body, answer->length + 1);
    return LH_OK;
}

lh_status lh_member_request_trust(const lh_tls_options *tls, const char *digest,
                                  lh_own_membership *membership, lh_error *error) {
    lh_exchange_answer answer;
    lh_status status = ask(tls, membership, "GET", "/fleet/trust", NULL, &answer, error);
    if (status != LH_OK)
        return status;
    status = take_trust(&answer, digest, membership, error);
    free(answer.body);
    return status;
}

/* ---- Reach ---- */

lh_status lh_member_request_reach(const lh_tls_options *tls, const lh_own_membership *membership,
                                  const char *address, lh_join_reach *reach, lh_error *error) {
    char path[PATH_BYTES], *body = lh_join_reach_request_render(address);
    lh_exchange_answer answer;
    if (!body)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    render_path(membership, "reach", path);
    lh_status status = ask(tls, membership, "POST", path, body, &answer, error);
    free(body);
    if (status != LH_OK)
        return status;
    status = lh_join_reach_parse(answer.body, answer.length, reach, error);
    free(answer.body);
    return status;
}
