/* A file's header for each. */
#include "gateway/cli/models_list_json.h"

#include "common/json/json_text.h"
#include "gateway/models/model_facts.h"

#include <string.h>

static json_t *text(const char *words) {
    return lh_json_text(words, strlen(words));
}

static json_t *text_or_null(const char *words) {
    return words[0] ? text(words) : json_null();
}

static json_t *number_or_null(uint64_t number) {
    return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *render_unusable(const lh_models_entry *entry, const char *why) {
    return json_pack("{s:o, s:o, s:b, s:o}", "name", text(entry->name), "path",
                     text_or_null(entry->path), "usable", 0, "error", text(why));
}

static json_t *render_model(const lh_models_entry *entry) {
    lh_gguf_file *file;
    lh_model_facts facts;
    lh_error error;
    if (entry->is_partial)
        return render_unusable(entry, "not here as a whole yet: pull it again");
    if (lh_gguf_file_open(entry->path, &file, &error) != LH_OK)
        return render_unusable(entry, error.message);
    lh_model_facts_read(lh_gguf_file_gguf(file), &facts);
    json_t *object =
        json_pack("{s:o, s:o, s:b, s:n, s:I, s:i, s:o, s:I, s:o, s:o, s:o}", "name",
                  text(entry->name), "path", text(entry->path), "usable", 1, "error", "bytes",
                  (json_int_t)lh_gguf_file_size(file), "files", (int)lh_gguf_file_parts(file),
                  "quantization", text_or_null(facts.quantization), "parameters",
                  (json_int_t)facts.parameters, "layers", number_or_null(facts.layers), "context",
                  number_or_null(facts.context), "architecture", text_or_null(facts.architecture));
    lh_gguf_file_close(file);
    return object;
}

lh_status lh_models_list_render(const char *folder, const lh_models_list *list,
                                lh_text_buffer *out) {
    json_t *models = json_array();
    for (size_t i = 0; i < list->count; i++)
        models = lh_json_append(models, render_model(&list->entries[i]));
    lh_status status =
        lh_json_render(json_pack("{s:o, s:o}", "folder", text(folder), "models", models), out);
    return status == LH_OK ? lh_text_buffer_append(out, "\n", 1, NULL) : status;
}
