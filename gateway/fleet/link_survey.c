/* One task at a time, and a bucket of bytes. */
#include "gateway/fleet/link_survey.h"

#include "gateway/fleet/chain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR_US INT64_C(3600000000)
#define LOOK_US 1000000
/* The worker's 8 s, and some for its report before and after. */
#define OVERDUE_US 15000000
/* The largest probe is half of it: it lasts for 50 ms on a link of 670 Mbit/s. */
#define TASK_BYTES_MAX (UINT64_C(8) << 20)
/* With less hardly any link would be known. */
#define TASK_BYTES_MIN (UINT64_C(1) << 20)
/* Of the link's time, over the time from one survey to the next. */
#define LINK_SHARE 0.01

void lh_link_survey_init(lh_link_survey *survey, lh_link_matrix *links, const char *gateway_site,
                         uint64_t bytes_per_hour) {
    *survey = (lh_link_survey){.links = links,
                               .gateway_site = gateway_site,
                               .bytes_per_us = (double)bytes_per_hour / HOUR_US,
                               .bytes_left = (double)bytes_per_hour,
                               .bytes_most = bytes_per_hour};
}

/* ---- The budget ---- */

static void refill(lh_link_survey *survey, int64_t now_us) {
    if (survey->counted_us > 0)
        survey->bytes_left += survey->bytes_per_us * (double)(now_us - survey->counted_us);
    survey->bytes_left = fmin(survey->bytes_left, (double)survey->bytes_most);
    survey->counted_us = now_us;
}

/* 0: too little is left for now. */
static uint64_t bytes_for_task(const lh_link_survey *survey) {
    uint64_t least =
        survey->bytes_most < TASK_BYTES_MIN ? survey->bytes_most : (uint64_t)TASK_BYTES_MIN;
    if (survey->bytes_left < (double)least)
        return 0;
    return survey->bytes_left < (double)TASK_BYTES_MAX ? (uint64_t)survey->bytes_left
                                                       : TASK_BYTES_MAX;
}

/* ---- The end of a survey ---- */

static void end(lh_link_survey *survey, int64_t rest_us, int64_t now_us) {
    lh_link_matrix_postpone(survey->links, survey->from_site, survey->to_site, now_us + rest_us,
                            now_us);
    survey->is_running = false;
    survey->look_us = now_us;
}

static bool is_of_task(const lh_link_survey *survey, const lh_worker_report *report) {
    const lh_hop_trial_report *surveyed = &report->surveyed;
    bool is_to_gateway = survey->task.to.is_gateway; /* its address is the worker's to know */
    return survey->is_running && strcmp(report->name, survey->task.from) == 0 &&
           strcmp(surveyed->next, survey->task.to.worker) == 0 &&
           (is_to_gateway || strcmp(surveyed->address, survey->task.to.address) == 0);
}

static void note(lh_link_survey *survey, const lh_hop_profile *hop, int64_t now_us) {
    lh_link_value value = {.bytes_per_us = hop->bytes_per_us,
                           .bytes_per_us_is_bound = hop->bytes_per_us_is_bound,
                           .round_trip_us = hop->round_trip_us,
                           .rate_at_us = now_us - hop->age_us,
                           .source = LH_LINK_SURVEY};
    snprintf(value.from, sizeof value.from, "%s", survey->task.from);
    snprintf(value.to, sizeof value.to, "%s", survey->task.to.worker);
    lh_link_matrix_note(survey->links, survey->from_site, survey->to_site, &value, now_us);
}

void lh_link_survey_take(lh_link_survey *survey, const lh_worker_report *report, int64_t now_us) {
    const lh_hop_trial_report *surveyed = &report->surveyed;
    if (!is_of_task(survey, report) ||
        (surveyed->state != LH_HOP_TRIAL_PROVEN && surveyed->state != LH_HOP_TRIAL_FAILED))
        return;
    const lh_hop_profile *hop = &surveyed->hop;
    if (surveyed->state == LH_HOP_TRIAL_PROVEN && hop->present)
        note(survey, hop, now_us);
    double most = (double)survey->task.bytes_max;
    double sent = hop->present ? fmin((double)hop->probe_bytes_sent, most) : 0;
    refill(survey, now_us);
    survey->bytes_left = fmin(survey->bytes_left + most - sent, (double)survey->bytes_most);
    double used_us = hop->bytes_per_us > 0 ? sent / hop->bytes_per_us : 0;
    end(survey, (int64_t)fmax((double)LH_LINK_FRESH_US, used_us / LINK_SHARE), now_us);
}

/* ---- The next one ---- */

/* Two workers of two sites, or of one; or a worker and the gateway, where `to` is NULL. */
typedef struct candidate {
    const lh_survey_machine *from, *to;
    int64_t measured_us; /* INT64_MIN: never */
} candidate;

/* Whether this pair's turn could come now, and since when it is waiting. */
static bool is_wanted(const lh_link_survey *survey, const char *from_site, const char *to_site,
                      int64_t now_us, int64_t *measured_us) {
    lh_link_value value;
    int64_t due_us = lh_link_matrix_due_us(survey->links, from_site, to_site);
    *measured_us = INT64_MIN;
    if (now_us < due_us)
        return false;
    if (!lh_link_matrix_read(survey->links, from_site, to_site, &value) || value.bytes_per_us <= 0)
        return true;
    *measured_us = value.rate_at_us;
    return due_us == 0 || value.bytes_per_us_is_bound ||
           now_us - value.rate_at_us > LH_LINK_FRESH_US;
}

/* The one of the site that is needed least, but for one; NULL: there is none. is_far_end: another
 * site has to reach it, at its own address. */
