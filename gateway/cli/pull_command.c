/* Flags, one token, one pull. */
#include "gateway/cli/pull_command.h"

#include "common/base/commands.h"
#include "gateway/auth/api_key.h"
#include "gateway/cli/hub_url.h"
#include "gateway/cli/models_option.h"
#include "gateway/models/models_folder.h"
#include "gateway/models/pull.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pull_settings {
    const char *sha256, *output, *models_dir, *hub_url, *hub_token_file;
    int64_t tries, stall_timeout;
} pull_settings;

#define AT(field) offsetof(pull_settings, field)

static const lh_option options[] = {
    {"sha256", LH_OPTION_TEXT, AT(sha256), "", "HEX", 0, 0, NULL,
     "the SHA-256 that the file must have; of a hub's files it is known"},
    {"output", LH_OPTION_TEXT, AT(output), "", "PATH", 0, 0, NULL,
     "where to put it: a file, or a folder (which is there, or ends in /); default: into "
     "--models-dir"},
    LH_OPTION_MODELS_DIR(pull_settings, models_dir),
    {"hub-url", LH_OPTION_TEXT, AT(hub_url), "", "URL", 0, 0, NULL,
     "the hub that hf: means, or a mirror of it; default: $HF_ENDPOINT, else "
     "https://huggingface.co"},
    {"hub-token-file", LH_OPTION_TEXT, AT(hub_token_file), "", "PATH", 0, 0, NULL,
     "file with the token to show to the hub, and to no other host, readable by its owner only; "
     "default: none is shown"},
    {"tries", LH_OPTION_NUMBER, AT(tries), "8", "N", 1, 1000, NULL,
     "how often in a row a transfer may bring nothing before it is given up"},
    {"stall-timeout", LH_OPTION_NUMBER, AT(stall_timeout), "30", "SECONDS", 1, 3600, NULL,
     "without a byte for so long a transfer is begun again where it is"},
};

const lh_option_table lh_pull_command_options = {
    .program = "longhaul-gateway pull",
    .arguments = "URL | hf:OWNER/REPO[:QUANT]",
    .summary = "Fetches a GGUF model, all of its files, checks it "
               "and puts it into the models' folder, where --model finds it by its name. What was "
               "interrupted goes on where it stopped",
    .example = "longhaul-gateway pull hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

static lh_status pull(const char *reference, const pull_settings *settings, lh_error *error) {
    char token[LH_API_KEY_BYTES] = "", folder[LH_MODELS_PATH_BYTES] = "";
    lh_status status = LH_OK;
    if (!settings->output[0])
        status = lh_models_folder_choose(settings->models_dir, folder, error);
    if (status == LH_OK && settings->hub_token_file[0])
        status = lh_api_key_read(settings->hub_token_file, token, error);
    if (status != LH_OK)
        return status;
    const lh_pull_options wanted = {.reference = reference,
                                    .sha256 = settings->sha256,
                                    .output = settings->output,
                                    .folder = folder,
                                    .hub = {.url = lh_hub_url_choose(settings->hub_url),
                                            .token = token,
                                            .tries = (uint32_t)settings->tries,
                                            .stall_timeout_s = settings->stall_timeout}};
    signal(SIGPIPE, SIG_IGN);
    status = lh_pull(&wanted, error);
    explicit_bzero(token, sizeof token);
    return status;
}

int lh_pull_command(int argc, char **argv) {
    pull_settings settings;
    lh_error error;
    int code;
    const char *reference = lh_command_take_word(&lh_pull_command_options, &argc, &argv);
    if (!lh_command_take_flags(&lh_pull_command_options, argc, argv, &settings, &code))
        return code;
    if (!reference)
        return lh_command_refuse(&lh_pull_command_options,
                                 "what? Say longhaul-gateway pull https://.../NAME.gguf, or "
                                 "longhaul-gateway pull hf:OWNER/REPO:QUANT");
    return lh_command_finish(&lh_pull_command_options, pull(reference, &settings, &error), &error);
}
