/* The table of refusals. */
#include "common/protocol/join/join_messages.h"

#include <assert.h>

static const struct {
    const char *name;
    int http_status;
} refusals[] = {
#define X(code, name, status) [code] = {name, status},
    LH_JOIN_REFUSAL_TABLE(X)
#undef X
};

const char *lh_join_refusal_name(lh_join_refusal_code code) {
    assert(code < LH_JOIN_OTHER);
    return refusals[code].name;
}

int lh_join_refusal_http_status(lh_join_refusal_code code) {
    assert(code < LH_JOIN_OTHER);
    return refusals[code].http_status;
}
