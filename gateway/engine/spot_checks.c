/* A table of cases, and for each chain the one that it is asked about. */
#include "gateway/engine/spot_checks.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_MAX   16u
#define CASES_BYTES ((size_t)16 << 20)
/* Between two requests of a client who asks again at once: a check would only be in the way. */
#define QUIET_US 100000
/* When a chain is tried again that could not begin. */
#define RETRY_US 200000
/* A case that has made way so often will not end while the fleet is as busy. */
#define TRIES_MAX 64u
/* As long as misconduct remembers a fault. */
#define PATIENCE_US 600000000

/* The case that a chain recomputes now. */
typedef struct spot_question {
    lh_spot_case *spot; /* NULL: nothing */
    lh_spot_opinion opinion;
} spot_question;

struct lh_spot_checks {
    lh_spot_options options;
    uint64_t chosen_among; /* sequences */
    uint32_t count;        /* cases */
    lh_spot_case *cases[CASES_MAX];
    spot_question questions[LH_REPLICAS_MAX];
    int64_t quiet_since_us[LH_REPLICAS_MAX]; /* INT64_MAX: sequences are there */
    int64_t retry_us[LH_REPLICAS_MAX];
    uint64_t verdicts[LH_SPOT_VERDICTS];
    lh_log_limit undecided_lines, wrong_lines;
};

lh_status lh_spot_checks_create(const lh_spot_options *options, lh_spot_checks **checks,
                                lh_error *error) {
    assert(options->chain_count <= LH_REPLICAS_MAX);
    lh_spot_checks *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for spot checks");
    made->options = *options;
    for (uint32_t i = 0; i < LH_REPLICAS_MAX; i++)
        made->quiet_since_us[i] = INT64_MAX;
    *checks = made;
    return LH_OK;
}

static void free_case(lh_spot_case *spot) {
    lh_spot_case_reset(spot);
    free(spot);
}

void lh_spot_checks_destroy(lh_spot_checks *checks) {
    if (!checks)
        return;
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        free(checks->questions[i].opinion.draws);
    for (uint32_t i = 0; i < checks->count; i++)
        free_case(checks->cases[i]);
    free(checks);
}

/* ---- Chains ---- */

static lh_scheduler *scheduler_at(const lh_spot_checks *checks, uint32_t chain) {
    return lh_chain_controller_scheduler(checks->options.controllers[chain]);
}

static const lh_chain *chain_at(const lh_spot_checks *checks, uint32_t chain) {
    return lh_fleet_chain(lh_chain_controller_fleet(checks->options.controllers[chain]));
}

static bool is_up(const lh_spot_checks *checks, uint32_t chain) {
    return chain_at(checks, chain)->state == LH_CHAIN_READY &&
           lh_scheduler_chain_is_up(scheduler_at(checks, chain));
}

static bool are_alike(const lh_spot_checks *checks, uint32_t a, uint32_t b) {
    return is_up(checks, a) && is_up(checks, b) &&
           lh_chain_gives_same_bits(chain_at(checks, a), chain_at(checks, b));
}

/* Calls visit for each worker of the chain, those of its teams too. */
static void visit_members(const lh_spot_checks *checks, uint32_t chain,
                          void (*visit)(void *context, const char *worker), void *context) {
    const lh_chain *members = chain_at(checks, chain);
    for (uint32_t i = 0; i < members->stage_count; i++) {
        const lh_chain_stage *stage = &members->stages[i];
        visit(context, stage->name);
        for (uint32_t k = 0; k < stage->team.follower_count; k++)
            visit(context, stage->team.followers[k].name);
    }
}

/* Whether what this opinion says was computed by those who form the chain now. */
static bool is_of_present(const lh_spot_checks *checks, const lh_spot_case *spot,
                          uint32_t opinion) {
    const lh_spot_opinion *said = &spot->opinions[opinion];
    return lh_chain_has_computed(chain_at(checks, said->chain), said->epoch,
                                 opinion == 0 && spot->record->used_cache);
}

/* ---- Which answers ---- */

