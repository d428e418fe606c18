/* `longhaul-gateway status`: the fleet of a running gateway in the terminal, once or again and
 * again. Thread: the program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help. */
extern const lh_option_table lh_status_command_options;

/* argv[0] is the program, argv[1] "status". Returns the exit status: 0: requests can be served; 1:
 * they cannot, or nobody answers; 2: wrong flags. With --watch 0 at its end. */
int lh_status_command(int argc, char **argv);
