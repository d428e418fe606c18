/* `longhaul-gateway models` lists the models that are here, `longhaul-gateway rm` removes one.
 * Thread: main's. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_models_command_options, lh_rm_command_options;

/* argv[1] is the command; the result is main's. */
int lh_models_command(int argc, char **argv);
int lh_rm_command(int argc, char **argv);
