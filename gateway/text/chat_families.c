/* Each family was compared with what Jinja makes of the published templates:
 * tests/vectors/make_chat_vectors.py. */
#include "gateway/text/chat_families.h"

#define CHATML_TURN       {"<|im_start|>" LH_CHAT_ROLE "\n", "<|im_end|>\n"}
#define CHATML_GENERATION "<|im_start|>assistant\n"
#define QWEN_TOOL         {"\n<tool_response>\n", "\n</tool_response>"}
#define LLAMA3_TURN       {"<|start_header_id|>" LH_CHAT_ROLE "<|end_header_id|>\n\n", "<|eot_id|>"}
#define LLAMA3_GENERATION "<|start_header_id|>assistant<|end_header_id|>\n\n"
#define GEMMA_TURN(role)  {"<start_of_turn>" role "\n", "<end_of_turn>\n"}
#define ALTERNATE         "Conversation roles must alternate user/assistant/user/assistant/..."
#define ALTERNATE_AFTER_SYSTEM                                                                     \
    "After the optional system message, conversation roles must alternate "                        \
    "user/assistant/user/assistant/..."
#define AFTER_SYSTEM_ONLY                                                                          \
    "Only user and assistant roles are supported, with the exception of an initial optional "      \
    "system message!"

enum {
    CHATML,
    CHATML_BOS,
    QWEN2_5,
    QWEN3,
    LLAMA3,
    LLAMA3_1,
    LLAMA2,
    MISTRAL,
    MISTRAL_V1,
    MISTRAL_V3_TEKKEN,
    MISTRAL_V7,
    GEMMA,
    GEMMA_3,
    PHI3_MINI,
    PHI3_MEDIUM,
    PHI3_5,
    PHI4,
    ZEPHYR,
    DEEPSEEK_V2,
    FAMILIES
};

