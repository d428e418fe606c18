/* A chain's stages, addresses and readiness. */
#include "gateway/fleet/chain.h"

#include "common/base/random_id.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

lh_status lh_chain_find_way(const char *sender, const lh_chain_origin *from,
                            const lh_worker_report *to, lh_way *way, lh_error *error) {
    bool same_site = strcmp(from->site, to->site) == 0;
    const lh_worker_report *relay =
        to->is_behind_relay && !same_site ? lh_relays_find(from->relays, to) : NULL;
    const lh_worker_report *end = relay ? relay : to;
    if (to->is_behind_relay && !same_site && !relay)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%s cannot send to worker %s: no relay of site %s "
                       "reaches it",
                       sender, to->name, to->site);
    bool tls_possible = end->tls_address[0] && from->has_tls;
    *way = (lh_way){.tls = tls_possible && !(same_site && end->plain_address[0])};
    const char *address = way->tls ? end->tls_address : end->plain_address;
    if (!address[0])
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%s cannot send to worker %s: %s", sender,
                       end->name,
                       end->tls_address[0]
                           ? "it takes TLS alone and the sender has no certificate (--tls-cert)"
                           : "it has no address");
    memcpy(way->worker, to->name, sizeof way->worker);
    memcpy(way->address, address, sizeof way->address);
    snprintf(way->via, sizeof way->via, "%s", relay ? relay->name : "");
    return LH_OK;
}

lh_status lh_chain_form(lh_chain *chain, const lh_layout *plan, const lh_worker *const *workers,
                        const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                        lh_error *error) {
    assert(plan->stage_count > 0 && plan->stage_count <= LH_LAYOUT_STAGES_MAX);
    assert(epoch == 0 || epoch > chain->epoch);
    lh_chain formed = *chain;
    const char *sender = "the gateway";
    lh_chain_origin from = *origin;
    formed.stage_count = plan->stage_count;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        assert(plan->stages[i].machine != LH_LAYOUT_NOBODY);
        assert(plan->stages[i].layers.first == (i > 0 ? plan->stages[i - 1].layers.last : 0));
        assert(plan->stages[i].layers.first < plan->stages[i].layers.last);
        const lh_worker_report *report = &workers[plan->stages[i].machine]->report;
        lh_chain_stage *stage = &formed.stages[i];
        *stage = (lh_chain_stage){.instance = report->instance,
                                  .first_layer = plan->stages[i].layers.first,
                                  .last_layer = plan->stages[i].layers.last,
                                  .wire = stage->wire};
        memcpy(stage->name, report->name, sizeof stage->name);
        lh_status status = lh_chain_find_way(sender, &from, report, &stage->way, error);
        if (status != LH_OK)
            return status;
        sender = report->name;
        from = (lh_chain_origin){report->site, report->tls_address[0] != 0, origin->relays};
    }
    formed.state = LH_CHAIN_FORMING;
    formed.epoch = formed.planned_epoch = epoch;
    formed.formed_us = now_us;
    *chain = formed;
    return LH_OK;
}

/* Into `stage`, which has just been formed: the team of the same one before. Where somebody of it
 * was restarted it is a new one. */
static lh_status renew_team(lh_chain_stage *stage, const lh_chain_stage *before,
                            const lh_registry *registry, lh_error *error) {
    lh_chain_team *team = &stage->team;
    bool restarted = stage->instance != before->instance;
    *team = before->team;
    for (uint32_t i = 0; i < team->follower_count; i++) {
        const lh_worker *worker = lh_registry_find(registry, team->followers[i].name);
        if (!worker)
            return lh_fail(error, LH_ERR_NOT_FOUND, "worker %s is gone", team->followers[i].name);
        restarted |= team->followers[i].instance != worker->report.instance;
        team->followers[i].instance = worker->report.instance;
    }
    if (restarted)
        team->epoch = 0;
    return LH_OK;
}

lh_status lh_chain_renew(lh_chain *chain, const lh_registry *registry,
                         const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                         lh_error *error) {
    lh_layout plan = {.stage_count = chain->stage_count};
    const lh_worker *workers[LH_LAYOUT_STAGES_MAX];
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        workers[i] = lh_registry_find(registry, stage->name);
        if (!workers[i])
            return lh_fail(error, LH_ERR_NOT_FOUND, "worker %s is gone", stage->name);
        plan.stages[i] = (lh_layout_stage){i, {stage->first_layer, stage->last_layer}};
    }
    const lh_chain before = *chain;
    lh_status status = lh_chain_form(chain, &plan, workers, origin, epoch, now_us, error);
    for (uint32_t i = 0; i < chain->stage_count && status == LH_OK; i++)
        status = renew_team(&chain->stages[i], &before.stages[i], registry, error);
    if (status != LH_OK)
        *chain = before;
    else if (before.planned_epoch != 0)
        chain->planned_epoch = before.planned_epoch;
    return status;
}