static const lh_survey_machine *pick_machine(const lh_link_survey *survey,
                                             const lh_survey_machine *machines, uint32_t count,
                                             const char *site, const lh_survey_machine *but,
                                             bool is_far_end) {
    const lh_survey_machine *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const lh_survey_machine *m = &machines[((survey->dice >> 16) + i) % count];
        if (m != but && !m->report->leaving && strcmp(m->report->site, site) == 0 &&
            !(is_far_end && m->report->is_behind_relay) && (!best || m->use < best->use))
            best = m;
    }
    return best;
}

/* As many as the matrix has room for. */
typedef struct survey_sites {
    uint32_t count;
    const char *names[LH_LINK_SITES_MAX];
} survey_sites;

static void list_sites(const lh_survey_machine *machines, uint32_t count, survey_sites *sites) {
    sites->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < sites->count && strcmp(sites->names[at], machines[i].report->site) != 0)
            at++;
        if (at == sites->count && at < LH_LINK_SITES_MAX)
            sites->names[sites->count++] = machines[i].report->site;
    }
}

/* *best: a pair, or none. */
static void pick_pair(const lh_link_survey *survey, const lh_survey_machine *machines,
                      uint32_t count, const survey_sites *sites, int64_t now_us, candidate *best) {
    *best = (candidate){0};
    for (uint32_t a = 0; a < sites->count; a++) {
        for (uint32_t b = 0; b < sites->count; b++) {
            candidate pair;
            const char *from = sites->names[a], *to = sites->names[b];
            if (!is_wanted(survey, from, to, now_us, &pair.measured_us) ||
                (best->from && best->measured_us <= pair.measured_us))
                continue;
            bool is_between = strcmp(from, to) != 0;
            pair.from = pick_machine(survey, machines, count, from, NULL, false);
            pair.to = pick_machine(survey, machines, count, to, pair.from, is_between);
            bool is_unknown = pair.measured_us == INT64_MIN;
            if (pair.from && pair.to &&
                (is_unknown ||
                 (pair.from->use != LH_SURVEY_BUSY && pair.to->use != LH_SURVEY_BUSY)))
                *best = pair;
        }
    }
}

static bool has_site(const survey_sites *sites, const char *site) {
    for (uint32_t i = 0; i < sites->count; i++)
        if (strcmp(sites->names[i], site) == 0)
            return true;
    return false;
}

/* Of the sites' ways to a gateway that is at none of them. *best: a pair, or none. */
static bool pick_way_home(const lh_link_survey *survey, const lh_survey_machine *machines,
                          uint32_t count, const survey_sites *sites, int64_t now_us,
                          candidate *best) {
    for (uint32_t a = 0; a < sites->count && !has_site(sites, survey->gateway_site); a++) {
        candidate pair = {0};
        const char *from = sites->names[a];
        if (!is_wanted(survey, from, survey->gateway_site, now_us, &pair.measured_us) ||
            (best->from && best->measured_us <= pair.measured_us))
            continue;
        pair.from = pick_machine(survey, machines, count, from, NULL, false);
        if (pair.from && (pair.measured_us == INT64_MIN || pair.from->use != LH_SURVEY_BUSY))
            *best = pair;
    }
    return best->from;
}

/* False: the other end has no address that the first one's connections can use. */
static bool find_way(const lh_worker_report *from, const lh_worker_report *to, lh_way *way) {
    const lh_chain_origin origin = {from->site, from->tls_address[0] != '\0', NULL};
    lh_error error;
    *way = (lh_way){.is_gateway = !to};
    return !to || lh_chain_find_way(from->name, &origin, to, way, &error) == LH_OK;
}

static void begin(lh_link_survey *survey, const candidate *pair, uint64_t bytes, int64_t now_us) {
    const lh_worker_report *from = pair->from->report, *to = pair->to ? pair->to->report : NULL;
    survey->task = (lh_survey_task){.bytes_max = bytes};
    memcpy(survey->task.from, from->name, sizeof survey->task.from);
    memcpy(survey->from_site, from->site, sizeof survey->from_site);
    snprintf(survey->to_site, sizeof survey->to_site, "%s", to ? to->site : survey->gateway_site);
    survey->dice = survey->dice * 1664525u + 1013904223u; /* Numerical Recipes, 7.1 */
    if (!find_way(from, to, &survey->task.to)) {
        end(survey, LH_LINK_FRESH_US, now_us);
        return;
    }
    survey->bytes_left -= (double)bytes;
    survey->begun_us = now_us;
    survey->is_running = true;
}

bool lh_link_survey_is_due(const lh_link_survey *survey, int64_t now_us) {
    return survey->bytes_most > 0 && now_us >= survey->look_us;
}

void lh_link_survey_look(lh_link_survey *survey, const lh_survey_machine *machines, uint32_t count,
                         bool is_quiet, int64_t now_us) {
    candidate pair;
    refill(survey, now_us);
    if (survey->is_running && now_us - survey->begun_us >= OVERDUE_US)
        end(survey, LH_LINK_FRESH_US, now_us);
    else if (survey->is_running && !is_quiet)
        end(survey, 0, now_us);
    uint64_t bytes = bytes_for_task(survey);
    if (!survey->is_running && is_quiet && bytes > 0) {
        survey_sites sites;
        list_sites(machines, count, &sites);
        pick_pair(survey, machines, count, &sites, now_us, &pair);
        if (pick_way_home(survey, machines, count, &sites, now_us, &pair))
            begin(survey, &pair, bytes, now_us);
    }
    survey->look_us = now_us + LOOK_US;
}

const lh_survey_task *lh_link_survey_task(const lh_link_survey *survey, const char *worker) {
    return survey->is_running && strcmp(worker, survey->task.from) == 0 ? &survey->task : NULL;
}
