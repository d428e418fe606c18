/* What a sound file gives, and every way of being unsound that CONFORMANCE's model-file classes
 * name. */
#include "common/gguf/gguf.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_llama.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DATA_ALIGNMENT 32

/* Parses a copy of exactly the size of the input, so that AddressSanitizer sees a read past its
 * end. */
static lh_status parse_copy(const uint8_t *bytes, size_t length, uint64_t file_bytes,
                            lh_error *error) {
    uint8_t *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    lh_gguf *gguf = NULL;
    lh_status status = lh_gguf_parse(copy, length, file_bytes, &gguf, error);
    if (status == LH_OK)
        lh_gguf_destroy(gguf);
    free(copy);
    return status;
}

/* Ends the writer, parses its file, and expects a status and a message that holds `part`. */
static void expect_failure(gguf_writer *writer, lh_status wanted, const char *part) {
    size_t length;
    lh_error error = {0};
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    lh_status status = parse_copy(bytes, length, length, &error);
    free(bytes);
    if (status != wanted || (wanted != LH_OK && !strstr(error.message, part)))
        fail_msg("%s \"%s\", wanted %s \"%s\"", lh_status_name(status), error.message,
                 lh_status_name(wanted), part);
}

static gguf_writer *writer_with_one_tensor(void) {
    gguf_writer *writer = gguf_writer_create(7);
    gguf_writer_text(writer, "general.architecture", "none");
    gguf_writer_matrix(writer, "a", LH_DTYPE_F32, 8, 4, 1);
    return writer;
}

/* ---- Sound files ---- */

