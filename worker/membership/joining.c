/* The steps of joining, and a sentence for each way in which one fails. */
#include "worker/membership/joining.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/route.h"
#include "common/net/tls_pin.h"
#include "common/protocol/join/join_messages_json.h"
#include "worker/membership/certificate.h"
#include "worker/membership/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    EXCHANGE_MS = 10000, /* the gateway closes the connection by then */
    /* while it is busy or cannot write: so many tries, with pauses of 1, 2, 4, 8, 8... s */
    TRIES = 10,
    PAUSE_S_MAX = 8,
    TRIED_BYTES = 200
};

typedef struct joining {
    const lh_joining_order *order;
    lh_address address;
    char url[LH_MEMBERSHIP_URL_BYTES];
    lh_join_token token;
    lh_route_targets targets;
    lh_join_request request;
    lh_tls_pin pin;
    lh_tls_options tls;
    bool is_name_taken; /* so the gateway says */
} joining;

/* ---- What was pasted ---- */

static lh_status read_url(joining *j, lh_error *error) {
    const char *given = j->order->gateway_url;
    size_t length = strlen(given);
    lh_error cause;
    if (length > 0 && given[length - 1] == '/')
        length--;
    if (strncmp(given, "https://", 8) != 0 || length >= sizeof j->url)
        return lh_fail(error, LH_ERR_INVALID,
                       "join: '%.120s' is not https://HOST:PORT: paste the whole line that "
                       "`longhaul-gateway token` has printed",
                       given);
    memcpy(j->url, given, length);
    j->url[length] = '\0';
    if (lh_address_parse(j->url + 8, &j->address, &cause) != LH_OK || j->address.port == 0)
        return lh_fail(error, LH_ERR_INVALID, "join: '%.120s' is not https://HOST:PORT", given);
    return LH_OK;
}

static lh_status read_order(joining *j, lh_error *error) {
    lh_error cause;
    lh_status status = read_url(j, error);
    if (status == LH_OK && lh_join_token_parse(j->order->token, &j->token, &cause) != LH_OK)
        status = lh_fail(error, LH_ERR_INVALID, "join: %s", cause.message);
    return status;
}

lh_status lh_joining_order_check(const lh_joining_order *order, lh_error *error) {
    joining j = {.order = order};
    lh_status status = read_order(&j, error);
    explicit_bzero(&j.token, sizeof j.token);
    return status;
}

/* ---- The key and the request ---- */

static lh_status fill_request(joining *j, const char *key, lh_error *error) {
    lh_join_request *request = &j->request;
    memcpy(request->token, j->token.id, sizeof request->token);
    memcpy(request->secret, j->token.secret, sizeof request->secret);
    snprintf(request->name, sizeof request->name, "%s", j->order->name);
    snprintf(request->version, sizeof request->version, "%s", LONGHAUL_VERSION);
    if (lh_route_own_host((struct sockaddr *)&j->targets.addresses[0], request->addresses[0]))
        request->address_count = 1;
    return lh_own_key_request(key, request->csr, sizeof request->csr, error);
}

/* The machine's name, with '-' for what a worker's name may not have. */
static void name_by_machine(char name[LH_NAME_BYTES]) {
    gethostname(name, LH_NAME_BYTES - 1);
    name[LH_NAME_BYTES - 1] = '\0';
    for (char *at = name; *at; at++)
        if (!lh_name_is_valid((char[]){*at, '\0'}))
            *at = '-';
    if (!name[0])
        strcpy(name, "worker");
}

/* ---- Asking ---- */

/* At one address. */
static lh_status ask_at(joining *j, const char *address, lh_exchange_answer *answer,
                        lh_error *error) {
    j->request.time_s = (int64_t)time(NULL);
    char *body = lh_join_request_render(&j->request);
    if (!body)
        return lh_fail(error, LH_ERR_NO_MEMORY, "the request to join: out of memory");
    lh_exchange_request request = {.method = "POST",
                                   .path = LH_JOIN_PATH,
                                   .body = body,
                                   .answer_bytes_max = LH_JOIN_ANSWER_BYTES_MAX,
                                   .timeout_ms = EXCHANGE_MS};
    lh_status status = lh_exchange(address, &j->tls, &request, answer, error);
    explicit_bzero(body, strlen(body));
    free(body);
    return status;
}

static lh_status nobody_there(const joining *j, const char *tried, lh_error *error) {
    return lh_fail(error, LH_ERR_UNAVAILABLE,
                   "join: no gateway answers at %.90s; tried%.*s. Does longhaul-gateway run "
                   "there, with a CA of its own and --fleet-listen for others?",
                   j->url + 8, TRIED_BYTES - 80, tried);
}

