/* Who begins with the same tokens, beside a plain search through all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/prefix_index.h"
#include "tests/support/failing_malloc.h"

#include <string.h>

enum { BLOCK = 4, ENTRIES = 24, BLOCKS_MAX = 6, TOKENS = BLOCK * BLOCKS_MAX };

static uint64_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static lh_prefix_index *index_of_prefixes;

static int set_up(void **state) {
    (void)state;
    if (lh_prefix_index_create(&index_of_prefixes, NULL) != LH_OK)
        return -1;
    lh_prefix_index_reset(index_of_prefixes, BLOCK);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_prefix_index_destroy(index_of_prefixes);
    return 0;
}

static uint32_t find(uint64_t tenant, const uint32_t *tokens, uint32_t blocks,
                     lh_prefix_entry **entry) {
    return lh_prefix_index_find(index_of_prefixes, (lh_prefix_scope){tenant, 0}, tokens, blocks,
                                entry);
}

static void whole_blocks_are_found(void **state) {
    (void)state;
    const uint32_t one[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                   other[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 0, 9};
    lh_prefix_entry entry = {0}, *found;
    assert_int_equal(find(7, one, 2, &found), 0);
    assert_null(found);
    lh_prefix_index_advance(index_of_prefixes, &entry, (lh_prefix_scope){7, 0}, one, 2);
    assert_int_equal(find(7, one, 6, &found), 2);
    assert_ptr_equal(found, &entry);
    assert_int_equal(find(7, one, 1, &found), 1);
    assert_int_equal(find(7, other, 6, &found), 1);
    assert_ptr_equal(found, &entry);
    assert_int_equal(find(7, one + 1, 2, &found), 0);
    assert_int_equal(find(7, one, 0, &found), 0);
    lh_prefix_index_withdraw(index_of_prefixes, &entry, 1);
    assert_int_equal(find(7, one, 6, &found), 1);
    lh_prefix_index_withdraw(index_of_prefixes, &entry, 0);
    assert_int_equal(find(7, one, 6, &found), 0);
    assert_null(found);
}

/* One tenant's, apart as if they were two; and what the one's number is among the tenants means
 * nothing among the salts. */
static void salts_are_apart(void **state) {
    (void)state;
    const uint32_t tokens[TOKENS] = {0};
    const lh_prefix_scope salted = {1, 2}, swapped = {2, 1}, plain = {1, 0};
    lh_prefix_entry mine = {0}, its = {0}, *found;
    lh_prefix_index_advance(index_of_prefixes, &mine, salted, tokens, 3);
    assert_int_equal(lh_prefix_index_find(index_of_prefixes, plain, tokens, 6, &found), 0);
    assert_int_equal(lh_prefix_index_find(index_of_prefixes, swapped, tokens, 6, &found), 0);
    lh_prefix_index_advance(index_of_prefixes, &its, plain, tokens, 2);
    assert_int_equal(lh_prefix_index_find(index_of_prefixes, salted, tokens, 6, &found), 3);
    assert_ptr_equal(found, &mine);
    assert_int_equal(lh_prefix_index_find(index_of_prefixes, plain, tokens, 6, &found), 2);
    assert_ptr_equal(found, &its);
}

/* Another tenant's, at any depth; and the same block at another place. */
static void tenants_and_places_are_apart(void **state) {
    (void)state;
    const uint32_t tokens[TOKENS] = {0};
    lh_prefix_entry mine = {0}, its = {0}, *found;
    lh_prefix_index_advance(index_of_prefixes, &mine, (lh_prefix_scope){1, 0}, tokens, 5);
    assert_int_equal(find(2, tokens, 6, &found), 0);
    assert_int_equal(find(0, tokens, 6, &found), 0);
    lh_prefix_index_advance(index_of_prefixes, &its, (lh_prefix_scope){2, 0}, tokens, 2);
    assert_int_equal(find(2, tokens, 6, &found), 2);
    assert_ptr_equal(found, &its);
    assert_int_equal(find(1, tokens, 6, &found), 5);
    assert_ptr_equal(found, &mine);
    assert_false(lh_prefix_index_is_covered(&mine));
    assert_false(lh_prefix_index_is_covered(&its));
}

static void who_has_all_of_it_covers_it(void **state) {
    (void)state;
    const uint32_t tokens[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8};
    lh_prefix_entry shorter = {0}, longer = {0};
    lh_prefix_index_advance(index_of_prefixes, &shorter, (lh_prefix_scope){1, 0}, tokens, 1);
    assert_false(lh_prefix_index_is_covered(&shorter));
    lh_prefix_index_advance(index_of_prefixes, &longer, (lh_prefix_scope){1, 0}, tokens, 1);
    assert_true(lh_prefix_index_is_covered(&shorter) && lh_prefix_index_is_covered(&longer));
    uint32_t beside = 0;
    for (lh_prefix_entry *e = lh_prefix_index_beside(&shorter); e; e = LIST_NEXT(e, beside))
        beside++;
    assert_int_equal(beside, 2);
    lh_prefix_index_advance(index_of_prefixes, &longer, (lh_prefix_scope){1, 0}, tokens, 2);
    assert_true(lh_prefix_index_is_covered(&shorter));
    assert_false(lh_prefix_index_is_covered(&longer));
    lh_prefix_index_withdraw(index_of_prefixes, &longer, 0);
    assert_false(lh_prefix_index_is_covered(&shorter));
    assert_ptr_equal(lh_prefix_index_beside(&shorter), &shorter);
}

