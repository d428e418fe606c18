/* `longhaul-gateway key NAME`: makes a key and the line for the gateway's file of keys. Thread:
 * start-up only. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_key_command_options;

/* argv[1] is "key". The line goes to standard output, so that ">> FILE" adds it; the key, shown
 * this once, to standard error. Returns the program's exit status. */
int lh_key_command(int argc, char **argv);
