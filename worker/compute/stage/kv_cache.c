/* Page n is the n-th part of one mapping; in it, for each layer, the keys and then the values. A
 * sequence has two tables of page addresses for each layer (what lh_kv_view takes), filled from the
 * stack of free pages as it grows. */
#include "worker/compute/stage/kv_cache.h"

#include "worker/compute/stage/ops.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

struct lh_kv_sequence {
    uint64_t number;
    uint32_t length, written, pages, pins;
    bool freed, is_named;
    uint32_t table_pages; /* room in each table */
    lh_kv_shape shape;
    uint32_t *page_numbers; /* [table_pages] */
    void **tables;          /* [layers][2][table_pages] */
    lh_kv_sequence *next;   /* in its bucket, or in the list of spares */
};

struct lh_kv_cache {
    const lh_compute *compute;
    uint32_t layers, context;
    lh_kv_shape shape;
    size_t key_bytes, value_bytes; /* of one layer in one page */
    size_t page_bytes;             /* all of one page */
    uint32_t pages_total;
    uint32_t table_pages;
    uint8_t *memory;
    size_t mapped_bytes;
    uint32_t *free_pages; /* a stack: the last one is taken first */
    uint32_t *holders;    /* [pages_total]: sequences that hold the page */
    _Atomic uint32_t free_count, sequence_count;
    uint32_t bucket_mask;
    lh_kv_sequence **buckets;
    lh_kv_sequence *spares; /* kept for reuse: starting a sequence seldom allocates */
};

static uint32_t bucket_of(const lh_kv_cache *cache, uint64_t number) {
    return (uint32_t)((number * 0x9E3779B97F4A7C15u) >> 32) & cache->bucket_mask;
}

/* The first page is taken first. */
static void free_all_pages(lh_kv_cache *cache) {
    for (uint32_t i = 0; i < cache->pages_total; i++)
        cache->free_pages[i] = cache->pages_total - 1 - i;
    cache->free_count = cache->pages_total;
}

static lh_status cache_map(lh_kv_cache *cache, lh_error *error) {
    uint32_t buckets = 64;
    while (buckets < cache->pages_total && buckets < (1u << 16))
        buckets *= 2;
    cache->bucket_mask = buckets - 1;
    cache->buckets = calloc(buckets, sizeof(lh_kv_sequence *));
    cache->free_pages = calloc(cache->pages_total, sizeof *cache->free_pages);
    cache->holders = calloc(cache->pages_total, sizeof *cache->holders);
    cache->mapped_bytes = cache->pages_total * cache->page_bytes;
    cache->memory = cache->compute->ops->map(cache->compute, cache->mapped_bytes, true);
    if (!cache->buckets || !cache->free_pages || !cache->holders || !cache->memory) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "KV cache: out of memory for %u pages of %zu bytes",
                       cache->pages_total, cache->page_bytes);
    }
    free_all_pages(cache);
    return LH_OK;
}

/* Widths far above any real one, far below where the bytes of a row overflow. */
#define ROW_HEADS_MAX (1u << 24)
#define ROW_DIM_MAX   (1u << 24)

lh_status lh_kv_cache_create(const lh_compute *compute, uint32_t layers, const lh_kv_shape *shape,
                             uint32_t context, size_t budget_bytes, lh_kv_cache **out,
                             lh_error *error) {
    assert(layers > 0 && shape->kv_heads > 0 && shape->value_dim > 0 && context > 0);
    size_t key_bytes = lh_kv_page_bytes(shape, shape->key_dim),
           value_bytes = lh_kv_page_bytes(shape, shape->value_dim), page_bytes;
    if (shape->kv_heads > ROW_HEADS_MAX || shape->key_dim > ROW_DIM_MAX ||
        shape->value_dim > ROW_DIM_MAX ||
        __builtin_mul_overflow(key_bytes + value_bytes, (size_t)layers, &page_bytes)) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "KV cache: %u layers of %u heads of %u and %u are too large", layers,
                       shape->kv_heads, shape->key_dim, shape->value_dim);
    }
    size_t pages = budget_bytes / page_bytes;
    if (pages == 0) {
        return lh_fail(error, LH_ERR_INVALID,
                       "KV cache: a budget of %zu bytes does not hold one page of %zu bytes (%u "
                       "positions in %u layers); raise --kv-bytes",
                       budget_bytes, page_bytes, LH_KV_PAGE_POSITIONS, layers);
    }
    lh_kv_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return lh_fail(error, LH_ERR_NO_MEMORY, "KV cache: out of memory");
    cache->compute = compute;
    cache->layers = layers;
    cache->shape = *shape;
    cache->context = context;
    cache->key_bytes = key_bytes;
    cache->value_bytes = value_bytes;
    cache->page_bytes = page_bytes;
    cache->pages_total = pages > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)pages;
    uint32_t context_pages = context / LH_KV_PAGE_POSITIONS + (context % LH_KV_PAGE_POSITIONS != 0);
    cache->table_pages = context_pages < cache->pages_total ? context_pages : cache->pages_total;
    lh_status status = cache_map(cache, error);
    if (status != LH_OK) {
        lh_kv_cache_destroy(cache);
        return status;
    }
    *out = cache;
    return LH_OK;
}

