/* A model in one file and in several is one and the same: header, size, tensors, reads, digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/gguf/gguf_file.h"
#include "common/gguf/part_name.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENSORS 5u
#define PARTS   3u
/* Of these tensors, each part has one more than the one before, but the first has none. */
static const uint32_t first_of[PARTS + 1] = {0, 0, 2, TENSORS};
static const uint64_t lengths[TENSORS] = {7, 33, 1, 60, 192}; /* of F32: not all end aligned */

static char folder[32];

static int set_up(void **state) {
    (void)state;
    strcpy(folder, "/tmp/longhaul-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void part_path(char path[128], uint32_t number, uint32_t count) {
    snprintf(path, 128, "%s/tiny-%05u-of-%05u.gguf", folder, number, count);
}

static int tear_down(void **state) {
    (void)state;
    char path[128];
    for (uint32_t i = 1; i <= PARTS; i++) {
        part_path(path, i, PARTS);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    unlink(path);
    return rmdir(folder);
}

static void put_metadata(gguf_writer *writer, uint32_t alignment) {
    static const char *const texts[] = {"one", "", "three"};
    gguf_writer_text(writer, "general.name", "tiny");
    if (alignment != 32)
        gguf_writer_set_alignment(writer, alignment);
    gguf_writer_text_array(writer, "z.texts", texts, 3);
    gguf_writer_u32(writer, "a.number", 7);
}

static void put_tensors(gguf_writer *writer, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        char name[16];
        uint64_t random = i + 1;
        float values[256];
        snprintf(name, sizeof name, "tensor.%u", TENSORS - i); /* not in alphabetical order */
        for (uint64_t j = 0; j < lengths[i]; j++)
            values[j] = test_random_float(&random, 1);
        gguf_writer_tensor_bytes(writer, name, LH_DTYPE_F32, 1, &lengths[i], values,
                                 lengths[i] * sizeof values[0]);
    }
}

static void save_whole(uint32_t alignment) {
    char path[128];
    gguf_writer *writer = gguf_writer_create(1);
    put_metadata(writer, alignment);
    put_tensors(writer, 0, TENSORS);
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    gguf_writer_save(writer, path);
    gguf_writer_destroy(writer);
}

typedef struct part_fault {
    uint32_t part; /* from 1 on; 0: none */
    int32_t count, no, tensors;
    const char *name; /* general.name */
    bool repeats;     /* has tensor 0, too */
    bool is_whole;    /* says nothing of parts */
} part_fault;

static void save_part(uint32_t index, uint32_t alignment, const part_fault *fault) {
    char path[128];
    gguf_writer *writer = gguf_writer_create(1);
    bool has_fault = fault && fault->part == index + 1;
    const part_fault none = {.count = PARTS, .no = (int32_t)index, .tensors = TENSORS};
    const part_fault *f = has_fault ? fault : &none;
    if (index == 0)
        put_metadata(writer, alignment);
    else if (f->name)
        gguf_writer_text(writer, "general.name", f->name);
    if (!f->is_whole) {
        gguf_writer_u16(writer, "split.no", (uint16_t)f->no);
        gguf_writer_u16(writer, "split.count", (uint16_t)f->count);
        gguf_writer_i32(writer, "split.tensors.count", f->tensors);
    }
    put_tensors(writer, first_of[index], first_of[index + 1]);
    if (f->repeats)
        put_tensors(writer, 0, 1);
    part_path(path, index + 1, PARTS);
    gguf_writer_save(writer, path);
    gguf_writer_destroy(writer);
}

static void save_parts(uint32_t alignment, const part_fault *fault) {
    for (uint32_t i = 0; i < PARTS; i++)
        save_part(i, alignment, fault);
}

/* ---- The same as one file ---- */

static void expect_same(const lh_gguf_file *whole, const lh_gguf_file *parts) {
    uint64_t size = lh_gguf_file_size(whole);
    const lh_gguf *a = lh_gguf_file_gguf(whole), *b = lh_gguf_file_gguf(parts);
    assert_int_equal(lh_gguf_file_size(parts), size);
    assert_int_equal(lh_gguf_data_offset(b), lh_gguf_data_offset(a));
    assert_memory_equal(lh_gguf_file_header(parts), lh_gguf_file_header(whole),
                        lh_gguf_data_offset(a));
    assert_int_equal(lh_gguf_tensor_count(b), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        uint8_t digests[2][LH_SHA256_BYTES];
        assert_int_equal(lh_gguf_tensor_at(b, i)->offset, lh_gguf_tensor_at(a, i)->offset);
        assert_int_equal(lh_gguf_file_digest_tensor(whole, i, NULL, digests[0], NULL), LH_OK);
        assert_int_equal(lh_gguf_file_digest_tensor(parts, i, NULL, digests[1], NULL), LH_OK);
        assert_memory_equal(digests[0], digests[1], LH_SHA256_BYTES);
    }
}

/* Every range of the whole, of some lengths. */
static void expect_same_reads(const lh_gguf_file *whole, const lh_gguf_file *parts) {
    static const size_t some[] = {1, 31, 300};
    uint8_t a[4096], b[4096];
    uint64_t size = lh_gguf_file_size(whole);
    assert_true(size <= sizeof a);
    assert_int_equal(lh_gguf_file_read(whole, 0, a, size, NULL), LH_OK);
    for (uint64_t offset = 0; offset <= size; offset++)
        for (size_t i = 0; i < 3; i++) {
            size_t length = some[i] < size - offset ? some[i] : (size_t)(size - offset);
            assert_int_equal(lh_gguf_file_read(parts, offset, b, length, NULL), LH_OK);
            assert_memory_equal(a + offset, b, length);
        }
    lh_gguf_file_expect(parts, 0, UINT64_MAX);
    assert_int_equal(lh_gguf_file_read(parts, size - 1, b, 2, NULL), LH_ERR_IO);
}

static void parts_are_the_file_that_was_cut(void **state) {
    (void)state;
    static const uint32_t alignments[] = {32, 64, 256}; /* gguf-split aligns parts to 32 always */
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        lh_gguf_file *whole, *parts;
        save_whole(alignments[i]);
        save_parts(alignments[i], NULL);
        snprintf(path, sizeof path, "%s/tiny.gguf", folder);
        assert_int_equal(lh_gguf_file_open(path, &whole, NULL), LH_OK);
        assert_int_equal(lh_gguf_file_parts(whole), 1);
        for (uint32_t number = 1; number <= PARTS; number++) {
            part_path(path, number, PARTS); /* any of them names the model */
            assert_int_equal(lh_gguf_file_open(path, &parts, NULL), LH_OK);
            assert_int_equal(lh_gguf_file_parts(parts), PARTS);
            expect_same(whole, parts);
            expect_same_reads(whole, parts);
            lh_gguf_file_close(parts);
        }
        lh_gguf_file_close(whole);
    }
}

