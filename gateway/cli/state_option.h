/* What the gateway and the commands beside it have in common to find its state. Thread: start-up
 * only. */
#pragma once

#include "common/base/options.h"
#include "common/base/state_folder.h"

#define LH_OPTION_STATE_DIR(type, field, text)                                                     \
    {.name = "state-dir",                                                                          \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, field),                                                              \
     .default_text = "",                                                                           \
     .placeholder = "DIR",                                                                         \
     .help = text}
#define LH_STATE_DIR_OF_COMMANDS                                                                   \
    "the gateway's state folder; default: $STATE_DIRECTORY, else /var/lib/longhaul/gateway for "   \
    "root, else ~/.local/state/longhaul/gateway"

/* Of a command beside the gateway: the state folder that `state_dir`, "" where it is not given,
 * means; root acts as its owner from then on. Statuses of lh_state_folder_choose and
 * lh_state_folder_act_as_owner. */
lh_status lh_state_option_folder(const char *state_dir, char folder[LH_STATE_PATH_BYTES],
                                 lh_error *error);
