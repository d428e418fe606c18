/* `longhaul-gateway token` makes a join token; `longhaul-gateway tokens` lists those there are.
 * Thread: start-up only. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_token_command_options, lh_tokens_command_options;

/* argv[1] is the command. The line to paste on the worker's machine goes to standard output, alone;
 * what there is to know of it to standard error. Returns the program's exit status. */
int lh_token_command(int argc, char **argv);
int lh_tokens_command(int argc, char **argv);
