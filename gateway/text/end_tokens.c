/* A list of names. */
#include "gateway/text/end_tokens.h"

#include <string.h>

static const char *const names[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot|>",
    "<EOT>",
    "_<EOT>",
    "</s>",
    "<eos>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
};

bool lh_end_token_has_name(lh_text name) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (name.length == strlen(names[i]) && memcmp(name.bytes, names[i], name.length) == 0)
            return true;
    return false;
}

static bool is_between(lh_text name, const char *open, const char *close) {
    size_t begin = strlen(open), end = strlen(close);
    return name.length > begin + end && memcmp(name.bytes, open, begin) == 0 &&
           memcmp(name.bytes + name.length - end, close, end) == 0;
}

bool lh_end_token_is_mark(lh_text name, lh_text chat_template) {
    if (lh_end_token_has_name(name))
        return true;
    bool looks_so = is_between(name, "<|", "|>") || is_between(name, "<｜", "｜>");
    return looks_so && chat_template.length > 0 &&
           memmem(chat_template.bytes, chat_template.length, name.bytes, name.length) != NULL;
}
