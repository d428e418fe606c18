/* A sparse file, read and written by position. */
#include "worker/weights/slice_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lh_slice_file {
    lh_weight_cache *cache;
    char *path;
    int descriptor;
    uint64_t bytes;
    bool has_birth; /* or nothing tells it from one that was made anew in its place */
    uint64_t birth[3];
};

static lh_status fail_errno(const lh_slice_file *file, const char *what, lh_error *error) {
    const int number = errno;
    const bool is_full = number == ENOSPC || number == EDQUOT || number == EFBIG;
    return lh_fail(error,
                   is_full            ? LH_ERR_LIMIT
                   : number == ENOENT ? LH_ERR_NOT_FOUND
                                      : LH_ERR_IO,
                   "weight cache: %s: %s: %s%s", file->path, what, strerror(number),
                   is_full ? "; free some space or choose another cache folder" : "");
}

static lh_status open_path(lh_slice_file *file, bool creates, uint64_t *size, lh_error *error) {
    struct stat info;
    file->descriptor =
        open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (creates ? O_CREAT : 0), 0644);
    if (file->descriptor < 0)
        return fail_errno(file, "opening", error);
    if (fstat(file->descriptor, &info) != 0)
        return fail_errno(file, "looking at it", error);
    if (!S_ISREG(info.st_mode))
        return lh_fail(error, LH_ERR_NOT_FOUND, "weight cache: %s: it is no file", file->path);
    *size = (uint64_t)info.st_size;
    return LH_OK;
}

/* A file of another size is not ours. Another one takes its place: of the same one made empty this
 * process would believe that its blocks are still there. */
static lh_status open_ours(lh_slice_file *file, bool creates, lh_error *error) {
    uint64_t size = 0;
    lh_status status = open_path(file, creates, &size, error);
    if (status == LH_OK && size != file->bytes && !creates)
        return lh_fail(error, LH_ERR_NOT_FOUND, "weight cache: %s: it has another size",
                       file->path);
    if (status == LH_OK && size != file->bytes && size != 0) {
        close(file->descriptor);
        file->descriptor = -1;
        unlink(file->path);
        status = open_path(file, creates, &size, error);
    }
    if (status == LH_OK && size != file->bytes &&
        ftruncate(file->descriptor, (off_t)file->bytes) != 0)
        status = fail_errno(file, "making room", error);
    return status;
}

/* File systems that do not know when a file was made leave its blocks to be checked each time. */
static void tell_birth(lh_slice_file *file) {
    struct statx info;
    if (statx(file->descriptor, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info) != 0)
        return;
    file->has_birth = info.stx_mask & STATX_BTIME;
    file->birth[0] = info.stx_ino;
    file->birth[1] = (uint64_t)info.stx_btime.tv_sec;
    file->birth[2] = info.stx_btime.tv_nsec;
}

lh_status lh_slice_file_open(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                             uint64_t bytes, bool creates, lh_slice_file **out, lh_error *error) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_slice_file *file = calloc(1, sizeof *file);
    lh_sha256_render(digest, hex);
    if (!file || bytes > INT64_MAX ||
        asprintf(&file->path, "%s/%s.slices", lh_weight_cache_folder(cache), hex) < 0) {
        free(file);
        return lh_fail(error, LH_ERR_NO_MEMORY, "weight cache: out of memory");
    }
    file->cache = cache;
    file->bytes = bytes;
    file->descriptor = -1;
    lh_status status = open_ours(file, creates, error);
    if (status == LH_OK)
        tell_birth(file);
    if (status == LH_OK)
        *out = file;
    else
        lh_slice_file_close(file);
    return status;
}

void lh_slice_file_close(lh_slice_file *file) {
    if (!file)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    free(file);
}

/* Nothing but a hole: most of what is not there. File systems that cannot tell have no holes. */
static bool is_hole(const lh_slice_file *file, lh_block_extent extent) {
    const off_t data = lseek(file->descriptor, (off_t)extent.offset, SEEK_DATA);
    return data < 0 ? errno == ENXIO : (uint64_t)data >= extent.offset + extent.bytes;
}

