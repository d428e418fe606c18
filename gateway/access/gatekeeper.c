/* A list, the clients that it names, and one lock. */
#include "gateway/access/gatekeeper.h"

#include "gateway/access/api_key.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct lh_gatekeeper_client {
    struct lh_gatekeeper_client *next;
    char name[LH_KEY_NAME_BYTES];
    uint64_t tenant;
    lh_account account;
    uint32_t passes; /* open */
    bool is_listed;
} client;

struct lh_gatekeeper {
    char *path; /* NULL: everybody is let in */
    lh_key_limits limits;
    pthread_mutex_t mutex; /* guards what follows, and the clients */
    lh_key_list list;
    client **key_clients; /* [list.count]: whose each key is */
    client *clients;
    lh_turnstile turnstile;
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

/* A client of no key yet, at the head of `clients`. NULL: no memory. */
static client *add_client(client **clients, const lh_key *key, int64_t now_us) {
    client *added = calloc(1, sizeof *added);
    if (!added || number_tenant(key->name, &added->tenant)) {
        free(added);
        return NULL;
    }
    memcpy(added->name, key->name, sizeof added->name);
    lh_account_init(&added->account, &key->limits, now_us);
    added->next = *clients;
    *clients = added;
    return added;
}

static void free_clients(client *first) {
    while (first) {
        client *next = first->next;
        free(first);
        first = next;
    }
}

/* Those that are in no list any more go with their last pass. */
static void drop_unlisted(lh_gatekeeper *gatekeeper) {
    for (client **link = &gatekeeper->clients; *link;) {
        client *at = *link;
        if (at->is_listed || at->passes) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        free(at);
    }
}

/* ---- The list. ---- */

/* Whose each key of the list is: clients that are there already, or new ones in *fresh. NULL: no memory. With the lock held. */
static client **assign(lh_gatekeeper *gatekeeper, const lh_key_list *list, client **fresh, int64_t now_us) {
    client **assigned = calloc(list->count, sizeof(client *));
    for (size_t i = 0; assigned && i < list->count; i++) {
        assigned[i] = find_client(gatekeeper->clients, list->keys[i].name);
        if (!assigned[i])
            assigned[i] = find_client(*fresh, list->keys[i].name);
        if (!assigned[i])
            assigned[i] = add_client(fresh, &list->keys[i], now_us);
        if (!assigned[i]) {
            free(assigned);
            return NULL;
        }
    }
    return assigned;
}

/* Puts the new list in force; takes it, and the fresh clients. With the lock held. */
static void adopt(lh_gatekeeper *gatekeeper, const lh_key_list *list, client **assigned, client *fresh,
                  int64_t now_us) {
    lh_key_list_reset(&gatekeeper->list);
    free(gatekeeper->key_clients);
    gatekeeper->list = *list;
    gatekeeper->key_clients = assigned;
    for (client *at = gatekeeper->clients; at; at = at->next)
        at->is_listed = false;
    while (fresh) {
        client *next = fresh->next;
        fresh->next = gatekeeper->clients;
        gatekeeper->clients = fresh;
        fresh = next;
    }
    for (size_t i = 0; i < list->count; i++) {
        assigned[i]->is_listed = true;
        lh_account_set_limits(&assigned[i]->account, &list->keys[i].limits, now_us);
    }
    drop_unlisted(gatekeeper);
}

lh_status lh_gatekeeper_reload(lh_gatekeeper *gatekeeper, int64_t now_us, lh_error *error) {
    lh_key_list list;
    client *fresh = NULL;
    if (!gatekeeper->path)
        return LH_OK;
    lh_status status = lh_key_list_read(gatekeeper->path, &gatekeeper->limits, &list, error);
    if (status)
        return status;
    pthread_mutex_lock(&gatekeeper->mutex);
    client **assigned = assign(gatekeeper, &list, &fresh, now_us);
    if (assigned)
        adopt(gatekeeper, &list, assigned, fresh, now_us);
    pthread_mutex_unlock(&gatekeeper->mutex);
    if (assigned)
        return LH_OK;
    free_clients(fresh);
    lh_key_list_reset(&list);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
}

lh_status lh_gatekeeper_create(const char *path, const lh_key_limits *limits, int64_t now_us,
                               lh_gatekeeper **out, lh_error *error) {
    bool has_keys = path && *path;
    lh_gatekeeper *gatekeeper = calloc(1, sizeof *gatekeeper);
    if (gatekeeper && has_keys)
        gatekeeper->path = strdup(path);
    if (!gatekeeper || (has_keys && !gatekeeper->path)) {
        free(gatekeeper);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
    }
    gatekeeper->limits = *limits;
    pthread_mutex_init(&gatekeeper->mutex, NULL);
    lh_status status = lh_gatekeeper_reload(gatekeeper, now_us, error);
    if (status) {
        lh_gatekeeper_destroy(gatekeeper);
        return status;
    }
    *out = gatekeeper;
    return LH_OK;
}

void lh_gatekeeper_destroy(lh_gatekeeper *gatekeeper) {
    if (!gatekeeper)
        return;
    free_clients(gatekeeper->clients);
    free(gatekeeper->key_clients);
    lh_key_list_reset(&gatekeeper->list);
    pthread_mutex_destroy(&gatekeeper->mutex);
    free(gatekeeper->path);
    free(gatekeeper);
}

size_t lh_gatekeeper_keys(lh_gatekeeper *gatekeeper) {
    pthread_mutex_lock(&gatekeeper->mutex);
    size_t count = gatekeeper->list.count;
    pthread_mutex_unlock(&gatekeeper->mutex);
    return count;
}

/* ---- Passes. ---- */

bool lh_pass_open(lh_gatekeeper *gatekeeper, const char *authorization, int64_t unix_s, lh_pass *pass) {
    uint8_t digest[LH_SHA256_BYTES];
    *pass = (lh_pass){.gatekeeper = gatekeeper, .name = "", .priority = INT32_MIN, .is_admin = true};
    if (!gatekeeper->path)
        return true;
    if (!lh_api_key_digest_shown(authorization, digest))
        return false;
    pthread_mutex_lock(&gatekeeper->mutex);
    const lh_key *key = lh_key_list_find(&gatekeeper->list, digest);
    bool is_valid = key && unix_s < key->expires_s;
    if (is_valid) {
        client *owner = gatekeeper->key_clients[key - gatekeeper->list.keys];
        owner->passes++;
        pass->client = owner;
        pass->name = owner->name;
        pass->tenant = owner->tenant;
        pass->priority = key->priority;
        pass->is_admin = key->is_admin;
    }
    pthread_mutex_unlock(&gatekeeper->mutex);
    return is_valid;
}

void lh_pass_close(lh_pass *pass, int64_t now_us) {
    lh_gatekeeper *gatekeeper = pass->gatekeeper;
    client *owner = pass->client;
    if (!owner && !pass->inside)
        return;
    pthread_mutex_lock(&gatekeeper->mutex);
    if (pass->inside)
        lh_turnstile_leave(&gatekeeper->turnstile, pass->inside, now_us);
    if (pass->taken)
        lh_account_leave(&owner->account, now_us - pass->taken_us);
    if (owner && --owner->passes == 0 && !owner->is_listed)
        drop_unlisted(gatekeeper);
    pthread_mutex_unlock(&gatekeeper->mutex);
    *pass = (lh_pass){0};
}

bool lh_pass_may_take(lh_pass *pass, int64_t now_us, lh_account_refusal *refusal) {
    if (!pass->client)
        return true;
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    bool has_room = lh_account_has_room(&pass->client->account, 1, now_us, refusal);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    return has_room;
}

bool lh_pass_take(lh_pass *pass, uint64_t prompt_tokens, int64_t now_us, lh_account_refusal *refusal) {
    if (!pass->client)
        return true;
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    pass->taken = lh_account_take(&pass->client->account, prompt_tokens, now_us, refusal);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    pass->prompt_tokens = prompt_tokens;
    pass->taken_us = now_us;
    return pass->taken;
}

void lh_pass_refund(lh_pass *pass, int64_t now_us) {
    if (!pass->taken)
        return;
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    lh_account_refund(&pass->client->account, pass->prompt_tokens, now_us);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    pass->taken = false;
}

void lh_pass_spend(lh_pass *pass, uint64_t drawn_tokens, int64_t now_us) {
    if (!pass->taken || drawn_tokens <= pass->drawn_tokens)
        return;
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    lh_account_spend(&pass->client->account, drawn_tokens - pass->drawn_tokens, now_us);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    pass->drawn_tokens = drawn_tokens;
}

void lh_pass_enter(lh_pass *pass, uint32_t sequences, int64_t now_us) {
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    lh_turnstile_enter(&pass->gatekeeper->turnstile, sequences, now_us);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    pass->inside = sequences;
}

int64_t lh_pass_turn_us(lh_pass *pass, uint32_t sequences, int64_t now_us) {
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    int64_t turn_us = lh_turnstile_turn_us(&pass->gatekeeper->turnstile, sequences, now_us);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
    return turn_us;
}

static lh_allowance allowance_of(lh_rate_bucket *bucket, int64_t now_us) {
    return (lh_allowance){bucket->per_minute, lh_rate_bucket_remaining(bucket, now_us),
                          lh_rate_bucket_wait_us(bucket, bucket->per_minute, now_us)};
}

void lh_pass_allowances(lh_pass *pass, int64_t now_us, lh_allowance *requests, lh_allowance *tokens) {
    *requests = *tokens = (lh_allowance){0};
    if (!pass->client)
        return;
    pthread_mutex_lock(&pass->gatekeeper->mutex);
    *requests = allowance_of(&pass->client->account.requests, now_us);
    *tokens = allowance_of(&pass->client->account.tokens, now_us);
    pthread_mutex_unlock(&pass->gatekeeper->mutex);
}
