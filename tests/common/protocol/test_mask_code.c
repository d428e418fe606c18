/* Masks as codes: every form there and back, the shortest is chosen, nothing of a peer's is
 * believed. */
#include "common/protocol/mask_code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX (LH_MASK_VOCABULARY_MAX / 64)

static uint64_t words[WORDS_MAX], again[WORDS_MAX];
static uint8_t code[1 + LH_MASK_VOCABULARY_MAX / 8];

static void set(uint32_t token) {
    words[token / 64] |= (uint64_t)1 << token % 64;
}

static void clear(uint32_t token) {
    words[token / 64] &= ~((uint64_t)1 << token % 64);
}

static void allow_all(uint32_t vocabulary) {
    memset(words, 0, sizeof(words));
    for (uint32_t token = 0; token < vocabulary; token++)
        set(token);
}

/* Encodes, decodes and compares; the length of the code. */
static size_t there_and_back(uint32_t vocabulary) {
    lh_error error;
    memset(code, 0xee, sizeof(code));
    size_t length = lh_mask_encode(words, vocabulary, code);
    assert_in_range(length, 1, lh_mask_code_bytes_max(vocabulary));
    assert_int_equal(lh_mask_decode(code, length, vocabulary, NULL, &error), LH_OK);
    memset(again, 0x5a, sizeof(again));
    assert_int_equal(lh_mask_decode(code, length, vocabulary, again, &error), LH_OK);
    assert_memory_equal(again, words, lh_mask_code_words(vocabulary) * sizeof(words[0]));
    return length;
}

static void test_few_tokens_take_few_bytes(void **state) {
    (void)state;
    memset(words, 0, sizeof(words));
    set(0);
    assert_int_equal(there_and_back(150000), 2);
    set(149999); /* a distance of three bytes */
    assert_int_equal(there_and_back(150000), 5);
    set(127);
    set(255);
    assert_int_equal(there_and_back(150000), 7);
    allow_all(150000);
    assert_int_equal(there_and_back(150000), 1);
    clear(7);
    clear(149999);
    assert_int_equal(there_and_back(150000), 5);
}

static void test_many_of_both_are_bits(void **state) {
    (void)state;
    memset(words, 0, sizeof(words));
    for (uint32_t token = 0; token < 150000; token += 2)
        set(token);
    assert_int_equal(there_and_back(150000), 1 + 18750);
    /* one in eight: a list would be no shorter */
    memset(words, 0, sizeof(words));
    for (uint32_t token = 0; token < 150000; token += 8)
        set(token);
    assert_int_equal(there_and_back(150000), 1 + 18750);
    memset(words, 0, sizeof(words));
    for (uint32_t token = 0; token < 150000; token += 9)
        set(token);
    assert_int_equal(there_and_back(150000), 1 + 150000 / 9 + 1);
}

static void test_every_density_and_size(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 1000, 49152, LH_MASK_VOCABULARY_MAX};
    srandom(1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (long density = 0; density <= 1000; density += 125) {
            memset(words, 0, sizeof(words));
            for (uint32_t token = 0; token < sizes[i]; token++)
                if (random() % 1000 < density)
                    set(token);
            set(sizes[i] / 2); /* a mask allows something */
            there_and_back(sizes[i]);
        }
    }
}

static lh_status decode(const char *bytes, size_t length, uint32_t vocabulary) {
    lh_error error = {0};
    lh_status status = lh_mask_decode((const uint8_t *)bytes, length, vocabulary, NULL, &error);
    if (status == LH_OK)
        assert_int_equal(lh_mask_decode((const uint8_t *)bytes, length, vocabulary, again, &error),
                         LH_OK);
    return status;
}

static void test_what_is_no_code_is_refused(void **state) {
    (void)state;
    assert_int_equal(decode("", 0, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x03\x01", 2, 10), LH_ERR_MALFORMED); /* no such form */
    assert_int_equal(decode("\x01\x01", 2, 0), LH_ERR_LIMIT);
    assert_int_equal(decode("\x01\x01", 2, LH_MASK_VOCABULARY_MAX + 1), LH_ERR_LIMIT);
    /* bits: too few, too many, past the vocabulary, none */
    assert_int_equal(decode("\x00", 1, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x00\xff", 2, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x00\xff\x03\x00", 4, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x00\xff\x04", 3, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x00\x00\x00", 3, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x00\xff\x03", 3, 10), LH_OK);
    /* lists: none allowed, the last token, one past it, a cut distance, one of four bytes */
    assert_int_equal(decode("\x01", 1, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x01\x09", 2, 10), LH_OK);
    assert_int_equal(decode("\x01\x0a", 2, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x01\x04\x04", 3, 10), LH_OK);
    assert_int_equal(decode("\x01\x04\x05", 3, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x01\x09\x00", 3, 10), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x01\x84", 2, 1000), LH_ERR_MALFORMED);
    assert_int_equal(decode("\x01\x80\x80\x80\x00", 5, LH_MASK_VOCABULARY_MAX), LH_ERR_MALFORMED);
    /* all forbidden */
    assert_int_equal(decode("\x02", 1, 3), LH_OK);
    assert_int_equal(decode("\x02\x00\x00", 3, 3), LH_OK);
    assert_int_equal(decode("\x02\x00\x00\x00", 4, 3), LH_ERR_MALFORMED);
}

/* A mask that allows nothing is no mask: its code is refused. */
static void test_an_empty_mask_is_refused(void **state) {
    (void)state;
    lh_error error;
    memset(words, 0, sizeof(words));
    for (uint32_t vocabulary = 1; vocabulary < 200; vocabulary += 33) {
        size_t length = lh_mask_encode(words, vocabulary, code);
        assert_int_equal(lh_mask_decode(code, length, vocabulary, NULL, &error), LH_ERR_MALFORMED);
        assert_string_equal(error.message, "mask: no token is allowed");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_tokens_take_few_bytes),
        cmocka_unit_test(test_many_of_both_are_bits),
        cmocka_unit_test(test_every_density_and_size),
        cmocka_unit_test(test_what_is_no_code_is_refused),
        cmocka_unit_test(test_an_empty_mask_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
