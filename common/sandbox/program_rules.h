/* What the options that every program of ours has (common/net/program_options.h) mean for its
 * sandbox. Thread: start-up only. */
#pragma once

#include "common/net/program_options.h"
#include "common/sandbox/sandbox_rules.h"

/* Whether there is one, what it logs, and what the congestion control needs. */
void lh_program_rules_begin(const lh_program_options *options, lh_sandbox_rules *rules);
/* The TLS files, which are read again when somebody has replaced them. */
void lh_program_rules_allow_tls(const lh_program_options *options, lh_sandbox_rules *rules);
/* "HOST:PORT"; "" or NULL: there is no such listener. */
void lh_program_rules_allow_listener(const char *listen, lh_sandbox_rules *rules);
