/* A list, the clients that it names, and one lock. */
#include "gateway/auth/authenticator.h"

#include "gateway/auth/api_key.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A program's first request already holds all kinds of parts that are left out, so that their log
 * lines come together. */
#define LEFT_OUT_AT_ONCE 24

typedef struct lh_authenticator_client {
    struct lh_authenticator_client *next;
    char name[LH_KEY_NAME_BYTES];
    uint64_t tenant;
    lh_account account;
    uint32_t tickets; /* open */
    bool is_listed;
    lh_log_limit lines[LH_CLIENT_LINE_KINDS];
} client;

struct lh_authenticator {
    char *path; /* NULL: everybody is admitted */
    lh_key_limits limits;
    lh_log_limit lines[LH_CLIENT_LINE_KINDS]; /* of all who have shown no key */
    pthread_mutex_t mutex;                    /* guards what follows, and the clients */
    lh_key_list list;
    client *clients; /* whose the keys are, by name */
    lh_retry_estimator retry_estimator;
};

/* ---- Clients. ---- */

static client *find_client(client *first, const char *name) {
    while (first && strcmp(first->name, name) != 0)
        first = first->next;
    return first;
}

/* The same name is the same tenant, in every run and under every key. 0 is nobody. */
static lh_status number_tenant(const char *name, uint64_t *tenant) {
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_sha256_digest(name, strlen(name), digest);
    memcpy(tenant, digest, sizeof *tenant);
    *tenant |= 1;
    return status;
}

/* A client of no key yet. False: no memory. */
static bool add_client(lh_authenticator *authenticator, const lh_key *key, int64_t now_us) {
    client *added = calloc(1, sizeof *added);
    if (!added || number_tenant(key->name, &added->tenant)) {
        free(added);
        return false;
    }
    memcpy(added->name, key->name, sizeof added->name);
    lh_account_init(&added->account, &key->limits, now_us);
    added->lines[LH_CLIENT_LINE_LEFT_OUT].at_once = LEFT_OUT_AT_ONCE;
    added->next = authenticator->clients;
    authenticator->clients = added;
    return true;
}

/* A client that is not in the list, or no longer, goes with its last ticket. */
static void drop_unlisted(lh_authenticator *authenticator) {
    for (client **link = &authenticator->clients; *link;) {
        client *at = *link;
        if (at->is_listed || at->tickets) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        free(at);
    }
}

/* ---- The list. ---- */

/* Each key of the list gets a client, unless it has one. False: no memory. With the lock held. */
static bool add_missing(lh_authenticator *authenticator, const lh_key_list *list, int64_t now_us) {
    for (size_t i = 0; i < list->count; i++)
        if (!find_client(authenticator->clients, list->keys[i].name) &&
            !add_client(authenticator, &list->keys[i], now_us))
            return false;
    return true;
}

/* Puts the new list in force, and takes it. With the lock held. */
static void install(lh_authenticator *authenticator, const lh_key_list *list, int64_t now_us) {
    lh_key_list_reset(&authenticator->list);
    authenticator->list = *list;
    for (client *at = authenticator->clients; at; at = at->next)
        at->is_listed = false;
    for (size_t i = 0; i < list->count; i++) {
        client *owner = find_client(authenticator->clients, list->keys[i].name);
        owner->is_listed = true;
        lh_account_set_limits(&owner->account, &list->keys[i].limits, now_us);
    }
}

lh_status lh_authenticator_reload(lh_authenticator *authenticator, int64_t now_us,
                                  lh_error *error) {
    lh_key_list list;
    if (!authenticator->path)
        return LH_OK;
    lh_status status = lh_key_list_read(authenticator->path, &authenticator->limits, &list, error);
    if (status)
        return status;
    pthread_mutex_lock(&authenticator->mutex);
    bool is_whole = add_missing(authenticator, &list, now_us);
    if (is_whole)
        install(authenticator, &list, now_us);
    drop_unlisted(authenticator);
    pthread_mutex_unlock(&authenticator->mutex);
    if (is_whole)
        return LH_OK;
    lh_key_list_reset(&list);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
}