static void sequence_free(lh_kv_sequence *sequence) {
    if (!sequence)
        return;
    assert(sequence->pins == 0);
    free(sequence->tables);
    free(sequence->page_numbers);
    free(sequence);
}

static void list_free(lh_kv_sequence *list) {
    while (list) {
        lh_kv_sequence *next = list->next;
        sequence_free(list);
        list = next;
    }
}

void lh_kv_cache_destroy(lh_kv_cache *cache) {
    if (!cache)
        return;
    for (uint32_t i = 0; cache->buckets && i <= cache->bucket_mask; i++)
        list_free(cache->buckets[i]);
    list_free(cache->spares);
    cache->compute->ops->unmap(cache->compute, cache->memory, cache->mapped_bytes);
    free(cache->holders);
    free(cache->free_pages);
    free(cache->buckets);
    free(cache);
}

void lh_kv_cache_limit(lh_kv_cache *cache, size_t pages) {
    assert(pages > 0 && cache->free_count == cache->pages_total);
    if (pages >= cache->pages_total)
        return;
    cache->pages_total = (uint32_t)pages;
    free_all_pages(cache);
}

size_t lh_kv_cache_pages_total(const lh_kv_cache *cache) {
    return cache->pages_total;
}

size_t lh_kv_cache_pages_free(const lh_kv_cache *cache) {
    return atomic_load_explicit(&cache->free_count, memory_order_relaxed);
}

size_t lh_kv_cache_page_bytes(const lh_kv_cache *cache) {
    return cache->page_bytes;
}

size_t lh_kv_cache_sequences(const lh_kv_cache *cache) {
    return atomic_load_explicit(&cache->sequence_count, memory_order_relaxed);
}

lh_kv_sequence *lh_kv_cache_find(lh_kv_cache *cache, uint64_t number) {
    lh_kv_sequence *sequence = cache->buckets[bucket_of(cache, number)];
    while (sequence && sequence->number != number)
        sequence = sequence->next;
    return sequence;
}

/* A sequence without pages, from the spares or the heap; NULL: out of memory. */
static lh_kv_sequence *sequence_take(lh_kv_cache *cache) {
    lh_kv_sequence *sequence = cache->spares;
    if (sequence) {
        cache->spares = sequence->next;
        return sequence;
    }
    sequence = calloc(1, sizeof *sequence);
    if (!sequence)
        return NULL;
    sequence->table_pages = cache->table_pages;
    sequence->shape = cache->shape;
    sequence->page_numbers = calloc(cache->table_pages, sizeof *sequence->page_numbers);
    sequence->tables =
        calloc((size_t)cache->layers * 2 * cache->table_pages, sizeof *sequence->tables);
    if (!sequence->page_numbers || !sequence->tables) {
        sequence_free(sequence);
        return NULL;
    }
    return sequence;
}

static void sequence_give_back(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    sequence->next = cache->spares;
    cache->spares = sequence;
}

static void page_push(lh_kv_cache *cache, lh_kv_sequence *sequence, uint32_t number) {
    uint8_t *memory = cache->memory + number * cache->page_bytes;
    for (size_t table = 0; table < (size_t)cache->layers * 2; table++) {
        sequence->tables[table * cache->table_pages + sequence->pages] = memory;
        memory += table % 2 == 0 ? cache->key_bytes : cache->value_bytes;
    }
    assert(number < cache->pages_total && sequence->pages < cache->table_pages);
    cache->holders[number]++;
    sequence->page_numbers[sequence->pages++] = number;
}

