/* open, fstat, mmap. */
#include "tests/support/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct lh_mapped_file {
    uint8_t *bytes;
    size_t size;
};

static lh_status check_kind(const char *path, int descriptor, size_t *size, lh_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return lh_fail(error, LH_ERR_INVALID, "%s: is a folder, a file is wanted", path);
    if (!S_ISREG(info.st_mode))
        return lh_fail(error, LH_ERR_INVALID, "%s: is not a regular file", path);
    if (info.st_size == 0)
        return lh_fail(error, LH_ERR_INVALID, "%s: is empty", path);
    *size = (size_t)info.st_size;
    return LH_OK;
}

static lh_status map(const char *path, int descriptor, lh_mapped_file *file, lh_error *error) {
    lh_status status = check_kind(path, descriptor, &file->size, error);
    if (status != LH_OK)
        return status;
    void *bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return lh_fail(error, errno == ENOMEM ? LH_ERR_NO_MEMORY : LH_ERR_IO,
                       "%s: mapping %zu bytes: %s", path, file->size, strerror(errno));
    file->bytes = bytes;
    return LH_OK;
}

lh_status lh_mapped_file_open(const char *path, lh_mapped_file **file, lh_error *error) {
    lh_mapped_file *opened = calloc(1, sizeof *opened);
    if (!opened)
        return lh_fail(error, LH_ERR_NO_MEMORY, "%s: out of memory", path);
    /* O_NONBLOCK: a FIFO is refused, not waited for. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        free(opened);
        return lh_fail(error, errno == ENOENT || errno == ENOTDIR ? LH_ERR_NOT_FOUND : LH_ERR_IO,
                       "%s: %s", path, strerror(errno));
    }
    lh_status status = map(path, descriptor, opened, error);
    close(descriptor); /* the mapping stays */
    if (status == LH_OK)
        *file = opened;
    else
        free(opened);
    return status;
}

const uint8_t *lh_mapped_file_bytes(const lh_mapped_file *file) {
    return file->bytes;
}

size_t lh_mapped_file_size(const lh_mapped_file *file) {
    return file->size;
}

void lh_mapped_file_close(lh_mapped_file *file) {
    if (!file)
        return;
    munmap(file->bytes, file->size);
    free(file);
}
