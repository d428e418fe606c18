/* Field by field: unused bytes of texts mean nothing. */
#include "common/protocol/way.h"

#include <string.h>

const char *lh_way_peer(const lh_way *way) {
    return way->via[0] != '\0' ? way->via : way->worker;
}

bool lh_way_is_same(const lh_way *a, const lh_way *b) {
    return a->is_gateway == b->is_gateway && a->tls == b->tls &&
           strcmp(a->worker, b->worker) == 0 && strcmp(a->address, b->address) == 0 &&
           strcmp(a->via, b->via) == 0;
}
