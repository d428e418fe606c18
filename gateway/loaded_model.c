/* What the file says, and what the operator says of it by flags. */
#include "gateway/loaded_model.h"

#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/numeric_contract.h"
#include "common/gguf/part_name.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void name_model(lh_loaded_model *m) {
    const char *path = m->settings->model, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *given = m->settings->model_name;
    lh_gguf_part_name part;
    lh_gguf_part_name_parse(base, &part);
    size_t length = part.stem_bytes;
    snprintf(m->name, sizeof m->name, "%.*s", given[0] ? 255 : (int)(length < 255 ? length : 255),
             given[0] ? given : base);
}

/* What the numbers depend on. */
static lh_status add_numbers(const lh_loaded_model *m, lh_sha256 *sha256) {
    const lh_gateway_settings *s = m->settings;
    char text[256];
    int length = snprintf(
        text, sizeof text,
        "longhaul %s, numbers %u, model %s, %llu bytes, activations %s, keys and values %s, "
        "wire %s%s%s",
        LONGHAUL_VERSION, LH_NUMERIC_CONTRACT, lh_model_file_header_sha256(m->file),
        (unsigned long long)lh_model_file_size(m->file), s->activations, s->kv_type, s->wire,
        s->wire_allow_q8 ? " with q8" : "",
        strcmp(s->gpu_math, "fast") == 0 ? ", GPUs fast 1" : "");
    assert(length > 0 && (size_t)length < sizeof text);
    return lh_sha256_update(sha256, text, (size_t)length + 1);
}

/* What a conversation's tokens depend on besides. */
static lh_status add_template(const lh_loaded_model *m, lh_sha256 *sha256) {
    lh_text text = m->chat_template ? lh_chat_template_text(m->chat_template) : (lh_text){"", 0};
    const char *arguments = m->settings->chat_template_kwargs, *date = m->settings->template_date;
    uint64_t size = text.length;
    lh_status status = lh_sha256_update(sha256, &size, sizeof size);
    if (status == LH_OK)
        status = lh_sha256_update(sha256, text.bytes, text.length);
    if (status == LH_OK)
        status = lh_sha256_update(sha256, arguments, strlen(arguments) + 1);
    if (status == LH_OK)
        status = lh_sha256_update(sha256, date, strlen(date) + 1);
    return status;
}

