/* What can be mapped, and what each other thing at the end of a path is answered with. */
#include "common/gguf/mapped_file.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/longhaul-test-XXXXXX";
static char path[64];

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
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
    for (size_t i = 0; i < length; i++)
        fputc((int)(i % 251), file);
    fclose(file);
}

static void test_bytes(void **state) {
    (void)state;
    write_file(10000);
    lh_mapped_file *file;
    lh_error error;
    assert_int_equal(lh_mapped_file_open(path, &file, &error), LH_OK);
    unlink(path);
    assert_int_equal(lh_mapped_file_size(file), 10000);
    lh_mapped_file_drop(file, 0, 10000);
    lh_mapped_file_drop(file, 5000, 100);
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(lh_mapped_file_bytes(file)[i], i % 251);
    lh_mapped_file_close(file);
    lh_mapped_file_close(NULL);
}

static void expect(const char *name, lh_status status, const char *part) {
    lh_mapped_file *file;
    lh_error error;
    assert_int_equal(lh_mapped_file_open(name, &file, &error), status);
    assert_non_null(strstr(error.message, name));
    assert_non_null(strstr(error.message, part));
}

static void test_what_is_no_file(void **state) {
    (void)state;
    char below[80];
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

static void test_no_memory(void **state) {
    (void)state;
    write_file(10);
    lh_mapped_file *file;
    lh_error error;
    failing_malloc_arm(1);
    lh_status status = lh_mapped_file_open(path, &file, &error);
    assert_true(failing_malloc_disarm());
    assert_int_equal(status, LH_ERR_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