static void page_pop(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    assert(sequence->pages > 0);
    uint32_t number = sequence->page_numbers[--sequence->pages];
    assert(cache->holders[number] > 0);
    if (--cache->holders[number] == 0) {
        assert(cache->free_count < cache->pages_total);
        cache->free_pages[cache->free_count++] = number;
    }
}

static lh_status sequence_open(lh_kv_cache *cache, uint64_t number, lh_kv_sequence **out,
                               lh_error *error) {
    lh_kv_sequence *sequence = sequence_take(cache);
    if (!sequence)
        return lh_fail(error, LH_ERR_NO_MEMORY, "KV cache: out of memory for another sequence");
    lh_kv_sequence **bucket = &cache->buckets[bucket_of(cache, number)];
    sequence->number = number;
    sequence->length = sequence->written = sequence->pages = sequence->pins = 0;
    sequence->freed = sequence->is_named = false;
    sequence->next = *bucket;
    *bucket = sequence;
    cache->sequence_count++;
    *out = sequence;
    return LH_OK;
}

lh_status lh_kv_cache_reserve(lh_kv_cache *cache, uint64_t number, uint32_t positions,
                              lh_kv_sequence **out, lh_error *error) {
    if (positions > cache->context) {
        return lh_fail(error, LH_ERR_LIMIT, "KV cache: %u positions are over the context of %u",
                       positions, cache->context);
    }
    lh_kv_sequence *sequence = lh_kv_cache_find(cache, number);
    uint32_t needed = positions / LH_KV_PAGE_POSITIONS + (positions % LH_KV_PAGE_POSITIONS != 0);
    uint32_t held = !sequence ? 0 : sequence->pages;
    if (needed > held && needed - held > cache->free_count) {
        return lh_fail(error, LH_ERR_BUSY, "KV cache: %u pages are needed and %u of %u are free",
                       needed - held, cache->free_count, cache->pages_total);
    }
    if (!sequence) {
        lh_status status = sequence_open(cache, number, &sequence, error);
        if (status != LH_OK)
            return status;
    }
    while (sequence->pages < needed)
        page_push(cache, sequence, cache->free_pages[--cache->free_count]);
    *out = sequence;
    return LH_OK;
}

lh_status lh_kv_cache_fork(lh_kv_cache *cache, uint64_t number, uint64_t source_number,
                           uint32_t positions, lh_error *error) {
    const lh_kv_sequence *source = lh_kv_cache_find(cache, source_number);
    if (lh_kv_cache_find(cache, number)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "KV cache: sequence %llu is there already and cannot fork",
                       (unsigned long long)number);
    }
    if (!source) {
        return lh_fail(error, LH_ERR_INVALID,
                       "KV cache: sequence %llu forks from %llu, which is not there",
                       (unsigned long long)number, (unsigned long long)source_number);
    }
    if (positions == 0 || positions % LH_KV_PAGE_POSITIONS != 0 || positions > source->written) {
        return lh_fail(error, LH_ERR_INVALID,
                       "KV cache: sequence %llu forks %u positions of %llu, which has written %u: "
                       "whole pages of %u are possible",
                       (unsigned long long)number, positions, (unsigned long long)source_number,
                       source->written, LH_KV_PAGE_POSITIONS);
    }
    lh_kv_sequence *sequence;
    lh_status status = sequence_open(cache, number, &sequence, error);
    if (status != LH_OK)
        return status;
    while (sequence->pages < positions / LH_KV_PAGE_POSITIONS)
        page_push(cache, sequence, source->page_numbers[sequence->pages]);
    sequence->length = sequence->written = positions;
    return LH_OK;
}

static void sequence_unlink(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    assert(!sequence->freed && cache->sequence_count > 0);
    lh_kv_sequence **link = &cache->buckets[bucket_of(cache, sequence->number)];
    while (*link != sequence)
        link = &(*link)->next;
    *link = sequence->next;
    cache->sequence_count--;
}