/* At all addresses of the gateway's name, until one answers. */
static lh_status ask(joining *j, lh_exchange_answer *answer, lh_error *error) {
    char tried[TRIED_BYTES] = "";
    for (size_t i = 0; i < j->targets.count; i++) {
        char address[LH_ADDRESS_TEXT_BYTES];
        lh_error cause;
        lh_address_render((struct sockaddr *)&j->targets.addresses[i], address);
        lh_status status = ask_at(j, address, answer, &cause);
        if (status == LH_OK || status == LH_ERR_NO_MEMORY)
            return status == LH_OK ? LH_OK : lh_fail(error, status, "%s", cause.message);
        if (j->pin.fault[0])
            return lh_fail(error, LH_ERR_PROTOCOL, "join: %.60s: %.250s", address, j->pin.fault);
        size_t used = strlen(tried);
        snprintf(tried + used, sizeof tried - used, "%s %s (%.100s)", used ? "," : "", address,
                 cause.message);
    }
    return nobody_there(j, tried, error);
}

/* ---- Refusals ---- */

static bool is_passing(lh_join_refusal_code code) {
    return code == LH_JOIN_BUSY || code == LH_JOIN_UNAVAILABLE;
}

static lh_status refused(const lh_join_refusal *refusal, lh_error *error) {
    return lh_fail(error, is_passing(refusal->code) ? LH_ERR_UNAVAILABLE : LH_ERR_INVALID,
                   "join: the gateway refuses: %s", refusal->message);
}

/* The refusal in an answer that is not 200. */
static lh_join_refusal read_refusal(const lh_exchange_answer *answer) {
    lh_join_refusal refusal;
    lh_error cause;
    if (lh_join_refusal_parse(answer->body, answer->length, &refusal, &cause) != LH_OK) {
        refusal.code = answer->http_status >= 500 ? LH_JOIN_UNAVAILABLE : LH_JOIN_OTHER;
        snprintf(refusal.message, sizeof refusal.message, "HTTP status %d", answer->http_status);
    }
    return refusal;
}

/* Until it is granted, or refused for good. */
static lh_status ask_until_answered(joining *j, lh_exchange_answer *answer, lh_error *error) {
    unsigned pause_s = 1;
    for (int tries = 1;; tries++) {
        lh_status status = ask(j, answer, error);
        if (status != LH_OK || answer->http_status == 200)
            return status;
        lh_join_refusal refusal = read_refusal(answer);
        free(answer->body);
        answer->body = NULL;
        bool is_unnamed = refusal.code == LH_JOIN_NAME_INVALID && !j->request.name[0];
        if (is_unnamed)
            name_by_machine(j->request.name);
        else if (!is_passing(refusal.code) || tries == TRIES) {
            j->is_name_taken = refusal.code == LH_JOIN_NAME_TAKEN;
            return refused(&refusal, error);
        }
        if (is_unnamed)
            continue;
        lh_log(LH_LOG_INFO, "membership", "asking again in %u s reason=\"%s\"", pause_s,
               refusal.message);
        sleep(pause_s);
        pause_s = pause_s < PAUSE_S_MAX ? pause_s * 2 : PAUSE_S_MAX;
    }
}

/* ---- The grant ---- */

