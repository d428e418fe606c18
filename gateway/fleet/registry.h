/* The workers that are there: what each one last said of itself, and until when that holds (its
 * lease). Sans-I/O: time is an argument. Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/worker_report.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one gateway. One more is refused, with words. */
#define LH_WORKERS_MAX 1024u

typedef struct lh_worker {
    lh_worker_report report; /* the last one */
    int64_t joined_us, renewed_us, lease_until_us;
    int64_t excluded_until_us;  /* it failed to load its stage: not planned before then */
    int64_t suspended_until_us; /* likewise, for its misconduct (misconduct.h) */
    bool is_cut_off;            /* other sites do not reach it, and no relay does */
    bool is_alone;              /* a team of it did not form: it is planned in none */
    bool is_on_probation;       /* that is some time ago: it is to be tried again */
} lh_worker;

typedef struct lh_registry lh_registry;

typedef enum lh_registry_change {
    LH_REGISTRY_RENEWED,
    LH_REGISTRY_JOINED,
    LH_REGISTRY_RESTARTED /* the same name with another instance */
} lh_registry_change;

lh_status lh_registry_create(int64_t lease_us, lh_registry **registry, lh_error *error);
void lh_registry_destroy(lh_registry *registry);

/* Takes a copy of the report and renews the lease. Nobody's place goes to a newcomer but that of a
 * worker that is late by half a lease and has never served; and places stay free for those that
 * have served and are away. LH_ERR_LIMIT: no place is left for this one. */
lh_status lh_registry_put(lh_registry *registry, const lh_worker_report *report, int64_t now_us,
                          lh_registry_change *change, lh_error *error);
/* The worker has a part in a chain: of those that had it last, LH_PLACES_KEPT_MAX find a place when
 * they come back. */
#define LH_PLACES_KEPT_MAX 8u
void lh_registry_note_served(lh_registry *registry, const char *name);
/* Removes one worker whose lease is over and copies it to *gone (may be NULL). False: none is. */
bool lh_registry_expire(lh_registry *registry, int64_t now_us, lh_worker *gone);
/* Shortens a lease, never lengthens it: the worker is suspected and must renew sooner. */
void lh_registry_suspect(lh_registry *registry, const char *name, int64_t until_us);
/* The worker lives, by other evidence than its report: its lease is as if it had just reported. */
void lh_registry_vouch(lh_registry *registry, const char *name, int64_t now_us);
/* Moves all leases and renewals by this: time that did not pass for the gateway. */
void lh_registry_extend(lh_registry *registry, int64_t by_us);
/* Keeps a worker out of plans until then. */
void lh_registry_exclude(lh_registry *registry, const char *name, int64_t until_us);
/* The same for its misconduct, which a restart does not end. 0: it is suspended no longer. */
void lh_registry_suspend(lh_registry *registry, const char *name, int64_t until_us);
/* Nobody is suspended any more. False: nobody was. */
bool lh_registry_pardon(lh_registry *registry, int64_t now_us);
bool lh_registry_has_suspended(const lh_registry *registry, int64_t now_us);
/* Whether a worker is reached; true: it is as if it was there, and nobody could send to it. */
void lh_registry_cut_off(lh_registry *registry, const char *name, bool is_cut_off);
void lh_registry_note_teaming(lh_registry *registry, const char *name, bool is_alone,
                              bool is_on_probation);
/* Nobody is excluded any more. False: nobody was. */
bool lh_registry_readmit(lh_registry *registry, int64_t now_us);

/* Why a worker can compute no stage of the model, in its own words; "": each can. Valid until the
 * next _put or _expire. */
const char *lh_registry_refusal(const lh_registry *registry);

/* Workers in the order of their names. Pointers are valid until the next _put or _expire. */
uint32_t lh_registry_count(const lh_registry *registry);
const lh_worker *lh_registry_at(const lh_registry *registry, uint32_t index);
/* NULL: not there. */
const lh_worker *lh_registry_find(const lh_registry *registry, const char *name);
/* Whether plans may count on it: it does not leave, is reached, and is neither excluded nor
 * suspended now. */
bool lh_worker_is_usable(const lh_worker *worker, int64_t now_us);
/* When the first lease ends; INT64_MAX: there is none. */
int64_t lh_registry_deadline_us(const lh_registry *registry);