/* Of a block in this very file, for what has been checked: as random as its digest. */
static void name_block(const lh_slice_file *file, lh_block_extent extent,
                       const uint8_t digest[LH_SHA256_BYTES], uint8_t name[LH_SHA256_BYTES]) {
    const uint64_t where[] = {file->birth[0], file->birth[1], file->birth[2], extent.offset};
    for (size_t i = 0; i < LH_SHA256_BYTES; i++)
        name[i] = digest[i] ^ ((const uint8_t *)where)[i];
}

static void note_checked(const lh_slice_file *file, lh_block_extent extent,
                         const uint8_t digest[LH_SHA256_BYTES]) {
    uint8_t name[LH_SHA256_BYTES];
    name_block(file, extent, digest, name);
    if (file->has_birth)
        lh_weight_cache_note_checked(file->cache, name);
}

static bool has_checked(const lh_slice_file *file, lh_block_extent extent,
                        const uint8_t digest[LH_SHA256_BYTES]) {
    uint8_t name[LH_SHA256_BYTES];
    name_block(file, extent, digest, name);
    return file->has_birth && lh_weight_cache_has_checked(file->cache, name);
}

lh_status lh_slice_file_check(const lh_slice_file *file, lh_block_extent extent,
                              const uint8_t digest[LH_SHA256_BYTES], void *buffer, bool *has,
                              lh_error *error) {
    uint8_t found[LH_SHA256_BYTES];
    *has = false;
    if (is_hole(file, extent))
        return LH_OK;
    if (has_checked(file, extent, digest)) {
        *has = true;
        return LH_OK;
    }
    lh_status status = lh_slice_file_read(file, extent.offset, buffer, (size_t)extent.bytes, error);
    if (status == LH_OK && lh_sha256_digest(buffer, (size_t)extent.bytes, found) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "weight cache: out of memory");
    *has = status == LH_OK && memcmp(found, digest, sizeof found) == 0;
    if (*has)
        note_checked(file, extent, digest);
    return status;
}

lh_status lh_slice_file_read(const lh_slice_file *file, uint64_t offset, void *bytes, size_t length,
                             lh_error *error) {
    assert(offset <= file->bytes && length <= file->bytes - offset);
    for (size_t done = 0; done < length;) {
        const ssize_t count =
            pread(file->descriptor, (uint8_t *)bytes + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_errno(file, "reading", error);
        if (count == 0)
            return lh_fail(error, LH_ERR_IO, "weight cache: %s: somebody has cut it at %" PRIu64,
                           file->path, offset + done);
        done += (size_t)count;
    }
    return LH_OK;
}

lh_status lh_slice_file_write(lh_slice_file *file, lh_block_extent extent,
                              const uint8_t digest[LH_SHA256_BYTES], const void *bytes,
                              lh_error *error) {
    assert(extent.offset <= file->bytes && extent.bytes <= file->bytes - extent.offset);
    for (uint64_t done = 0; done < extent.bytes;) {
        const ssize_t count = pwrite(file->descriptor, (const uint8_t *)bytes + done,
                                     (size_t)(extent.bytes - done), (off_t)(extent.offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_errno(file, "writing", error);
        done += (uint64_t)count;
    }
    note_checked(file, extent, digest);
    return LH_OK;
}

/* File systems that cannot tell are believed. */
lh_status lh_slice_file_reserve(lh_slice_file *file, lh_block_extent extent, lh_error *error) {
    return fallocate(file->descriptor, 0, (off_t)extent.offset, (off_t)extent.bytes) == 0 ||
                   errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR
               ? LH_OK
               : fail_errno(file, "making room", error);
}

lh_status lh_slice_file_sync(lh_slice_file *file, lh_error *error) {
    return fdatasync(file->descriptor) == 0 ? LH_OK : fail_errno(file, "syncing", error);
}
