/* A short list under a lock, which is not held while a constraint is compiled: of two threads that
 * compile the same, the second one's is thrown away. */
#include "gateway/constrain/constraint_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct cache_entry {
    char *text; /* all of the source as compact JSON; NULL: the entry is empty */
    lh_constraint *constraint;
    uint64_t used;
} cache_entry;

struct lh_constraint_cache {
    const lh_constraint_vocabulary *vocabulary;
    pthread_mutex_t lock;
    cache_entry entries[LH_CONSTRAINT_CACHE_ENTRIES_MAX];
    uint64_t uses;
};

lh_status lh_constraint_cache_create(const lh_constraint_vocabulary *vocabulary,
                                     lh_constraint_cache **cache, lh_error *error) {
    lh_constraint_cache *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a cache of constraints");
    made->vocabulary = vocabulary;
    pthread_mutex_init(&made->lock, NULL);
    *cache = made;
    return LH_OK;
}

static void empty(cache_entry *entry) {
    lh_constraint_release(entry->constraint);
    free(entry->text);
    *entry = (cache_entry){0};
}

void lh_constraint_cache_destroy(lh_constraint_cache *cache) {
    if (!cache)
        return;
    for (size_t i = 0; i < LH_CONSTRAINT_CACHE_ENTRIES_MAX; i++)
        empty(&cache->entries[i]);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* Under the lock. A reference, or NULL. */
static lh_constraint *find(lh_constraint_cache *cache, const char *text) {
    for (size_t i = 0; i < LH_CONSTRAINT_CACHE_ENTRIES_MAX; i++) {
        cache_entry *entry = &cache->entries[i];
        if (!entry->text || strcmp(entry->text, text) != 0)
            continue;
        entry->used = ++cache->uses;
        return lh_constraint_acquire(entry->constraint);
    }
    return NULL;
}

/* Under the lock. Takes the text, and the caller's reference; gives the constraint that is in the
 * cache for it from now on, with a reference. */
static lh_constraint *insert(lh_constraint_cache *cache, char *text, lh_constraint *constraint) {
    lh_constraint *there = find(cache, text);
    cache_entry *oldest = &cache->entries[0];
    if (there) {
        lh_constraint_release(constraint);
        free(text);
        return there;
    }
    for (size_t i = 1; i < LH_CONSTRAINT_CACHE_ENTRIES_MAX; i++)
        if (cache->entries[i].used < oldest->used)
            oldest = &cache->entries[i];
    empty(oldest);
    *oldest = (cache_entry){text, constraint, ++cache->uses};
    return lh_constraint_acquire(constraint);
}

/* Some grammars fail only where a text begins: that is said at once, too. The first mask is found
 * by the way, so that the thread that serves all sequences need not. */
static lh_status try_beginning(lh_constraint *constraint, lh_error *error) {
    lh_constraint_state *state;
    const lh_mask *mask;
    lh_status status = lh_constraint_state_create(constraint, &state, error);
    if (status)
        return status;
    if (!lh_constraint_state_is_finished(state))
        status = lh_constraint_state_mask(state, &mask, error);
    lh_constraint_state_destroy(state);
    return status;
}

static lh_status compile(const lh_constraint_cache *cache, const lh_constraint_source *source,
                         lh_constraint **constraint, lh_error *error) {
    lh_grammar *grammar;
    lh_constraint *made;
    lh_status status = lh_grammar_create(&grammar, error);
    if (status)
        return status;
    lh_constraint_source_add(source, grammar);
    status = lh_grammar_check(grammar, error);
    if (!status)
        status = lh_constraint_create(grammar, cache->vocabulary, &made, error);
    lh_grammar_destroy(grammar);
    if (status)
        return status;
    status = try_beginning(made, error);
    if (status) {
        lh_constraint_release(made);
        return status;
    }
    *constraint = made;
    return LH_OK;
}

/* Malloc'd; NULL: no memory. */
static char *text_of(const lh_constraint_source *source) {
    json_t *all = json_pack("{s:i,s:O?,s:O?}", "kind", (int)source->kind, "value",
                            (json_t *)source->value, "lead", (json_t *)source->lead);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

lh_status lh_constraint_cache_find(lh_constraint_cache *cache, const lh_constraint_source *source,
                                   lh_constraint **constraint, lh_error *error) {
    char *text = text_of(source);
    if (!text)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    pthread_mutex_lock(&cache->lock);
    *constraint = find(cache, text);
    pthread_mutex_unlock(&cache->lock);
    if (*constraint) {
        free(text);
        return LH_OK;
    }
    lh_status status = compile(cache, source, constraint, error);
    if (status) {
        free(text);
        return status;
    }
    pthread_mutex_lock(&cache->lock);
    *constraint = insert(cache, text, *constraint);
    pthread_mutex_unlock(&cache->lock);
    return LH_OK;
}