void lh_chain_note_ready(lh_chain *chain, int64_t now_us) {
    assert(chain->state == LH_CHAIN_FORMING && chain->stage_count > 0 && chain->epoch > 0);
    chain->state = LH_CHAIN_READY;
    chain->ready_us = now_us;
}

void lh_chain_break(lh_chain *chain) {
    assert(chain->state != LH_CHAIN_NONE);
    chain->state = LH_CHAIN_FORMING;
}

void lh_chain_drop(lh_chain *chain) {
    assert(chain->state != LH_CHAIN_NONE);
    chain->state = LH_CHAIN_NONE;
    chain->stage_count = 0;
}

static bool has_same_shares(const lh_chain_team *a, const lh_chain_team *b) {
    bool is_same = a->follower_count == b->follower_count;
    for (uint32_t i = 0; i <= a->follower_count && is_same; i++)
        is_same = a->weights[i] == b->weights[i] &&
                  (i == 0 || strcmp(a->followers[i - 1].name, b->followers[i - 1].name) == 0);
    return is_same;
}

bool lh_chain_has_same_parts(const lh_chain_stage *a, const lh_chain_stage *b) {
    return a->first_layer == b->first_layer && a->last_layer == b->last_layer &&
           strcmp(a->name, b->name) == 0 && has_same_shares(&a->team, &b->team);
}

static bool is_same_stage(const lh_chain_stage *a, const lh_chain_stage *b) {
    bool is_same = a->instance == b->instance && lh_chain_has_same_parts(a, b);
    for (uint32_t i = 0; i < a->team.follower_count && is_same; i++)
        is_same = a->team.followers[i].instance == b->team.followers[i].instance;
    return is_same;
}

void lh_chain_found_team(lh_chain_team *team, uint32_t epoch) {
    assert(team->follower_count > 0 && epoch > 0);
    team->epoch = epoch;
    for (size_t at = 0; at < sizeof team->secret; at += sizeof(uint64_t)) {
        const uint64_t random = lh_random_u64();
        memcpy(team->secret + at, &random, sizeof random);
    }
}

static void inherit_team(lh_chain_stage *stage, const lh_chain *before, uint32_t epoch) {
    int index = lh_chain_find(before, stage->name);
    if (stage->team.follower_count == 0)
        return;
    if (index >= 0 && is_same_stage(stage, &before->stages[index]))
        stage->team = before->stages[index].team;
    else if (stage->team.epoch == 0)
        lh_chain_found_team(&stage->team, epoch);
}

/* The layers are divided in the same way, and numbers rounded alike between them. */
static bool is_same_arithmetic(const lh_chain *a, const lh_chain *b) {
    if (a->stage_count != b->stage_count)
        return false;
    for (uint32_t i = 0; i < a->stage_count; i++)
        if (a->stages[i].last_layer != b->stages[i].last_layer ||
            a->stages[i].wire != b->stages[i].wire)
            return false;
    return true;
}

void lh_chain_inherit(lh_chain *chain, const lh_chain *before) {
    assert(before->epoch < chain->epoch);
    bool stays = is_same_arithmetic(chain, before);
    for (uint32_t i = chain->stage_count; i-- > 0;) {
        stays = stays && is_same_stage(&chain->stages[i], &before->stages[i]);
        chain->stages[i].kv_epoch = stays ? before->stages[i].kv_epoch : chain->epoch;
        inherit_team(&chain->stages[i], before, chain->epoch);
    }
}

static bool rounds_between(const lh_chain *chain) {
    for (uint32_t i = 0; i + 1 < chain->stage_count; i++)
        if (chain->stages[i].wire != LH_WIRE_F32)
            return true;
    return false;
}

bool lh_chain_gives_same_bits(const lh_chain *a, const lh_chain *b) {
    return is_same_arithmetic(a, b) || (!rounds_between(a) && !rounds_between(b));
}

/* A stage whose worker or part is new has emptied its cache. Where all did so together, nothing in
 * any of the caches is from others. */
bool lh_chain_has_computed(const lh_chain *chain, uint32_t epoch, bool used_cache) {
    bool is_of_one_time = true;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        is_of_one_time &= chain->stages[i].kv_epoch == chain->stages[0].kv_epoch;
        if (chain->stages[i].kv_epoch > epoch)
            return false;
    }
    return chain->stage_count > 0 && epoch <= chain->epoch && (is_of_one_time || !used_cache);
}

