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

/* Of a folder or an empty file it fails, too. */
static bool map(int descriptor, lh_mapped_file *file) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return false;
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return false;
    *file = (lh_mapped_file){bytes, (size_t)info.st_size};
    return true;
}

lh_status lh_mapped_file_open(const char *path, lh_mapped_file **file, lh_error *error) {
    lh_mapped_file *opened = calloc(1, sizeof *opened);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool is_mapped = opened && descriptor >= 0 && map(descriptor, opened);
    if (is_mapped) {
        *file = opened;
    } else {
        lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
        free(opened);
    }
    if (descriptor >= 0)
        close(descriptor); /* the mapping stays */
    return is_mapped ? LH_OK : LH_ERR_IO;
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
