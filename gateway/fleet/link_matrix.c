/* A table of sites by sites, and which of two figures counts. */
#include "gateway/fleet/link_matrix.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct link_cell {
    bool is_known;
    lh_link_value value;
    int64_t due_us; /* of the next survey */
} link_cell;

struct lh_link_matrix {
    uint32_t site_count;
    bool has_told; /* that there are too many sites */
    struct {
        char name[LH_NAME_BYTES];
        int64_t seen_us;
    } sites[LH_LINK_SITES_MAX];
    link_cell cells[LH_LINK_SITES_MAX][LH_LINK_SITES_MAX]; /* [from][to] */
};

lh_status lh_link_matrix_create(lh_link_matrix **matrix, lh_error *error) {
    *matrix = calloc(1, sizeof **matrix);
    if (!*matrix)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the matrix of links");
    return LH_OK;
}

void lh_link_matrix_destroy(lh_link_matrix *matrix) {
    free(matrix);
}

/* ---- Sites ---- */

/* site_count: it is not there. */
static uint32_t find_site(const lh_link_matrix *matrix, const char *name) {
    uint32_t i = 0;
    while (i < matrix->site_count && strcmp(matrix->sites[i].name, name) != 0)
        i++;
    return i;
}

static uint32_t longest_unseen(const lh_link_matrix *matrix, uint32_t but) {
    uint32_t oldest = but == 0;
    for (uint32_t i = 0; i < matrix->site_count; i++)
        if (i != but && matrix->sites[i].seen_us < matrix->sites[oldest].seen_us)
            oldest = i;
    return oldest;
}

static void clear_site(lh_link_matrix *matrix, uint32_t site) {
    for (uint32_t i = 0; i < LH_LINK_SITES_MAX; i++)
        matrix->cells[site][i] = matrix->cells[i][site] = (link_cell){0};
}

/* Of sites in use more than there is room for are told once: they would drive each other out. */
static uint32_t take_place(lh_link_matrix *matrix, const char *name, uint32_t but, int64_t now_us) {
    uint32_t site = longest_unseen(matrix, but);
    if (!matrix->has_told && now_us - matrix->sites[site].seen_us < LH_LINK_FRESH_US) {
        lh_log(LH_LOG_WARN, "fleet",
               "there are too many sites: links of one are forgotten for another one's most=%u "
               "forgotten=%s for=%s",
               LH_LINK_SITES_MAX, matrix->sites[site].name, name);
        matrix->has_told = true;
    }
    return site;
}

/* Its place, which may be another one's before; but: whose place stays. */
static uint32_t place_site(lh_link_matrix *matrix, const char *name, uint32_t but, int64_t now_us) {
    uint32_t site = find_site(matrix, name);
    if (site == matrix->site_count) {
        if (matrix->site_count < LH_LINK_SITES_MAX)
            matrix->site_count++;
        else
            site = take_place(matrix, name, but, now_us);
        clear_site(matrix, site);
        snprintf(matrix->sites[site].name, sizeof matrix->sites[site].name, "%s", name);
    }
    matrix->sites[site].seen_us = now_us;
    return site;
}

/* ---- Which of two figures counts ---- */

static bool is_same_pair(const lh_link_value *a, const lh_link_value *b) {
    return strcmp(a->from, b->from) == 0 && strcmp(a->to, b->to) == 0;
}

static bool is_fresh(int64_t at_us, int64_t now_us) {
    return now_us - at_us <= LH_LINK_FRESH_US;
}

static bool has_rate_to_take(const lh_link_value *kept, const lh_link_value *value,
                             int64_t now_us) {
    if (value->bytes_per_us <= 0 || kept->bytes_per_us <= 0)
        return value->bytes_per_us > 0;
    bool is_same = is_same_pair(kept, value), is_fast = value->bytes_per_us > kept->bytes_per_us;
    if ((is_same || !is_fresh(kept->rate_at_us, now_us)) && value->rate_at_us < kept->rate_at_us)
        return false;
    if (value->bytes_per_us_is_bound && !kept->bytes_per_us_is_bound)
        return is_fast;
    if (!is_fresh(kept->rate_at_us, now_us))
        return true;
    if (is_same)
        return !value->bytes_per_us_is_bound || value->bytes_per_us >= kept->bytes_per_us;
    return is_fast && is_fresh(value->rate_at_us, now_us);
}

