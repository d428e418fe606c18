/* `longhaul-worker doctor`: looks at this machine before a worker runs on it, or beside one that
 * does, and says for each thing that it is fine, or what to do. It starts nothing, and tells the
 * gateway nothing. Thread: the program's only one. */
#pragma once

#include "common/base/options.h"

/* The table behind its flags and --help. */
extern const lh_option_table lh_worker_doctor_command_options;

/* argv[0] is the program, argv[1] "doctor". Returns the exit status: 0: all is fine, or nobody can
 * say; 1: something is to be done; 2: wrong flags. */
int lh_worker_doctor_command(int argc, char **argv);
