/* A file of the cache is complete or absent, whatever the disk, the memory and other processes do.
 */
#include "tests/support/failing_malloc.h"
#include "worker/weights/weight_cache.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64], folder[80];
static lh_weight_cache *cache;
static lh_error error;
static const char text[] = "the bytes of a tensor";
static uint8_t text_digest[LH_SHA256_BYTES];

/* Files in the folder whose names begin with `prefix`. */
static int count_files(const char *prefix) {
    DIR *directory = opendir(folder);
    int count = 0;
    assert_non_null(directory);
    for (struct dirent *item; (item = readdir(directory));)
        count += item->d_name[0] != '.' && strncmp(item->d_name, prefix, strlen(prefix)) == 0;
    closedir(directory);
    return count;
}

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/longhaul-test-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof folder, "%s/a/b", root);
    lh_sha256_digest(text, sizeof text, text_digest);
    return lh_weight_cache_open(folder, &cache, &error) == LH_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    lh_weight_cache_close(cache);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static lh_status store(const void *bytes, size_t length, const uint8_t digest[LH_SHA256_BYTES]) {
    lh_weight_writer *writer;
    lh_status status = lh_weight_writer_create(cache, digest, length, &writer, &error);
    if (status != LH_OK)
        return status;
    status = lh_weight_writer_append(writer, bytes, length / 2, &error);
    if (status == LH_OK)
        status = lh_weight_writer_append(writer, (const char *)bytes + length / 2,
                                         length - length / 2, &error);
    if (status == LH_OK)
        status = lh_weight_writer_commit(writer, &error);
    lh_weight_writer_destroy(writer);
    return status;
}

static lh_status look_up(uint64_t bytes) {
    lh_regular_file *file = NULL;
    char found[sizeof text];
    lh_status status = lh_weight_cache_find(cache, text_digest, bytes, &file, &error);
    if (status == LH_OK) {
        assert_int_equal(lh_regular_file_read(file, 0, found, sizeof found, &error), LH_OK);
        assert_memory_equal(found, text, sizeof text);
    }
    lh_regular_file_close(file);
    return status;
}

static void reopen(void) {
    lh_weight_cache_close(cache);
    assert_int_equal(lh_weight_cache_open(folder, &cache, &error), LH_OK);
}

static void path_of_text(char path[256]) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_render(text_digest, hex);
    snprintf(path, 256, "%s/%s", folder, hex);
}

static void test_store_and_map(void **state) {
    (void)state;
    assert_int_equal(look_up(sizeof text), LH_ERR_NOT_FOUND);
    assert_int_equal(store(text, sizeof text, text_digest), LH_OK);
    assert_int_equal(look_up(sizeof text), LH_OK);
    assert_int_equal(store(text, sizeof text, text_digest), LH_OK); /* twice is no harm */
    assert_int_equal(lh_weight_cache_sync(cache, &error), LH_OK);
    reopen();
    assert_int_equal(look_up(sizeof text), LH_OK);
    assert_int_equal(count_files(""), 1);
}

static void test_wrong_bytes_are_never_stored(void **state) {
    (void)state;
    char wrong[sizeof text];
    memcpy(wrong, text, sizeof text);
    wrong[3] ^= 1;
    assert_int_equal(store(wrong, sizeof wrong, text_digest), LH_ERR_CORRUPT);
    assert_int_equal(count_files(""), 0);

    lh_weight_writer *writer;
    assert_int_equal(lh_weight_writer_create(cache, text_digest, sizeof text, &writer, &error),
                     LH_OK);
    assert_int_equal(lh_weight_writer_append(writer, text, 5, &error), LH_OK);
    assert_int_equal(count_files("partial-"), 1);
    assert_int_equal(lh_weight_writer_commit(writer, &error), LH_ERR_CORRUPT);
    assert_non_null(strstr(error.message, "5 of 22 bytes"));
    assert_int_equal(lh_weight_writer_append(writer, text, sizeof text, &error), LH_ERR_LIMIT);
    lh_weight_writer_destroy(writer);
    assert_int_equal(count_files(""), 0);
    assert_int_equal(lh_weight_writer_create(cache, text_digest, 0, &writer, &error), LH_ERR_LIMIT);
    assert_int_equal(lh_weight_writer_create(cache, text_digest, UINT64_MAX, &writer, &error),
                     LH_ERR_LIMIT);
    assert_int_equal(count_files(""), 0);
}

