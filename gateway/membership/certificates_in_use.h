/* Which certificate each worker says it uses: the one that ends at that second. It is known from
 * reports (CONTROL.md), which a worker's name has from one process at a time. Plain data, no clock.
 * Thread: the owner's. */
#pragma once

#include "common/base/name.h"

#include <stddef.h>
#include <stdint.h>

#define LH_CERTIFICATES_IN_USE_MAX 1024u

/* Empty: {0}. */
typedef struct lh_certificates_in_use {
    struct {
        char name[LH_NAME_BYTES];
        int64_t ends_s; /* Unix time */
    } entries[LH_CERTIFICATES_IN_USE_MAX];
    size_t count;
} lh_certificates_in_use;

/* The last word of a worker counts. Whoever finds no place is not known. */
void lh_certificates_in_use_note(lh_certificates_in_use *in_use, const char *name, int64_t ends_s);
/* Unix time; -1: not known. */
int64_t lh_certificates_in_use_find(const lh_certificates_in_use *in_use, const char *name);
