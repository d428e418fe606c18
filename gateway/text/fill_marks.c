/* A table of names. */
#include "gateway/text/fill_marks.h"

#include <string.h>

static const char *const names[][LH_FILL_MARKS] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, /* Qwen, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       /* StarCoder */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, /* GLM */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},    /* DeepSeek */
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                            /* Code Llama */
    {"<PRE>", "<SUF>", "<MID>"},
};

lh_fill_mark lh_fill_mark_named(lh_text name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int mark = 0; mark < LH_FILL_MARKS; mark++)
            if (name.length == strlen(names[i][mark]) &&
                memcmp(name.bytes, names[i][mark], name.length) == 0)
                return (lh_fill_mark)mark;
    return LH_FILL_MARKS;
}
