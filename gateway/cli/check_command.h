/* `longhaul-gateway check`: whether a running gateway is well, for container engines, service
 * managers and people. Thread: the program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help. */
extern const lh_option_table lh_check_command_options;

/* argv[0] is the program, argv[1] "check". Returns the exit status: 0: it is; 1: it is not, or does
 * not answer; 2: wrong flags. */
int lh_check_command(int argc, char **argv);
