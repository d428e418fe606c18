/* fstat and an unbuffered read. */
#include "gateway/auth/private_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static lh_status read_open(FILE *file, const char *path, char *bytes, size_t capacity,
                           size_t *length, lh_error *error) {
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        return lh_fail(error, LH_ERR_INVALID,
                       "%s holds a key, and others than its owner may use it: chmod 600 %s", path,
                       path);
    *length = fread(bytes, 1, capacity, file);
    if (ferror(file))
        return lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (*length == capacity && fgetc(file) != EOF)
        return lh_fail(error, LH_ERR_LIMIT, "%s is longer than %zu bytes", path, capacity);
    return LH_OK;
}

lh_status lh_private_file_read(const char *path, char *bytes, size_t capacity, size_t *length,
                               lh_error *error) {
    FILE *file = fopen(path, "re");
    if (!file)
        return lh_fail(error, LH_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* no copy in a buffer of the library */
    lh_status status = read_open(file, path, bytes, capacity, length, error);
    fclose(file);
    if (status)
        explicit_bzero(bytes, capacity);
    return status;
}
