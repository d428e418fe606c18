/* `longhaul-gateway pull`: fetches a model. Thread: main's. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_pull_command_options;

/* argv[1] is "pull"; the result is main's. */
int lh_pull_command(int argc, char **argv);