typedef struct plain {
    lh_prefix_entry entry;
    uint64_t tenant;
    uint32_t tokens[TOKENS];
} plain;

static plain plains[ENTRIES];

static uint32_t common_blocks(const plain *p, uint64_t tenant, const uint32_t *tokens,
                              uint32_t blocks_max) {
    uint32_t blocks = 0;
    while (p->tenant == tenant && blocks < blocks_max && blocks < p->entry.blocks &&
           memcmp(p->tokens + blocks * BLOCK, tokens + blocks * BLOCK, BLOCK * sizeof *tokens) == 0)
        blocks++;
    return blocks;
}

static void check(uint64_t *seed) {
    uint32_t tokens[TOKENS], best = 0, blocks_max = (uint32_t)(dice(seed) % (BLOCKS_MAX + 1));
    uint64_t tenant = dice(seed) % 2;
    memcpy(tokens, plains[dice(seed) % ENTRIES].tokens, sizeof tokens);
    if (dice(seed) % 2)
        tokens[dice(seed) % TOKENS] ^= 1;
    for (int i = 0; i < ENTRIES; i++) {
        uint32_t blocks = common_blocks(&plains[i], tenant, tokens, blocks_max);
        best = blocks > best ? blocks : best;
    }
    lh_prefix_entry *found;
    assert_int_equal(find(tenant, tokens, blocks_max, &found), best);
    assert_int_equal(found != NULL, best > 0);
    if (found) /* the entry is a plain's first field */
        assert_int_equal(common_blocks((plain *)(void *)found, tenant, tokens, blocks_max), best);
}

/* Two tokens and two tenants, so that much is alike. */
static void random_moves_are_as_a_plain_search_says(void **state) {
    (void)state;
    uint64_t seed = 5;
    memset(plains, 0, sizeof plains);
    for (int round = 0; round < 20000; round++) {
        plain *p = &plains[dice(&seed) % ENTRIES];
        if (p->entry.blocks == 0) {
            p->tenant = dice(&seed) % 2;
            for (uint32_t i = 0; i < TOKENS; i++)
                p->tokens[i] = dice(&seed) % 8 == 0;
        }
        uint32_t blocks = (uint32_t)(dice(&seed) % (BLOCKS_MAX + 1));
        if (blocks > p->entry.blocks)
            lh_prefix_index_advance(index_of_prefixes, &p->entry, (lh_prefix_scope){p->tenant, 0},
                                    p->tokens, blocks);
        else
            lh_prefix_index_withdraw(index_of_prefixes, &p->entry, blocks);
        assert_int_equal(p->entry.blocks, blocks);
        check(&seed);
    }
    for (int i = 0; i < ENTRIES; i++) {
        plain *p = &plains[i];
        bool covered = false;
        for (int k = 0; k < ENTRIES; k++)
            covered |= k != i && common_blocks(&plains[k], p->tenant, p->tokens, p->entry.blocks) ==
                                     p->entry.blocks;
        if (p->entry.blocks > 0)
            assert_int_equal(lh_prefix_index_is_covered(&p->entry), covered);
    }
}

/* More nodes than the table begins with. */
static void many_are_found_again(void **state) {
    (void)state;
    static lh_prefix_entry entries[3000];
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t tokens[2 * BLOCK] = {i % 50, 1, 2, 3, i, i, i, i};
        lh_prefix_index_advance(index_of_prefixes, &entries[i], (lh_prefix_scope){1, 0}, tokens, 2);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t tokens[2 * BLOCK] = {i % 50, 1, 2, 3, i, i, i, i};
        lh_prefix_entry *found;
        assert_int_equal(find(1, tokens, 2, &found), 2);
        assert_ptr_equal(found, &entries[i]);
    }
    lh_prefix_index_reset(index_of_prefixes, 2 * BLOCK);
    const uint32_t tokens[2 * BLOCK] = {0, 1, 2, 3, 0, 0, 0, 0};
    lh_prefix_entry *found;
    assert_int_equal(find(1, tokens, 1, &found), 0);
}

/* In no bucket: with the tokens of eight tenants each of them had something. */
static void after_a_reset_nothing_is_found(void **state) {
    (void)state;
    static lh_prefix_entry entries[256];
    lh_prefix_entry *found;
    for (uint64_t tenant = 0; tenant < 8; tenant++) {
        memset(entries, 0, sizeof entries);
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t tokens[BLOCK] = {i};
            lh_prefix_index_advance(index_of_prefixes, &entries[i], (lh_prefix_scope){tenant, 0},
                                    tokens, 1);
        }
        lh_prefix_index_reset(index_of_prefixes, BLOCK);
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t tokens[BLOCK] = {i};
            assert_int_equal(find(tenant, tokens, 1, &found), 0);
        }
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(salts_are_apart),
        TEST(whole_blocks_are_found),
        TEST(tenants_and_places_are_apart),
        TEST(who_has_all_of_it_covers_it),
        TEST(random_moves_are_as_a_plain_search_says),
        TEST(many_are_found_again),
        TEST(after_a_reset_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