static const lh_chat_family families[FAMILIES] = {
    [CHATML] = {.name = "chatml",
                .opening = "",
                .system = CHATML_TURN,
                .user = CHATML_TURN,
                .assistant = CHATML_TURN,
                .tool = CHATML_TURN,
                .generation = CHATML_GENERATION},
    [CHATML_BOS] = {.name = "chatml with bos",
                    .opening = LH_CHAT_BOS,
                    .system = CHATML_TURN,
                    .user = CHATML_TURN,
                    .assistant = CHATML_TURN,
                    .tool = CHATML_TURN,
                    .generation = CHATML_GENERATION},
    [QWEN2_5] = {.name = "qwen2.5",
                 .opening = "",
                 .system = CHATML_TURN,
                 .user = CHATML_TURN,
                 .assistant = CHATML_TURN,
                 .tool = QWEN_TOOL,
                 .generation = CHATML_GENERATION,
                 .joins_tools = true},
    [QWEN3] = {.name = "qwen3",
               .opening = "",
               .system = CHATML_TURN,
               .user = CHATML_TURN,
               .assistant = CHATML_TURN,
               .tool = QWEN_TOOL,
               .generation = CHATML_GENERATION,
               .joins_tools = true,
               .thinks = true},
    [LLAMA3] = {.name = "llama-3",
                .opening = LH_CHAT_BOS,
                .system = LLAMA3_TURN,
                .user = LLAMA3_TURN,
                .assistant = LLAMA3_TURN,
                .tool = LLAMA3_TURN,
                .generation = LLAMA3_GENERATION,
                .trims = true},
    /* The date is the one that the template falls back to: a prompt's tokens must not depend on the
     * day. */
    [LLAMA3_1] = {.name = "llama-3.1",
                  .opening = LH_CHAT_BOS
                  "<|start_header_id|>system<|end_header_id|>\n\n"
                  "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                  .system = LLAMA3_TURN,
                  .user = LLAMA3_TURN,
                  .assistant = LLAMA3_TURN,
                  .generation = LLAMA3_GENERATION,
                  .system_place = LH_CHAT_SYSTEM_HEAD,
                  .first_system = {"", "<|eot_id|>"},
                  .trims = true},
    [LLAMA2] = {.name = "llama-2",
                .opening = "",
                .user = {LH_CHAT_BOS "[INST] ", " [/INST]"},
                .assistant = {" ", " " LH_CHAT_EOS},
                .generation = "",
                .system_place = LH_CHAT_SYSTEM_IN_FIRST_USER,
                .first_system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                .trims = true,
                .alternation = ALTERNATE},
    [MISTRAL] = {.name = "mistral",
                 .opening = LH_CHAT_BOS,
                 .user = {"[INST] ", " [/INST]"},
                 .assistant = {"", LH_CHAT_EOS},
                 .generation = "",
                 .alternation = ALTERNATE,
                 .other_roles = "Only user and assistant roles are supported!"},
    [MISTRAL_V1] = {.name = "mistral-v1",
                    .opening = LH_CHAT_BOS,
                    .user = {" [INST] ", " [/INST]"},
                    .assistant = {" ", LH_CHAT_EOS},
                    .generation = "",
                    .system_place = LH_CHAT_SYSTEM_IN_FIRST_USER,
                    .first_system = {"", "\n\n"},
                    .alternation = ALTERNATE_AFTER_SYSTEM,
                    .other_roles = AFTER_SYSTEM_ONLY},
    [MISTRAL_V3_TEKKEN] = {.name = "mistral-v3-tekken",
                           .opening = LH_CHAT_BOS,
                           .user = {"[INST]", "[/INST]"},
                           .assistant = {"", LH_CHAT_EOS},
                           .generation = "",
                           .system_place = LH_CHAT_SYSTEM_IN_LAST_USER,
                           .first_system = {"", "\n\n"},
                           .alternation = ALTERNATE_AFTER_SYSTEM,
                           .other_roles = AFTER_SYSTEM_ONLY},
    [MISTRAL_V7] = {.name = "mistral-v7",
                    .opening = LH_CHAT_BOS,
                    .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"},
                    .user = {"[INST] ", "[/INST]"},
                    .assistant = {" ", LH_CHAT_EOS},
                    .generation = "",
                    .other_roles = "Only user, system and assistant roles are supported!"},
    [GEMMA] = {.name = "gemma",
               .opening = LH_CHAT_BOS,
               .system = GEMMA_TURN("system"),
               .user = GEMMA_TURN("user"),
               .assistant = GEMMA_TURN("model"),
               .tool = GEMMA_TURN("tool"),
               .generation = "<start_of_turn>model\n",
               .trims = true,
               .alternation = ALTERNATE,
               .leading_system = "System role not supported"},
    [GEMMA_3] = {.name = "gemma-3",
                 .opening = LH_CHAT_BOS,
                 .system = GEMMA_TURN("system"),
                 .user = GEMMA_TURN("user"),
                 .assistant = GEMMA_TURN("model"),
                 .tool = GEMMA_TURN("tool"),
                 .generation = "<start_of_turn>model\n",
                 .system_place = LH_CHAT_SYSTEM_IN_FIRST_USER,
                 .first_system = {"", "\n\n"},
                 .trims = true,
                 .keeps_system = true,
                 .alternation = ALTERNATE},
    [PHI3_MINI] = {.name = "phi-3-mini",
                   .opening = LH_CHAT_BOS,
                   .user = {"<|user|>\n", "<|end|>\n<|assistant|>\n"},
                   .assistant = {"", "<|end|>\n"},
                   .generation = ""},
    [PHI3_MEDIUM] = {.name = "phi-3-medium",
                     .opening = "",
                     .user = {"<|user|>\n", "<|end|>\n<|assistant|>\n"},
                     .assistant = {"", "<|end|>\n"},
                     .generation = ""},
    [PHI3_5] = {.name = "phi-3.5",
                .opening = "",
                .system = {"<|system|>\n", "<|end|>\n"},
                .user = {"<|user|>\n", "<|end|>\n"},
                .assistant = {"<|assistant|>\n", "<|end|>\n"},
                .generation = "<|assistant|>\n",
                .skips_empty_system = true},
    [PHI4] = {.name = "phi-4",
              .opening = "",
              .system = {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
              .user = {"<|im_start|>user<|im_sep|>", "<|im_end|><|im_start|>assistant<|im_sep|>"},
              .assistant = {"", "<|im_end|>"},
              .generation = ""},
    [ZEPHYR] = {.name = "zephyr",
                .opening = "",
                .system = {"<|system|>\n", LH_CHAT_EOS "\n"},
                .user = {"<|user|>\n", LH_CHAT_EOS "\n"},
                .assistant = {"<|assistant|>\n", LH_CHAT_EOS "\n"},
                .generation = "<|assistant|>\n"},
    [DEEPSEEK_V2] = {.name = "deepseek-v2",
                     .opening = LH_CHAT_BOS,
                     .system = {"", "\n\n"},
                     .user = {"User: ", "\n\n"},
                     .assistant = {"Assistant: ", LH_CHAT_EOS},
                     .generation = "Assistant:"},
};

/* Templates that say the same in different ways have several. */
static const struct {
    uint64_t signature;
    int family;
} signatures[] = {
    {0xe6f037125d2d094a, CHATML}, /* Hermes, SmolLM, Qwen 1.5 ... */
    {0x23a478edd2ca70d8, CHATML}, /* the same, add_generation_prompt given a default */
    {0x627d7967f22ec51e, CHATML}, /* with a default system message: SmolLM2, Qwen2 */
    {0xe693cb350db9ad09, CHATML_BOS},
    {0x83ae9d9804f53122, QWEN2_5},
    {0x0f1bcad76a7c285c, QWEN3},
    {0x35a6affb9da9217e, QWEN3}, /* the same for content that may be no text */
    {0xff0555803fa8b107, LLAMA3},
    {0x0b3c286fabfe737d, LLAMA3},   /* always with the head of the answer */
    {0x4e65ac79fc85e7c0, LLAMA3_1}, /* Llama 3.1 and 3.3 */
    {0x141be0289eda8873, LLAMA3_1}, /* Llama 3.2 */
    {0xbd4f2b31814dce6b, LLAMA2},
    {0xf9316012ac10ebc8, MISTRAL}, /* Mistral 7B Instruct v0.1, v0.2 */
    {0xd3bcfe89254f4ea4, MISTRAL_V1},
    {0xd0826c5a5ea1c44e, MISTRAL_V3_TEKKEN}, /* Mistral Nemo */
    {0x05ac067455c86f0e, MISTRAL_V7},        /* Mistral Large 2411 */
    {0xb8c2b4eef3130ae8, GEMMA},             /* Gemma 1 and 2 */
    {0xb907f0b8386455b2, GEMMA_3},
    {0x11b4bf1b766a569f, PHI3_MINI},
    {0x955675693d895b0e, PHI3_MEDIUM},
    {0x7c2e236d2ef19fc7, PHI3_5},
    {0x66b3af8b2dd403aa, PHI4},
    {0xe8dd6e58d77d9824, ZEPHYR}, /* Zephyr, TinyLlama */
    {0x2b9d9f4595dba457, DEEPSEEK_V2},
};

const lh_chat_family *lh_chat_family_find(uint64_t signature) {
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (signatures[i].signature == signature)
            return &families[signatures[i].family];
    return NULL;
}

const lh_chat_family *lh_chat_family_at(size_t index) {
    return index < FAMILIES ? &families[index] : NULL;
}
