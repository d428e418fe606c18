/* Messages of the control plane that were damaged on their way: none is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/protocol/control_seal.h"
#include "tests/support/failing_malloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An answer as a gateway gave it. */
static const char recorded[] =
    "{\"renew_ms\":500,\"lease_ms\":3000,\"planned\":true,\"assignment\":{\"generation\":"
    "1795294329,\"chain\":\"main\",\"epoch\":1795294329,\"model\":{\"name\":\"SmolLM2-135M-"
    "Instruct.Q4_1\",\"file_bytes\":97833568,\"header_bytes\":1788512,\"header_sha256\":"
    "\"09f4b1f7c1c7d0e7f7a3e4bd0a3cbbd21bb5af1a48f5b0ad9c7ad0d0b7f0ad11\",\"weights_url\":\"/fleet/"
    "models/09f4/weights\",\"tensors_url\":\"/fleet/models/09f4/"
    "tensors\"},\"first_layer\":0,\"last_layer\":15,\"layers\":30,\"context\":8192,\"rows_max\":"
    "512,\"steps_max\":19,\"wire\":\"f32\",\"next\":{\"gateway\":false,\"name\":\"worker-2\","
    "\"address\":\"127.0.0.1:36281\",\"tls\":false}},\"prepare\":null,\"leave\":null}";

static char *sealed(const char *name, const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    char *made = lh_control_seal(name, copy);
    assert_non_null(made);
    return made;
}

static lh_status unseal(const char *name, const char *bytes, size_t length) {
    size_t text_bytes = 0;
    lh_error error;
    lh_status status = lh_control_unseal(name, bytes, length, &text_bytes, &error);
    assert_true(status == LH_ERR_CORRUPT || text_bytes < length);
    return status;
}

static void what_was_sealed_is_what_comes_out(void **state) {
    (void)state;
    const char *texts[] = {"", "{}", recorded};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *message = sealed("worker-1", texts[i]);
        size_t text_bytes = 99;
        assert_int_equal(lh_control_unseal("worker-1", message, strlen(message), &text_bytes, NULL),
                         LH_OK);
        assert_int_equal(text_bytes, strlen(texts[i]));
        assert_memory_equal(message, texts[i], text_bytes);
        free(message);
    }
    char *message = sealed("", "123456789"); /* the check value of CRC-32C */
    assert_string_equal(message, "123456789\ncrc32c=e3069283\n");
    free(message);
}

static void no_flipped_bit_is_believed(void **state) {
    (void)state;
    char *message = sealed("worker-1", recorded);
    size_t length = strlen(message);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        message[bit / 8] = (char)(message[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(unseal("worker-1", message, length), LH_ERR_CORRUPT);
        message[bit / 8] = (char)(message[bit / 8] ^ (1 << bit % 8));
    }
    assert_int_equal(unseal("worker-1", message, length), LH_OK);
    free(message);
}

static void no_two_neighbouring_bytes_that_changed_are_believed(void **state) {
    (void)state;
    char *message = sealed("worker-1", recorded);
    size_t length = strlen(message);
    uint32_t dice = 1;
    for (size_t at = 0; at + 1 < length; at++)
        for (int turn = 0; turn < 16; turn++) {
            dice = dice * 1664525u + 1013904223u;
            uint16_t change = (uint16_t)(dice >> 16 | 1u);
            message[at] = (char)(message[at] ^ (change & 255));
            message[at + 1] = (char)(message[at + 1] ^ (change >> 8));
            assert_int_equal(unseal("worker-1", message, length), LH_ERR_CORRUPT);
            message[at] = (char)(message[at] ^ (change & 255));
            message[at + 1] = (char)(message[at + 1] ^ (change >> 8));
        }
    free(message);
}

static void nor_a_part_or_more(void **state) {
    (void)state;
    char *message = sealed("worker-1", recorded);
    size_t length = strlen(message);
    for (size_t part = 0; part < length; part++)
        assert_int_equal(unseal("worker-1", message, part), LH_ERR_CORRUPT);
    assert_int_equal(unseal("worker-1", message, length + 1), LH_ERR_CORRUPT); /* its terminator */
    assert_int_equal(unseal("worker-1", recorded, strlen(recorded)), LH_ERR_CORRUPT);
    free(message);
}

/* The path names the worker, and a bit of it may flip like any other. */
static void another_workers_message_is_not_believed(void **state) {
    (void)state;
    char *message = sealed("worker-1", recorded);
    assert_int_equal(unseal("worker-3", message, strlen(message)), LH_ERR_CORRUPT);
    assert_int_equal(unseal("", message, strlen(message)), LH_ERR_CORRUPT);
    free(message);
}

static void out_of_memory(void **state) {
    (void)state;
    assert_null(lh_control_seal("worker-1", NULL));
    char *copy = strdup("{}");
    failing_malloc_arm(1);
    assert_null(lh_control_seal("worker-1", copy));
    assert_true(failing_malloc_disarm());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_is_what_comes_out),
        cmocka_unit_test(no_flipped_bit_is_believed),
        cmocka_unit_test(no_two_neighbouring_bytes_that_changed_are_believed),
        cmocka_unit_test(nor_a_part_or_more),
        cmocka_unit_test(another_workers_message_is_not_believed),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
