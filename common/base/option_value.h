/* One value of an option, from text: the inside of options and of the configuration file. */
#pragma once

#include "common/base/options.h"

/* Of an option's name; the tables are ours. */
#define LH_OPTION_NAME_BYTES     64
#define LH_OPTION_VARIABLE_BYTES (LH_OPTION_NAME_BYTES + 16)

/* Room for a value of any kind. */
typedef union lh_option_value {
    const char *text;
    int64_t number;
    bool flag;
} lh_option_value;

/* Parses `text`, which `source` ("--threads", "LONGHAUL_THREADS") has given, into `field`, which is
 * of the option's kind; texts are pointed to, not copied. LH_ERR_INVALID: it is none of that kind,
 * or out of bounds. */
lh_status lh_option_value_parse(const lh_option *option, const char *source, const char *text,
                                void *field, lh_error *error);
/* "LONGHAUL_KV_BYTES" */
void lh_option_variable_name(const lh_option *option, char variable[LH_OPTION_VARIABLE_BYTES]);
