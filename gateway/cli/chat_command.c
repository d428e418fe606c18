/* Flags, a key, one conversation. */
#include "gateway/cli/chat_command.h"

#include "common/base/commands.h"
#include "gateway/auth/api_key.h"
#include "gateway/cli/api_options.h"
#include "gateway/cli/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct chat_settings {
    const char *url, *api_key, *api_key_file;
    lh_answer_style style;
} chat_settings;

#define AT(field) offsetof(chat_settings, field)

static const lh_option options[] = {
    LH_OPTION_API_URL(chat_settings, url),
    {"api-key", LH_OPTION_TEXT, AT(api_key), "", "KEY", 0, 0, NULL,
     "key of the API; better as LONGHAUL_API_KEY, since others see a command line; default: "
     "$OPENAI_API_KEY, else no key is shown"},
    {"api-key-file", LH_OPTION_TEXT, AT(api_key_file), "", "PATH", 0, 0, NULL,
     "file with the key instead, readable by its owner only"},
    LH_OPTION_ANSWER_STYLE_ROWS(chat_settings, style),
};

const lh_option_table lh_chat_command_options = {
    .program = "longhaul-gateway chat",
    .arguments = "[PROMPT]",
    .summary = "Talks with the model of a running gateway, in the terminal; with a PROMPT, or with "
               "text at standard input, it answers once. Within a conversation /help lists what "
               "there is: /clear, /system, /bye, and \"\"\" around several lines; Ctrl-C stops an "
               "answer",
    .example = "longhaul-gateway chat --url http://192.0.2.1:8080",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

static lh_status read_key(const chat_settings *settings, char key[LH_API_KEY_BYTES],
                          lh_error *error) {
    const char *usual = getenv("OPENAI_API_KEY");
    if (settings->api_key_file[0])
        return lh_api_key_read(settings->api_key_file, key, error);
    const char *given = settings->api_key[0] ? settings->api_key : usual ? usual : "";
    if (strlen(given) >= LH_API_KEY_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "a key has %d characters at most",
                       LH_API_KEY_BYTES - 1);
    strcpy(key, given);
    return LH_OK;
}

static lh_status chat(const chat_settings *settings, const char *prompt, lh_error *error) {
    char key[LH_API_KEY_BYTES] = "";
    const lh_conversation_options conversation = {
        .url = settings->url, .key = key, .style = &settings->style, .prompt = prompt};
    lh_status status = read_key(settings, key, error);
    if (status == LH_OK)
        status = lh_conversation_run(&conversation, error);
    explicit_bzero(key, sizeof key);
    return status;
}

int lh_chat_command(int argc, char **argv) {
    chat_settings settings;
    lh_error error;
    int code;
    const char *prompt = lh_command_take_word(&lh_chat_command_options, &argc, &argv);
    if (!lh_command_take_flags(&lh_chat_command_options, argc, argv, &settings, &code))
        return code;
    return lh_command_finish(&lh_chat_command_options, chat(&settings, prompt, &error), &error);
}
