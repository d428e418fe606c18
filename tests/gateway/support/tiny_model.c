/* Written, opened, unlinked. */
#include "tests/gateway/support/tiny_model.h"

#include "tests/support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

lh_model_file *open_tiny_model(void) {
    char path[] = "/tmp/longhaul-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_llama tiny = tiny_llama_default();
    tiny_llama_save(&tiny, path);
    lh_model_file *file;
    assert_int_equal(lh_model_file_open(path, &file, NULL), LH_OK);
    unlink(path);
    return file;
}