/* The same fingerprint, seed and request give the same answer: so it holds what that depends on. */
static lh_status make_fingerprint(lh_loaded_model *m, lh_error *error) {
    const double *sampling = m->served.sampling.values;
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256 *sha256;
    lh_status status = lh_sha256_create(&sha256);
    if (status == LH_OK) {
        status = add_numbers(m, sha256);
        if (status == LH_OK)
            status = add_template(m, sha256);
        if (status == LH_OK)
            status = lh_sha256_update(sha256, sampling, LH_SAMPLING_FIELDS * sizeof *sampling);
        if (status == LH_OK)
            status = lh_sha256_finish(sha256, digest);
        lh_sha256_destroy(sha256);
    }
    if (status != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fingerprint");
    lh_sha256_render(digest, hex);
    snprintf(m->fingerprint, sizeof m->fingerprint, "fp_%.16s", hex);
    return LH_OK;
}

/* What the operator says of the template, by flag. */
static lh_status set_up_chat_template(lh_loaded_model *m, lh_error *error) {
    lh_error cause;
    const char *flag = "--chat-template-kwargs";
    lh_status status =
        lh_chat_template_set_arguments(m->chat_template, m->settings->chat_template_kwargs, &cause);
    if (status == LH_OK && m->settings->template_date[0]) {
        flag = "--template-date";
        status = lh_chat_template_set_day(m->chat_template, m->settings->template_date, &cause);
    }
    return status == LH_OK ? LH_OK : lh_fail(error, status, "%s: %s", flag, cause.message);
}

/* A model without a chat template, or with one that is none, still serves completions. */
static lh_status open_chat_template(lh_loaded_model *m, lh_error *error) {
    const char *path = m->settings->chat_template;
    lh_status status = path[0] ? lh_chat_template_load(path, &m->chat_template, &m->chat_refusal)
                               : lh_chat_template_create(lh_model_file_gguf(m->file),
                                                         &m->chat_template, &m->chat_refusal);
    if (status == LH_OK)
        return set_up_chat_template(m, error);
    m->chat_template = NULL;
    if (path[0])
        return lh_fail(error, status, "--chat-template: %s", m->chat_refusal.message);
    if (status == LH_ERR_NO_MEMORY)
        return lh_fail(error, status, "%s", m->chat_refusal.message);
    lh_log(LH_LOG_WARN, "gateway", "chat completions are off reason=\"%s\"",
           m->chat_refusal.message);
    return LH_OK;
}

static lh_status set_sampling(lh_loaded_model *m, lh_sampling_defaults *defaults, lh_error *error) {
    *defaults = lh_sampling_api_defaults;
    lh_sampling_defaults_read(defaults, lh_model_file_gguf(m->file));
    lh_status status = lh_gateway_settings_set_sampling(m->settings, defaults, error);
    if (status == LH_OK)
        lh_sampling_defaults_log(defaults);
    return status;
}

static uint32_t context_of(const lh_loaded_model *m) {
    uint32_t wanted = (uint32_t)m->settings->context;
    return wanted ? wanted : m->profile.context;
}

static lh_status open_parts(lh_loaded_model *m, lh_error *error) {
    lh_status status = lh_model_file_open(m->settings->model, &m->file, error);
    if (status == LH_OK)
        status = lh_model_profile_read(lh_model_file_gguf(m->file), &m->profile, error);
    if (status == LH_OK)
        status = lh_tokenizer_create(lh_model_file_gguf(m->file), &m->tokenizer, error);
    if (status == LH_OK)
        status = open_chat_template(m, error);
    return status;
}

static uint64_t numbers_of(const lh_gguf_tensor *tensor) {
    uint64_t numbers = 1;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        numbers *= tensor->shape[i];
    return numbers;
}

/* Beyond all that GGML has. */
#define TYPES_MAX 64

/* Of all types, the one that most bytes have. */
static void describe_file(const lh_model_file *file, lh_served_model *served) {
    const lh_gguf *gguf = lh_model_file_gguf(file);
    uint64_t bytes[TYPES_MAX] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        uint32_t type = tensor->type < TYPES_MAX ? tensor->type : 0;
        served->parameters += numbers_of(tensor);
        bytes[type] += tensor->bytes;
        most = bytes[type] > bytes[most] ? type : most;
    }
    lh_gguf_get_text(gguf, "general.architecture", &served->architecture, NULL);
    served->quantization = lh_dtype_ggml_name(most);
    served->file_bytes = lh_model_file_size(file);
    served->digest = lh_model_file_header_sha256(file);
}

lh_status lh_loaded_model_open(lh_loaded_model *m, const lh_gateway_settings *settings,
                               lh_error *error) {
    *m = (lh_loaded_model){.settings = settings};
    lh_status status = open_parts(m, error);
    if (status != LH_OK)
        return status;
    uint32_t context = context_of(m);
    if (context > m->profile.context)
        return lh_fail(error, LH_ERR_INVALID, "--context %u is over the model's %u", context,
                       m->profile.context);
    lh_model_profile_want_kv(&m->profile, settings->kv_type, (uint32_t)settings->context,
                             (uint32_t)settings->max_sequences);
    name_model(m);
    struct stat info;
    m->served = (lh_served_model){
        .id = m->name,
        .aliases = m->settings->model_alias,
        .fingerprint = m->fingerprint,
        .created = stat(m->settings->model, &info) == 0 ? (int64_t)info.st_mtime : 0,
        .context = context,
        .trained_context = m->profile.context,
        .vocabulary = m->profile.vocabulary,
        .width = m->profile.width,
        .pooling = lh_model_pooling_read(lh_model_file_gguf(m->file)),
        .tokenizer = m->tokenizer,
        .chat_template = m->chat_template,
        .chat_refusal = m->chat_refusal.message};
    describe_file(m->file, &m->served);
    status = set_sampling(m, &m->served.sampling, error);
    return status == LH_OK ? make_fingerprint(m, error) : status;
}

void lh_loaded_model_close(lh_loaded_model *m) {
    lh_chat_template_destroy(m->chat_template);
    lh_tokenizer_destroy(m->tokenizer);
    lh_model_file_close(m->file);
}
