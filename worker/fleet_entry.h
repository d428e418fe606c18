/* How a worker comes to be a member of a fleet when it starts: by joining now, or with what it got
 * when it joined. Thread: start-up only. */
#pragma once

#include "worker/worker_settings.h"

/* Has the settings take who this worker is. is_joining: the word `join` was there; a --join-file
 * counts like it. *member stays NULL where the flags leave no room for a membership, or nothing has
 * joined and nobody said that it had. The member outlives the settings. Where the flags contradict
 * a membership that was opened, *member is there after the failure too, since the settings already
 * refer to it: the caller closes it. LH_ERR_INVALID: the words,
 * the flags or the token; LH_ERR_BUSY: another worker uses the state folder, or others all its
 * slots; and the statuses of lh_worker_settings_read_join_file and lh_fleet_member_open. */
lh_status lh_fleet_entry_open(lh_worker_settings *settings, bool is_joining,
                              lh_fleet_member **member, lh_error *error);
/* The same without joining: a token that is there stays unused. */
lh_status lh_fleet_entry_look(lh_worker_settings *settings, lh_fleet_member **member,
                              lh_error *error);