static void sequence_close_if_unused(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    if (sequence->pins > 0)
        return;
    lh_kv_sequence_shorten(cache, sequence, 0);
    sequence_give_back(cache, sequence);
}

static void free_sequence(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    sequence_unlink(cache, sequence);
    sequence->freed = true;
    sequence_close_if_unused(cache, sequence);
}

void lh_kv_cache_truncate(lh_kv_cache *cache, uint64_t number, uint32_t length) {
    lh_kv_sequence *sequence = lh_kv_cache_find(cache, number);
    uint32_t kept = length - length % LH_KV_PAGE_POSITIONS;
    if (!sequence || (kept > 0 && kept >= sequence->length))
        return;
    if (kept == 0 || sequence->pins > 0)
        free_sequence(cache, sequence);
    else
        lh_kv_sequence_shorten(cache, sequence, kept);
}

void lh_kv_cache_free_all(lh_kv_cache *cache) {
    for (uint32_t i = 0; i <= cache->bucket_mask; i++)
        while (cache->buckets[i])
            free_sequence(cache, cache->buckets[i]);
}

lh_status lh_kv_cache_name(lh_kv_cache *cache, uint64_t number, uint32_t positions,
                           lh_error *error) {
    lh_kv_sequence *sequence = lh_kv_cache_find(cache, number);
    uint32_t written = !sequence ? 0 : sequence->written;
    if (positions == 0 || positions > written) {
        return lh_fail(
            error, LH_ERR_INVALID,
            "KV cache: sequence %llu is to go on from %u positions, but %u are written here",
            (unsigned long long)number, positions, written);
    }
    assert(sequence->pins == 0);
    lh_kv_sequence_shorten(cache, sequence, positions);
    sequence->is_named = true;
    return LH_OK;
}

void lh_kv_cache_free_unnamed(lh_kv_cache *cache) {
    for (uint32_t i = 0; i <= cache->bucket_mask; i++) {
        lh_kv_sequence *sequence = cache->buckets[i];
        while (sequence) {
            lh_kv_sequence *next = sequence->next;
            if (!sequence->is_named)
                free_sequence(cache, sequence);
            else
                sequence->is_named = false;
            sequence = next;
        }
    }
}

void lh_kv_sequence_pin(lh_kv_sequence *sequence) {
    assert(!sequence->freed);
    sequence->pins++;
}

void lh_kv_cache_unpin(lh_kv_cache *cache, lh_kv_sequence *sequence) {
    assert(sequence->pins > 0);
    sequence->pins--;
    if (sequence->freed)
        sequence_close_if_unused(cache, sequence);
    else if (sequence->pins == 0 && sequence->length == 0)
        free_sequence(cache, sequence);
}

void lh_kv_sequence_shorten(lh_kv_cache *cache, lh_kv_sequence *sequence, uint32_t positions) {
    uint32_t needed = positions / LH_KV_PAGE_POSITIONS + (positions % LH_KV_PAGE_POSITIONS != 0);
    while (sequence->pages > needed)
        page_pop(cache, sequence);
    if (sequence->length > positions)
        sequence->length = positions;
    if (sequence->written > positions)
        sequence->written = positions;
}

bool lh_kv_sequence_is_freed(const lh_kv_sequence *sequence) {
    return sequence->freed;
}

uint32_t lh_kv_sequence_length(const lh_kv_sequence *sequence) {
    return sequence->length;
}

void lh_kv_sequence_set_length(lh_kv_sequence *sequence, uint32_t positions) {
    assert(positions >= sequence->written);
    assert(positions <= (uint64_t)sequence->pages * LH_KV_PAGE_POSITIONS);
    sequence->length = positions;
}

uint32_t lh_kv_sequence_written(const lh_kv_sequence *sequence) {
    return sequence->written;
}

void lh_kv_sequence_set_written(lh_kv_sequence *sequence, uint32_t positions) {
    assert(positions <= sequence->length);
    sequence->written = positions;
}

lh_kv_view lh_kv_sequence_view(const lh_kv_sequence *sequence, uint32_t layer) {
    void **tables = sequence->tables + (size_t)layer * 2 * sequence->table_pages;
    return (lh_kv_view){.key_pages = tables,
                        .value_pages = tables + sequence->table_pages,
                        .shape = sequence->shape};
}