static void render_time(int64_t seconds, char text[32]) {
    struct tm parts;
    time_t time = (time_t)seconds;
    if (!gmtime_r(&time, &parts) || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        strcpy(text, "?");
}

/* A certificate that is not valid here and now would be of no use. */
static lh_status check_clock(const lh_join_grant *grant, lh_error *error) {
    lh_certificate_life life;
    char here[32], there[32];
    int64_t now_s = (int64_t)time(NULL);
    lh_status status = lh_certificate_read_life(grant->certificate, &life, error);
    if (status != LH_OK || (now_s >= life.not_before_s && now_s < life.not_after_s))
        return status;
    render_time(now_s, here);
    render_time(grant->time_s, there);
    return lh_fail(error, LH_ERR_INVALID,
                   "join: the clocks differ: it is %s here and %s at the gateway: set this "
                   "machine's clock, then join again",
                   here, there);
}

static lh_status check_grant(const joining *j, const lh_join_grant *grant, const char *key,
                             lh_error *error) {
    lh_error cause;
    if (!lh_certificate_has_pin(grant->trust, j->token.pin))
        return lh_fail(error, LH_ERR_PROTOCOL,
                       "join: the gateway trusts other CAs than the token's: make a new token");
    if (lh_certificate_check(grant->certificate, key, grant->trust, grant->name, grant->site,
                             &cause) != LH_OK)
        return lh_fail(error, LH_ERR_PROTOCOL, "join: the gateway's certificate for us: %.200s",
                       cause.message);
    return check_clock(grant, error);
}

static void fill_membership(const joining *j, const lh_join_grant *grant, const char *key,
                            lh_own_membership *membership) {
    *membership = (lh_own_membership){0};
    memcpy(membership->gateway_url, j->url, sizeof j->url);
    memcpy(membership->name, grant->name, sizeof grant->name);
    memcpy(membership->site, grant->site, sizeof grant->site);
    memcpy(membership->token, j->token.id, sizeof j->token.id);
    memcpy(membership->certificate, grant->certificate, sizeof grant->certificate);
    memcpy(membership->trust, grant->trust, sizeof grant->trust);
    memcpy(membership->observed, grant->observed, sizeof grant->observed);
    strcpy(membership->key, key);
}

static lh_status join(joining *j, lh_membership_store *store, lh_own_membership *membership,
                      lh_error *error) {
    char key[LH_OWN_KEY_BYTES];
    lh_join_grant grant;
    lh_exchange_answer answer;
    lh_status status = lh_membership_store_pending_key(store, key, error);
    if (status == LH_OK)
        status = fill_request(j, key, error);
    if (status == LH_OK)
        status = ask_until_answered(j, &answer, error);
    if (status == LH_OK) {
        status = lh_join_grant_parse(answer.body, answer.length, &grant, error);
        free(answer.body);
    }
    if (status == LH_OK)
        status = check_grant(j, &grant, key, error);
    if (status == LH_OK) {
        fill_membership(j, &grant, key, membership);
        status = lh_membership_store_save(store, membership, error);
    }
    if (status == LH_OK)
        lh_log(LH_LOG_INFO, "membership",
               "joined: from now on longhaul-worker alone is enough name=%s site=%s gateway=%s",
               membership->name, membership->site, membership->gateway_url);
    explicit_bzero(key, sizeof key);
    return status;
}

static lh_status join_pinned(joining *j, lh_membership_store *store, lh_own_membership *membership,
                             lh_error *error) {
    lh_error cause;
    if (lh_route_resolve(&j->address, &j->targets, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "join: %.300s", cause.message);
    memcpy(j->pin.digest, j->token.pin, sizeof j->pin.digest);
    j->tls.expected = lh_tls_identity_named("");
    lh_status status = lh_tls_pin_open(&j->pin, &j->tls.credentials, error);
    if (status == LH_OK)
        status = join(j, store, membership, error);
    lh_tls_credentials_destroy(j->tls.credentials);
    return status;
}

/* Another token, as in a file that was written anew, for who is a member of that fleet already: a
 * machine whose certificate has ended or was revoked needs it, and gets another one. Otherwise the
 * gateway says that the name is taken, and it is by this machine; or nobody answers now. */
static lh_status join_again(joining *j, lh_membership_store *store, lh_own_membership *membership,
                            lh_error *error) {
    lh_own_membership before = *membership;
    lh_status status = join_pinned(j, store, membership, error);
    bool is_own = (j->is_name_taken || status == LH_ERR_UNAVAILABLE) &&
                  lh_certificate_has_pin(before.trust, j->token.pin) &&
                  (!j->request.name[0] || strcmp(j->request.name, before.name) == 0);
    if (is_own) {
        *membership = before;
        status = LH_OK;
        lh_log(LH_LOG_INFO, "membership",
               "is a member already: the new token stays unused name=%s site=%s", before.name,
               before.site);
    }
    explicit_bzero(&before, sizeof before);
    return status;
}

lh_status lh_joining_run(lh_membership_store *store, const lh_joining_order *order,
                         lh_own_membership *membership, lh_error *error) {
    joining j = {.order = order};
    lh_status status = read_order(&j, error);
    if (status != LH_OK)
        return status;
    status = lh_membership_store_load(store, membership, error);
    if (status == LH_ERR_NOT_FOUND)
        status = join_pinned(&j, store, membership, error);
    else if (status == LH_OK && strcmp(membership->token, j.token.id) != 0)
        status = join_again(&j, store, membership, error);
    else if (status == LH_OK)
        lh_log(LH_LOG_INFO, "membership", "has joined by this token before name=%s site=%s",
               membership->name, membership->site);
    explicit_bzero(&j.token, sizeof j.token);
    explicit_bzero(&j.request, sizeof j.request);
    return status;
}
