/* Vectors of FIPS 180-4's examples, in one piece and in many; hex that may name a file. */
#include "common/base/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

static void expect(const char *text, const char *wanted) {
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    assert_int_equal(lh_sha256_digest(text, strlen(text), digest), LH_OK);
    lh_sha256_render(digest, hex);
    assert_string_equal(hex, wanted);
}

static void test_vectors(void **state) {
    (void)state;
    expect("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(two_blocks, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* RFC 4231, cases 2 and 6. */
static void test_keyed_vectors(void **state) {
    (void)state;
    static const char long_key_text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    uint8_t digest[LH_SHA256_BYTES], long_key[131];
    char hex[LH_SHA256_HEX_BYTES];
    memset(long_key, 0xaa, sizeof long_key);
    assert_int_equal(lh_sha256_keyed("Jefe", 4, "what do ya want for nothing?", 28, digest), LH_OK);
    lh_sha256_render(digest, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_int_equal(
        lh_sha256_keyed(long_key, sizeof long_key, long_key_text, sizeof long_key_text - 1, digest),
        LH_OK);
    lh_sha256_render(digest, hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_pieces(void **state) {
    (void)state;
    uint8_t whole[LH_SHA256_BYTES], digest[LH_SHA256_BYTES];
    size_t length = sizeof two_blocks - 1;
    assert_int_equal(lh_sha256_digest(two_blocks, length, whole), LH_OK);
    for (size_t piece = 1; piece <= length; piece++) {
        lh_sha256 *sha256;
        assert_int_equal(lh_sha256_create(&sha256), LH_OK);
        for (size_t i = 0; i < length; i += piece)
            assert_int_equal(
                lh_sha256_update(sha256, two_blocks + i, piece < length - i ? piece : length - i),
                LH_OK);
        assert_int_equal(lh_sha256_finish(sha256, digest), LH_OK);
        assert_memory_equal(digest, whole, sizeof whole);
        lh_sha256_destroy(sha256);
    }
    lh_sha256_destroy(NULL);
}

static void test_parse(void **state) {
    (void)state;
    char hex[LH_SHA256_HEX_BYTES] =
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    char again[LH_SHA256_HEX_BYTES];
    uint8_t digest[LH_SHA256_BYTES];
    assert_true(lh_sha256_parse(hex, digest));
    lh_sha256_render(digest, again);
    assert_string_equal(again, hex);
    assert_false(lh_sha256_parse("", digest));
    assert_false(lh_sha256_parse("248d", digest));
    assert_false(lh_sha256_parse(
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1f", digest));
    static const char bad[] = {'/', 'g', 'A', ' ', '.', '\n'};
    for (size_t i = 0; i < sizeof bad; i++) {
        hex[40] = bad[i];
        assert_false(lh_sha256_parse(hex, digest));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_keyed_vectors),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