/* splitmix64's finalizer (Steele, Lea, Flood: doi 10.1145/2660193.2660195): 0 to 1. */
static double roll(lh_spot_checks *checks) {
    uint64_t x = checks->options.secret + ++checks->chosen_among * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

typedef struct standing_search {
    const lh_misconduct *misconduct;
    int64_t now_us;
    bool has_suspect;
} standing_search;

static void look_at_standing(void *context, const char *worker) {
    standing_search *search = context;
    const lh_misconduct_record *record = lh_misconduct_find(search->misconduct, worker);
    search->has_suspect |= lh_misconduct_standing(record, search->now_us) != LH_STANDING_TRUSTED;
}

static double rate_of(const lh_spot_checks *checks, uint32_t chain, int64_t now_us) {
    standing_search search = {checks->options.misconduct, now_us, false};
    if (checks->options.misconduct->count > 0)
        visit_members(checks, chain, look_at_standing, &search);
    return search.has_suspect ? 1 : checks->options.rate;
}

static bool has_alike(const lh_spot_checks *checks, uint32_t chain) {
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        if (i != chain && are_alike(checks, i, chain))
            return true;
    return false;
}

void lh_spot_checks_choose(lh_spot_checks *checks, uint32_t chain, lh_sequence *sequence,
                           int64_t now_us) {
    if (lh_sequence_is_repeatable(sequence) && roll(checks) < rate_of(checks, chain, now_us) &&
        has_alike(checks, chain))
        lh_sequence_keep_record(sequence);
}

/* ---- The table ---- */

static bool is_asked(const lh_spot_checks *checks, const lh_spot_case *spot) {
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        if (checks->questions[i].spot == spot)
            return true;
    return false;
}

static void remove_at(lh_spot_checks *checks, uint32_t index, lh_spot_verdict verdict) {
    assert(!is_asked(checks, checks->cases[index]));
    checks->verdicts[verdict]++;
    free_case(checks->cases[index]);
    checks->count--;
    memmove(checks->cases + index, checks->cases + index + 1,
            (checks->count - index) * sizeof checks->cases[0]);
}

static void remove_case(lh_spot_checks *checks, const lh_spot_case *spot, lh_spot_verdict verdict) {
    uint32_t index = 0;
    while (checks->cases[index] != spot)
        index++;
    remove_at(checks, index, verdict);
}

/* As if all opinions were there. */
static size_t bytes_of(const lh_answer_record *record) {
    return lh_answer_record_bytes(record) +
           LH_SPOT_OPINIONS_MAX * record->draw_count * sizeof record->draws[0];
}

static bool has_room(const lh_spot_checks *checks, const lh_answer_record *record) {
    size_t bytes = bytes_of(record);
    for (uint32_t i = 0; i < checks->count; i++)
        bytes += bytes_of(checks->cases[i]->record);
    return checks->count < CASES_MAX && bytes <= CASES_BYTES;
}

/* False: all that are left are asked, or differ already. */
static bool drop_oldest(lh_spot_checks *checks) {
    for (uint32_t i = 0; i < checks->count; i++)
        if (checks->cases[i]->count == 1 && !is_asked(checks, checks->cases[i])) {
            remove_at(checks, i, LH_SPOT_DROPPED);
            return true;
        }
    return false;
}

static void add_case(lh_spot_checks *checks, uint32_t chain, lh_answer_record *record,
                     int64_t now_us) {
    bool is_sound =
        !record->is_of_several && record->epoch > 0 &&
        record->chain == lh_scheduler_chain_name(scheduler_at(checks, chain)) &&
        lh_chain_has_computed(chain_at(checks, chain), record->epoch, record->used_cache);
    while (is_sound && !has_room(checks, record) && drop_oldest(checks))
        ;
    lh_spot_case *spot = is_sound && has_room(checks, record) ? calloc(1, sizeof *spot) : NULL;
    if (!spot) {
        checks->verdicts[LH_SPOT_DROPPED]++;
        lh_answer_record_destroy(record);
        return;
    }
    lh_spot_case_init(spot, record, chain, now_us);
    checks->cases[checks->count++] = spot;
}

static void take_records(lh_spot_checks *checks, uint32_t chain, int64_t now_us) {
    for (lh_answer_record *record;
         (record = lh_scheduler_take_record(scheduler_at(checks, chain)));)
        add_case(checks, chain, record, now_us);
}

/* Whose chain is no longer what it was, or that have waited too long. */
static void drop_stale(lh_spot_checks *checks, int64_t now_us) {
    for (uint32_t i = checks->count; i-- > 0;) {
        const lh_spot_case *spot = checks->cases[i];
        bool is_late = now_us - spot->since_us >= PATIENCE_US || spot->tries >= TRIES_MAX;
        if (!is_asked(checks, spot) && (is_late || !is_of_present(checks, spot, 0)))
            remove_at(checks, i, LH_SPOT_DROPPED);
    }
}

/* ---- Verdicts ---- */

typedef struct agreement {
    lh_misconduct *misconduct;
    uint32_t draws;
    int64_t now_us;
} agreement;

static void note_agreement(void *context, const char *worker) {
    const agreement *agreed = context;
    lh_misconduct_note_agreement(agreed->misconduct, worker, agreed->draws, agreed->now_us);
}

static void agree(const lh_spot_checks *checks, const lh_spot_case *spot, int64_t now_us) {
    agreement agreed = {checks->options.misconduct, spot->record->draw_count, now_us};
    for (uint32_t i = 0; i < spot->count; i++)
        if (is_of_present(checks, spot, i))
            visit_members(checks, spot->opinions[i].chain, note_agreement, &agreed);
}

static const char *name_of(const lh_spot_checks *checks, const lh_spot_case *spot,
                           uint32_t opinion) {
    return chain_at(checks, spot->opinions[opinion].chain)->name;
}

static uint32_t position_of(const lh_spot_case *spot, uint32_t a, uint32_t b) {
    return spot->record->request.prompt_tokens + lh_spot_case_difference(spot, a, b);
}

/* As many as there is room for. */
typedef struct name_list {
    char text[512];
    size_t length;
} name_list;

static void list_member(void *context, const char *worker) {
    name_list *names = context;
    size_t room = sizeof names->text - names->length, more = strlen(worker) + 1;
    if (more >= room)
        return;
    snprintf(names->text + names->length, room, "%s%s", names->length > 0 ? "," : "", worker);
    names->length += strlen(names->text + names->length);
}

/* Whose opinion contradicts the one that is wrong: its chain's own, or another's. */
static uint32_t other_than(const lh_spot_case *spot, uint32_t wrong) {
    uint32_t other = spot->count - 1;
    while (other == wrong ||
           lh_spot_case_difference(spot, other, wrong) == spot->record->draw_count)
        other--;
    return other;
}

static void tell_wrong(lh_spot_checks *checks, const lh_spot_case *spot, uint32_t wrong,
                       const char *reason, int64_t now_us) {
    unsigned long long left_out;
    name_list names = {0};
    if (!lh_log_limit_take(&checks->wrong_lines, now_us, &left_out))
        return;
    visit_members(checks, spot->opinions[wrong].chain, list_member, &names);
    lh_log(LH_LOG_ERROR, "fleet",
           "a spot check has found a wrong answer chain=%s workers=\"%s\" reason=\"%s\" "
           "left_out=%llu",
           name_of(checks, spot, wrong), names.text, reason, left_out);
}

static void blame(lh_spot_checks *checks, const lh_spot_case *spot, uint32_t wrong,
                  int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    uint32_t chain = spot->opinions[wrong].chain, other = other_than(spot, wrong);
    snprintf(reason, sizeof reason,
             spot->opinions[other].chain == chain
                 ? "chain %s has computed the same answer in two ways: they differ at position %u"
                 : "an answer of chain %s is not what the other chains compute: it differs at "
                   "position %u",
             name_of(checks, spot, wrong), position_of(spot, other, wrong));
    tell_wrong(checks, spot, wrong, reason, now_us);
    lh_chain_controller_blame(checks->options.controllers[chain], reason, now_us);
}

static void tell_undecided(lh_spot_checks *checks, const lh_spot_case *spot, int64_t now_us) {
    unsigned long long left_out;
    if (lh_log_limit_take(&checks->undecided_lines, now_us, &left_out))
        lh_log(LH_LOG_ERROR, "fleet",
               "a spot check cannot tell which chain is wrong: they differ again and again "
               "chain=%s other=%s position=%u opinions=%u left_out=%llu",
               name_of(checks, spot, 0), name_of(checks, spot, 1), position_of(spot, 0, 1),
               spot->count, left_out);
}

/* True: a chain has something to do for it. */
static bool conclude(lh_spot_checks *checks, const lh_spot_case *spot, int64_t now_us) {
    uint32_t wrong;
    lh_spot_verdict verdict = lh_spot_case_judge(spot, &wrong);
    if (verdict == LH_SPOT_WRONG && !is_of_present(checks, spot, wrong))
        verdict = LH_SPOT_DROPPED;
    if (verdict == LH_SPOT_OPEN)
        return false;
    if (verdict == LH_SPOT_AGREED)
        agree(checks, spot, now_us);
    else if (verdict == LH_SPOT_UNDECIDED)
        tell_undecided(checks, spot, now_us);
    else if (verdict == LH_SPOT_WRONG)
        blame(checks, spot, wrong, now_us);
    remove_case(checks, spot, verdict);
    return verdict == LH_SPOT_WRONG;
}

/* ---- Questions ---- */

static bool has_third(const lh_spot_checks *checks, const lh_spot_case *spot) {
    uint32_t first = spot->opinions[0].chain, second = spot->opinions[1].chain;
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        if (i != first && i != second && are_alike(checks, i, first))
            return true;
    return false;
}

static bool may_ask(const lh_spot_checks *checks, const lh_spot_case *spot, uint32_t chain) {
    bool is_third_there = spot->count == 2 && has_third(checks, spot);
    return !is_asked(checks, spot) && are_alike(checks, chain, spot->opinions[0].chain) &&
           lh_spot_case_asks(spot, chain, is_third_there);
}

/* The case with the most opinions, of those the oldest; NULL: none. */
static lh_spot_case *find_case(const lh_spot_checks *checks, uint32_t chain) {
    lh_spot_case *best = NULL;
    for (uint32_t i = 0; i < checks->count; i++)
        if ((!best || checks->cases[i]->count > best->count) &&
            may_ask(checks, checks->cases[i], chain))
            best = checks->cases[i];
    return best;
}

static void note_quiet(lh_spot_checks *checks, uint32_t chain, int64_t now_us) {
    lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler_at(checks, chain));
    int64_t *since_us = &checks->quiet_since_us[chain];
    if (figures.running + figures.waiting > 0 || !is_up(checks, chain))
        *since_us = INT64_MAX;
    else if (*since_us == INT64_MAX)
        *since_us = now_us;
}

