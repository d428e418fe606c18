/* open, fstat, pread. */
#include "common/gguf/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is digested at a time: it stays in a core's second-level cache. */
#define DIGEST_PIECE_BYTES (256u << 10)

struct lh_regular_file {
    char *path;
    int descriptor;
    uint64_t size;
};

static lh_status check_kind(const char *path, int descriptor, uint64_t *size, lh_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return lh_fail(error, LH_ERR_INVALID, "%s: is a folder, a file is wanted", path);
    if (!S_ISREG(info.st_mode))
        return lh_fail(error, LH_ERR_INVALID, "%s: is not a regular file", path);
    if (info.st_size == 0)
        return lh_fail(error, LH_ERR_INVALID, "%s: is empty", path);
    *size = (uint64_t)info.st_size;
    return LH_OK;
}

static lh_status open_at(const char *path, lh_regular_file *file, lh_error *error) {
    /* O_NONBLOCK: a FIFO is refused, not waited for. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0)
        return lh_fail(error, errno == ENOENT || errno == ENOTDIR ? LH_ERR_NOT_FOUND : LH_ERR_IO,
                       "%s: %s", path, strerror(errno));
    return check_kind(path, file->descriptor, &file->size, error);
}

lh_status lh_regular_file_open(const char *path, lh_regular_file **file, lh_error *error) {
    lh_regular_file *opened = calloc(1, sizeof *opened);
    char *copy = strdup(path);
    if (!opened || !copy) {
        free(opened);
        free(copy);
        return lh_fail(error, LH_ERR_NO_MEMORY, "%s: out of memory", path);
    }
    opened->path = copy;
    lh_status status = open_at(path, opened, error);
    if (status == LH_OK)
        *file = opened;
    else
        lh_regular_file_close(opened);
    return status;
}

uint64_t lh_regular_file_size(const lh_regular_file *file) {
    return file->size;
}

lh_status lh_regular_file_stamp(const lh_regular_file *file, uint64_t stamp[LH_FILE_STAMP_NUMBERS],
                                lh_error *error) {
    struct stat info;
    if (fstat(file->descriptor, &info) != 0)
        return lh_fail(error, LH_ERR_IO, "%s: %s", file->path, strerror(errno));
    stamp[0] = info.st_ino;
    stamp[1] = (uint64_t)info.st_size;
    stamp[2] = (uint64_t)info.st_mtim.tv_sec;
    stamp[3] = (uint64_t)info.st_mtim.tv_nsec;
    stamp[4] = (uint64_t)info.st_ctim.tv_sec;
    stamp[5] = (uint64_t)info.st_ctim.tv_nsec;
    return LH_OK;
}

lh_status lh_regular_file_read(const lh_regular_file *file, uint64_t offset, void *bytes,
                               size_t length, lh_error *error) {
    for (size_t done = 0; done < length;) {
        ssize_t count =
            pread(file->descriptor, (uint8_t *)bytes + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return lh_fail(error, LH_ERR_IO, "%s: reading at offset %" PRIu64 ": %s", file->path,
                           offset + done, strerror(errno));
        if (count == 0)
            return lh_fail(error, LH_ERR_IO,
                           "%s: it ends at offset %" PRIu64 " and had %" PRIu64
                           " bytes when it was opened: somebody has cut it",
                           file->path, offset + done, file->size);
        done += (size_t)count;
    }
    return LH_OK;
}

void lh_regular_file_expect(const lh_regular_file *file, uint64_t offset, uint64_t length) {
    posix_fadvise(file->descriptor, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

static lh_status feed(const lh_regular_file *file, uint64_t offset, uint64_t length,
                      const _Atomic bool *cancelled, lh_sha256 *sha256, uint8_t *piece,
                      lh_error *error) {
    for (uint64_t done = 0; done < length;) {
        uint64_t left = length - done;
        size_t next = left < DIGEST_PIECE_BYTES ? (size_t)left : DIGEST_PIECE_BYTES;
        if (cancelled && atomic_load(cancelled))
            return lh_fail(error, LH_ERR_CANCELLED, "%s: cancelled", file->path);
        lh_status status = lh_regular_file_read(file, offset + done, piece, next, error);
        if (status != LH_OK)
            return status;
        if (lh_sha256_update(sha256, piece, next) != LH_OK)
            return lh_fail(error, LH_ERR_NO_MEMORY, "%s: no memory for a digest", file->path);
        done += next;
    }
    return LH_OK;
}

lh_status lh_regular_file_digest(const lh_regular_file *file, uint64_t offset, uint64_t length,
                                 const _Atomic bool *cancelled, uint8_t digest[LH_SHA256_BYTES],
                                 lh_error *error) {
    lh_sha256 *sha256 = NULL;
    uint8_t *piece = malloc(DIGEST_PIECE_BYTES);
    lh_status status = LH_ERR_NO_MEMORY;
    if (piece && lh_sha256_create(&sha256) == LH_OK)
        status = feed(file, offset, length, cancelled, sha256, piece, error);
    else
        lh_fail(error, status, "%s: no memory for a digest", file->path);
    if (status == LH_OK && lh_sha256_finish(sha256, digest) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "%s: no memory for a digest", file->path);
    lh_sha256_destroy(sha256);
    free(piece);
    return status;
}

void lh_regular_file_close(lh_regular_file *file) {
    if (!file)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    free(file);
}
