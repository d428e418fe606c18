#include "worker/compute/stage/kv_cache.h"
#include "worker/compute/stage/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LAYERS = 2, KV_HEADS = 2, HEAD_DIM = 8, PAGES = 8, CONTEXT = 256 };
#define PAGE_BYTES ((size_t)LAYERS * 2 * KV_HEADS * HEAD_DIM * LH_KV_PAGE_POSITIONS * sizeof(float))

static const lh_compute host = {.ops = &lh_cpu_ops};

static const lh_kv_shape shape = {LH_KV_F32, KV_HEADS, HEAD_DIM, HEAD_DIM};

static lh_kv_cache *cache;

static int set_up(void **state) {
    (void)state;
    return lh_kv_cache_create(&host, LAYERS, &shape, CONTEXT, PAGES * PAGE_BYTES + PAGE_BYTES / 2,
                              &cache, NULL) != LH_OK;
}

static int tear_down(void **state) {
    (void)state;
    lh_kv_cache_destroy(cache);
    return 0;
}

static lh_kv_sequence *reserve(uint64_t number, uint32_t positions) {
    lh_kv_sequence *sequence = NULL;
    assert_int_equal(lh_kv_cache_reserve(cache, number, positions, &sequence, NULL), LH_OK);
    lh_kv_sequence_set_length(sequence, positions);
    return sequence;
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(lh_kv_cache_page_bytes(cache), PAGE_BYTES);
    assert_int_equal(lh_kv_cache_pages_total(cache), PAGES);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
    assert_int_equal(lh_kv_cache_sequences(cache), 0);
}

static void test_budget_below_a_page(void **state) {
    (void)state;
    lh_kv_cache *none;
    lh_error error;
    assert_int_equal(
        lh_kv_cache_create(&host, LAYERS, &shape, CONTEXT, PAGE_BYTES - 1, &none, &error),
        LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--kv-bytes"));
}

/* Half and less than a third of the bytes hold as many positions; keys and values may differ. */
static void test_a_page_is_as_large_as_its_numbers(void **state) {
    (void)state;
    static const size_t bytes[] = {
        [LH_KV_F32] = 4 * (96 + 40), [LH_KV_F16] = 2 * (96 + 40), [LH_KV_Q8] = 96 + 12 + 40 + 8};
    for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8; type++) {
        lh_kv_cache *other;
        const lh_kv_shape uneven = {type, 3, 96, 40};
        const size_t page = LAYERS * 3 * 64 * bytes[type];
        assert_int_equal(
            lh_kv_cache_create(&host, LAYERS, &uneven, CONTEXT, 5 * page, &other, NULL), LH_OK);
        assert_int_equal(lh_kv_cache_page_bytes(other), page);
        assert_int_equal(lh_kv_cache_pages_total(other), 5);
        lh_kv_sequence *sequence;
        assert_int_equal(lh_kv_cache_reserve(other, 1, 65, &sequence, NULL), LH_OK);
        const lh_kv_view first = lh_kv_sequence_view(sequence, 0),
                         second = lh_kv_sequence_view(sequence, 1);
        assert_ptr_equal((char *)first.key_pages[1] + lh_kv_page_bytes(&uneven, 96),
                         first.value_pages[1]);
        assert_ptr_equal((char *)first.value_pages[1] + lh_kv_page_bytes(&uneven, 40),
                         second.key_pages[1]);
        lh_kv_cache_destroy(other);
    }
}

