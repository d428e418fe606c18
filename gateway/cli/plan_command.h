/* `longhaul-gateway plan`: which machines would form the best chain, without a fleet. Thread: the
 * program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help. */
extern const lh_option_table lh_plan_command_options;

/* argv[0] is the program, argv[1] "plan". Returns the exit status: 0: there is a plan; 1: there is
 * none, or a file is wrong; 2: wrong flags. */
int lh_plan_command(int argc, char **argv);
