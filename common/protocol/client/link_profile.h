/* What is known of a connection's link, as reports tell it. Plain values; thread: any. */
#pragma once

#include "common/http2/client.h"
#include "common/protocol/measurements.h"

/* A profile that is present, of a link whose connection is up or not. */
lh_hop_profile lh_link_profile(const lh_h2_client_link *link, bool connected);
