/* The store, the set in use, and what goes on around them. */
#include "worker/membership/fleet_member.h"

#include "common/base/log.h"
#include "common/net/route.h"
#include "worker/membership/certificate.h"
#include "worker/membership/member_request.h"
#include "worker/membership/renewal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A machine that has just started may have its network a moment later. */
#define ROUTE_TRIES 30

struct lh_fleet_member {
    lh_membership_store *store;
    lh_own_membership membership;
    char host[LH_HOST_BYTES];
    lh_renewal *renewal; /* NULL: not started, or closed */
    bool closing;
    void (*on_closed)(void *);
    void *closed_context;
    /* The test of reach; the pool's thread writes from the second line on. */
    uv_work_t work;
    const lh_tls_options *tls;
    bool is_testing, may_try_others;
    void (*on_tested)(void *, const char *);
    void *tested_context;
    char address[LH_JOIN_ADDRESS_BYTES], other[LH_JOIN_ADDRESS_BYTES];
    bool is_other; /* it was reached there */
    lh_status status;
    lh_error error;
    lh_join_reach reach;
};

/* ---- Opening ---- */

static void render_time(int64_t seconds, char text[32]) {
    struct tm parts;
    time_t when = (time_t)seconds;
    if (!gmtime_r(&when, &parts) || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        strcpy(text, "?");
}

/* Who is early asks for another certificate first of all: the gateway gives one where its clock is
 * the same, and otherwise says whose clock is wrong. */
static void warn_early(const lh_own_membership *membership, int64_t not_before_s, int64_t now_s) {
    char edge[32], clock[32];
    render_time(not_before_s, edge);
    render_time(now_s, clock);
    lh_log(LH_LOG_WARN, "membership",
           "the certificate is valid from %s on, and this machine's clock says %s: one of the "
           "clocks is wrong, or was when it was issued; another one is asked for worker=%s",
           edge, clock, membership->name);
}

static lh_status check_life(const lh_own_membership *membership, lh_error *error) {
    lh_certificate_life life;
    char edge[32], clock[32];
    int64_t now_s = (int64_t)time(NULL);
    lh_status status = lh_certificate_read_life(membership->certificate, &life, error);
    if (status != LH_OK)
        return status;
    if (now_s < life.not_before_s)
        warn_early(membership, life.not_before_s, now_s);
    if (now_s < life.not_after_s)
        return LH_OK;
    render_time(now_s, clock);
    render_time(life.not_after_s, edge);
    return lh_fail(error, LH_ERR_INVALID,
                   "the certificate of worker %s ended at %s, and it is %s: join again, with the "
                   "line of `longhaul-gateway token` for this worker",
                   membership->name, edge, clock);
}

static lh_status try_route(lh_fleet_member *member, lh_error *error) {
    lh_address gateway;
    lh_route_targets targets;
    lh_status status =
        lh_address_parse(member->membership.gateway_url + strlen("https://"), &gateway, error);
    if (status == LH_OK)
        status = lh_route_resolve(&gateway, &targets, error);
    if (status == LH_OK &&
        !lh_route_own_host((struct sockaddr *)&targets.addresses[0], member->host))
        status =
            lh_fail(error, LH_ERR_UNAVAILABLE, "this machine has no route to %.200s", gateway.host);
    return status;
}

static lh_status find_host(lh_fleet_member *member, lh_error *error) {
    lh_status status = LH_OK;
    if (member->membership.host[0]) {
        snprintf(member->host, sizeof member->host, "%s", member->membership.host);
        return LH_OK;
    }
    for (int tries = 0; tries < ROUTE_TRIES; tries++) {
        status = try_route(member, error);
        if (status == LH_OK || status == LH_ERR_INVALID)
            break;
        if (tries == 0)
            lh_log(LH_LOG_WARN, "membership", "waiting for the network reason=\"%s\"",
                   error->message);
        sleep(1);
    }
    return status;
}

static lh_status open_member(lh_fleet_member *member, const char *folder,
                             const lh_joining_order *order, lh_error *error) {
    lh_status status = lh_membership_store_open(folder, &member->store, error);
    if (status != LH_OK)
        return status;
    status = order ? lh_joining_run(member->store, order, &member->membership, error)
                   : lh_membership_store_load(member->store, &member->membership, error);
    if (status == LH_OK)
        status = check_life(&member->membership, error);
    return status == LH_OK ? find_host(member, error) : status;
}

static void destroy(lh_fleet_member *member) {
    lh_membership_store_close(member->store);
    explicit_bzero(&member->membership, sizeof member->membership);
    free(member);
}

lh_status lh_fleet_member_open(const char *folder, const lh_joining_order *order,
                               lh_fleet_member **out, lh_error *error) {
    lh_fleet_member *member = calloc(1, sizeof *member);
    if (!member)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    lh_status status = open_member(member, folder, order, error);
    if (status == LH_OK)
        *out = member;
    else
        destroy(member);
    return status;
}

const lh_own_membership *lh_fleet_member_membership(const lh_fleet_member *member) {
    return &member->membership;
}

const lh_membership_store *lh_fleet_member_store(const lh_fleet_member *member) {
    return member->store;
}

const char *lh_fleet_member_host(const lh_fleet_member *member) {
    return member->host;
}

/* ---- Renewal ---- */

lh_status lh_fleet_member_start(lh_fleet_member *member, uv_loop_t *loop,
                                const lh_program_options *program, lh_error *error) {
    const lh_renewal_options options = {.loop = loop,
                                        .store = member->store,
                                        .membership = &member->membership,
                                        .program = program};
    assert(!member->renewal && !member->is_testing && !member->closing);
    return lh_renewal_create(&options, &member->renewal, error);
}

void lh_fleet_member_hear_trust(lh_fleet_member *member, const char *digest) {
    if (member->renewal)
        lh_renewal_hear_trust(member->renewal, digest);
}

const char *lh_fleet_member_trust(const lh_fleet_member *member) {
    return member->renewal ? lh_renewal_trust(member->renewal) : "";
}

/* ---- Reach ---- */

/* The observed host with the same port; "": it is the same. */
static void find_other(lh_fleet_member *member) {
    const char *host = member->membership.observed, *port = strrchr(member->address, ':');
    bool is_bracketed = strchr(host, ':');
    snprintf(member->other, sizeof member->other, "%s%s%s%s", is_bracketed ? "[" : "", host,
             is_bracketed ? "]" : "", port ? port : "");
    if (!member->may_try_others || strcmp(member->other, member->address) == 0)
        member->other[0] = '\0';
}

static lh_status ask(lh_fleet_member *member, const char *address) {
    return lh_member_request_reach(member->tls, &member->membership, address, &member->reach,
                                   &member->error);
}

static void test_on_pool(uv_work_t *work) {
    lh_fleet_member *member = work->data;
    member->is_other = false;
    member->status = ask(member, member->address);
    if (member->status != LH_OK || member->reach.is_reached || !member->other[0])
        return;
    lh_join_reach first = member->reach;
    if (ask(member, member->other) == LH_OK && member->reach.is_reached)
        member->is_other = true;
    else if (!first.is_untried) /* else what came of the other one says more */
        member->reach = first;
}

static void log_reach(const lh_fleet_member *member) {
    if (member->status != LH_OK || member->reach.is_untried)
        lh_log(LH_LOG_WARN, "membership",
               "whether others reach this worker is not known address=%s reason=\"%s\"",
               member->address,
               member->status != LH_OK ? member->error.message : member->reach.error);
    else if (member->reach.is_reached)
        lh_log(LH_LOG_INFO, "membership", "the gateway reaches this worker address=%s us=%lld",
               member->is_other ? member->other : member->address, (long long)member->reach.us);
    else
        lh_log(LH_LOG_WARN, "membership",
               "the gateway does not reach this worker, and others will not either: open the port "
               "in the firewall, forward it where there is NAT, or say --advertise-tls HOST:PORT "
               "address=%s tried=%s reason=\"%s\"",
               member->address, member->other, member->reach.error);
}

/* Later starts begin with the address that was right. */
static void keep_other(lh_fleet_member *member) {
    lh_error error;
    lh_own_membership *set = &member->membership;
    memcpy(set->host, set->observed, sizeof set->host);
    if (lh_membership_store_save(member->store, set, &error) != LH_OK)
        lh_log(LH_LOG_WARN, "membership", "%s", error.message);
}

static void finish_close(lh_fleet_member *member);

static void on_tested(uv_work_t *work, int cancelled) {
    lh_fleet_member *member = work->data;
    assert(cancelled == 0 && member->is_testing);
    (void)cancelled;
    member->is_testing = false;
    if (member->closing) {
        finish_close(member);
        return;
    }
    log_reach(member);
    if (member->is_other)
        keep_other(member);
    member->on_tested(member->tested_context, member->is_other ? member->other : member->address);
}

void lh_fleet_member_test_reach(lh_fleet_member *member, uv_loop_t *loop,
                                const lh_program_options *program, const char *address,
                                bool may_try_others, void (*on_done)(void *, const char *),
                                void *context) {
    assert(!member->renewal && !member->is_testing && !member->closing);
    member->tls = &program->tls;
    snprintf(member->address, sizeof member->address, "%s", address);
    member->may_try_others = may_try_others;
    find_other(member);
    member->on_tested = on_done;
    member->tested_context = context;
    member->is_testing = true;
    member->work.data = member;
    uv_queue_work(loop, &member->work, test_on_pool, on_tested); /* which cannot fail */
}

/* ---- Closing ---- */

static void finish_close(lh_fleet_member *member) {
    if (member->renewal || member->is_testing)
        return;
    void (*on_closed)(void *) = member->on_closed;
    void *context = member->closed_context;
    destroy(member);
    on_closed(context);
}

static void on_renewal_closed(void *context) {
    lh_fleet_member *member = context;
    member->renewal = NULL;
    finish_close(member);
}

void lh_fleet_member_close(lh_fleet_member *member, void (*on_closed)(void *), void *context) {
    assert(!member->closing);
    member->closing = true;
    member->on_closed = on_closed;
    member->closed_context = context;
    if (member->renewal)
        lh_renewal_close(member->renewal, on_renewal_closed, member);
    else
        finish_close(member);
}
