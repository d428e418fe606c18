/* A file in memory in the place of standard error. */
#include "tests/support/log_capture.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int captured = -1, saved = -1;

static int need(int result) {
    if (result < 0)
        abort();
    return result;
}

void log_capture_begin(void) {
    saved = need(dup(STDERR_FILENO));
    captured = need(memfd_create("log", 0));
    need(dup2(captured, STDERR_FILENO));
}

char *log_capture_end(void) {
    struct stat info;
    need(dup2(saved, STDERR_FILENO));
    need(fstat(captured, &info));
    char *text = calloc((size_t)info.st_size + 1, 1);
    if (!text || pread(captured, text, (size_t)info.st_size, 0) != info.st_size)
        abort();
    close(saved);
    close(captured);
    return text;
}
