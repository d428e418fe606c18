/* fstat and an unbuffered read. */
#include "common/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *lh_private_file_fault(uid_t owner, mode_t mode, uid_t user) {
    if (owner != user && owner != 0)
        return "another user owns it, who may read and replace it: chown $(id -un)";
    mode_t unwanted = owner == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    return mode & unwanted ? "others than its owner may use it: chmod 600" : NULL;
}

static lh_status read_open(FILE *file, const char *path, char *bytes, size_t capacity,
                           size_t *length, lh_error *error) {
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    const char *fault = lh_private_file_fault(info.st_uid, info.st_mode, geteuid());
    if (fault)
        return lh_fail(error, LH_ERR_INVALID, "%.120s holds a key, and %s %.120s", path, fault,
                       path);
    *length = fread(bytes, 1, capacity, file);
    if (ferror(file))
        return lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (*length == capacity && fgetc(file) != EOF)
        return lh_fail(error, LH_ERR_LIMIT, "%s is longer than %zu bytes", path, capacity);
    return LH_OK;
}

/* Opens a file, or a pipe in which a shell hands a secret over, without waiting for a writer: a
 * pipe that has none reads as empty. NULL: errno says why. */
static FILE *open_now(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    FILE *file = fcntl(fd, F_SETFL, 0) == 0 ? fdopen(fd, "r") : NULL;
    if (!file)
        close(fd);
    return file;
}

lh_status lh_private_file_read(const char *path, char *bytes, size_t capacity, size_t *length,
                               lh_error *error) {
    FILE *file = open_now(path);
    if (!file)
        return lh_fail(error, LH_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* no copy in a buffer of the library */
    lh_status status = read_open(file, path, bytes, capacity, length, error);
    fclose(file);
    if (status)
        explicit_bzero(bytes, capacity);
    return status;
}
