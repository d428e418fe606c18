/* The table of authorization.h. */
#include "worker/serve/authorization.h"

#include <string.h>

static lh_status refuse(const lh_h2_request *http, const char *what, const char *whom,
                        lh_error *error) {
    char asking[LH_TLS_IDENTITY_TEXT_BYTES];
    lh_tls_identity_describe(http->peer_identity, asking);
    return lh_fail(error, LH_ERR_UNAVAILABLE, "%s for %s, not for %s", what, whom, asking);
}

static lh_status authorize_sender(const lh_chain_place *place, const lh_h2_request *http,
                                  lh_error *error) {
    char whom[LH_TLS_IDENTITY_TEXT_BYTES];
    const lh_tls_identity previous =
        lh_tls_identity_named(place->is_set ? place->route.previous_name : "");
    if (lh_tls_identity_meets(http->peer_identity, &previous))
        return LH_OK;
    lh_tls_identity_describe(&previous, whom);
    return refuse(http, "steps are", whom, error);
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
        return kind == LH_TLS_NONE ? LH_OK : authorize_sender(place, http, error);
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
