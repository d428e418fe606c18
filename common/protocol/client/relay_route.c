/* A sender's name as a header's value. */
#include "common/protocol/client/relay_route.h"

#include <stdio.h>

void lh_relay_sender_render(const lh_tls_identity *sender, char text[LH_RELAY_SENDER_BYTES]) {
    switch (sender->kind) {
    case LH_TLS_WORKER:
        snprintf(text, LH_RELAY_SENDER_BYTES, "worker %s", sender->name);
        break;
    case LH_TLS_GATEWAY:
        snprintf(text, LH_RELAY_SENDER_BYTES, "gateway");
        break;
    case LH_TLS_NONE:
    case LH_TLS_STRANGER:
        snprintf(text, LH_RELAY_SENDER_BYTES, "unknown");
        break;
    }
}
