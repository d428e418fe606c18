/* longhaul-gateway run: serves a model on this machine alone for as long as it is talked with.
 * Thread: start-up only. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_run_command_options;

/* As main, with "run" at argv[1]; returns the exit status. */
int lh_run_command(int argc, char **argv);
