/* A file on its way: PATH.part, to be taken up again where it stopped, and PATH.part.tag, which
 * says what it is a part of. One process at a time has it. Thread: one at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_PART_TAG_BYTES 320

typedef struct lh_part_file {
    char *path;     /* PATH.part */
    char *tag_path; /* PATH.part.tag */
    int descriptor;
    uint64_t bytes;              /* that are here */
    char tag[LH_PART_TAG_BYTES]; /* what they are of; "": not known */
} lh_part_file;

/* Opens it, or makes it. LH_ERR_BUSY: another process is pulling it; LH_ERR_IO, LH_ERR_NO_MEMORY.
 * What is filled is to be closed, also after an error. */
lh_status lh_part_file_open(lh_part_file *file, const char *path, lh_error *error);
void lh_part_file_close(lh_part_file *file);

/* Forgets what is here: it is of something else. LH_ERR_IO. */
lh_status lh_part_file_restart(lh_part_file *file, lh_error *error);
/* What the bytes are of, from now on. LH_ERR_IO, LH_ERR_LIMIT (the disk is full). */
lh_status lh_part_file_set_tag(lh_part_file *file, const char *tag, lh_error *error);
/* Appends. LH_ERR_LIMIT: the disk is full, or a quota used up (what is here stays); LH_ERR_IO. */
lh_status lh_part_file_append(lh_part_file *file, const void *bytes, size_t length,
                              lh_error *error);
/* LH_ERR_LIMIT: the disk has no room for so many more bytes; the message says how many it has. */
lh_status lh_part_file_need_room(const lh_part_file *file, uint64_t bytes, lh_error *error);
/* The bytes are on the disk. LH_ERR_LIMIT, LH_ERR_IO. */
lh_status lh_part_file_sync(const lh_part_file *file, lh_error *error);

/* Puts a file that is complete in its place, for good: PATH.part becomes PATH. LH_ERR_IO. */
lh_status lh_part_file_publish(const char *path, lh_error *error);
/* Removes the part and its tag, where they are. */
void lh_part_file_remove(const char *path);
