/* The streaming decoder against a decoder of the whole: any bytes, cut anywhere. */
#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Pushes bytes[length] in pieces of at most `piece` bytes; every piece of output must be valid by
 * itself. */
static lh_text_buffer stream(const char *bytes, size_t length, size_t piece, uint64_t *random) {
    lh_text_decoder decoder;
    lh_text_decoder_init(&decoder);
    lh_text_buffer out = {0};
    size_t at = 0;
    while (at < length) {
        size_t take = random ? (size_t)(test_random(random) % (piece + 1)) : piece;
        if (take > length - at)
            take = length - at;
        size_t before = out.length;
        assert_int_equal(lh_text_decoder_push(&decoder, bytes + at, take, &out, NULL), LH_OK);
        assert_int_equal(lh_utf8_valid_prefix(out.bytes + before, out.length - before),
                         out.length - before);
        at += take;
    }
    assert_int_equal(lh_text_decoder_finish(&decoder, &out, NULL), LH_OK);
    return out;
}

static void expect(const char *bytes, size_t length, const char *wanted) {
    for (size_t piece = 1; piece <= length; piece++) {
        lh_text_buffer out = stream(bytes, length, piece, NULL);
        assert_int_equal(out.length, strlen(wanted));
        assert_memory_equal(out.bytes, wanted, out.length);
        lh_text_buffer_reset(&out);
    }
}

#define R "\xEF\xBF\xBD"

/* Unicode standard, section 3.9, tables 3-8 to 3-11; and the ends of every range. */
static void replaces_maximal_subparts(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *wanted;
    } cases[] = {
        {"a\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "a" R R R R R R R R "A"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"},
        {"\xE4\xB8\xAD\xF0\x9F\x98\x80\xC3\xA9z", "中😀éz"},
        {"\xF4\x8F\xBF\xBF\xF4\x90\x80\x80", "\xF4\x8F\xBF\xBF" R R R R},
        {"\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80", "\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80"},
        {"\xC2", R},
        {"x\xE4\xB8", "x" R},
        {"\xF0\x9F\x98", R},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", R "😀"},
        {"\xC3\xC3\xA9\xE4\xE4\xB8\xAD", R "é" R "中"},
        {"\xEF\xBB\xBFx", "\xEF\xBB\xBFx"},
        {"\xF5\x80\xFE\x80", R R R R},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i].bytes, strlen(cases[i].bytes), cases[i].wanted);
    expect("a\0b", 1, "a");
}

/* Bytes that often come near to making a character. */
static size_t random_bytes(uint64_t *random, char *bytes, size_t room) {
    static const char *const pieces[] = {"é",    "中",   "😀",   "a",    "\xED", "\xF0\x9F",
                                         "\xE0", "\xF4", "\x80", "\xBF", "\x90"};
    size_t length = 0;
    while (length + 8 < room && test_random(random) % 24 != 0) {
        if (test_random(random) % 3 == 0) {
            bytes[length++] = (char)test_random(random);
            continue;
        }
        const char *piece = pieces[test_random(random) % (sizeof pieces / sizeof pieces[0])];
        memcpy(bytes + length, piece, strlen(piece));
        length += strlen(piece);
    }
    return length;
}

static void pieces_equal_the_whole(void **state) {
    (void)state;
    uint64_t random = 7;
    char bytes[256];
    for (size_t round = 0; round < 10000; round++) {
        size_t length = random_bytes(&random, bytes, sizeof bytes);
        lh_text_buffer whole = stream(bytes, length, length ? length : 1, NULL);
        lh_text_buffer pieces = stream(bytes, length, 1 + round % 5, &random);
        assert_int_equal(whole.length, pieces.length);
        if (whole.length)
            assert_memory_equal(whole.bytes, pieces.bytes, whole.length);
        lh_text_buffer_reset(&whole);
        lh_text_buffer_reset(&pieces);
    }
}

/* Every pair of bytes after every lead: the characters that Python decodes, and no others, are
 * whole. */
static void decodes_every_character(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x110000; code++) {
        char bytes[4];
        size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4, size;
        for (size_t i = length; i-- > 1;)
            bytes[i] = (char)(0x80 | (code >> (6 * (length - 1 - i)) & 63));
        static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
        bytes[0] = (char)(leads[length] | code >> (6 * (length - 1)));
        lh_utf8_form form = lh_utf8_next(bytes, length, &size);
        if (code >= 0xD800 && code < 0xE000) {
            assert_int_equal(form, LH_UTF8_BROKEN);
            continue;
        }
        const char *at = bytes;
        assert_true(form == LH_UTF8_WHOLE && size == length && lh_utf8_decode(&at) == code &&
                    at == bytes + length);
    }
}

static void survives_no_memory(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_text_decoder decoder;
        lh_text_decoder_init(&decoder);
        lh_text_buffer out = {0};
        failing_malloc_arm(n);
        lh_status status = lh_text_decoder_push(&decoder, "\xC3", 1, &out, NULL);
        for (int i = 0; i < 100 && !status; i++)
            status = lh_text_decoder_push(&decoder, "\xA9 text \xC3", 8, &out, NULL);
        if (!status)
            status = lh_text_decoder_finish(&decoder, &out, NULL);
        bool failed = failing_malloc_disarm();
        lh_text_buffer_reset(&out);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_maximal_subparts),
        cmocka_unit_test(pieces_equal_the_whole),
        cmocka_unit_test(decodes_every_character),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
