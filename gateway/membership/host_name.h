/* What may stand in a certificate as a host: an IP address, or a name of letters, digits, '-', '_'
 * and dots (RFC 1123, and the underscore that container networks have). Thread: any. */
#pragma once

#include <stdbool.h>

#define LH_HOST_NAME_BYTES 254 /* 253 and the end */

bool lh_host_name_is_valid(const char *host);
/* Names without regard to case, addresses by their value. Both are valid. */
bool lh_host_name_is_same(const char *one, const char *other);
