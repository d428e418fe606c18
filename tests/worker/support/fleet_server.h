/* The gateway's fleet port as the weights see it: common/http2/connection's own server on a loop in
 * a thread, answering range requests for one file, /weights. */
#pragma once

#include "common/net/tls_channel.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fleet_server fleet_server;

/* bytes outlive the server; tls may be NULL. */
fleet_server *fleet_server_create(const uint8_t *bytes, size_t length, const lh_tls_options *tls);
void fleet_server_destroy(fleet_server *server);
int fleet_server_port(const fleet_server *server);