lh_layout lh_chain_layout(const lh_chain *chain, const lh_worker *const *workers, uint32_t count) {
    lh_layout plan = {.stage_count = chain->stage_count};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        plan.stages[i] =
            (lh_layout_stage){LH_LAYOUT_NOBODY, {stage->first_layer, stage->last_layer}};
        for (uint32_t k = 0; k < count; k++)
            if (strcmp(workers[k]->report.name, stage->name) == 0)
                plan.stages[i].machine = k;
    }
    return plan;
}

int lh_chain_find(const lh_chain *chain, const char *worker) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (strcmp(chain->stages[i].name, worker) == 0)
            return (int)i;
    return -1;
}

/* Which of the stage's members it is, 0 for its own worker; -1: none. */
static int number_in(const lh_chain_stage *stage, const char *worker) {
    if (strcmp(stage->name, worker) == 0)
        return 0;
    for (uint32_t i = 0; i < stage->team.follower_count; i++)
        if (strcmp(stage->team.followers[i].name, worker) == 0)
            return (int)i + 1;
    return -1;
}

int lh_chain_find_member(const lh_chain *chain, const char *worker, uint32_t *member) {
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        int number = number_in(&chain->stages[i], worker);
        if (number < 0)
            continue;
        if (member)
            *member = (uint32_t)number;
        return (int)i;
    }
    return -1;
}

bool lh_chain_has_team_of(const lh_chain *chain, uint32_t epoch) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].team.follower_count > 0 && chain->stages[i].team.epoch == epoch)
            return true;
    return false;
}

bool lh_chain_member(const lh_chain *chain, const lh_registry *registry, uint32_t stage,
                     uint32_t member, const lh_worker **worker) {
    const lh_chain_stage *of = &chain->stages[stage];
    if (member > of->team.follower_count)
        return false;
    *worker =
        lh_registry_find(registry, member == 0 ? of->name : of->team.followers[member - 1].name);
    return true;
}

const lh_worker *lh_chain_worker(const lh_chain *chain, const lh_registry *registry,
                                 uint32_t stage) {
    assert(stage < chain->stage_count);
    return lh_registry_find(registry, chain->stages[stage].name);
}

/* What a worker, or none, says of its part under the chain's epoch. */
static lh_worker_stage_state state_of(const lh_chain *chain, const lh_worker *worker) {
    return worker && worker->report.assignment.generation == chain->epoch
               ? worker->report.assignment.state
               : LH_WORKER_IDLE;
}

/* FAILED is the last of the states, and the one that is told first. */
static bool is_worse(lh_worker_stage_state state, lh_worker_stage_state than) {
    return than != LH_WORKER_FAILED && (state == LH_WORKER_FAILED || state < than);
}

const lh_worker *lh_chain_awaited(const lh_chain *chain, const lh_registry *registry,
                                  uint32_t stage) {
    const lh_worker *awaited = lh_chain_worker(chain, registry, stage), *member;
    for (uint32_t i = 1; lh_chain_member(chain, registry, stage, i, &member); i++)
        if (is_worse(state_of(chain, member), state_of(chain, awaited)))
            awaited = member;
    return awaited;
}

lh_worker_stage_state lh_chain_stage_state(const lh_chain *chain, const lh_registry *registry,
                                           uint32_t stage) {
    return state_of(chain, lh_chain_awaited(chain, registry, stage));
}

int lh_chain_unrelayed(const lh_chain *chain, const lh_relays *relays) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].way.via[0] &&
            !lh_relays_serves(relays, chain->stages[i].way.via, chain->stages[i].name))
            return (int)i;
    return -1;
}

/* One that is gone comes before one that was restarted. */
typedef struct search_for_missing {
    const lh_registry *registry;
    int stage;
    bool restarted;
    const char *who;
} search_for_missing;

static void look_for(search_for_missing *search, const char *name, uint64_t instance, int stage) {
    const lh_worker *worker = lh_registry_find(search->registry, name);
    if (worker && (worker->report.instance == instance || search->stage >= 0))
        return;
    if (!worker && search->stage >= 0 && !search->restarted)
        return;
    search->stage = stage;
    search->restarted = worker;
    search->who = name;
}

int lh_chain_missing(const lh_chain *chain, const lh_registry *registry, bool *restarted,
                     const char **who) {
    search_for_missing search = {.registry = registry, .stage = -1};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        look_for(&search, stage->name, stage->instance, (int)i);
        for (uint32_t k = 0; k < stage->team.follower_count; k++)
            look_for(&search, stage->team.followers[k].name, stage->team.followers[k].instance,
                     (int)i);
    }
    *restarted = search.restarted;
    if (who)
        *who = search.who;
    return search.stage;
}

bool lh_chain_has_leaver(const lh_chain *chain, const lh_registry *registry) {
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        for (uint32_t k = 0; lh_chain_member(chain, registry, i, k, &member); k++)
            if (member && member->report.leaving)
                return true;
    return false;
}

