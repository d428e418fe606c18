/* Forming, and the two roles. */
#include "worker/team/team.h"

#include "common/base/clock.h"
#include "worker/team/follower.h"
#include "worker/team/leader.h"
#include "worker/team/order_code.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* A member that owes something and is silent for so long is lost. Where all compute the same it
 * takes a small part of a step. */
#define WAIT_MS 10000
/* A gather takes some ten microseconds where the members are equally fast; longer ones are waited
 * for asleep. */
#define SPIN_US 50
/* The greatest that a model of the formats' own limits could need (LH_STEP_ROWS_MAX rows of
 * LH_STEP_WIDTH_MAX numbers would be more): a frame is never larger. */
#define FRAME_BYTES_MAX (256u << 20)
/* The gather in which members tell each other their pages; those of steps count from 0. */
#define PAGES_NUMBER UINT64_MAX

struct lh_team {
    lh_stage *stage;
    lh_mesh *mesh;
    lh_leader leader; /* the first member's */
    pthread_t thread; /* the others' */
    bool has_thread;
    void (*on_failed)(void *context);
    void *context;
    pthread_mutex_t mutex; /* guards what follows */
    lh_error failure;      /* its status is LH_OK while there is none */
};

/* ---- Forming ---- */

/* All have as many pages as the one that has the fewest: so what begins on one begins on all. */
static lh_status agree_on_pages(lh_mesh *mesh, lh_stage *stage, lh_error *error) {
    uint64_t pages = lh_kv_cache_pages_total(lh_stage_kv(stage));
    void *own;
    lh_status status = lh_mesh_open(mesh, sizeof pages, &own, error);
    if (status != LH_OK)
        return status;
    *(uint64_t *)own = pages;
    status = lh_mesh_post_gather(mesh, PAGES_NUMBER, error);
    for (uint32_t i = 0; i < lh_mesh_members(mesh) && status == LH_OK; i++) {
        const void *theirs;
        if (i == lh_mesh_own(mesh))
            continue;
        status = lh_mesh_take_gather(mesh, PAGES_NUMBER, i, sizeof pages, &theirs, error);
        if (status == LH_OK && *(const uint64_t *)theirs == 0)
            status = lh_fail(error, LH_ERR_MALFORMED, "member %u of the stage has no KV pages", i);
        if (status == LH_OK && *(const uint64_t *)theirs < pages)
            pages = *(const uint64_t *)theirs;
    }
    if (status == LH_OK)
        lh_stage_limit_kv(stage, pages);
    return status;
}

/* What the assignment's model can need: the first member may say what it likes, but has no other
 * one keep more than that. */
static uint32_t frame_bytes_max(const lh_stage *stage) {
    size_t most = lh_stage_exchange_bytes_max(stage) + LH_ORDER_SHARD_HEAD_BYTES;
    if (most < LH_ORDER_MANIFEST_BYTES_MAX)
        most = LH_ORDER_MANIFEST_BYTES_MAX;
    return most < FRAME_BYTES_MAX ? (uint32_t)most : FRAME_BYTES_MAX;
}

static lh_status form_once(lh_team *team, const lh_team_options *options, int64_t forming_ms,
                           lh_error *error) {
    const lh_mesh_options mesh = {.identity = options->identity,
                                  .addresses = options->addresses,
                                  .listener = options->listener,
                                  .forming_ms = forming_ms,
                                  .unreached_ms = options->unreached_ms,
                                  .cancelled = options->cancelled,
                                  .wait_ms = WAIT_MS,
                                  .spin_us = SPIN_US,
                                  .payload_bytes_max = frame_bytes_max(team->stage)};
    lh_status status = lh_mesh_create(&mesh, &team->mesh, error);
    return status == LH_OK ? agree_on_pages(team->mesh, team->stage, error) : status;
}

