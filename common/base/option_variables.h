/* Variables of the environment that look like options, and are none: a slip that would otherwise be
 * a default where somebody meant something else. Thread: start-up only. */
#pragma once

#include "common/base/options.h"

/* Logs those that begin with LONGHAUL_ and that neither the table nor one of its commands knows (an
 * environment may be for all of them): a warning with the option that may be meant where one is
 * near; the others, which may be another program's, in one line. Values are not told. */
void lh_option_variables_tell(const lh_option_table *table, const char *module);
