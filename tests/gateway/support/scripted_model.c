#include "tests/gateway/support/scripted_model.h"

#include "tests/support/tiny_llama.h"

#include <stdio.h>
#include <stdlib.h>

struct scripted_model {
    uint8_t *bytes;
    lh_gguf *gguf;
    lh_tokenizer *tokenizer;
    lh_chat_template *chat_template;
    lh_served_model model;
};

scripted_model *scripted_model_create_with(uint32_t context) {
    scripted_model *tiny = calloc(1, sizeof *tiny);
    tiny_llama shape = tiny_llama_default();
    size_t length;
    lh_error error;
    if (!tiny)
        abort();
    tiny->bytes = tiny_llama_bytes(&shape, &length);
    if (lh_gguf_parse(tiny->bytes, length, length, &tiny->gguf, &error) ||
        lh_tokenizer_create(tiny->gguf, &tiny->tokenizer, &error) ||
        lh_chat_template_create(tiny->gguf, &tiny->chat_template, &error)) {
        fprintf(stderr, "the tiny model: %s\n", error.message);
        abort();
    }
    tiny->model = (lh_served_model){.id = "tests/tiny-llama",
                                    .aliases = "gpt-tiny,team/chat",
                                    .fingerprint = "fp_0123456789abcdef",
                                    .created = 1700000000,
                                    .context = context,
                                    .trained_context = 2 * context,
                                    .vocabulary = lh_tokenizer_vocabulary(tiny->tokenizer),
                                    .sampling = lh_sampling_api_defaults,
                                    .tokenizer = tiny->tokenizer,
                                    .chat_template = tiny->chat_template};
    return tiny;
}

scripted_model *scripted_model_create(void) {
    return scripted_model_create_with(256);
}

void scripted_model_destroy(scripted_model *tiny) {
    lh_chat_template_destroy(tiny->chat_template);
    lh_tokenizer_destroy(tiny->tokenizer);
    lh_gguf_destroy(tiny->gguf);
    free(tiny->bytes);
    free(tiny);
}

const lh_served_model *scripted_model_served(const scripted_model *tiny) {
    return &tiny->model;
}