static void take_pair(lh_link_value *kept, const lh_link_value *value) {
    memcpy(kept->from, value->from, sizeof kept->from);
    memcpy(kept->to, value->to, sizeof kept->to);
    kept->source = value->source;
}

static void take_rate(lh_link_value *kept, const lh_link_value *value) {
    kept->bytes_per_us = value->bytes_per_us;
    kept->bytes_per_us_is_bound = value->bytes_per_us_is_bound;
    kept->rate_at_us = value->rate_at_us;
    take_pair(kept, value);
}

static void merge(lh_link_value *kept, const lh_link_value *value, int64_t now_us) {
    bool is_silent = !is_fresh(kept->seen_at_us, now_us);
    if (has_rate_to_take(kept, value, now_us))
        take_rate(kept, value);
    else if (kept->bytes_per_us <= 0 && is_silent)
        take_pair(kept, value);
    bool is_of_it = is_same_pair(kept, value);
    if (value->round_trip_us > 0 && (is_of_it || is_silent || kept->round_trip_us == 0))
        kept->round_trip_us = value->round_trip_us;
    if (is_of_it || is_silent)
        kept->seen_at_us = now_us;
}

void lh_link_matrix_note(lh_link_matrix *matrix, const char *from_site, const char *to_site,
                         const lh_link_value *value, int64_t now_us) {
    if (value->bytes_per_us <= 0 && value->round_trip_us <= 0)
        return;
    uint32_t from = place_site(matrix, from_site, LH_LINK_SITES_MAX, now_us);
    uint32_t to = place_site(matrix, to_site, from, now_us);
    link_cell *cell = &matrix->cells[from][to];
    if (!cell->is_known)
        cell->value = (lh_link_value){.source = value->source, .seen_at_us = now_us};
    if (!cell->is_known)
        take_pair(&cell->value, value);
    cell->is_known = true;
    merge(&cell->value, value, now_us);
}

void lh_link_matrix_postpone(lh_link_matrix *matrix, const char *from_site, const char *to_site,
                             int64_t until_us, int64_t now_us) {
    uint32_t from = place_site(matrix, from_site, LH_LINK_SITES_MAX, now_us);
    uint32_t to = place_site(matrix, to_site, from, now_us);
    matrix->cells[from][to].due_us = until_us;
}

int64_t lh_link_matrix_due_us(const lh_link_matrix *matrix, const char *from_site,
                              const char *to_site) {
    uint32_t from = find_site(matrix, from_site), to = find_site(matrix, to_site);
    bool is_there = from < matrix->site_count && to < matrix->site_count;
    return is_there ? matrix->cells[from][to].due_us : 0;
}

/* ---- What is known ---- */

static bool read_cell(const lh_link_matrix *matrix, uint32_t from, uint32_t to,
                      lh_link_value *value) {
    const link_cell *there = &matrix->cells[from][to], *back = &matrix->cells[to][from];
    if (!there->is_known && (!back->is_known || back->value.round_trip_us == 0))
        return false;
    *value = there->value;
    if (!there->is_known) {
        *value =
            (lh_link_value){.seen_at_us = back->value.seen_at_us, .source = back->value.source};
        memcpy(value->from, back->value.to, sizeof value->from);
        memcpy(value->to, back->value.from, sizeof value->to);
    }
    if (value->round_trip_us == 0 && back->is_known)
        value->round_trip_us = back->value.round_trip_us;
    return true;
}

bool lh_link_matrix_read(const lh_link_matrix *matrix, const char *from_site, const char *to_site,
                         lh_link_value *value) {
    uint32_t from = find_site(matrix, from_site), to = find_site(matrix, to_site);
    return from < matrix->site_count && to < matrix->site_count &&
           read_cell(matrix, from, to, value);
}

bool lh_link_matrix_next(const lh_link_matrix *matrix, uint32_t *cursor, const char **from_site,
                         const char **to_site, lh_link_value *value) {
    while (*cursor < matrix->site_count * matrix->site_count) {
        uint32_t from = *cursor / matrix->site_count, to = *cursor % matrix->site_count;
        ++*cursor;
        *from_site = matrix->sites[from].name;
        *to_site = matrix->sites[to].name;
        if (read_cell(matrix, from, to, value))
            return true;
    }
    return false;
}

const char *lh_link_source_name(lh_link_source source) {
    static const char *const names[] = {"hop", "trial", "survey"};
    assert(source <= LH_LINK_SURVEY);
    return names[source];
}
