/* Where state lies, and that a file is whole or not there. */
#include "common/base/state_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/longhaul-state-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void chooses_what_was_given_first(void **state) {
    (void)state;
    char path[LH_STATE_PATH_BYTES];
    setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two", 1);
    assert_int_equal(lh_state_folder_choose("here", "worker", path, NULL), LH_OK);
    assert_string_equal(path, "here");
    assert_int_equal(lh_state_folder_choose("", "worker", path, NULL), LH_OK);
    assert_string_equal(path, "/var/lib/one");
    unsetenv("STATE_DIRECTORY");
    setenv("XDG_STATE_HOME", "/home/me/state", 1);
    assert_int_equal(lh_state_folder_choose("", "worker", path, NULL), LH_OK);
    assert_string_equal(path, geteuid() == 0 ? "/var/lib/longhaul/worker"
                                             : "/home/me/state/longhaul/worker");
    unsetenv("XDG_STATE_HOME");
}

static void a_path_that_is_too_long_is_refused(void **state) {
    (void)state;
    char given[600], path[LH_STATE_PATH_BYTES];
    memset(given, 'x', sizeof given);
    given[sizeof given - 1] = '\0';
    assert_int_equal(lh_state_folder_choose(given, "worker", path, NULL), LH_ERR_INVALID);
    given[LH_STATE_PATH_BYTES - 3] = '\0';
    assert_int_equal(lh_state_folder_path(given, "name", path, NULL), LH_ERR_INVALID);
}

static void is_made_for_its_owner_alone(void **state) {
    (void)state;
    char path[128];
    struct stat info;
    lh_error error;
    snprintf(path, sizeof path, "%s/a/b", folder);
    assert_int_equal(lh_state_folder_make(path, NULL), LH_OK);
    assert_int_equal(lh_state_folder_make(path, NULL), LH_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    char above[128];
    snprintf(above, sizeof above, "%s/a", folder);
    assert_int_equal(stat(above, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0755);
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(lh_state_folder_make(path, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "chmod 700"));
}

static void a_file_that_is_in_the_way_is_told(void **state) {
    (void)state;
    char path[128];
    assert_int_equal(lh_state_file_write(folder, "file", "x", 1, NULL), LH_OK);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(lh_state_folder_make(path, NULL), LH_ERR_INVALID);
    snprintf(path, sizeof path, "%s/file/below", folder);
    assert_int_equal(lh_state_folder_make(path, NULL), LH_ERR_IO);
}

static void what_was_written_is_read(void **state) {
    (void)state;
    char path[128], *bytes;
    size_t length;
    struct stat info;
    assert_int_equal(lh_state_file_read(folder, "name", 100, &bytes, &length, NULL),
                     LH_ERR_NOT_FOUND);
    assert_int_equal(lh_state_file_write(folder, "name", "one", 3, NULL), LH_OK);
    assert_int_equal(lh_state_file_write(folder, "name", "other", 5, NULL), LH_OK);
    assert_int_equal(lh_state_file_read(folder, "name", 5, &bytes, &length, NULL), LH_OK);
    assert_int_equal(length, 5);
    assert_string_equal(bytes, "other");
    free(bytes);
    assert_int_equal(lh_state_file_read(folder, "name", 4, &bytes, &length, NULL), LH_ERR_LIMIT);
    snprintf(path, sizeof path, "%s/name", folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/name.new", folder);
    assert_int_not_equal(stat(path, &info), 0);
}

static ino_t inode_of(const char *name) {
    char path[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(stat(path, &info), 0);
    return info.st_ino;
}

/* A folder is in the way of the file that would be written aside, as a full disk would be. */
static void what_is_there_already_is_not_written(void **state) {
    (void)state;
    char aside[128];
    assert_int_equal(lh_state_file_write(folder, "key", "secret", 6, NULL), LH_OK);
    snprintf(aside, sizeof aside, "%s/key.new", folder);
    assert_int_equal(mkdir(aside, 0700), 0);
    ino_t before = inode_of("key");
    assert_int_equal(lh_state_file_write(folder, "key", "secret", 6, NULL), LH_OK);
    assert_int_equal(inode_of("key"), before);
    assert_int_equal(lh_state_file_write(folder, "key", "secre", 5, NULL), LH_ERR_IO);
    assert_int_equal(lh_state_file_write(folder, "key", "secrets", 7, NULL), LH_ERR_IO);
    assert_int_equal(lh_state_file_write(folder, "key", "Secret", 6, NULL), LH_ERR_IO);
    assert_int_equal(rmdir(aside), 0);
    assert_int_equal(lh_state_file_write(folder, "key", "Secret", 6, NULL), LH_OK);
    assert_int_not_equal(inode_of("key"), before);
}

static void a_file_that_others_may_read_is_refused(void **state) {
    (void)state;
    char path[128], *bytes;
    size_t length;
    assert_int_equal(lh_state_file_write(folder, "name", "one", 3, NULL), LH_OK);
    snprintf(path, sizeof path, "%s/name", folder);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(lh_state_file_read(folder, "name", 100, &bytes, &length, NULL),
                     LH_ERR_INVALID);
}

/* What a program left that was killed before the rename. */
static void a_file_aside_is_written_over(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    assert_int_equal(lh_state_file_write(folder, "name", "old", 3, NULL), LH_OK);
    assert_int_equal(lh_state_file_write(folder, "name.new", "half of what was", 16, NULL), LH_OK);
    assert_int_equal(lh_state_file_read(folder, "name", 100, &bytes, &length, NULL), LH_OK);
    assert_string_equal(bytes, "old");
    free(bytes);
    assert_int_equal(lh_state_file_write(folder, "name", "new", 3, NULL), LH_OK);
    assert_int_equal(lh_state_file_read(folder, "name", 100, &bytes, &length, NULL), LH_OK);
    assert_string_equal(bytes, "new");
    free(bytes);
}

/* Each child adds one to the number in a file, many times. */
static void count_up(int times) {
    for (int i = 0; i < times; i++) {
        char *bytes = NULL, text[16];
        size_t length;
        int lock;
        if (lh_state_folder_lock(folder, &lock, NULL) != LH_OK)
            _exit(1);
        int number = lh_state_file_read(folder, "count", 100, &bytes, &length, NULL) == LH_OK
                         ? atoi(bytes)
                         : 0;
        free(bytes);
        int written = snprintf(text, sizeof text, "%d", number + 1);
        if (lh_state_file_write(folder, "count", text, (size_t)written, NULL) != LH_OK)
            _exit(1);
        lh_state_folder_unlock(lock);
    }
    _exit(0);
}

static void the_lock_is_for_one(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            count_up(10);
    for (int i = 0, ended; i < 4; i++) {
        assert_true(wait(&ended) > 0);
        assert_int_equal(ended, 0);
    }
    assert_int_equal(lh_state_file_read(folder, "count", 100, &bytes, &length, NULL), LH_OK);
    assert_string_equal(bytes, "40");
    free(bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(chooses_what_was_given_first),
        TEST(a_path_that_is_too_long_is_refused),
        TEST(is_made_for_its_owner_alone),
        TEST(a_file_that_is_in_the_way_is_told),
        TEST(what_was_written_is_read),
        TEST(a_file_that_others_may_read_is_refused),
        TEST(a_file_aside_is_written_over),
        TEST(the_lock_is_for_one),
        TEST(what_is_there_already_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
