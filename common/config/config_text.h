/* What is in effect, as a configuration file: the inside of config. Thread: any. */
#pragma once

#include "common/base/options.h"

/* "127.0.0.1:8080" as it is, other texts in double quotes where YAML could take them for something
 * else. */
void lh_config_print_text(const char *text, FILE *out);
/* The option's value in `target`, without its name. */
void lh_config_print_value(const lh_option *option, const void *target, FILE *out);
