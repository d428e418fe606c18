/* The IP address by which others most likely reach this machine. Thread: any. */
#pragma once

#include "common/net/address.h"

/* The one from which it sends to the world, without a port; nothing is sent for it. False: it has
 * no way out. */
bool lh_own_address(char text[LH_ADDRESS_TEXT_BYTES]);
