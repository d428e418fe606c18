/* The links between every two sites, as they were measured: what each direction carries and how far
 * it is, with the age of either. Pure; thread: one at a time.
 *
 * Machines of one site are one class: of the pairs of workers that were measured between two sites
 * the one with the best fresh rate stands for all, and within a site (from == to) it is the same.
 * Of one pair the newest counts, and a rate that is only a lower bound never lowers another one, so
 * that a connection with little to carry does not make a link slow. A rate is fresh for
 * LH_LINK_FRESH_US; then any newer measurement takes its place, and until then it stays, with its
 * age.
 *
 * Figures come from the hops of chains, from trials of hops, and from surveys of pairs that nobody
 * uses (link_survey.h). */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Of more sites, the one that was longest not heard of gives way. */
#define LH_LINK_SITES_MAX 64u
#define LH_LINK_FRESH_US  (INT64_C(600) * 1000000)

typedef enum lh_link_source {
    LH_LINK_HOP,   /* of a chain */
    LH_LINK_TRIAL, /* of a hop that was tried for the next chain */
    LH_LINK_SURVEY
} lh_link_source;

typedef struct lh_link_value {
    double bytes_per_us;            /* one way; 0: unknown */
    bool bytes_per_us_is_bound;     /* it is at least that */
    int64_t round_trip_us;          /* 0: unknown */
    int64_t rate_at_us, seen_at_us; /* when the rate was measured; when it was last told of */
    lh_link_source source;
    char from[LH_NAME_BYTES], to[LH_NAME_BYTES]; /* the workers; "": the gateway */
} lh_link_value;

typedef struct lh_link_matrix lh_link_matrix;

/* LH_ERR_NO_MEMORY. */
lh_status lh_link_matrix_create(lh_link_matrix **matrix, lh_error *error);
/* NULL is allowed. */
void lh_link_matrix_destroy(lh_link_matrix *matrix);

/* What one pair of workers says of its link; seen_at_us is set to now_us. */
void lh_link_matrix_note(lh_link_matrix *matrix, const char *from_site, const char *to_site,
                         const lh_link_value *value, int64_t now_us);
/* What is known of a direction; the round trip may be that of the other direction, and the rate
 * unknown then. False: nothing is known. */
bool lh_link_matrix_read(const lh_link_matrix *matrix, const char *from_site, const char *to_site,
                         lh_link_value *value);
/* All directions of which something is known, from *cursor = 0 on. False: that was all. The names
 * live until the next _note. */
bool lh_link_matrix_next(const lh_link_matrix *matrix, uint32_t *cursor, const char **from_site,
                         const char **to_site, lh_link_value *value);
/* No survey of this direction is wanted before then. */
void lh_link_matrix_postpone(lh_link_matrix *matrix, const char *from_site, const char *to_site,
                             int64_t until_us, int64_t now_us);
/* When one may begin; 0: at any time. */
int64_t lh_link_matrix_due_us(const lh_link_matrix *matrix, const char *from_site,
                              const char *to_site);
/* "hop", "trial", "survey". */
const char *lh_link_source_name(lh_link_source source);