static void test_a_shape_that_is_too_large(void **state) {
    (void)state;
    lh_kv_cache *none;
    const lh_kv_shape wide = {LH_KV_Q8, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    assert_int_equal(lh_kv_cache_create(&host, UINT32_MAX, &wide, CONTEXT, SIZE_MAX, &none, NULL),
                     LH_ERR_LIMIT);
}

static void test_pages_follow_positions(void **state) {
    (void)state;
    reserve(1, 1);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
    reserve(1, 64);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
    reserve(1, 65);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    assert_int_equal(lh_kv_cache_sequences(cache), 1);
    lh_kv_cache_truncate(cache, 1, 0);
    lh_kv_cache_truncate(cache, 1, 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
    assert_null(lh_kv_cache_find(cache, 1));
}

static void test_full_and_over_the_context(void **state) {
    (void)state;
    lh_kv_sequence *sequence = NULL;
    lh_error error;
    reserve(1, 3 * 64);
    reserve(2, 4 * 64);
    assert_int_equal(lh_kv_cache_reserve(cache, 3, 65, &sequence, &error), LH_ERR_BUSY);
    assert_null(lh_kv_cache_find(cache, 3));
    assert_int_equal(lh_kv_cache_reserve(cache, 2, CONTEXT + 1, &sequence, &error), LH_ERR_LIMIT);
    assert_int_equal(lh_kv_cache_pages_free(cache), 1);
    assert_int_equal(lh_kv_sequence_length(lh_kv_cache_find(cache, 2)), 256);
    reserve(3, 64);
    assert_int_equal(lh_kv_cache_pages_free(cache), 0);
}

/* Every page of every layer of every sequence is memory of its own. */
static void test_views_do_not_overlap(void **state) {
    (void)state;
    size_t floats = lh_kv_page_bytes(&shape, HEAD_DIM) / sizeof(float);
    lh_kv_sequence *sequences[2] = {reserve(1, 2 * 64), reserve(2, 2 * 64)};
    for (int round = 0; round < 2; round++) {
        float number = 0;
        for (uint32_t i = 0; i < 2 * LAYERS * 2; i++) {
            const lh_kv_view view = lh_kv_sequence_view(sequences[i / 2 / LAYERS], i / 2 % LAYERS);
            for (int values = 0; values < 2; values++, number++) {
                float *page = values ? view.value_pages[i % 2] : view.key_pages[i % 2];
                assert_int_equal((uintptr_t)page % 64, 0);
                for (size_t j = 0; j < floats; j++) {
                    if (round == 0)
                        page[j] = number;
                    assert_true(page[j] == number);
                }
            }
        }
    }
}

static void test_truncate(void **state) {
    (void)state;
    lh_kv_sequence *sequence = reserve(1, 200);
    lh_kv_sequence_set_written(sequence, 100);
    lh_kv_sequence_shorten(cache, sequence, 128);
    assert_int_equal(lh_kv_sequence_length(sequence), 128);
    assert_int_equal(lh_kv_sequence_written(sequence), 100);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    lh_kv_sequence_shorten(cache, sequence, 64);
    assert_int_equal(lh_kv_sequence_written(sequence), 64);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
}

static void test_freeing_waits_for_pins(void **state) {
    (void)state;
    lh_kv_sequence *sequence = reserve(7, 65);
    lh_kv_sequence_pin(sequence);
    lh_kv_sequence_pin(sequence);
    lh_kv_cache_truncate(cache, 7, 0);
    assert_null(lh_kv_cache_find(cache, 7));
    assert_int_equal(lh_kv_cache_sequences(cache), 0);
    assert_true(lh_kv_sequence_is_freed(sequence));
    lh_kv_sequence *next = reserve(7, 1); /* the number is free at once */
    assert_ptr_not_equal(next, sequence);
    lh_kv_cache_unpin(cache, sequence);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 3);
    lh_kv_cache_unpin(cache, sequence);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
    assert_ptr_equal(lh_kv_cache_find(cache, 7), next);
}

static void test_last_unpin_frees_an_empty_one(void **state) {
    (void)state;
    lh_kv_sequence *sequence = reserve(7, 65);
    lh_kv_sequence_pin(sequence);
    lh_kv_sequence_shorten(cache, sequence, 0);
    assert_int_equal(lh_kv_cache_sequences(cache), 1);
    lh_kv_cache_unpin(cache, sequence);
    assert_int_equal(lh_kv_cache_sequences(cache), 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
}

static void test_free_all(void **state) {
    (void)state;
    for (uint64_t i = 0; i < PAGES; i++)
        reserve(i << 40, 1);
    assert_int_equal(lh_kv_cache_sequences(cache), PAGES);
    lh_kv_cache_free_all(cache);
    assert_int_equal(lh_kv_cache_sequences(cache), 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
    reserve(5, 256); /* the spare records hold the largest sequence, too */
}

static lh_kv_sequence *written(uint64_t number, uint32_t positions) {
    lh_kv_sequence *sequence = reserve(number, positions);
    lh_kv_sequence_set_written(sequence, positions);
    return sequence;
}

/* The same memory for the pages that are shared, memory of their own beyond; and it outlives the
 * source. */
static void test_a_fork_shares_whole_pages(void **state) {
    (void)state;
    lh_kv_sequence *source = written(1, 200);
    assert_int_equal(lh_kv_cache_fork(cache, 2, 1, 128, NULL), LH_OK);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 4);
    assert_int_equal(lh_kv_cache_sequences(cache), 2);
    lh_kv_sequence *fork = reserve(2, 192);
    assert_int_equal(lh_kv_sequence_written(fork), 128);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 5);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        const lh_kv_view one = lh_kv_sequence_view(source, layer),
                         two = lh_kv_sequence_view(fork, layer);
        for (int page = 0; page < 3; page++) {
            assert_int_equal(one.key_pages[page] == two.key_pages[page], page < 2);
            assert_int_equal(one.value_pages[page] == two.value_pages[page], page < 2);
        }
    }
    lh_kv_cache_truncate(cache, 1, 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 3);
    assert_int_equal(lh_kv_cache_fork(cache, 3, 2, 64, NULL), LH_OK);
    lh_kv_sequence_shorten(cache, fork, 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
    lh_kv_cache_free_all(cache);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
}

/* Pages go back when their last holder does, whichever of the forks is shorter and ends first. */
static void test_forks_of_different_lengths_keep_what_they_share(void **state) {
    (void)state;
    written(1, 192);
    assert_int_equal(lh_kv_cache_fork(cache, 2, 1, 128, NULL), LH_OK);
    assert_int_equal(lh_kv_cache_fork(cache, 3, 1, 64, NULL), LH_OK);
    lh_kv_cache_truncate(cache, 1, 0); /* its third page is nobody else's */
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    lh_kv_cache_truncate(cache, 3, 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    assert_int_equal(lh_kv_cache_fork(cache, 4, 2, 64, NULL), LH_OK);
    lh_kv_cache_truncate(cache, 2, 0); /* the longer one first */
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 1);
    lh_kv_cache_truncate(cache, 4, 0);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
}

static void test_what_cannot_fork_is_refused(void **state) {
    (void)state;
    lh_error error;
    lh_kv_sequence *source = written(1, 200);
    reserve(2, 64);
    const struct {
        uint64_t number, source;
        uint32_t positions;
    } refused[] = {{2, 1, 64}, {1, 1, 64}, {3, 4, 64},  {3, 3, 64},
                   {3, 1, 0},  {3, 1, 65}, {3, 1, 256}, {3, 2, 64}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        error.message[0] = 0;
        assert_int_equal(lh_kv_cache_fork(cache, refused[i].number, refused[i].source,
                                          refused[i].positions, &error),
                         LH_ERR_INVALID);
        assert_true(error.message[0] != 0);
    }
    assert_int_equal(lh_kv_cache_sequences(cache), 2);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 5);
    lh_kv_sequence_shorten(cache, source, 100);
    assert_int_equal(lh_kv_cache_fork(cache, 3, 1, 128, &error), LH_ERR_INVALID);
}

