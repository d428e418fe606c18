/* environ against the table. */
#include "common/base/option_variables.h"

#include "common/base/commands.h"
#include "common/base/log.h"
#include "common/base/nearest_name.h"
#include "common/base/option_value.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "LONGHAUL_";
#define PREFIX_BYTES (sizeof prefix - 1)

/* "KV_BYTES=..." as "kv-bytes"; "": too long for an option. */
static void read_name(const char *variable, char name[LH_OPTION_NAME_BYTES]) {
    size_t length = strcspn(variable, "=");
    if (length >= LH_OPTION_NAME_BYTES)
        length = 0;
    for (size_t i = 0; i < length; i++)
        name[i] = variable[i] == '_' ? '-' : (char)tolower((unsigned char)variable[i]);
    name[length] = '\0';
}

static bool is_known(const lh_option_table *table, const char *name) {
    if (lh_options_find(table, name, strlen(name)))
        return true;
    for (size_t i = 0; i < table->command_count; i++)
        if (table->commands[i].options && is_known(table->commands[i].options, name))
            return true;
    return false;
}

/* The option whose name is nearest->name, where one of the table's is nearer than those before. */
static void try_options(const lh_option_table *table, lh_nearest_name *nearest,
                        const lh_option **found) {
    for (size_t i = 0; i < table->count; i++) {
        lh_nearest_name_try(nearest, table->options[i].name);
        if (nearest->name == table->options[i].name)
            *found = &table->options[i];
    }
    for (size_t i = 0; i < table->command_count; i++)
        if (table->commands[i].options)
            try_options(table->commands[i].options, nearest, found);
}

/* NULL: none is near. */
static const lh_option *nearest_option(const lh_option_table *table, const char *name) {
    lh_nearest_name nearest;
    const lh_option *found = NULL;
    lh_nearest_name_init(&nearest, name, strlen(name));
    try_options(table, &nearest, &found);
    return found;
}

void lh_option_variables_tell(const lh_option_table *table, const char *module) {
    char others[512];
    size_t length = 0;
    for (char **variable = environ; variable && *variable; variable++) {
        char name[LH_OPTION_NAME_BYTES], meant[LH_OPTION_VARIABLE_BYTES];
        int bytes = (int)strcspn(*variable, "=");
        if (strncmp(*variable, prefix, PREFIX_BYTES) != 0)
            continue;
        read_name(*variable + PREFIX_BYTES, name);
        if (is_known(table, name))
            continue;
        const lh_option *near = nearest_option(table, name);
        if (near) {
            lh_option_variable_name(near, meant);
            lh_log(LH_LOG_WARN, module,
                   "the environment has %.*s, which is no option: did you mean %s?", bytes,
                   *variable, meant);
        } else if (length + (size_t)bytes + 2 < sizeof others) {
            length += (size_t)sprintf(others + length, " %.*s", bytes, *variable);
        }
    }
    if (length)
        lh_log(LH_LOG_INFO, module, "the environment has what is no option of this program:%s",
               others);
}