lh_status lh_authenticator_create(const char *path, const lh_key_limits *limits, int64_t now_us,
                                  lh_authenticator **out, lh_error *error) {
    bool has_keys = path && *path;
    lh_authenticator *authenticator = calloc(1, sizeof *authenticator);
    if (authenticator && has_keys)
        authenticator->path = strdup(path);
    if (!authenticator || (has_keys && !authenticator->path)) {
        free(authenticator);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
    }
    authenticator->limits = *limits;
    authenticator->lines[LH_CLIENT_LINE_LEFT_OUT].at_once = LEFT_OUT_AT_ONCE;
    pthread_mutex_init(&authenticator->mutex, NULL);
    lh_status status = lh_authenticator_reload(authenticator, now_us, error);
    if (status) {
        lh_authenticator_destroy(authenticator);
        return status;
    }
    *out = authenticator;
    return LH_OK;
}

void lh_authenticator_destroy(lh_authenticator *authenticator) {
    if (!authenticator)
        return;
    while (authenticator->clients) {
        client *next = authenticator->clients->next;
        free(authenticator->clients);
        authenticator->clients = next;
    }
    lh_key_list_reset(&authenticator->list);
    pthread_mutex_destroy(&authenticator->mutex);
    free(authenticator->path);
    free(authenticator);
}

size_t lh_authenticator_keys(lh_authenticator *authenticator) {
    pthread_mutex_lock(&authenticator->mutex);
    size_t count = authenticator->list.count;
    pthread_mutex_unlock(&authenticator->mutex);
    return count;
}

/* ---- Tickets. ---- */

bool lh_ticket_open(lh_authenticator *authenticator, const char *authorization, int64_t unix_s,
                    lh_ticket *ticket) {
    uint8_t digest[LH_SHA256_BYTES];
    *ticket = (lh_ticket){.authenticator = authenticator,
                          .name = "",
                          .priority = INT32_MIN,
                          .is_admin = true,
                          .reading_ms_per_minute = authenticator->limits.reading_ms_per_minute};
    if (!authenticator->path)
        return true;
    if (!lh_api_key_digest_shown(authorization, digest))
        return false;
    pthread_mutex_lock(&authenticator->mutex);
    const lh_key *key = lh_key_list_find(&authenticator->list, digest);
    bool is_valid = key && unix_s < key->expires_s;
    if (is_valid) {
        client *owner = find_client(authenticator->clients, key->name);
        owner->tickets++;
        ticket->client = owner;
        ticket->name = owner->name;
        ticket->tenant = owner->tenant;
        ticket->priority = key->priority;
        ticket->is_admin = key->is_admin;
        ticket->reading_ms_per_minute = key->limits.reading_ms_per_minute;
    }
    pthread_mutex_unlock(&authenticator->mutex);
    return is_valid;
}

void lh_ticket_leave(lh_ticket *ticket, int64_t now_us) {
    lh_authenticator *authenticator = ticket->authenticator;
    if (!ticket->inside && !ticket->taken)
        return;
    pthread_mutex_lock(&authenticator->mutex);
    if (ticket->inside)
        lh_retry_estimator_leave(&authenticator->retry_estimator, ticket->inside, now_us);
    if (ticket->paid)
        lh_account_leave(&ticket->client->account, now_us - ticket->taken_us);
    else if (ticket->taken)
        lh_account_drop(&ticket->client->account);
    pthread_mutex_unlock(&authenticator->mutex);
    ticket->inside = 0;
    ticket->taken = ticket->paid = false;
}

