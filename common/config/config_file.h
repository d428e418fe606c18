/* The YAML of a configuration file: one mapping of names to values, read with libyaml's events.
 *
 *   listen: 0.0.0.0:8080
 *   sites: [home, office]       # a list, as "home,office" to who reads it
 *
 * YAML can do much more, of which nothing is wanted here, and some is dangerous (ten aliases of ten
 * aliases are a gigabyte): anchors, aliases, tags, more documents than one, mappings in mappings
 * and keys that are no names are refused, each with its line. What names mean, and which there are,
 * says common/config/config.h. Thread: any. */
#pragma once

#include "common/config/config_problems.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_CONFIG_FILE_BYTES_MAX  (64 << 10)
#define LH_CONFIG_FILE_VALUES_MAX 256
/* Of a value, or of a list's values together; a path has 4096 at most. */
#define LH_CONFIG_VALUE_BYTES_MAX 4096

typedef struct lh_config_value {
    char *name, *text; /* a list's elements have commas between them */
    uint32_t line;     /* from 1 on */
    bool is_list;
} lh_config_value;

typedef struct lh_config_file {
    lh_config_value *values; /* each name once */
    size_t count, capacity;
} lh_config_file;

/* Reads bytes[length]: what is sound comes into *file, which begins as {0}; what is not, into
 * *problems. LH_ERR_NO_MEMORY. Reset the file after either. */
lh_status lh_config_file_parse(const char *bytes, size_t length, lh_config_file *file,
                               lh_config_problems *problems, lh_error *error);
/* The same of the file at problems->path. That it cannot be read, or is over
 * LH_CONFIG_FILE_BYTES_MAX, is a problem. */
lh_status lh_config_file_read(lh_config_file *file, lh_config_problems *problems, lh_error *error);
void lh_config_file_reset(lh_config_file *file);