bool lh_chain_has_unready_leaver(const lh_chain *chain, const lh_registry *registry) {
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        for (uint32_t k = 0; lh_chain_member(chain, registry, i, k, &member); k++)
            if (member && member->report.leaving &&
                member->report.assignment.state != LH_WORKER_READY)
                return true;
    return false;
}

bool lh_chain_is_loading(const lh_chain *chain, const lh_registry *registry) {
    if (chain->state != LH_CHAIN_FORMING)
        return false;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        lh_worker_stage_state state = lh_chain_stage_state(chain, registry, i);
        if (state == LH_WORKER_FETCHING || state == LH_WORKER_LOADING)
            return true;
    }
    return false;
}

bool lh_chain_awaits_team(const lh_chain *chain, const lh_registry *registry, uint32_t stage) {
    const lh_worker *member;
    bool awaits = false;
    for (uint32_t k = 0; lh_chain_member(chain, registry, stage, k, &member); k++) {
        const lh_worker_stage_state state = state_of(chain, member);
        const bool is_joining = state == LH_WORKER_LOADING && member->report.assignment.is_joining;
        if (state != LH_WORKER_READY && !is_joining)
            return false;
        awaits |= is_joining;
    }
    return awaits;
}

/* "" when the worker holds its stage and its hop is connected. */
static void describe_stage(const lh_worker_report *report, lh_worker_stage_state state,
                           const char *next, char *reason, size_t bytes) {
    static const char *const doing[] = {"has not taken its assignment yet", "fetches its layers",
                                        "loads its layers", "", "cannot load its layers"};
    reason[0] = 0;
    if (state == LH_WORKER_IDLE)
        snprintf(reason, bytes, "worker %s %s", report->name, doing[state]);
    else if (state == LH_WORKER_FAILED)
        snprintf(reason, bytes, "worker %s %s: %s", report->name, doing[state],
                 report->assignment.error);
    else if (state == LH_WORKER_LOADING && report->assignment.is_joining)
        snprintf(reason, bytes, "worker %s waits for those that compute with it", report->name);
    else if (state != LH_WORKER_READY)
        snprintf(reason, bytes, "worker %s %s: %.0f %%", report->name, doing[state],
                 report->assignment.total_bytes ? 100.0 * (double)report->assignment.done_bytes /
                                                      (double)report->assignment.total_bytes
                                                : 0.0);
    else if (!report->kv.present)
        snprintf(reason, bytes, "worker %s has not told its KV cache yet", report->name);
    else if (!report->next.present || !report->next.connected)
        snprintf(reason, bytes, "worker %s is not connected to %s%s%s", report->name, next,
                 report->next_error[0] ? ": " : "", report->next_error);
}

/* Where one of those is waited for that compute the stage with its worker. */
static bool describe_team(const lh_chain *chain, const lh_registry *registry, uint32_t stage,
                          char *reason, size_t bytes) {
    const lh_chain_team *team = &chain->stages[stage].team;
    const lh_worker *awaited = lh_chain_awaited(chain, registry, stage);
    if (team->follower_count == 0 || awaited == lh_chain_worker(chain, registry, stage))
        return false;
    if (awaited)
        describe_stage(&awaited->report, state_of(chain, awaited), "", reason, bytes);
    else
        snprintf(reason, bytes, "one of those that compute with worker %s is gone",
                 chain->stages[stage].name);
    return true;
}

int lh_chain_awaited_hop(const lh_chain *chain, const lh_registry *registry, bool first_hop) {
    int hop = first_hop ? -1 : 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        if (lh_chain_stage_state(chain, registry, i) != LH_WORKER_READY ||
            !worker->report.next.present)
            return -1;
        if (hop < 0 && !worker->report.next.connected)
            hop = (int)i + 1;
    }
    return chain->stage_count > 0 ? hop : -1;
}

bool lh_chain_is_complete(const lh_chain *chain, const lh_registry *registry,
                          const char *first_hop_problem, char *reason, size_t reason_bytes) {
    reason[0] = 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        if (!worker) {
            snprintf(reason, reason_bytes, "worker %s is gone", chain->stages[i].name);
            return false;
        }
        const char *next = i + 1 < chain->stage_count ? chain->stages[i + 1].name : "the gateway";
        if (!describe_team(chain, registry, i, reason, reason_bytes))
            describe_stage(&worker->report, lh_chain_stage_state(chain, registry, i), next, reason,
                           reason_bytes);
        if (reason[0])
            return false;
    }
    if (first_hop_problem && chain->stage_count > 0)
        snprintf(reason, reason_bytes, "the gateway is not connected to worker %s%s%.200s",
                 chain->stages[0].name, first_hop_problem[0] ? ": " : "", first_hop_problem);
    return chain->stage_count > 0 && !first_hop_problem;
}
