/* Prints an option table: the inside of common/options, not for others. */
#pragma once

#include "common/base/options.h"

#define LH_OPTION_BOUND_BYTES 24

/* A bound of the option as its values are written: "16M" for BYTES. */
void lh_option_render_bound(const lh_option *option, int64_t value,
                            char text[LH_OPTION_BOUND_BYTES]);
/* What stands for the value: placeholder or choices; "" for a flag. */
const char *lh_option_value_name(const lh_option *option);
/* For people, 80 columns wide. */
void lh_options_print_help(const lh_option_table *table, FILE *out);
/* One object for programs that write documents: {"program", "version", "summary", "options": [{
 * "name", "kind", "value", "default" (null: required), "help", and, where bounded, "minimum",
 * "maximum" as their values are written}], "commands": [{ "name", "arguments", "summary", "itself"
 * (such an object; null: it has no options)}]}. */
void lh_options_print_json(const lh_option_table *table, FILE *out);
