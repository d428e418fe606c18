/* A short array of names. */
#include "gateway/membership/certificates_in_use.h"

#include <stdio.h>
#include <string.h>

/* Its place, or the number of places in use. */
static size_t place_of(const lh_certificates_in_use *in_use, const char *name) {
    size_t i = 0;
    while (i < in_use->count && strcmp(in_use->entries[i].name, name) != 0)
        i++;
    return i;
}

void lh_certificates_in_use_note(lh_certificates_in_use *in_use, const char *name, int64_t ends_s) {
    size_t i = place_of(in_use, name);
    if (i == LH_CERTIFICATES_IN_USE_MAX)
        return;
    if (i == in_use->count) {
        snprintf(in_use->entries[i].name, sizeof in_use->entries[i].name, "%s", name);
        in_use->count++;
    }
    in_use->entries[i].ends_s = ends_s;
}

int64_t lh_certificates_in_use_find(const lh_certificates_in_use *in_use, const char *name) {
    size_t i = place_of(in_use, name);
    return i < in_use->count ? in_use->entries[i].ends_s : -1;
}
