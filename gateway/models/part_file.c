/* open, flock, write, fsync, rename. */
#include "gateway/models/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static lh_status io_failure(const char *path, const char *what, lh_error *error) {
    return lh_fail(error, LH_ERR_IO, "%.200s cannot be %s: %s", path, what, strerror(errno));
}

static bool is_disk_full(void) {
    return errno == ENOSPC || errno == EDQUOT;
}

static lh_status write_failure(const lh_part_file *file, lh_error *error) {
    if (!is_disk_full())
        return io_failure(file->path, "written", error);
    return lh_fail(error, LH_ERR_LIMIT,
                   "the disk is full (%s): %" PRIu64
                   " bytes are kept in %.140s. Make room and pull again, it goes on from there",
                   strerror(errno), file->bytes, file->path);
}

/* ---- Life ---- */

static bool make_paths(lh_part_file *file, const char *path) {
    if (asprintf(&file->path, "%s.part", path) < 0)
        file->path = NULL;
    if (asprintf(&file->tag_path, "%s.part.tag", path) < 0)
        file->tag_path = NULL;
    return file->path && file->tag_path;
}

static void read_tag(lh_part_file *file) {
    int descriptor = open(file->tag_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t length = descriptor >= 0 ? read(descriptor, file->tag, sizeof file->tag - 1) : -1;
    if (descriptor >= 0)
        close(descriptor);
    file->tag[length > 0 ? length : 0] = '\0';
    file->tag[strcspn(file->tag, "\r\n")] = '\0';
}

lh_status lh_part_file_open(lh_part_file *file, const char *path, lh_error *error) {
    struct stat info;
    *file = (lh_part_file){.descriptor = -1};
    if (!make_paths(file, path))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a name");
    file->descriptor = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file->descriptor < 0)
        return is_disk_full() ? write_failure(file, error)
                              : io_failure(file->path, "opened", error);
    if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? lh_fail(error, LH_ERR_BUSY,
                                              "%.200s: another process is pulling it", file->path)
                                    : io_failure(file->path, "locked", error);
    if (fstat(file->descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return lh_fail(error, LH_ERR_IO, "%.200s is no regular file", file->path);
    file->bytes = (uint64_t)info.st_size;
    read_tag(file);
    return LH_OK;
}

void lh_part_file_close(lh_part_file *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    free(file->tag_path);
    *file = (lh_part_file){.descriptor = -1};
}

/* ---- Bytes ---- */

lh_status lh_part_file_restart(lh_part_file *file, lh_error *error) {
    unlink(file->tag_path);
    file->tag[0] = '\0';
    if (ftruncate(file->descriptor, 0) != 0)
        return io_failure(file->path, "cut", error);
    file->bytes = 0;
    return LH_OK;
}

lh_status lh_part_file_set_tag(lh_part_file *file, const char *tag, lh_error *error) {
    if (strcmp(file->tag, tag) == 0)
        return LH_OK;
    snprintf(file->tag, sizeof file->tag, "%s", tag);
    int descriptor =
        open(file->tag_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool is_written = descriptor >= 0 && dprintf(descriptor, "%s\n", file->tag) > 0;
    lh_status status = is_written ? LH_OK : write_failure(file, error);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

lh_status lh_part_file_append(lh_part_file *file, const void *bytes, size_t length,
                              lh_error *error) {
    const char *next = bytes;
    while (length > 0) {
        ssize_t count = write(file->descriptor, next, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return write_failure(file, error);
        next += count;
        length -= (size_t)count;
        file->bytes += (uint64_t)count;
    }
    return LH_OK;
}

lh_status lh_part_file_need_room(const lh_part_file *file, uint64_t bytes, lh_error *error) {
    struct statvfs info;
    if (fstatvfs(file->descriptor, &info) != 0)
        return LH_OK; /* then writing tells */
    uint64_t left = (uint64_t)info.f_bavail * info.f_frsize;
    if (bytes <= left)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "%" PRIu64 " MB more are needed, and the disk of %.160s has %" PRIu64
                   " MB left: make room, or give another --models-dir",
                   bytes / 1000000 + 1, file->path, left / 1000000);
}

lh_status lh_part_file_sync(const lh_part_file *file, lh_error *error) {
    return fsync(file->descriptor) == 0 ? LH_OK : write_failure(file, error);
}

/* ---- Its end ---- */

/* A rename is on the disk when the folder is. */
static bool sync_folder_of(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = descriptor >= 0 && fsync(descriptor) == 0;
    if (descriptor >= 0)
        close(descriptor);
    return is_synced;
}

lh_status lh_part_file_publish(const char *path, lh_error *error) {
    lh_part_file names = {.descriptor = -1};
    lh_status status = LH_OK;
    if (!make_paths(&names, path))
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a name");
    else if (rename(names.path, path) != 0 || !sync_folder_of(path))
        status = io_failure(path, "put in its place", error);
    if (status == LH_OK)
        unlink(names.tag_path);
    lh_part_file_close(&names);
    return status;
}

void lh_part_file_remove(const char *path) {
    lh_part_file names = {.descriptor = -1};
    if (make_paths(&names, path)) {
        unlink(names.path);
        unlink(names.tag_path);
    }
    lh_part_file_close(&names);
}
