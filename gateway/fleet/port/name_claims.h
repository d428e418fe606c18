/* Which process has which worker's name, so that a second one does not take it from the first, and
 * one that was started again is not kept waiting for the process before it.
 *
 * A process has the name until
 * - it has not reported for a lease; or
 * - with TLS, the connection over which it last reported has gone: the system closes that with the
 *   process, so who was killed is replaced at once; or
 * - in the clear, where each report has a connection of its own: the report that was due is missing
 *   for as long again; or the newcomer takes steps at the same address of the same machine, where
 *   the first one cannot be listening any more.
 *
 * So that nobody takes all places with invented names: with TLS a certificate is one name; in the
 * clear an address of the network has a bounded number of them.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/net/address.h"
#include "gateway/fleet/registry.h"

/* Of an address, or of a network of 64 bits of IPv6, in the clear: more workers than that are not
 * started on one machine. */
#define LH_NAMES_PER_ADDRESS 32u

/* A process that reports under a name. */
typedef struct lh_name_claim {
    char name[LH_WORKER_NAME_BYTES];
    uint64_t instance;
    bool has_tls;
    uint64_t connection;              /* over which it reports */
    char peer[LH_ADDRESS_TEXT_BYTES]; /* from where: "127.0.0.1:4711" */
    char address[LH_ADDRESS_BYTES];   /* at which it takes steps in the clear; "": at none */
} lh_name_claim;

typedef struct lh_held_name {
    lh_name_claim claim;
    char owner[LH_ADDRESS_TEXT_BYTES]; /* lh_address_render_owner of the peer */
    int64_t due_us, lease_until_us;    /* its next report, and another one after that */
    uint64_t told_instance;            /* of the last one that was refused; 0: none */
} lh_held_name;

/* Begun with zeroes, but for the query. */
typedef struct lh_name_claims {
    /* Whether a connection still stands. */
    bool (*has_connection)(const void *context, uint64_t connection);
    const void *context;
    uint32_t count;
    lh_held_name held[LH_WORKERS_MAX];
} lh_name_claims;

/* Whether it may report under that name. LH_ERR_EXISTS: another process has it, which the message
 * names; *is_news: that one was not refused before. LH_ERR_LIMIT: its address has its share, or
 * there is no place left. */
lh_status lh_name_claims_check(lh_name_claims *claims, const lh_name_claim *claim, int64_t now_us,
                               bool *is_news, lh_error *error);
/* Where the process is that has the name, as somebody with the worker's certificate sees it. */
typedef enum lh_name_place { LH_NAME_NOWHERE, LH_NAME_HERE, LH_NAME_ELSEWHERE } lh_name_place;

/* HERE: it reports from the host of this peer ("127.0.0.1:4711"); NOWHERE: none reports. */
lh_name_place lh_name_claims_place(const lh_name_claims *claims, const char *name, const char *peer,
                                   int64_t now_us);
/* It has reported, and was told to do so again after renew_us, within lease_us. Only after a
 * _check of the same time. */
void lh_name_claims_hold(lh_name_claims *claims, const lh_name_claim *claim, int64_t renew_us,
                         int64_t lease_us, int64_t now_us);
