/* The vectors of RFC 3720, appendix B.4, and the instruction against the table. */
#include "common/base/crc32c.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect(const uint8_t *bytes, size_t length, uint32_t crc) {
    assert_int_equal(lh_crc32c(0, bytes, length), crc);
    assert_int_equal(lh_crc32c_portable(0, bytes, length), crc);
}

static void test_rfc3720_vectors(void **state) {
    (void)state;
    static const uint8_t read_command[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
        0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
        0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    expect(bytes, sizeof bytes, 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    expect(bytes, sizeof bytes, 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    expect(bytes, sizeof bytes, 0x46dd794e);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    expect(bytes, sizeof bytes, 0x113fdb5c);
    expect(read_command, sizeof read_command, 0xd9963a56);
    expect((const uint8_t *)"123456789", 9, 0xe3069283);
    expect(NULL, 0, 0);
}

static void test_instruction_equals_table_and_pieces_equal_whole(void **state) {
    (void)state;
    uint8_t bytes[512];
    uint64_t random = 3;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&random);
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t length = 0; length < 300; length++) {
            uint32_t whole = lh_crc32c_portable(0, bytes + begin, length);
            assert_int_equal(lh_crc32c(0, bytes + begin, length), whole);
            size_t cut = length / 3;
            uint32_t first = lh_crc32c(0, bytes + begin, cut);
            assert_int_equal(lh_crc32c(first, bytes + begin + cut, length - cut), whole);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc3720_vectors),
        cmocka_unit_test(test_instruction_equals_table_and_pieces_equal_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