static void test_a_truncation_may_keep_whole_pages(void **state) {
    (void)state;
    lh_kv_sequence *sequence = written(1, 200);
    lh_kv_cache_truncate(cache, 1, 256); /* no more than it has */
    assert_int_equal(lh_kv_sequence_length(sequence), 200);
    lh_kv_cache_truncate(cache, 1, 191); /* two whole pages */
    assert_int_equal(lh_kv_sequence_length(sequence), 128);
    assert_int_equal(lh_kv_sequence_written(sequence), 128);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    lh_kv_cache_truncate(cache, 1, 128);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    /* a step goes on with it all the same: nothing is taken from under it */
    lh_kv_sequence_pin(sequence);
    lh_kv_cache_truncate(cache, 1, 64);
    assert_null(lh_kv_cache_find(cache, 1));
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 2);
    lh_kv_cache_unpin(cache, sequence);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
    written(2, 100);
    lh_kv_cache_truncate(cache, 2, 63);
    assert_null(lh_kv_cache_find(cache, 2));
    lh_kv_cache_truncate(cache, 2, 64);
}

static size_t resident_bytes(void) {
    unsigned long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_unused_pages_cost_no_memory(void **state) {
    (void)state;
    lh_kv_cache *large;
    size_t before = resident_bytes();
    assert_int_equal(lh_kv_cache_create(&host, 16, &(lh_kv_shape){LH_KV_F32, 8, 128, 128}, 65536,
                                        (size_t)4 << 30, &large, NULL),
                     LH_OK);
    assert_true(resident_bytes() < before + (4u << 20));
    lh_kv_cache_destroy(large);
}

/* What is named goes on from just there, and the rest is gone; nobody is named twice for
 * one time. */
static void test_a_resync_keeps_what_it_names(void **state) {
    (void)state;
    lh_error error;
    lh_kv_sequence *first = written(1, 200), *second = written(2, 130);
    written(3, 64);
    assert_int_equal(lh_kv_cache_fork(cache, 4, 1, 128, NULL), LH_OK);
    assert_int_equal(lh_kv_cache_name(cache, 1, 65, NULL), LH_OK);
    assert_int_equal(lh_kv_cache_name(cache, 2, 130, NULL), LH_OK);
    lh_kv_cache_free_unnamed(cache);
    assert_int_equal(lh_kv_cache_sequences(cache), 2);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES - 5);
    assert_int_equal(lh_kv_sequence_length(first), 65);
    assert_int_equal(lh_kv_sequence_written(first), 65);
    assert_int_equal(lh_kv_sequence_written(second), 130);
    assert_int_equal(lh_kv_cache_name(cache, 2, 131, &error), LH_ERR_INVALID);
    assert_string_equal(
        error.message,
        "KV cache: sequence 2 is to go on from 131 positions, but 130 are written here");
    assert_int_equal(lh_kv_cache_name(cache, 2, 0, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_kv_cache_name(cache, 3, 1, NULL), LH_ERR_INVALID);
    lh_kv_cache_free_unnamed(cache);
    assert_int_equal(lh_kv_cache_pages_free(cache), PAGES);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_sizes),
        TEST(test_budget_below_a_page),
        TEST(test_a_page_is_as_large_as_its_numbers),
        TEST(test_a_shape_that_is_too_large),
        TEST(test_pages_follow_positions),
        TEST(test_full_and_over_the_context),
        TEST(test_views_do_not_overlap),
        TEST(test_truncate),
        TEST(test_freeing_waits_for_pins),
        TEST(test_last_unpin_frees_an_empty_one),
        TEST(test_free_all),
        TEST(test_a_fork_shares_whole_pages),
        TEST(test_forks_of_different_lengths_keep_what_they_share),
        TEST(test_what_cannot_fork_is_refused),
        TEST(test_a_truncation_may_keep_whole_pages),
        TEST(test_unused_pages_cost_no_memory),
        TEST(test_a_resync_keeps_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