/* Again, where one that had come is gone before all have begun: it may come back. */
static lh_status form(lh_team *team, const lh_team_options *options, lh_error *error) {
    const int64_t deadline_us = lh_clock_us() + options->forming_ms * 1000;
    int64_t left_ms = options->forming_ms;
    lh_status status = form_once(team, options, left_ms, error);
    while (team->mesh && (status == LH_ERR_CLOSED || status == LH_ERR_TIMEOUT)) {
        left_ms = (deadline_us - lh_clock_us()) / 1000;
        if (left_ms <= 0)
            return status;
        lh_mesh_destroy(team->mesh);
        team->mesh = NULL;
        status = form_once(team, options, left_ms, error);
    }
    return status;
}

/* ---- The roles ---- */

static void on_failed(void *context, const lh_error *error) {
    lh_team *team = context;
    pthread_mutex_lock(&team->mutex);
    team->failure = *error;
    pthread_mutex_unlock(&team->mutex);
    team->on_failed(team->context);
}

static void *follow(void *argument) {
    lh_team *team = argument;
    lh_error error;
    pthread_setname_np(pthread_self(), "compute"); /* as the first member's does */
    lh_status status = lh_follower_run(team->stage, team->mesh, &error);
    if (status == LH_OK)
        status = lh_fail(&error, LH_ERR_PROTOCOL, "the team rests, which serves");
    if (status != LH_ERR_CANCELLED)
        on_failed(team, &error);
    return NULL;
}

lh_status lh_team_begin(lh_team *team, lh_error *error) {
    assert(!team->has_thread);
    if (lh_mesh_own(team->mesh) == 0) {
        lh_leader_init(&team->leader, team->mesh, on_failed, team);
        const lh_stage_leading leading = lh_leader_leading(&team->leader);
        lh_stage_lead(team->stage, &leading);
        return LH_OK;
    }
    team->has_thread = pthread_create(&team->thread, NULL, follow, team) == 0;
    return team->has_thread ? LH_OK
                            : lh_fail(error, LH_ERR_IO, "team: a thread could not be started");
}

lh_status lh_team_rest(lh_team *team, lh_error *error) {
    static const lh_stage_leading nobody;
    assert(lh_mesh_own(team->mesh) == 0);
    lh_stage_lead(team->stage, &nobody);
    return lh_leader_rest(&team->leader, error);
}

lh_status lh_team_follow(lh_team *team, lh_error *error) {
    assert(lh_mesh_own(team->mesh) > 0 && !team->has_thread);
    return lh_follower_run(team->stage, team->mesh, error);
}

/* ---- Life ---- */

lh_status lh_team_form(const lh_team_options *options, lh_stage *stage, lh_team **out,
                       lh_error *error) {
    assert(options->identity.members == lh_stage_made_with(stage)->membership.members);
    lh_team *team = calloc(1, sizeof *team);
    if (!team)
        return lh_fail(error, LH_ERR_NO_MEMORY, "team: out of memory");
    team->stage = stage;
    team->on_failed = options->on_failed;
    team->context = options->context;
    team->failure.status = LH_OK;
    pthread_mutex_init(&team->mutex, NULL);
    lh_status status = form(team, options, error);
    if (status != LH_OK) {
        lh_team_destroy(team);
        return status;
    }
    *out = team;
    return LH_OK;
}

lh_status lh_team_failure(lh_team *team, lh_error *error) {
    pthread_mutex_lock(&team->mutex);
    lh_status status = team->failure.status;
    if (status != LH_OK)
        *error = team->failure;
    pthread_mutex_unlock(&team->mutex);
    return status;
}

lh_mesh_totals lh_team_count(lh_team *team) {
    return lh_mesh_count(team->mesh);
}

void lh_team_end(lh_team *team) {
    lh_mesh_end(team->mesh);
}

void lh_team_destroy(lh_team *team) {
    if (!team)
        return;
    if (team->has_thread) {
        lh_mesh_end(team->mesh);
        pthread_join(team->thread, NULL);
    }
    lh_mesh_destroy(team->mesh);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}
