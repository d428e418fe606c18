/* `longhaul-gateway members` lists who belongs to the fleet; `revoke` ends a worker's certificates
 * or a token; `rotate-ca` has another CA follow. Thread: start-up only. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_members_command_options, lh_revoke_command_options,
    lh_rotate_command_options;

/* argv[1] is the command. They return the program's exit status. */
int lh_members_command(int argc, char **argv);
int lh_revoke_command(int argc, char **argv);
int lh_rotate_command(int argc, char **argv);