static void test_a_damaged_file_is_removed(void **state) {
    (void)state;
    char path[256];
    path_of_text(path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store(text, sizeof text, text_digest), LH_OK);
        reopen();     /* what this process wrote, it trusts */
        if (i == 0) { /* a byte differs */
            int descriptor = open(path, O_WRONLY);
            assert_int_equal(pwrite(descriptor, "X", 1, 4), 1);
            close(descriptor);
        } else {
            assert_int_equal(truncate(path, i == 1 ? 7 : 0), 0);
        }
        assert_int_equal(look_up(sizeof text), LH_ERR_NOT_FOUND);
        assert_int_equal(count_files(""), 0);
    }
    assert_int_equal(store(text, sizeof text, text_digest), LH_OK);
    assert_int_equal(look_up(sizeof text + 1), LH_ERR_NOT_FOUND);
}

static void test_remains_of_the_dead_are_removed_and_those_of_the_living_are_not(void **state) {
    (void)state;
    lh_weight_writer *living;
    assert_int_equal(lh_weight_writer_create(cache, text_digest, sizeof text, &living, &error),
                     LH_OK);
    pid_t child = fork();
    if (child == 0) {
        lh_weight_writer *dead;
        _exit(lh_weight_writer_create(cache, text_digest, sizeof text, &dead, &error) == LH_OK ? 0
                                                                                               : 1);
    }
    int exit_status;
    waitpid(child, &exit_status, 0);
    assert_int_equal(exit_status, 0);
    assert_int_equal(count_files("partial-"), 2);
    reopen();
    assert_int_equal(count_files("partial-"), 1);
    lh_weight_writer_destroy(living);
    assert_int_equal(count_files("partial-"), 0);
}

/* Every write is refused from some size on: what a full disk looks like, without one. */
static void test_no_space(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    uint8_t *bytes = calloc(1, BYTES), digest[LH_SHA256_BYTES];
    struct rlimit before, small = {4096, 4096};
    assert_int_equal(lh_sha256_digest(bytes, BYTES, digest), LH_OK);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    lh_status status = store(bytes, BYTES, digest);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "free some space"));
    assert_int_equal(count_files(""), 0);
    assert_int_equal(store(bytes, BYTES, digest), LH_OK);
    free(bytes);
}

static void test_folders_that_cannot_be(void **state) {
    (void)state;
    char path[256];
    lh_weight_cache *other;
    assert_int_equal(store(text, sizeof text, text_digest), LH_OK);
    path_of_text(path);
    assert_int_equal(lh_weight_cache_open(path, &other, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "Not a directory"));
    strcat(path, "/below");
    assert_int_equal(lh_weight_cache_open(path, &other, &error), LH_ERR_IO);
    assert_int_equal(lh_weight_cache_open("/proc/nothing/here", &other, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/nothing"));
    snprintf(path, sizeof path, "%s/", folder);
    assert_int_equal(lh_weight_cache_open(path, &other, &error), LH_OK);
    lh_weight_cache_close(other);
}

static lh_status store_and_find_anew(void) {
    lh_weight_cache *own = NULL;
    lh_regular_file *file = NULL;
    lh_status status = lh_weight_cache_open(folder, &own, &error);
    lh_weight_cache *kept = cache;
    if (status == LH_OK) {
        cache = own;
        status = store(text, sizeof text, text_digest);
        cache = kept;
    }
    if (status == LH_OK)
        status = lh_weight_cache_find(own, text_digest, sizeof text, &file, &error);
    lh_regular_file_close(file);
    lh_weight_cache_close(own);
    return status;
}

/* The set of checked files may stay empty without memory: that costs time, nothing else. */
static void test_every_allocation_fails(void **state) {
    (void)state;
    int refused = 0;
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_status status = store_and_find_anew();
        if (!failing_malloc_disarm())
            break;
        assert_true(status == LH_OK || status == LH_ERR_NO_MEMORY);
        refused += status == LH_ERR_NO_MEMORY;
        assert_int_equal(count_files("partial-"), 0);
    }
    assert_in_range(refused, 4, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_store_and_map, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_bytes_are_never_stored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_file_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_remains_of_the_dead_are_removed_and_those_of_the_living_are_not, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_no_space, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_that_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_allocation_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