static void test_values_of_all_types(void **state) {
    (void)state;
    static const char *const words[] = {"one", "", "three"};
    static const int32_t integers[] = {-1, 0, 7};
    static const float floats[] = {0.5f, -2};
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_u8(writer, "u8", 255);
    gguf_writer_i8(writer, "i8", -1);
    gguf_writer_u16(writer, "u16", 65535);
    gguf_writer_i16(writer, "i16", 3);
    gguf_writer_u32(writer, "u32", 4000000000u);
    gguf_writer_i32(writer, "i32", 5);
    gguf_writer_u64(writer, "u64", UINT64_MAX);
    gguf_writer_i64(writer, "i64", INT64_MIN);
    gguf_writer_f32(writer, "f32", 0.25f);
    gguf_writer_f64(writer, "f64", 1e300);
    gguf_writer_bool(writer, "bool", true);
    gguf_writer_text(writer, "text", "words");
    gguf_writer_text_array(writer, "texts", words, 3);
    gguf_writer_i32_array(writer, "integers", integers, 3);
    gguf_writer_f32_array(writer, "floats", floats, 2);
    gguf_writer_bool_array(writer, "flags", (const bool[]){true, false}, 2);
    gguf_writer_text_array(writer, "nothing", NULL, 0);
    size_t length, count;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);

    lh_gguf *gguf;
    lh_error error;
    uint64_t u;
    double f;
    bool b;
    lh_text text, texts[3];
    int64_t numbers[3];
    double doubles[2];
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    assert_int_equal(lh_gguf_get_u64(gguf, "u8", &u, &error), LH_OK);
    assert_int_equal(u, 255);
    assert_int_equal(lh_gguf_get_u64(gguf, "u16", &u, &error), LH_OK);
    assert_int_equal(u, 65535);
    assert_int_equal(lh_gguf_get_u64(gguf, "i16", &u, &error), LH_OK);
    assert_int_equal(u, 3);
    assert_int_equal(lh_gguf_get_u64(gguf, "u32", &u, &error), LH_OK);
    assert_int_equal(u, 4000000000u);
    assert_int_equal(lh_gguf_get_u64(gguf, "i32", &u, &error), LH_OK);
    assert_int_equal(u, 5);
    assert_int_equal(lh_gguf_get_u64(gguf, "u64", &u, &error), LH_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(lh_gguf_get_u64(gguf, "i8", &u, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "'i8'"));
    assert_int_equal(lh_gguf_get_u64(gguf, "i64", &u, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_u64(gguf, "f32", &u, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_u64(gguf, "integers", &u, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_u64(gguf, "u", &u, &error), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_gguf_get_f64(gguf, "f32", &f, &error), LH_OK);
    assert_true(f == 0.25);
    assert_int_equal(lh_gguf_get_f64(gguf, "f64", &f, &error), LH_OK);
    assert_true(f == 1e300);
    assert_int_equal(lh_gguf_get_f64(gguf, "u8", &f, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_number(gguf, "f32", &f, &error), LH_OK);
    assert_true(f == 0.25);
    assert_int_equal(lh_gguf_get_number(gguf, "i64", &f, &error), LH_OK);
    assert_true(f == -0x1p63);
    assert_int_equal(lh_gguf_get_number(gguf, "u64", &f, &error), LH_OK);
    assert_true(f == 0x1p64);
    assert_int_equal(lh_gguf_get_number(gguf, "text", &f, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_number(gguf, "integers", &f, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_number(gguf, "u", &f, &error), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_gguf_get_bool(gguf, "bool", &b, &error), LH_OK);
    assert_true(b);
    assert_int_equal(lh_gguf_get_bool(gguf, "u8", &b, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_text(gguf, "text", &text, &error), LH_OK);
    assert_int_equal(text.length, 5);
    assert_memory_equal(text.bytes, "words", 5);
    assert_int_equal(lh_gguf_get_text(gguf, "bool", &text, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_array(gguf, "texts", &count, &error), LH_OK);
    assert_int_equal(count, 3);
    assert_int_equal(lh_gguf_array_text(gguf, "texts", texts, 3, &error), LH_OK);
    assert_int_equal(texts[1].length, 0);
    assert_memory_equal(texts[2].bytes, "three", 5);
    assert_int_equal(lh_gguf_array_text(gguf, "texts", texts, 4, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_array_text(gguf, "integers", texts, 3, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_array_text(gguf, "text", texts, 1, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_array_i64(gguf, "integers", numbers, 3, &error), LH_OK);
    assert_int_equal(numbers[0], -1);
    assert_int_equal(numbers[2], 7);
    assert_int_equal(lh_gguf_array_i64(gguf, "floats", numbers, 2, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_array_i64(gguf, "texts", numbers, 1, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_array_f64(gguf, "floats", doubles, 2, &error), LH_OK);
    assert_true(doubles[0] == 0.5 && doubles[1] == -2);
    assert_int_equal(lh_gguf_array_f64(gguf, "integers", doubles, 2, &error), LH_ERR_MALFORMED);
    bool flags[2];
    assert_int_equal(lh_gguf_array_bool(gguf, "flags", flags, 2, &error), LH_OK);
    assert_true(flags[0] && !flags[1]);
    assert_int_equal(lh_gguf_array_bool(gguf, "integers", flags, 2, &error), LH_ERR_MALFORMED);
    assert_int_equal(lh_gguf_get_array(gguf, "nothing", &count, &error), LH_OK);
    assert_int_equal(count, 0);
    assert_int_equal(lh_gguf_get_array(gguf, "u8", &count, &error), LH_ERR_MALFORMED);
    lh_gguf_destroy(gguf);
    free(bytes);
}

static void test_tensors(void **state) {
    (void)state;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_matrix(writer, "z", LH_DTYPE_Q4_1, 64, 3, 1);
    gguf_writer_gain(writer, "a", 5, 0.5f);
    gguf_writer_tensor(writer, "m", LH_DTYPE_F16, 3, (const uint64_t[]){2, 3, 4}, 1);
    gguf_writer_tensor_bytes(writer, "xs", 24, 1, (const uint64_t[]){256}, "x", 1);
    size_t length;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);

    lh_gguf *gguf;
    lh_error error;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    assert_int_equal(lh_gguf_tensor_count(gguf), 4);
    uint64_t data = lh_gguf_data_offset(gguf);
    const lh_gguf_tensor *z = lh_gguf_tensor_at(gguf, 0), *a = lh_gguf_tensor_find(gguf, "a");
    const lh_gguf_tensor *m = lh_gguf_tensor_find(gguf, "m"), *xs = lh_gguf_tensor_find(gguf, "xs");
    assert_int_equal(data % DATA_ALIGNMENT, 0);
    assert_int_equal(z->bytes, 3 * 2 * 20);
    assert_int_equal(z->offset, data);
    assert_int_equal(z->type, LH_DTYPE_Q4_1);
    assert_int_equal(a->bytes, 5 * 4);
    assert_int_equal(a->offset, data + 128);
    assert_int_equal(m->dimensions, 3);
    assert_int_equal(m->bytes, 2 * 3 * 4 * 2);
    assert_int_equal(m->shape[2], 4);
    assert_int_equal(m->shape[3], 1);
    assert_int_equal(xs->bytes, 0);
    assert_null(lh_gguf_tensor_find(gguf, ""));
    assert_null(lh_gguf_tensor_find(gguf, "mm"));
    lh_gguf_destroy(gguf);

    /* The header alone is enough. */
    assert_int_equal(parse_copy(bytes, data, length, &error), LH_OK);
    assert_int_equal(parse_copy(bytes, data, data, &error), LH_ERR_MALFORMED);
    assert_int_equal(parse_copy(bytes, length, length - 1, &error), LH_ERR_MALFORMED);
    free(bytes);
}

static void test_versions_and_alignments(void **state) {
    (void)state;
    gguf_writer *writer = writer_with_one_tensor();
    gguf_writer_set_version(writer, 2);
    expect_failure(writer, LH_OK, "");
    for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2) {
        writer = gguf_writer_create(1);
        gguf_writer_set_alignment(writer, alignment);
        gguf_writer_matrix(writer, "a", LH_DTYPE_F16, 3, 3, 1);
        gguf_writer_matrix(writer, "b", LH_DTYPE_F16, 3, 3, 1);
        expect_failure(writer, LH_OK, "");
    }
    /* Metadata alone, without padding: a vocabulary. */
    writer = gguf_writer_create(1);
    gguf_writer_u8(writer, "x", 1);
    size_t length;
    lh_error error;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    assert_int_equal(parse_copy(bytes, 24 + 8 + 1 + 4 + 1, 24 + 8 + 1 + 4 + 1, &error), LH_OK);
    free(bytes);
}

static void test_tiny_llama_is_sound(void **state) {
    (void)state;
    size_t length, count;
    lh_gguf *gguf;
    lh_error error;
    tiny_llama model = tiny_llama_default();
    uint8_t *bytes = tiny_llama_bytes(&model, &length);
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    assert_int_equal(lh_gguf_tensor_count(gguf), 2 + 9 * model.layers);
    assert_int_equal(lh_gguf_get_array(gguf, "tokenizer.ggml.tokens", &count, &error), LH_OK);
    assert_int_equal(count, model.vocabulary);
    lh_gguf_destroy(gguf);
    free(bytes);
}

/* Rounding that the writer gets right is what makes its tensors usable as a reference. */
static void test_half_rounding(void **state) {
    (void)state;
    assert_int_equal(test_f16_from_f32(1.0f), 0x3c00);
    assert_int_equal(test_f16_from_f32(-2.0f), 0xc000);
    assert_int_equal(test_f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(test_f16_from_f32(65519.9f), 0x7bff);
    assert_int_equal(test_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(test_f16_from_f32(0x1p-24f), 1);
    assert_int_equal(test_f16_from_f32(0x1p-25f), 0);
    assert_int_equal(test_f16_from_f32(0x1.8p-25f), 1);
    assert_int_equal(test_f16_from_f32(0x1p-14f), 0x0400);
    assert_int_equal(test_f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(test_f16_from_f32(1.0f + 0x3p-11f), 0x3c02);
    assert_int_equal(test_f16_from_f32(NAN) & 0x7e00, 0x7e00);
}

/* ---- Hostile files ---- */

/* The front of a file: magic, version, tensor count, metadata count; then whatever follows. */
static void expect_head(uint32_t version, uint64_t tensors, uint64_t entries, lh_status wanted,
                        const char *part) {
    uint8_t bytes[24 + 64] = "GGUF";
    lh_error error = {0};
    memcpy(bytes + 4, &version, 4);
    memcpy(bytes + 8, &tensors, 8);
    memcpy(bytes + 16, &entries, 8);
    lh_status status = parse_copy(bytes, sizeof bytes, sizeof bytes, &error);
    if (status != wanted || !strstr(error.message, part))
        fail_msg("%s \"%s\", wanted %s \"%s\"", lh_status_name(status), error.message,
                 lh_status_name(wanted), part);
}

static void test_head(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(parse_copy((const uint8_t *)"GGML\3\0\0\0", 8, 8, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "magic at offset 0"));
    expect_head(0, 0, 0, LH_ERR_UNSUPPORTED, "version 0");
    expect_head(1, 0, 0, LH_ERR_UNSUPPORTED, "version 1");
    expect_head(4, 0, 0, LH_ERR_UNSUPPORTED, "version 4");
    expect_head(0x03000000, 0, 0, LH_ERR_UNSUPPORTED, "big-endian");
    expect_head(3, UINT64_MAX, 0, LH_ERR_LIMIT, "tensor count at offset 8");
    expect_head(3, 0, UINT64_MAX, LH_ERR_LIMIT, "metadata count at offset 16");
    /* These would wrap to small products with sizes of 32 or 64 bytes. */
    expect_head(3, 1ull << 59, 0, LH_ERR_LIMIT, "tensor count");
    expect_head(3, 0, 1ull << 58, LH_ERR_LIMIT, "metadata count");
    expect_head(3, 1000, 0, LH_ERR_MALFORMED, "tensor count at offset 8");
    expect_head(3, 0, 1000, LH_ERR_MALFORMED, "metadata count at offset 16");
}

static void test_cut_at_every_byte(void **state) {
    (void)state;
    static const char *const words[] = {"one", "two"};
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text_array(writer, "texts", words, 2);
    gguf_writer_f32_array(writer, "floats", (const float[]){1, 2}, 2);
    gguf_writer_u64(writer, "number", 1);
    gguf_writer_matrix(writer, "a", LH_DTYPE_Q8_0, 32, 2, 1);
    gguf_writer_matrix(writer, "b", LH_DTYPE_F32, 3, 1, 1);
    size_t length;
    lh_error error;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    for (size_t cut = 0; cut < length; cut++) {
        if (parse_copy(bytes, cut, cut, &error) != LH_ERR_MALFORMED)
            fail_msg("cut at %zu of %zu: %s", cut, length, error.message);
        assert_non_null(strstr(error.message, "GGUF: "));
    }
    assert_int_equal(parse_copy(bytes, length, length, &error), LH_OK);
    free(bytes);
}

/* Each byte of the header set to each of some values: parsed or refused, but never read outside
 * (AddressSanitizer). */
static void test_every_byte_damaged(void **state) {
    (void)state;
    static const uint8_t damages[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    tiny_llama model = tiny_llama_default();
    size_t length;
    uint8_t *bytes = tiny_llama_bytes(&model, &length);
    lh_gguf *gguf;
    lh_error error;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    size_t header = (size_t)lh_gguf_data_offset(gguf);
    lh_gguf_destroy(gguf);
    for (size_t i = 0; i < header; i++) {
        uint8_t kept = bytes[i];
        for (size_t d = 0; d < sizeof damages; d++) {
            bytes[i] = damages[d];
            (void)parse_copy(bytes, header, length, &error);
        }
        bytes[i] = kept;
    }
    free(bytes);
}

static void test_metadata_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1000, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_raw(writer, "k", 1, GGUF_TYPE_TEXT, &lengths[i], 8);
        expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k', string at offset");
        writer = gguf_writer_create(1);
        gguf_writer_raw_array(writer, "k", GGUF_TYPE_TEXT, 1, &lengths[i], 8);
        expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k', string at offset");
        writer = gguf_writer_create(1);
        gguf_writer_raw_array(writer, "k", GGUF_TYPE_F64, lengths[i], NULL, 0);
        expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k', element count at offset");
    }
}

static void test_array_counts_that_wrap(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t count;
    } cases[] = {{GGUF_TYPE_U32, 1ull << 62},       {GGUF_TYPE_U64, 1ull << 61},
                 {GGUF_TYPE_F64, (1ull << 61) + 1}, {GGUF_TYPE_U16, 1ull << 63},
                 {GGUF_TYPE_TEXT, 1ull << 61},      {GGUF_TYPE_TEXT, 1ull << 60}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_raw_array(writer, "k", cases[i].type, cases[i].count, "12345678", 8);
        expect_failure(writer, LH_ERR_MALFORMED, "element count");
    }
}

static void test_types(void **state) {
    (void)state;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "k", 1, 13, "12345678", 8);
    expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k', type at offset");
    writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "k", 1, UINT32_MAX, "12345678", 8);
    expect_failure(writer, LH_ERR_MALFORMED, "4294967295 is no type");
    writer = gguf_writer_create(1);
    gguf_writer_raw_array(writer, "k", 13, 1, "12345678", 8);
    expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k', element type at offset");
    writer = gguf_writer_create(1);
    gguf_writer_raw_array(writer, "k", GGUF_TYPE_ARRAY, 1, "12345678", 8);
    expect_failure(writer, LH_ERR_UNSUPPORTED, "arrays in arrays");
    writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "k", 1, GGUF_TYPE_BOOL, "\2", 1);
    expect_failure(writer, LH_ERR_MALFORMED, "2 is not a BOOL");
    writer = gguf_writer_create(1);
    gguf_writer_raw_array(writer, "k", GGUF_TYPE_BOOL, 3, "\0\1\377", 3);
    expect_failure(writer, LH_ERR_MALFORMED, "255 is not a BOOL");
}

static void test_names(void **state) {
    (void)state;
    static char long_name[70000];
    memset(long_name, 'x', sizeof long_name);
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "a\0b", 3, GGUF_TYPE_U8, "1", 1);
    expect_failure(writer, LH_ERR_MALFORMED, "control character 0x00");
    writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "", 0, GGUF_TYPE_U8, "12345678", 8);
    expect_failure(writer, LH_ERR_MALFORMED, "empty");
    writer = gguf_writer_create(1);
    gguf_writer_raw(writer, long_name, sizeof long_name, GGUF_TYPE_U8, "1", 1);
    expect_failure(writer, LH_ERR_LIMIT, "70000 bytes long");
    writer = gguf_writer_create(1);
    gguf_writer_u8(writer, "k", 1);
    gguf_writer_u32(writer, "j", 1);
    gguf_writer_u8(writer, "k", 1);
    expect_failure(writer, LH_ERR_MALFORMED, "metadata 'k' is there twice, at offsets 32 and 63");
    writer = gguf_writer_create(1);
    gguf_writer_matrix(writer, "same", LH_DTYPE_F32, 1, 1, 1);
    gguf_writer_matrix(writer, "other", LH_DTYPE_F32, 1, 1, 1);
    gguf_writer_matrix(writer, "same", LH_DTYPE_F32, 1, 1, 1);
    expect_failure(writer, LH_ERR_MALFORMED, "tensor 'same' is there twice");
    writer = gguf_writer_create(1);
    long_name[65] = 0;
    gguf_writer_matrix(writer, long_name, LH_DTYPE_F32, 1, 1, 1);
    expect_failure(writer, LH_ERR_LIMIT, "65 bytes long, at most 64");
    writer = gguf_writer_create(1);
    gguf_writer_matrix(writer, "evil\nname", LH_DTYPE_F32, 1, 1, 1);
    expect_failure(writer, LH_ERR_MALFORMED,
                   "tensor 0, name at offset 24: holds the control character 0x0a");
}

static void test_text_with_nul(void **state) {
    (void)state;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_raw(writer, "k", 1, GGUF_TYPE_TEXT, "\3\0\0\0\0\0\0\0a\0b", 11);
    gguf_writer_raw_array(writer, "ks", GGUF_TYPE_TEXT, 1, "\3\0\0\0\0\0\0\0a\0b", 11);
    size_t length;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    gguf_writer_destroy(writer);
    lh_gguf *gguf;
    lh_error error;
    lh_text text;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    assert_int_equal(lh_gguf_get_text(gguf, "k", &text, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "NUL"));
    assert_int_equal(lh_gguf_array_text(gguf, "ks", &text, 1, &error), LH_OK);
    assert_int_equal(text.length, 3);
    lh_gguf_destroy(gguf);
    free(bytes);
}

static void test_alignment(void **state) {
    (void)state;
    static const uint32_t alignments[] = {0, 3, 31, 48, 1u << 21, 1u << 31};
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_u32(writer, "general.alignment", alignments[i]);
        gguf_writer_matrix(writer, "a", LH_DTYPE_F32, 1, 1, 1);
        expect_failure(writer, LH_ERR_MALFORMED, "not a power of two");
    }
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "general.alignment", "32");
    expect_failure(writer, LH_ERR_MALFORMED, "an integer is wanted");
    writer = gguf_writer_create(1);
    gguf_writer_i32(writer, "general.alignment", -32);
    expect_failure(writer, LH_ERR_MALFORMED, "negative");
}

static void expect_shape(uint32_t type, uint32_t dimensions, const uint64_t *shape,
                         const char *part) {
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_tensor_bytes(writer, "t", type, dimensions, shape, "1234567812345678", 16);
    expect_failure(writer, LH_ERR_MALFORMED, part);
}

static void test_shapes(void **state) {
    (void)state;
    static const uint64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    expect_shape(LH_DTYPE_F32, 0, ones, "dimensions at offset");
    expect_shape(LH_DTYPE_F32, 5, ones, "5 is not in 1..4");
    expect_shape(LH_DTYPE_F32, 1, (const uint64_t[]){0}, "a dimension is 0");
    expect_shape(LH_DTYPE_F32, 2, (const uint64_t[]){4, 0}, "a dimension is 0");
    expect_shape(LH_DTYPE_F32, 2, (const uint64_t[]){1ull << 32, 1ull << 32},
                 "number of elements overflows");
    expect_shape(LH_DTYPE_F32, 4, (const uint64_t[]){1 << 16, 1 << 16, 1 << 16, 1 << 16},
                 "elements overflows");
    /* Products that wrap to something small: (2^42 + 1) * 2^22, and bytes of 2^62 + 4 floats. */
    expect_shape(LH_DTYPE_F32, 2, (const uint64_t[]){(1ull << 42) + 1, 1ull << 22},
                 "elements overflows");
    expect_shape(LH_DTYPE_F32, 1, (const uint64_t[]){(1ull << 62) + 4}, "size in bytes overflows");
    expect_shape(LH_DTYPE_F16, 1, (const uint64_t[]){1ull << 63}, "elements overflows");
    expect_shape(LH_DTYPE_Q8_0, 1, (const uint64_t[]){1ull << 62}, "after the file's");
    expect_shape(LH_DTYPE_Q4_0, 2, (const uint64_t[]){16, 2}, "no whole blocks of Q4_0 (32)");
    expect_shape(LH_DTYPE_F32, 1, (const uint64_t[]){5}, "end after the file's");
    expect_shape(99, 2, (const uint64_t[]){UINT64_MAX, 2}, "number of elements overflows");
}

static void test_extents(void **state) {
    (void)state;
    static const uint64_t offsets[] = {1ull << 20, INT64_MAX & ~31ull, UINT64_MAX & ~31ull, 32};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_set_next_offset(writer, offsets[i]);
        gguf_writer_matrix(writer, "t", LH_DTYPE_F32, 4, 1, 1);
        expect_failure(writer, LH_ERR_MALFORMED, "tensor 't': 16 bytes at offset");
        writer = gguf_writer_create(1);
        gguf_writer_set_next_offset(writer, offsets[i]);
        gguf_writer_tensor_bytes(writer, "t", 24, 1, (const uint64_t[]){256}, "", 0);
        expect_failure(writer, LH_ERR_MALFORMED, "tensor 't': 0 bytes at offset");
    }
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_set_next_offset(writer, 8);
    gguf_writer_matrix(writer, "t", LH_DTYPE_F32, 1, 1, 1);
    expect_failure(writer, LH_ERR_MALFORMED, "not a multiple of the alignment 32");
    writer = gguf_writer_create(1);
    gguf_writer_matrix(writer, "a", LH_DTYPE_F32, 16, 1, 1);
    gguf_writer_matrix(writer, "b", LH_DTYPE_F32, 16, 1, 1);
    gguf_writer_set_next_offset(writer, 32);
    gguf_writer_matrix(writer, "c", LH_DTYPE_F32, 4, 1, 1);
    expect_failure(writer, LH_ERR_MALFORMED, "tensors 'a' and 'c' overlap");
    writer = gguf_writer_create(1);
    gguf_writer_matrix(writer, "a", LH_DTYPE_F32, 16, 1, 1);
    gguf_writer_set_next_offset(writer, 0);
    gguf_writer_matrix(writer, "b", LH_DTYPE_F32, 16, 1, 1);
    expect_failure(writer, LH_ERR_MALFORMED, "overlap at offset");
}

static void test_every_allocation_fails(void **state) {
    (void)state;
    size_t length, tried = 0;
    lh_error error;
    tiny_llama model = tiny_llama_default();
    uint8_t *bytes = tiny_llama_bytes(&model, &length);
    for (size_t n = 1;; n++, tried++) {
        lh_gguf *gguf = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_gguf_parse(bytes, length, length, &gguf, &error);
        bool failed = failing_malloc_disarm();
        if (status == LH_OK)
            lh_gguf_destroy(gguf);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_int_equal(error.status, LH_ERR_NO_MEMORY);
    }
    assert_int_equal(tried, 4);
    free(bytes);
}

/* Look-ups and duplicate checks stay fast when a file has as many keys as it may. */
static void test_many_keys(void **state) {
    (void)state;
    enum { KEYS = 1 << 16 };
    gguf_writer *writer = gguf_writer_create(1);
    char key[32];
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key.%u", i * 2654435761u);
        gguf_writer_u32(writer, key, i);
    }
    size_t length;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    lh_gguf *gguf;
    lh_error error;
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, &error), LH_OK);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t value;
        snprintf(key, sizeof key, "key.%u", i * 2654435761u);
        assert_int_equal(lh_gguf_get_u64(gguf, key, &value, &error), LH_OK);
        assert_int_equal(value, i);
    }
    lh_gguf_destroy(gguf);
    free(bytes);
    gguf_writer_u32(writer, "one more", 1);
    expect_failure(writer, LH_ERR_LIMIT, "65537, at most 65536");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_all_types),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_versions_and_alignments),
        cmocka_unit_test(test_tiny_llama_is_sound),
        cmocka_unit_test(test_half_rounding),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_every_byte_damaged),
        cmocka_unit_test(test_metadata_lengths),
        cmocka_unit_test(test_array_counts_that_wrap),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_text_with_nul),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