static void a_part_that_is_cut_fails_its_own_tensors_alone(void **state) {
    (void)state;
    char path[128];
    uint8_t digest[LH_SHA256_BYTES];
    lh_gguf_file *file;
    lh_error error;
    save_parts(32, NULL);
    part_path(path, 2, PARTS);
    assert_int_equal(lh_gguf_file_open(path, &file, NULL), LH_OK);
    assert_int_equal(truncate(path, 200), 0);
    assert_int_equal(lh_gguf_file_digest_tensor(file, 1, NULL, digest, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "tiny-00002-of-00003.gguf"));
    assert_int_equal(lh_gguf_file_digest_tensor(file, 4, NULL, digest, &error), LH_OK);
    lh_gguf_file_close(file);
    assert_int_equal(lh_gguf_file_open(path, &file, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "00002-of-00003.gguf"));
    assert_non_null(strstr(error.message, "is the file cut?"));
}

/* ---- Parts that do not belong together ---- */

static void expect_refusal(lh_status wanted, const char *words) {
    char path[128];
    lh_gguf_file *file;
    lh_error error;
    part_path(path, 1, PARTS);
    assert_int_equal(lh_gguf_file_open(path, &file, &error), wanted);
    if (!strstr(error.message, words))
        fail_msg("'%s' is not in '%s'", words, error.message);
}

static void missing_parts_are_named(void **state) {
    (void)state;
    char path[128];
    save_parts(32, NULL);
    part_path(path, 3, PARTS);
    unlink(path);
    expect_refusal(LH_ERR_NOT_FOUND, "part 3 of 3 is missing; there is no /tmp/");
    part_path(path, 2, PARTS);
    unlink(path);
    expect_refusal(LH_ERR_NOT_FOUND, "parts 2, 3 of 3 are missing");
}

