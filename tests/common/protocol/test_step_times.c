/* Times frames: the vector of PROTOCOL.md, round trips, cutting a body, and bytes that no worker of
 * ours wrote. */
#include "common/base/crc32c.h"
#include "common/protocol/step.h"
#include "common/protocol/step_times.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Vector 5. */
static const char vector_text[] =
    "04000000 95000000 52ffd3ed d8e2bf09 07ca9a3b 00000000 0c000000 84030000 14000000 19000000 "
    "b6030000 860b0000 0f000000 1c0c0000 28230000 29230000 01000000 01000000 01000000 01000000 "
    "62000000 00020000 00000000 00030000 00300000 007a0300 00840300 00ac0300 00000000 00020000 "
    "00000000 00030000 00400000 007c0b00 00900b00 00ffffff ff001000 00e80300 00140500 00b00400 "
    "00640000 00 ";

static lh_step_times sample(void) {
    lh_step_times times = {.worker = "b",
                           .base_us = 1000000007,
                           .manifest_us = 12,
                           .body_end_us = 900,
                           .begin_us = 20,
                           .begun_us = 25,
                           .finish_us = 950,
                           .finished_us = 2950,
                           .submitted_us = 15,
                           .sent_us = 3100,
                           .passed_us = 9000,
                           .answered_us = 9001,
                           .taken_count = 1,
                           .given_count = 1,
                           .gather_count = 1};
    times.taken[0] = (lh_step_shard_taken){0, 2, 0, 3, 48, 890, 900, 940};
    times.given[0] = (lh_step_shard_given){0, 2, 0, 3, 64, 2940, 2960, LH_STEP_TIMES_NEVER};
    times.gathers[0] = (lh_step_gather){4096, 1000, 1300, 1200, 100};
    return times;
}

static size_t from_hex(const char *text, uint8_t *bytes) {
    size_t count = 0;
    for (; *text != '\0'; text++) {
        if (*text != ' ') {
            unsigned byte;
            assert_int_equal(sscanf(text, "%2x", &byte), 1);
            bytes[count++] = (uint8_t)byte;
            text++;
        }
    }
    return count;
}

