/* What the gateway's own process says of itself in GET /fleet: its machine, and which files
 * somebody who looks for faults may want to look at. Plain values; the texts are the settings'.
 * Thread: the engine's. */
#pragma once

#include "common/base/host_facts.h"
#include "common/net/tls_channel.h"

typedef struct lh_self_description {
    lh_host_facts host;
    int64_t connections_max; /* of clients */
    /* "" or NULL: there is none */
    const char *state_dir, *api_key_file, *tls_key_file;
} lh_self_description;

/* What may have changed since the program's start: clock, disk, certificate. tls: the gateway's
 * own; NULL: it has none. */
void lh_self_description_renew(lh_self_description *self, const lh_tls_options *tls);