void lh_ticket_close(lh_ticket *ticket, int64_t now_us) {
    lh_authenticator *authenticator = ticket->authenticator;
    client *owner = ticket->client;
    lh_ticket_leave(ticket, now_us);
    if (!owner)
        return;
    pthread_mutex_lock(&authenticator->mutex);
    assert(owner->tickets > 0);
    if (--owner->tickets == 0 && !owner->is_listed)
        drop_unlisted(authenticator);
    pthread_mutex_unlock(&authenticator->mutex);
    *ticket = (lh_ticket){0};
}

lh_log_limit *lh_ticket_log_limit(lh_authenticator *authenticator, const lh_ticket *ticket,
                                  lh_client_line kind) {
    return ticket->client ? &ticket->client->lines[kind] : &authenticator->lines[kind];
}

bool lh_ticket_take_request(lh_ticket *ticket, int64_t now_us, lh_account_refusal *refusal) {
    if (!ticket->client)
        return true;
    pthread_mutex_lock(&ticket->authenticator->mutex);
    assert(!ticket->taken);
    ticket->taken = lh_account_take_request(&ticket->client->account, now_us, refusal);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    ticket->taken_us = now_us;
    return ticket->taken;
}

bool lh_ticket_take_prompt(lh_ticket *ticket, uint64_t prompt_tokens, int64_t now_us,
                           lh_account_refusal *refusal) {
    if (!ticket->client)
        return true;
    pthread_mutex_lock(&ticket->authenticator->mutex);
    assert(ticket->taken && !ticket->paid);
    ticket->paid = lh_account_take_prompt(&ticket->client->account, prompt_tokens, now_us, refusal);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    ticket->prompt_tokens = ticket->paid ? prompt_tokens : 0;
    return ticket->paid;
}

void lh_ticket_refund(lh_ticket *ticket, int64_t now_us) {
    if (!ticket->taken)
        return;
    pthread_mutex_lock(&ticket->authenticator->mutex);
    lh_account_refund(&ticket->client->account, ticket->prompt_tokens, now_us);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    ticket->taken = ticket->paid = false;
    ticket->prompt_tokens = 0;
}

void lh_ticket_spend(lh_ticket *ticket, uint64_t sampled_tokens, int64_t now_us) {
    if (!ticket->paid || sampled_tokens <= ticket->sampled_tokens)
        return;
    pthread_mutex_lock(&ticket->authenticator->mutex);
    lh_rate_bucket_spend(&ticket->client->account.tokens, sampled_tokens - ticket->sampled_tokens,
                         now_us);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    ticket->sampled_tokens = sampled_tokens;
}

void lh_ticket_enter(lh_ticket *ticket, uint32_t sequences, int64_t now_us) {
    pthread_mutex_lock(&ticket->authenticator->mutex);
    lh_retry_estimator_enter(&ticket->authenticator->retry_estimator, sequences, now_us);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    assert(ticket->inside == 0);
    ticket->inside = sequences;
}

int64_t lh_ticket_retry_us(lh_ticket *ticket, uint32_t sequences, int64_t now_us) {
    pthread_mutex_lock(&ticket->authenticator->mutex);
    int64_t turn_us =
        lh_retry_estimator_wait_us(&ticket->authenticator->retry_estimator, sequences, now_us);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
    return turn_us;
}

static lh_allowance allowance_of(lh_rate_bucket *bucket, int64_t now_us) {
    return (lh_allowance){bucket->per_minute, lh_rate_bucket_remaining(bucket, now_us),
                          lh_rate_bucket_wait_us(bucket, bucket->per_minute, now_us)};
}

void lh_ticket_allowances(lh_ticket *ticket, int64_t now_us, lh_allowance *requests,
                          lh_allowance *tokens) {
    *requests = *tokens = (lh_allowance){0};
    if (!ticket->client)
        return;
    pthread_mutex_lock(&ticket->authenticator->mutex);
    *requests = allowance_of(&ticket->client->account.requests, now_us);
    *tokens = allowance_of(&ticket->client->account.tokens, now_us);
    pthread_mutex_unlock(&ticket->authenticator->mutex);
}
