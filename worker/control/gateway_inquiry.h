/* What an operator would try where the gateway does not answer: to which addresses its name leads,
 * and whether it is the public API that listens there. Blocking: for a thread that may wait. */
#pragma once

#include <stddef.h>

/* Enough for four IPv6 addresses. */
#define LH_GATEWAY_ADDRESSES_BYTES 200u

/* "192.0.2.7, 2001:db8::7", the addresses of the URL's host, four at most; or why there are none.
 * gateway_url: "http://host:port" or "https://host:port". */
void lh_gateway_inquiry_resolve(const char *gateway_url, char text[LH_GATEWAY_ADDRESSES_BYTES]);
/* The fleet port that the gateway's public API tells of, where that is what listens at the URL's
 * port; 0: it is not, or says nothing. Asks over HTTP/1.1 without a certificate, for two seconds at
 * most. */
int lh_gateway_inquiry_fleet_port(const char *gateway_url, const char *worker_name);
