/* A fleet's records as they stand on the disk: one file in the state folder, so that a change is
 * there whole or not at all.
 *
 *     begin --> change --> commit        the folder is locked in between, for all programs
 *                    \--> abandon
 *
 * All of it blocks, for as long as a disk takes. Thread: any; a lh_records_change is for one. */
#pragma once

#include "gateway/membership/records.h"

#define LH_RECORDS_FILE      "membership.json"
#define LH_RECORDS_BYTES_MAX (8u << 20)

/* Reads them without the lock: as they were at some moment. Where there is no file they are empty.
 * LH_ERR_INVALID: the file is damaged, or others may read it (the message has its path);
 * LH_ERR_IO; LH_ERR_NO_MEMORY. */
lh_status lh_records_read(const char *folder, lh_records *records, lh_error *error);

/* The same; LH_ERR_NOT_FOUND: there is no fleet in the folder. */
lh_status lh_records_read_existing(const char *folder, lh_records *records, lh_error *error);

typedef struct lh_records_change {
    const char *folder;
    int lock;
    lh_records records;
} lh_records_change;

/* Waits for the lock. Statuses of lh_records_read. `folder` outlives the change. */
lh_status lh_records_begin(const char *folder, lh_records_change *change, lh_error *error);
/* Either ends the change. LH_ERR_IO, LH_ERR_NO_MEMORY: nothing has changed. */
lh_status lh_records_commit(lh_records_change *change, lh_error *error);
void lh_records_abandon(lh_records_change *change);
