/* What a request says that goes through a relay (PROTOCOL.md, "Through a relay"): for whom it is
 * and in which class, and behind the relay by whom it was sent. Plain texts; thread: any. */
#pragma once

#include "common/net/tls_identity.h"

/* To the relay: the name of the worker behind it. */
#define LH_RELAY_TO_HEADER "longhaul-to"
/* To the relay: "0" or "1", the step's class; absent: "1". */
#define LH_RELAY_CLASS_HEADER "longhaul-class"
/* From the relay: as lh_relay_sender_render writes it. */
#define LH_RELAY_FROM_HEADER "longhaul-from"

/* "worker NAME", "gateway", or "unknown" of a peer without TLS. A STRANGER is "unknown", too. */
#define LH_RELAY_SENDER_BYTES (LH_NAME_BYTES + 8)
void lh_relay_sender_render(const lh_tls_identity *sender, char text[LH_RELAY_SENDER_BYTES]);
