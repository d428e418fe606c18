/* Who may have read a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/private_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void the_owner_and_root_may_have_it(void **state) {
    (void)state;
    static const struct {
        uid_t owner;
        mode_t mode;
        uid_t user;
        const char *fault; /* a word of it; NULL: none */
    } cases[] = {
        {1000, 0600, 1000, NULL},
        {1000, 0400, 1000, NULL},
        {1000, 0640, 1000, "chmod 600"},
        {1000, 0604, 1000, "chmod 600"},
        {1000, 0644, 1000, "chmod 600"},
        {1000, 0660, 1000, "chmod 600"},
        /* root's, for a group that root chose: Debian's ssl-cert, a mount of Kubernetes */
        {0, 0640, 1000, NULL},
        {0, 0440, 1000, NULL},
        {0, 0440, 0, NULL},
        {0, 0600, 0, NULL},
        {0, 0660, 1000, "chmod 600"},
        {0, 0644, 1000, "chmod 600"},
        {0, 0444, 0, "chmod 600"},
        /* somebody else's */
        {1001, 0600, 1000, "chown"},
        {1000, 0600, 0, "chown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *fault =
            lh_private_file_fault(cases[i].owner, S_IFREG | cases[i].mode, cases[i].user);
        if (cases[i].fault) {
            assert_non_null(fault);
            assert_non_null(strstr(fault, cases[i].fault));
        } else {
            assert_null(fault);
        }
    }
}

static lh_status read_from(const char *text, mode_t mode, size_t capacity, lh_error *error) {
    char path[] = "/tmp/longhaul-private-XXXXXX", bytes[64];
    size_t length;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    lh_status status = lh_private_file_read(path, bytes, capacity, &length, error);
    unlink(path);
    if (status == LH_OK) {
        assert_int_equal(length, strlen(text));
        assert_memory_equal(bytes, text, length);
    } else {
        assert_non_null(strstr(error->message, path));
        assert_null(strstr(error->message, text));
    }
    return status;
}

static void what_others_may_read_is_refused_with_the_command_that_helps(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(read_from("secret", 0600, 64, &error), LH_OK);
    assert_int_equal(read_from("secret", 0644, 64, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "chmod 600 /tmp/longhaul-private-"));
    assert_int_equal(read_from("secret", 0600, 6, &error), LH_OK);
    assert_int_equal(read_from("secret", 0600, 5, &error), LH_ERR_LIMIT);
    char bytes[8];
    size_t length;
    assert_int_equal(lh_private_file_read("/nowhere/key", bytes, 8, &length, &error), LH_ERR_IO);
}

/* Whoever sends SIGHUP would wait for ever. */
static void a_pipe_that_nobody_writes_to_is_empty(void **state) {
    (void)state;
    char folder[] = "/tmp/longhaul-private-XXXXXX", path[64], bytes[64];
    size_t length = 1;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lh_private_file_read(path, bytes, sizeof bytes, &length, NULL), LH_OK);
    assert_int_equal(length, 0);
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_and_root_may_have_it),
        cmocka_unit_test(a_pipe_that_nobody_writes_to_is_empty),
        cmocka_unit_test(what_others_may_read_is_refused_with_the_command_that_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
