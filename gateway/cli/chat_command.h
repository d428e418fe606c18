/* longhaul-gateway chat: talks with the model of a running gateway. Thread: start-up
 * only. */
#pragma once

#include "common/base/options.h"

extern const lh_option_table lh_chat_command_options;

/* As main, with "chat" at argv[1]; returns the exit status. */
int lh_chat_command(int argc, char **argv);
