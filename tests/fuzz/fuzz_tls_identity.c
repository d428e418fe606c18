/* A name out of somebody's certificate: what is accepted is written the one way there is. */
#include "common/net/tls_identity.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char uri[256], *copy = malloc(size ? size : 1);
    if (size)
        memcpy(copy, data, size);
    lh_tls_identity identity = lh_tls_identity_parse(copy, size);
    int length = 0;
    if (identity.kind == LH_TLS_WORKER)
        length =
            snprintf(uri, sizeof uri, "longhaul://worker/%s?site=%s", identity.name, identity.site);
    else if (identity.kind == LH_TLS_GATEWAY)
        length = snprintf(uri, sizeof uri, "longhaul://gateway");
    else if (identity.name[0] || identity.site[0])
        abort();
    if (length > 0 && ((size_t)length != size || memcmp(uri, copy, size) != 0))
        abort();
    free(copy);
    return 0;
}
