/* What can be opened, what each other thing at the end of a path is answered with, and what becomes
 * of a file that is cut while it is read. */
#include "common/gguf/regular_file.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILE_BYTES = 1 << 20 };

static char folder[] = "/tmp/longhaul-test-XXXXXX";
static char path[64];
static uint8_t written[FILE_BYTES], bytes[FILE_BYTES];

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < sizeof written; i++)
        written[i] = (uint8_t)(i % 251);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(written, 1, length, file), length);
    fclose(file);
}

static lh_regular_file *open_file(void) {
    lh_regular_file *file;
    write_file(FILE_BYTES);
    assert_int_equal(lh_regular_file_open(path, &file, NULL), LH_OK);
    assert_int_equal(lh_regular_file_size(file), FILE_BYTES);
    return file;
}

static void every_byte_can_be_read(void **state) {
    (void)state;
    lh_regular_file *file = open_file();
    unlink(path); /* it stays what it is */
    lh_regular_file_expect(file, 0, FILE_BYTES);
    assert_int_equal(lh_regular_file_read(file, 0, bytes, FILE_BYTES, NULL), LH_OK);
    assert_memory_equal(bytes, written, FILE_BYTES);
    assert_int_equal(lh_regular_file_read(file, FILE_BYTES - 5, bytes, 5, NULL), LH_OK);
    assert_memory_equal(bytes, written + FILE_BYTES - 5, 5);
    lh_regular_file_close(file);
    lh_regular_file_close(NULL);
}

static void a_digest_is_of_the_bytes_asked_for(void **state) {
    (void)state;
    uint8_t found[LH_SHA256_BYTES], wanted[LH_SHA256_BYTES];
    lh_regular_file *file = open_file();
    assert_int_equal(lh_regular_file_digest(file, 77, FILE_BYTES - 100, NULL, found, NULL), LH_OK);
    assert_int_equal(lh_sha256_digest(written + 77, FILE_BYTES - 100, wanted), LH_OK);
    assert_memory_equal(found, wanted, LH_SHA256_BYTES);
    const _Atomic bool cancelled = true;
    assert_int_equal(lh_regular_file_digest(file, 0, 1, &cancelled, found, NULL), LH_ERR_CANCELLED);
    lh_regular_file_close(file);
}

static void a_file_that_is_cut_fails_the_reads_behind_its_end(void **state) {
    (void)state;
    uint8_t digest[LH_SHA256_BYTES];
    lh_error error;
    lh_regular_file *file = open_file();
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(lh_regular_file_read(file, 0, bytes, 1000, &error), LH_OK);
    assert_int_equal(lh_regular_file_read(file, 900, bytes, 101, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "it ends at offset 1000"));
    assert_int_equal(lh_regular_file_read(file, 500000, bytes, 1, &error), LH_ERR_IO);
    assert_int_equal(lh_regular_file_digest(file, 0, FILE_BYTES, NULL, digest, &error), LH_ERR_IO);
    lh_regular_file_close(file);
}

static void expect(const char *name, lh_status status, const char *part) {
    lh_regular_file *file;
    lh_error error;
    assert_int_equal(lh_regular_file_open(name, &file, &error), status);
    assert_non_null(strstr(error.message, name));
    assert_non_null(strstr(error.message, part));
}

static void what_is_no_regular_file_is_refused(void **state) {
    (void)state;
    char below[80];
    unlink(path);
    expect(path, LH_ERR_NOT_FOUND, "No such file");
    expect(folder, LH_ERR_INVALID, "folder");
    write_file(0);
    expect(path, LH_ERR_INVALID, "empty");
    snprintf(below, sizeof below, "%s/below", path);
    expect(below, LH_ERR_NOT_FOUND, "Not a directory");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(path, LH_ERR_INVALID, "regular");
    unlink(path);
}

static void without_memory_nothing_is_opened_or_digested(void **state) {
    (void)state;
    uint8_t digest[LH_SHA256_BYTES];
    write_file(10);
    for (size_t n = 1;; n++) {
        lh_regular_file *file = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_regular_file_open(path, &file, NULL);
        if (status == LH_OK)
            status = lh_regular_file_digest(file, 0, 10, NULL, digest, NULL);
        bool has_failed = failing_malloc_disarm();
        lh_regular_file_close(file);
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!has_failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_can_be_read),
        cmocka_unit_test(a_digest_is_of_the_bytes_asked_for),
        cmocka_unit_test(a_file_that_is_cut_fails_the_reads_behind_its_end),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(without_memory_nothing_is_opened_or_digested),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