static void test_vector(void **state) {
    (void)state;
    uint8_t expected[512], bytes[512];
    size_t expected_length = from_hex(vector_text, expected), length = 0;
    lh_step_times times = sample(), read;
    assert_int_equal(lh_step_times_encode(&times, bytes, sizeof(bytes), &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_times_bytes(&times));
    assert_int_equal(length, expected_length);
    assert_memory_equal(bytes, expected, length);
    size_t offset = 0;
    assert_int_equal(lh_step_times_read(expected, expected_length, &offset, &read, NULL), LH_OK);
    assert_int_equal(offset, expected_length);
    assert_memory_equal(&read, &times, sizeof(times));
    assert_int_equal(lh_step_times_read(expected, expected_length, &offset, &read, NULL), LH_AGAIN);
}

static void test_offsets(void **state) {
    (void)state;
    assert_int_equal(lh_step_times_offset(100, 100), 0);
    assert_int_equal(lh_step_times_offset(100, 350), 250);
    assert_int_equal(lh_step_times_offset(100, 99), LH_STEP_TIMES_NEVER);
    assert_int_equal(lh_step_times_offset(100, -1), LH_STEP_TIMES_NEVER);
    assert_int_equal(lh_step_times_offset(0, UINT32_MAX - 1), UINT32_MAX - 1);
    assert_int_equal(lh_step_times_offset(0, (int64_t)UINT32_MAX + 5), LH_STEP_TIMES_NEVER);
}

/* More shards and gathers than are listed are counted. */
static void test_many_shards_and_gathers(void **state) {
    (void)state;
    lh_step_times *times = calloc(2, sizeof *times);
    static uint8_t bytes[16 + LH_STEP_TIMES_BYTES_MAX];
    size_t length = 0, offset = 0;
    times[0] = sample();
    snprintf(times[0].worker, sizeof(times[0].worker), "%063d", 7);
    times[0].taken_count = times[0].given_count = LH_STEP_TIMES_SHARDS_MAX + 9;
    times[0].gather_count = LH_STEP_TIMES_GATHERS_MAX + 3;
    for (uint32_t i = 0; i < LH_STEP_TIMES_GATHERS_MAX; i++)
        times[0].gathers[i].there_us = 3 * i;
    for (uint32_t i = 0; i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        times[0].taken[i].came_us = i;
        times[0].given[i].left_us = 2 * i;
    }
    assert_int_equal(lh_step_times_encode(times, bytes, sizeof(bytes), &length, NULL), LH_OK);
    assert_int_equal(lh_step_times_read(bytes, length, &offset, &times[1], NULL), LH_OK);
    assert_memory_equal(&times[0], &times[1], sizeof(times[0]));
    assert_int_equal(lh_step_times_encode(times, bytes, length - 1, &length, NULL), LH_ERR_LIMIT);
    times[0].worker[0] = '\0';
    assert_int_equal(lh_step_times_encode(times, bytes, sizeof(bytes), &length, NULL),
                     LH_ERR_INVALID);
    free(times);
}

static void seal(uint8_t *frame, size_t payload) {
    uint32_t bytes = (uint32_t)payload, crc = lh_crc32c(0, frame + 16, payload);
    memcpy(frame + 4, &bytes, 4);
    memcpy(frame + 8, &crc, 4);
    crc = lh_crc32c(0, frame, 12);
    memcpy(frame + 12, &crc, 4);
}

static lh_status read_changed(size_t at, uint32_t value, size_t less) {
    uint8_t bytes[512];
    size_t length = 0, offset = 0;
    lh_step_times times = sample(), read;
    lh_error error = {.message = ""};
    assert_int_equal(lh_step_times_encode(&times, bytes, sizeof(bytes), &length, NULL), LH_OK);
    memcpy(bytes + at, &value, 4);
    seal(bytes, length - 16 - less);
    lh_status status = lh_step_times_read(bytes, length - less, &offset, &read, &error);
    assert_true(status == LH_OK || error.message[0] != '\0');
    return status;
}

static void test_hostile_frames(void **state) {
    (void)state;
    assert_int_equal(read_changed(16, 1, 0), LH_OK);
    assert_int_equal(read_changed(0, 9, 0), LH_ERR_MALFORMED);            /* no such frame */
    assert_int_equal(read_changed(0, 2, 0), LH_ERR_MALFORMED);            /* a shard in an answer */
    assert_int_equal(read_changed(20, 0xfffffff0u, 0), LH_ERR_MALFORMED); /* the base */
    /* shards that are not there */
    assert_int_equal(read_changed(64, 2, 0), LH_ERR_MALFORMED);
    assert_int_equal(read_changed(68, UINT32_MAX, 0), LH_ERR_MALFORMED);
    assert_int_equal(read_changed(72, 2, 0), LH_ERR_MALFORMED); /* gathers */
    assert_int_equal(read_changed(72, UINT32_MAX, 0), LH_ERR_MALFORMED);
    assert_int_equal(read_changed(76, 0, 0), LH_ERR_MALFORMED); /* the name */
    assert_int_equal(read_changed(76, 64, 0), LH_ERR_MALFORMED);
    assert_int_equal(read_changed(76, UINT32_MAX, 0), LH_ERR_MALFORMED);
    /* a line break as a name */
    assert_int_equal(read_changed(80, 0x0000000au, 0), LH_ERR_MALFORMED);
    for (uint32_t letter = 0; letter < 256; letter++) {
        bool is_of_a_name = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                            (letter >= 'a' && letter <= 'z') || letter == '.' || letter == '_' ||
                            letter == '-';
        assert_int_equal(read_changed(80, letter, 0), is_of_a_name ? LH_OK : LH_ERR_MALFORMED);
    }
    for (size_t less = 1; less <= 149; less++)
        assert_int_equal(read_changed(16, 1, less), LH_ERR_MALFORMED);
}

static void test_every_bit_is_under_a_checksum(void **state) {
    (void)state;
    uint8_t bytes[512];
    size_t length = 0;
    lh_step_times times = sample(), read;
    assert_int_equal(lh_step_times_encode(&times, bytes, sizeof(bytes), &length, NULL), LH_OK);
    for (size_t bit = 0; bit < length * 8; bit++) {
        size_t offset = 0;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(lh_step_times_read(bytes, length, &offset, &read, NULL), LH_ERR_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        size_t offset = 0;
        assert_int_equal(lh_step_times_read(bytes, cut, &offset, &read, NULL),
                         cut == 0 ? LH_AGAIN : LH_ERR_MALFORMED);
    }
}

static void test_fitting(void **state) {
    (void)state;
    uint8_t bytes[1024];
    size_t one = 0, length = 0;
    lh_step_times times = sample();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            lh_step_times_encode(&times, bytes + length, sizeof(bytes) - length, &one, NULL),
            LH_OK);
        length += one;
    }
    assert_int_equal(lh_step_times_fitting(bytes, length, sizeof(bytes)), length);
    assert_int_equal(lh_step_times_fitting(bytes, length, length), length);
    assert_int_equal(lh_step_times_fitting(bytes, length, length - 1), 2 * one);
    assert_int_equal(lh_step_times_fitting(bytes, length - 1, sizeof(bytes)), 2 * one);
    assert_int_equal(lh_step_times_fitting(bytes, length, one - 1), 0);
    assert_int_equal(lh_step_times_fitting((const uint8_t *)"{}", 2, 100), 0);
    assert_int_equal(lh_step_times_fitting(NULL, 0, 100), 0);
    bytes[one + 3] ^= 1; /* the second head is broken */
    assert_int_equal(lh_step_times_fitting(bytes, length, sizeof(bytes)), one);
}

/* A times frame is of answers alone. */
static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)context;
    (void)manifest;
    (void)error;
    return LH_OK;
}

static void test_not_in_a_request(void **state) {
    (void)state;
    uint8_t bytes[1024];
    size_t length = 0, more = 0;
    lh_step_manifest manifest = {.epoch = 1, .step = 1};
    lh_step_times times = sample();
    lh_step_reader_events events = {.on_manifest = on_manifest};
    lh_step_reader *reader;
    assert_int_equal(lh_step_encode_manifest(&manifest, bytes, sizeof(bytes), &length, NULL),
                     LH_OK);
    assert_int_equal(
        lh_step_times_encode(&times, bytes + length, sizeof(bytes) - length, &more, NULL), LH_OK);
    assert_int_equal(lh_step_reader_create(0, &events, NULL, &reader, NULL), LH_OK);
    assert_int_equal(lh_step_reader_feed(reader, bytes, length + more, NULL), LH_ERR_MALFORMED);
    lh_step_reader_destroy(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_many_shards_and_gathers),
        cmocka_unit_test(test_hostile_frames),
        cmocka_unit_test(test_every_bit_is_under_a_checksum),
        cmocka_unit_test(test_fitting),
        cmocka_unit_test(test_not_in_a_request),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
