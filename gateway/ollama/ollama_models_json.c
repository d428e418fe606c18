/* The model under each of its names. A NULL among the parts makes the whole NULL. */
#include "gateway/ollama/ollama_models_json.h"

#include "common/json/json_text.h"
#include "gateway/ollama/ollama_json.h"
#include "gateway/text/model_aliases.h"

#include <stdio.h>
#include <string.h>

/* Ollama's for a model that stays: as far away as its clocks can count. */
#define STAYS "2318-01-01T00:00:00Z"

static json_t *text_of(const char *text) {
    return lh_json_text(text ? text : "", text ? strlen(text) : 0);
}

/* "134.5M", "8.03B". */
static json_t *size_label(uint64_t parameters) {
    char text[32];
    double count = (double)parameters;
    if (parameters >= 1000000000)
        snprintf(text, sizeof text, "%.1fB", count / 1e9);
    else
        snprintf(text, sizeof text, "%.2fM", count / 1e6);
    return json_string(text);
}

static json_t *details_of(const lh_served_model *model) {
    json_t *family = lh_json_text(model->architecture.bytes, model->architecture.length);
    return json_pack("{s:s, s:s, s:O, s:[o], s:o, s:o}", "parent_model", "", "format", "gguf",
                     "family", family, "families", family, "parameter_size",
                     size_label(model->parameters), "quantization_level",
                     text_of(model->quantization));
}

static json_t *modified_at(const lh_served_model *model) {
    char time[LH_OLLAMA_TIME_BYTES];
    lh_ollama_time(model->created, 0, time);
    return json_string(time);
}

/* What has no tag is the latest. */
static json_t *tagged(const char *name, size_t length) {
    char text[300];
    bool has_tag = memchr(name, ':', length);
    snprintf(text, sizeof text, "%.*s%s", (int)(length < 280 ? length : 280), name,
             has_tag ? "" : ":latest");
    return lh_json_text(text, strlen(text));
}

static json_t *entry_of(const lh_served_model *model, const char *name, size_t length,
                        bool is_running) {
    json_t *tag = tagged(name, length);
    json_t *entry = json_pack("{s:O, s:o, s:I, s:o, s:o}", "name", tag, "model", tag, "size",
                              (json_int_t)model->file_bytes, "digest", text_of(model->digest),
                              "details", details_of(model));
    if (!is_running)
        return lh_json_set(entry, "modified_at", modified_at(model));
    entry = lh_json_set(entry, "expires_at", json_string(STAYS));
    entry = lh_json_set(entry, "size_vram", json_integer(0));
    return lh_json_set(entry, "context_length", json_integer(model->context));
}

static json_t *list_names(const lh_served_model *model) {
    json_t *list =
        lh_json_append(json_array(), entry_of(model, model->id, strlen(model->id), false));
    const char *rest = model->aliases, *name;
    size_t length;
    while ((name = lh_model_aliases_next(&rest, &length)))
        list = lh_json_append(list, entry_of(model, name, length, false));
    return list;
}

/* ---- /api/show ---- */

static json_t *set_of_family(json_t *info, const lh_served_model *model, const char *member,
                             uint64_t value) {
    char key[128];
    int length = (int)(model->architecture.length < 64 ? model->architecture.length : 64);
    snprintf(key, sizeof key, "%.*s.%s", length, length ? model->architecture.bytes : "", member);
    return lh_json_set(info, key, json_integer((json_int_t)value));
}

static json_t *info_of(const lh_served_model *model) {
    json_t *info = json_pack("{s:o, s:I}", "general.architecture",
                             lh_json_text(model->architecture.bytes, model->architecture.length),
                             "general.parameter_count", (json_int_t)model->parameters);
    info = set_of_family(info, model, "context_length", model->context);
    info = set_of_family(info, model, "embedding_length", model->width);
    return set_of_family(info, model, "vocab_size", model->vocabulary);
}

static json_t *capabilities_of(const lh_served_model *model) {
    json_t *list = lh_json_append(json_array(), json_string("completion"));
    if (model->chat_template)
        list = lh_json_append(list, json_string("tools"));
    if (model->chat_template && lh_chat_template_thinking(model->chat_template))
        list = lh_json_append(list, json_string("thinking"));
    if (lh_tokenizer_fills(model->tokenizer))
        list = lh_json_append(list, json_string("insert"));
    return list;
}

/* Its template is in Jinja, as the file has it. */
static json_t *show(const lh_served_model *model) {
    const lh_text nothing = {"", 0};
    lh_text chat = model->chat_template ? lh_chat_template_text(model->chat_template) : nothing;
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "license", "", "modelfile", "",
                     "parameters", "", "template", lh_json_text(chat.bytes, chat.length), "details",
                     details_of(model), "model_info", info_of(model), "capabilities",
                     capabilities_of(model), "modified_at", modified_at(model));
}

/* Elder clients say `name`. */
static json_t *show_named(const lh_served_model *model, const lh_openai_limits *limits,
                          const json_t *body, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, NULL};
    const char *name = lh_body_text(&reader, "name", SIZE_MAX);
    lh_body_bool(&reader, "verbose");
    lh_openai_check_model(&reader, limits);
    if (!error->status && name && !lh_body_field(&reader, "model") &&
        !lh_openai_limits_have_model(limits, name))
        lh_openai_refuse(error, 404, "name", "model_not_found",
                         "The model '%.200s' does not exist here; this server has '%s'.", name,
                         limits->model);
    return error->status ? NULL : show(model);
}

/* ---- All of it ---- */

json_t *lh_ollama_tell(lh_openai_action action, const lh_served_model *model,
                       const lh_openai_limits *limits, bool is_ready, const json_t *body,
                       lh_openai_error *error) {
    json_t *told = NULL;
    *error = (lh_openai_error){0};
    switch (action) {
    case LH_OPENAI_OLLAMA_GET_VERSION:
        told = json_pack("{s:s}", "version", LONGHAUL_VERSION);
        break;
    case LH_OPENAI_OLLAMA_LIST_MODELS:
        told = json_pack("{s:o}", "models", is_ready ? list_names(model) : json_array());
        break;
    case LH_OPENAI_OLLAMA_LIST_RUNNING:
        told = json_pack("{s:o}", "models",
                         is_ready ? lh_json_append(json_array(), entry_of(model, model->id,
                                                                          strlen(model->id), true))
                                  : json_array());
        break;
    case LH_OPENAI_OLLAMA_POST_SHOW:
        told = show_named(model, limits, body, error);
        break;
    case LH_OPENAI_OLLAMA_FETCH:
        lh_openai_refuse(error, 501, NULL, "unsupported_operation",
                         "Clients cannot pull models here; this server has '%.200s'. Whoever runs "
                         "it fetches another one with `longhaul-gateway pull` and names it with "
                         "--model.",
                         model->id);
        break;
    default:
        lh_openai_refuse(error, 501, NULL, "unsupported_operation",
                         "Clients cannot change the models here. Whoever runs this server chooses "
                         "the model with --model, and further names for it with --model-alias.");
        break;
    }
    if (!told && !error->status)
        lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    return told;
}
