/* The folder in which a program keeps what must outlive it: keys, certificates, who is a member.
 * Files are whole or not there: written aside, flushed, renamed. Only their owner may read them.
 *
 * Where several programs write there, each holds the folder's lock from before it reads until it
 * has written. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

#define LH_STATE_PATH_BYTES 512

/* `given`: what --state-dir says, "" where it was not given. `program`: "gateway", "worker".
 * Without it the first of: $STATE_DIRECTORY, as systemd sets it; /var/lib/longhaul/PROGRAM for
 * root; $XDG_STATE_HOME/longhaul/PROGRAM; ~/.local/state/longhaul/PROGRAM. LH_ERR_INVALID: none of
 * these is there, or it is too long. */
lh_status lh_state_folder_choose(const char *given, const char *program,
                                 char folder[LH_STATE_PATH_BYTES], lh_error *error);
/* Makes it, mode 0700, and those above it, 0755. LH_ERR_INVALID: it is there, and others may write
 * into it; LH_ERR_IO. */
lh_status lh_state_folder_make(const char *folder, lh_error *error);

/* Where root runs this and the folder is another user's, whose program has it: the process works in
 * the folder, which becomes ".", and is that user from then on, for good. So root makes no files
 * there that the program cannot read, and follows no link that the user has laid. Of a process with
 * one thread. LH_ERR_IO. */
lh_status lh_state_folder_act_as_owner(char folder[LH_STATE_PATH_BYTES], lh_error *error);

/* "FOLDER/NAME". LH_ERR_INVALID: too long. */
lh_status lh_state_folder_path(const char *folder, const char *name, char path[LH_STATE_PATH_BYTES],
                               lh_error *error);

/* Waits until no other holds it. *lock is given back by _unlock, or by the program's end.
 * It works on a disk that is full or read only, where it has been locked before. LH_ERR_BUSY: not
 * within 10 s; LH_ERR_IO. */
lh_status lh_state_folder_lock(const char *folder, int *lock, lh_error *error);
void lh_state_folder_unlock(int lock);

/* Mode 0600. After LH_OK it is on the disk; otherwise what was there before is. A file that has
 * these bytes already is not written again, so that a full disk is in nobody's way where nothing
 * changes. The caller is the only one who writes it. LH_ERR_IO. */
lh_status lh_state_file_write(const char *folder, const char *name, const void *bytes,
                              size_t length, lh_error *error);
/* *bytes is malloc'd and terminated; where it is a secret the caller wipes it. LH_ERR_NOT_FOUND;
 * else those of lh_private_file_read; LH_ERR_NO_MEMORY. */
lh_status lh_state_file_read(const char *folder, const char *name, size_t length_max, char **bytes,
                             size_t *length, lh_error *error);
