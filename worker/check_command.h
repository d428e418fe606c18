/* `longhaul-worker check`: whether the worker of this machine, or this container, answers at its
 * port: for container engines, service managers and people. Thread: the program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help; names are the worker's, so that one environment serves
 * both. */
extern const lh_option_table lh_check_command_options;

/* argv[0] is the program, argv[1] "check". Returns the exit status: 0: it answers; 1: it does not,
 * or has not joined yet; 2: wrong flags. */
int lh_check_command(int argc, char **argv);
