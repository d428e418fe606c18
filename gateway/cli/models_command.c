/* Flags, and one look at the models' folder or one removal. */
#include "gateway/cli/models_command.h"

#include "common/base/commands.h"
#include "gateway/cli/json_option.h"
#include "gateway/cli/models_list_json.h"
#include "gateway/cli/models_option.h"
#include "gateway/cli/table.h"
#include "gateway/models/model_facts.h"
#include "gateway/models/models_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct models_settings {
    const char *models_dir;
    bool yes, json;
} models_settings;

#define AT(field) offsetof(models_settings, field)

static const lh_option models_options[] = {
    LH_OPTION_JSON(models_settings, json),
    LH_OPTION_MODELS_DIR(models_settings, models_dir),
};

static const lh_option rm_options[] = {
    {"yes", LH_OPTION_FLAG, AT(yes), "0", NULL, 0, 0, NULL, "do not ask"},
    LH_OPTION_MODELS_DIR(models_settings, models_dir),
};

const lh_option_table lh_models_command_options = {
    .program = "longhaul-gateway models",
    .summary = "Lists the models that are here: their size, quantization, parameters, layers and "
               "context",
    .example = "longhaul-gateway models --json",
    .options = models_options,
    .count = sizeof models_options / sizeof models_options[0],
};

const lh_option_table lh_rm_command_options = {
    .program = "longhaul-gateway rm",
    .arguments = "NAME",
    .summary = "Removes a model that is here, with all of its files; on a terminal it asks "
               "first",
    .example = "longhaul-gateway rm Llama-3.2-1B-Instruct-Q4_K_M",
    .options = rm_options,
    .count = sizeof rm_options / sizeof rm_options[0],
};

/* ---- models ---- */

/* "135 M", "7.2 B" */
static void render_parameters(uint64_t parameters, char text[16]) {
    double millions = (double)parameters / 1e6;
    if (millions < 1000)
        snprintf(text, 16, "%.0f M", millions);
    else
        snprintf(text, 16, "%.1f B", millions / 1000);
}

static void print_model(const lh_models_entry *entry) {
    lh_gguf_file *file;
    lh_model_facts facts;
    lh_error error;
    char parameters[16], parts[24] = "";
    if (entry->is_partial) {
        printf("%-44s not here as a whole yet: pull it again\n", entry->name);
        return;
    }
    if (lh_gguf_file_open(entry->path, &file, &error) != LH_OK) {
        printf("%-44s cannot be used: %s\n", entry->name, error.message);
        return;
    }
    lh_model_facts_read(lh_gguf_file_gguf(file), &facts);
    render_parameters(facts.parameters, parameters);
    if (lh_gguf_file_parts(file) > 1)
        snprintf(parts, sizeof parts, " (%u files)", lh_gguf_file_parts(file));
    printf("%-44s %7.2f GB %-8s %10s %7llu %8llu  %s%s\n", entry->name,
           (double)lh_gguf_file_size(file) / 1e9, facts.quantization, parameters,
           (unsigned long long)facts.layers, (unsigned long long)facts.context, facts.architecture,
           parts);
    lh_gguf_file_close(file);
}

static lh_status print_json(const char *folder, const lh_models_list *list, lh_error *error) {
    lh_text_buffer out = {0};
    return lh_table_print_rendered(lh_models_list_render(folder, list, &out), &out, error);
}

static void print_list(const char *folder, const lh_models_list *list) {
    if (list->count == 0)
        fprintf(stderr, "There is no model in %s: longhaul-gateway pull fetches one.\n", folder);
    else
        printf("%-44s %10s %-8s %10s %7s %8s  %s\n", "NAME", "SIZE", "QUANT", "PARAMETERS",
               "LAYERS", "CONTEXT", "KIND");
    for (size_t i = 0; i < list->count; i++)
        print_model(&list->entries[i]);
}

static lh_status list_models(const char *folder, bool as_json, lh_error *error) {
    lh_models_list list;
    lh_status status = lh_models_folder_list(folder, &list, error);
    if (status == LH_OK && as_json)
        status = print_json(folder, &list, error);
    else if (status == LH_OK)
        print_list(folder, &list);
    lh_models_list_reset(&list);
    return status;
}

/* ---- rm ---- */

static bool is_agreed(const char *name, const char *folder) {
    char answer[16] = "";
    fprintf(stderr, "Remove %s from %s? [y/N] ", name, folder);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static lh_status remove_model(const char *folder, const char *name, bool is_sure, lh_error *error) {
    uint64_t bytes;
    lh_status status = lh_models_folder_check(folder, name, error);
    if (status != LH_OK)
        return status;
    if (!is_sure && !isatty(STDIN_FILENO))
        return lh_fail(error, LH_ERR_INVALID,
                       "there is nobody to ask (no terminal): give --yes to remove %.100s", name);
    if (!is_sure && !is_agreed(name, folder))
        return lh_fail(error, LH_ERR_CANCELLED, "nothing was removed");
    status = lh_models_folder_remove(folder, name, &bytes, error);
    if (status == LH_OK)
        fprintf(stderr, "%s is removed: %.2f GB.\n", name, (double)bytes / 1e9);
    return status;
}

/* ---- What both do ---- */

/* name: NULL for the list. */
static lh_status run_in_folder(const models_settings *settings, const char *name, lh_error *error) {
    char folder[LH_MODELS_PATH_BYTES];
    lh_status status = lh_models_folder_choose(settings->models_dir, folder, error);
    if (status != LH_OK)
        return status;
    status = name ? remove_model(folder, name, settings->yes, error)
                  : list_models(folder, settings->json, error);
    if (status == LH_OK && fflush(stdout) != 0)
        status = lh_fail(error, LH_ERR_IO, "the answer could not be written");
    return status;
}

int lh_models_command(int argc, char **argv) {
    models_settings settings = {0};
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_models_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    return lh_command_finish(&lh_models_command_options, run_in_folder(&settings, NULL, &error),
                             &error);
}

int lh_rm_command(int argc, char **argv) {
    models_settings settings = {0};
    lh_error error;
    int code;
    const char *name = lh_command_take_word(&lh_rm_command_options, &argc, &argv);
    if (!lh_command_take_flags(&lh_rm_command_options, argc, argv, &settings, &code))
        return code;
    if (!name)
        return lh_command_refuse(&lh_rm_command_options,
                                 "which model? Say longhaul-gateway rm NAME; longhaul-gateway "
                                 "models lists them");
    return lh_command_finish(&lh_rm_command_options, run_in_folder(&settings, name, &error),
                             &error);
}