static void parts_that_do_not_belong_together_are_refused(void **state) {
    (void)state;
    static const struct {
        part_fault fault;
        const char *words;
    } cases[] = {
        {{2, 4, 1, 5, NULL, false, false}, "part 2 of 3 says that there are 4 parts"},
        {{3, 3, 1, 5, NULL, false, false}, "part 3 of 3 says that it is part 2"},
        {{2, 3, 1, 6, NULL, false, false}, "have 5 tensors, part 2 says 6"},
        {{2, 3, 1, 5, "other", false, false}, "parts 1 and 2 are of different models"},
        {{2, 3, 1, 5, NULL, false, true}, "part 2 of 3 says of itself that it is a whole model"},
        {{3, 3, 2, 5, NULL, true, false}, "have 6 tensors, part 1 says 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save_parts(32, &cases[i].fault);
        expect_refusal(LH_ERR_INVALID, cases[i].words);
    }
    save_parts(32, &(part_fault){2, 3, 1, 5, "tiny", false, false}); /* says the same: fine */
    char path[128];
    lh_gguf_file *file;
    part_path(path, 1, PARTS);
    assert_int_equal(lh_gguf_file_open(path, &file, NULL), LH_OK);
    lh_gguf_file_close(file);
}

/* Part 3 is given without its last tensor and with that of part 2 instead. */
static void a_tensor_in_two_parts_is_named_with_both(void **state) {
    (void)state;
    char path[128];
    save_parts(32, NULL);
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_u16(writer, "split.no", 2);
    gguf_writer_u16(writer, "split.count", 3);
    gguf_writer_i32(writer, "split.tensors.count", TENSORS);
    put_tensors(writer, 2, TENSORS - 1);
    put_tensors(writer, 1, 2);
    part_path(path, 3, PARTS);
    gguf_writer_save(writer, path);
    gguf_writer_destroy(writer);
    expect_refusal(LH_ERR_INVALID, "tensor 'tensor.4' is in parts 2 and 3");
}

static void a_part_under_another_name_is_refused(void **state) {
    (void)state;
    char from[128], path[128];
    lh_gguf_file *file;
    lh_error error;
    save_part(1, 32, NULL);
    part_path(from, 2, PARTS);
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    assert_int_equal(rename(from, path), 0);
    assert_int_equal(lh_gguf_file_open(path, &file, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "is one of 3 parts of a model"));
    snprintf(path, sizeof path, "%s/x-00001-of-99999.gguf", folder);
    assert_int_equal(lh_gguf_file_open(path, &file, &error), LH_ERR_LIMIT);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    char path[128];
    lh_error error;
    save_parts(32, NULL);
    part_path(path, 1, PARTS);
    for (size_t n = 1;; n++) {
        lh_gguf_file *file = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_gguf_file_open(path, &file, &error);
        bool has_failed = failing_malloc_disarm();
        if (status == LH_OK)
            lh_gguf_file_close(file);
        if (!has_failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

/* ---- Names ---- */

static void names_of_parts(void **state) {
    (void)state;
    static const struct {
        const char *path, *third; /* NULL: no part */
        uint32_t number, count, stem;
    } cases[] = {
        {"/m/a-00001-of-00005.gguf", "/m/a-00003-of-00005.gguf", 1, 5, 4},
        {"a-00005-of-00005.gguf", "a-00003-of-00005.gguf", 5, 5, 1},
        {"a.gguf", NULL, 1, 1, 1},
        {"a", NULL, 1, 1, 1},
        {"", NULL, 1, 1, 0},
        {"-00001-of-00005.gguf", NULL, 1, 1, 15},
        {"a-00000-of-00005.gguf", NULL, 1, 1, 16},
        {"a-00006-of-00005.gguf", NULL, 1, 1, 16},
        {"a-0001-of-00005.gguf", NULL, 1, 1, 15},
        {"a-00001-of-0000x.gguf", NULL, 1, 1, 16},
        {"a_00001-of-00005.gguf", NULL, 1, 1, 16},
        {"a-00001-of-00005.gguf.part", NULL, 1, 1, 26},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_gguf_part_name name;
        assert_int_equal(lh_gguf_part_name_parse(cases[i].path, &name), cases[i].third != NULL);
        assert_int_equal(name.number, cases[i].number);
        assert_int_equal(name.count, cases[i].count);
        assert_int_equal(name.stem_bytes, cases[i].stem);
        char *third = lh_gguf_part_path(cases[i].path, &name, 3);
        assert_string_equal(third, cases[i].third ? cases[i].third : cases[i].path);
        free(third);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_file_that_was_cut),
        cmocka_unit_test(a_part_that_is_cut_fails_its_own_tensors_alone),
        cmocka_unit_test(missing_parts_are_named),
        cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
        cmocka_unit_test(a_tensor_in_two_parts_is_named_with_both),
        cmocka_unit_test(a_part_under_another_name_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(names_of_parts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
