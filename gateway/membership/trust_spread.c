/* A set of names. */
#include "gateway/membership/trust_spread.h"

#include <stdio.h>
#include <string.h>

void lh_trust_spread_begin(lh_trust_spread *spread, const char *bundle_sha256) {
    if (strcmp(spread->bundle_sha256, bundle_sha256) == 0)
        return;
    *spread = (lh_trust_spread){0};
    snprintf(spread->bundle_sha256, sizeof spread->bundle_sha256, "%s", bundle_sha256);
}

static bool has(const lh_trust_spread *spread, const char *name) {
    for (size_t i = 0; i < spread->count; i++)
        if (strcmp(spread->names[i], name) == 0)
            return true;
    return false;
}

void lh_trust_spread_note(lh_trust_spread *spread, const char *name, const char *bundle_sha256) {
    if (!spread->bundle_sha256[0] || strcmp(spread->bundle_sha256, bundle_sha256) != 0 ||
        spread->count == LH_TRUST_SPREAD_MAX || has(spread, name))
        return;
    snprintf(spread->names[spread->count++], LH_NAME_BYTES, "%s", name);
}

bool lh_trust_spread_is_complete(const lh_trust_spread *spread, const lh_member_list *members,
                                 int64_t now_s) {
    for (size_t i = 0; i < members->count; i++)
        if (lh_member_is_good(&members->members[i], now_s) &&
            !has(spread, members->members[i].name))
            return false;
    return true;
}