/* When the chain may be asked; INT64_MAX: not while it is as it is. */
static int64_t due_us(const lh_spot_checks *checks, uint32_t chain) {
    int64_t since_us = checks->quiet_since_us[chain];
    if (since_us == INT64_MAX || checks->questions[chain].spot || !find_case(checks, chain))
        return INT64_MAX;
    return lh_max_i64(since_us + QUIET_US, checks->retry_us[chain]);
}

static bool ask(lh_spot_checks *checks, uint32_t chain, int64_t now_us) {
    lh_scheduler *scheduler = scheduler_at(checks, chain);
    lh_spot_case *spot = find_case(checks, chain);
    lh_error error;
    checks->retry_us[chain] = now_us + RETRY_US;
    uint64_t *draws =
        lh_scheduler_is_idle(scheduler) ? calloc(spot->record->draw_count, sizeof *draws) : NULL;
    if (!draws)
        return false;
    if (lh_scheduler_recompute(scheduler, spot->record, draws, &error) != LH_OK) {
        free(draws);
        spot->tries++;
        return false;
    }
    checks->retry_us[chain] = 0;
    checks->questions[chain] =
        (spot_question){spot, {chain, chain_at(checks, chain)->epoch, draws}};
    return true;
}

/* True as above. */
static bool take_answer(lh_spot_checks *checks, uint32_t chain, int64_t now_us) {
    lh_recomputation_state state = lh_scheduler_recomputation(scheduler_at(checks, chain));
    spot_question asked = checks->questions[chain];
    if (!asked.spot || state == LH_RECOMPUTATION_RUNS)
        return false;
    checks->questions[chain] = (spot_question){0};
    if (state != LH_RECOMPUTATION_DONE) {
        free(asked.opinion.draws);
        asked.spot->tries++;
        return false;
    }
    lh_spot_case_add(asked.spot, &asked.opinion);
    return conclude(checks, asked.spot, now_us);
}

bool lh_spot_checks_act(lh_spot_checks *checks, int64_t now_us) {
    bool has_acted = false;
    for (uint32_t i = 0; i < checks->options.chain_count; i++) {
        take_records(checks, i, now_us);
        has_acted |= take_answer(checks, i, now_us);
        note_quiet(checks, i, now_us);
    }
    drop_stale(checks, now_us);
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        if (now_us >= due_us(checks, i))
            has_acted |= ask(checks, i, now_us);
    return has_acted;
}

int64_t lh_spot_checks_deadline_us(const lh_spot_checks *checks) {
    int64_t least_us = INT64_MAX;
    for (uint32_t i = 0; checks->count > 0 && i < checks->options.chain_count; i++)
        least_us = lh_min_i64(least_us, due_us(checks, i));
    return least_us;
}

lh_spot_figures lh_spot_checks_figures(const lh_spot_checks *checks) {
    lh_spot_figures figures = {.rate = checks->options.rate, .waiting = checks->count};
    for (uint32_t i = 0; i < checks->options.chain_count; i++)
        figures.is_possible |= is_up(checks, i) && has_alike(checks, i);
    memcpy(figures.verdicts, checks->verdicts, sizeof figures.verdicts);
    return figures;
}
