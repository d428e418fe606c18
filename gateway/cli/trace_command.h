/* `longhaul-gateway trace REQUEST-ID`: draws one of a running gateway's traces in the terminal.
 * Thread: the program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help. */
extern const lh_option_table lh_trace_command_options;

/* argv[0] is the program, argv[1] "trace". Returns the exit status: 0; 1: the trace could not be
 * had; 2: wrong flags. */
int lh_trace_command(int argc, char **argv);
