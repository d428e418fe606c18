/* The table of authorization.h. */
#include "worker/serve/authorization.h"

#include "common/protocol/client/relay_route.h"

#include <string.h>

static lh_status refuse(const lh_h2_request *http, const char *what, const char *whom,
                        lh_error *error) {
    char asking[LH_TLS_IDENTITY_TEXT_BYTES];
    lh_tls_identity_describe(http->peer_identity, asking);
    return lh_fail(error, LH_ERR_UNAVAILABLE, "%s for %s, not for %s", what, whom, asking);
}

/* Whoever is at the other end of the connection. */
static lh_status authorize_peer(const char *name, const lh_h2_request *http, lh_error *error) {
    char whom[LH_TLS_IDENTITY_TEXT_BYTES];
    const lh_tls_identity meant = lh_tls_identity_named(name);
    if (http->peer_identity->kind == LH_TLS_NONE ||
        lh_tls_identity_meets(http->peer_identity, &meant))
        return LH_OK;
    lh_tls_identity_describe(&meant, whom);
    return refuse(http, "steps are", whom, error);
}

/* Whom the relay names; without TLS on either leg it knows nobody. */
static lh_status authorize_relayed(const char *previous, const char *from,
                                   const lh_h2_request *http, lh_error *error) {
    static const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    const lh_tls_identity meant = lh_tls_identity_named(previous);
    char whom[LH_RELAY_SENDER_BYTES], unknown[LH_RELAY_SENDER_BYTES];
    lh_relay_sender_render(&meant, whom);
    lh_relay_sender_render(&nobody, unknown);
    if (strcmp(from, whom) == 0 ||
        (strcmp(from, unknown) == 0 && http->peer_identity->kind == LH_TLS_NONE))
        return LH_OK;
    return lh_fail(error, LH_ERR_UNAVAILABLE, "steps are for %s, not for %.80s behind the relay",
                   whom, from);
}

static lh_status authorize_sender(const lh_chain_place *place, const lh_h2_request *http,
                                  lh_error *error) {
    const char *from = lh_h2_request_header(http, LH_RELAY_FROM_HEADER);
    const char *previous = place->is_set ? place->route.previous_name : "",
               *relay = place->is_set ? place->route.previous_relay : "";
    if (from && relay[0] == '\0')
        return lh_fail(error, LH_ERR_UNAVAILABLE, "steps come to this worker through no relay");
    if (!from && relay[0] != '\0')
        return lh_fail(error, LH_ERR_UNAVAILABLE, "steps come to this worker through relay %s",
                       relay);
    lh_status status = authorize_peer(from ? relay : previous, http, error);
    return status == LH_OK && from ? authorize_relayed(previous, from, http, error) : status;
}

static bool is_on_this_machine(const char *peer) {
    return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]:", 6) == 0;
}

lh_status lh_authorize(const lh_chain_place *place, const lh_h2_request *http,
                       const lh_worker_request *request, lh_error *error) {
    lh_tls_identity_kind kind = http->peer_identity->kind;
    switch (request->kind) {
    case LH_REQUEST_STEP:
    case LH_REQUEST_SHARDS:
        return authorize_sender(place, http, error);
    case LH_REQUEST_STATUS:
        if (kind == LH_TLS_GATEWAY || (kind == LH_TLS_NONE && is_on_this_machine(http->peer)))
            return LH_OK;
        return refuse(http, "the status is", kind == LH_TLS_NONE ? "this machine" : "the gateway",
                      error);
    case LH_REQUEST_REFUSED:
    case LH_REQUEST_TRIAL:
    case LH_REQUEST_PROBE:
    case LH_REQUEST_HEALTH:
        break;
    }
    return LH_OK;
}
