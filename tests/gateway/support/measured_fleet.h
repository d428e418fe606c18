/* A fleet whose machines and links have been measured, for tests of what plans with that: a model
 * of 12 layers of 1 MiB, a gateway at "home", and workers whose layers take what a test says. */
#pragma once

#include "gateway/fleet/handover.h"

#define MEASURED_LAYERS 12u

typedef struct measured_fleet {
    lh_fleet_options options;
    lh_link_matrix *links;
    lh_registry *registry;
    lh_chain chain;
    lh_link_avoidance avoidance;
    lh_live_planner planner;
    uint32_t count;
    lh_worker_report reports[8];
    double layer_us[8]; /* of one row; of one that leads a team: its team's */
    const char *followers[LH_LAYOUT_STAGES_MAX]; /* of stages; NULL: nobody */
    int64_t now_us;
} measured_fleet;

/* Good at the time per token, with a delay of 10 s; time begins at an hour. */
void measured_fleet_create(measured_fleet *f);
void measured_fleet_destroy(measured_fleet *f);
/* A row takes layer_us in each of its layers, and each of many a quarter of that. It registers. */
void measured_fleet_add(measured_fleet *f, const char *name, const char *site, double layer_us);
/* All that are there take members, as many as the cost model finds best. */
void measured_fleet_let_join(measured_fleet *f);
/* This stage is computed with another one, from the next _serve on; NULL: it is not. */
void measured_fleet_follow(measured_fleet *f, uint32_t stage, const char *name);
/* Both ways. */
void measured_fleet_link(measured_fleet *f, const char *from, const char *to, double bytes_per_us,
                         int64_t round_trip_us);
/* Between all sites: 125 bytes/us and 2 ms. */
void measured_fleet_link_all(measured_fleet *f);
/* The chain that serves: stage i has layers [first[i], first[i + 1]), the last one to the end. Its
 * workers report what their stages take. */
void measured_fleet_serve(measured_fleet *f, uint32_t stages, const char *const *names,
                          const uint32_t *first);
/* The stages' workers report again, and the planner hears of it. */
void measured_fleet_report(measured_fleet *f);
lh_candidates measured_fleet_candidates(const measured_fleet *f);
