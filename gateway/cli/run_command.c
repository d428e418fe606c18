/* A model, a gateway and a worker for it, one conversation. */
#include "gateway/cli/run_command.h"

#include "common/base/commands.h"
#include "gateway/cli/conversation.h"
#include "gateway/cli/hub_url.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/models_option.h"
#include "gateway/cli/own_service.h"
#include "gateway/models/models_folder.h"
#include "gateway/models/pull.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PULL_TRIES           8
#define PULL_STALL_TIMEOUT_S 30

typedef struct run_settings {
    const char *models_dir;
    lh_answer_style style;
    int64_t threads, kv_bytes;
} run_settings;

#define AT(field) offsetof(run_settings, field)

static const lh_option options[] = {
    LH_OPTION_MODELS_DIR(run_settings, models_dir),
    LH_OPTION_ANSWER_STYLE_ROWS(run_settings, style),
    {"threads", LH_OPTION_NUMBER, AT(threads), "0", "N", 0, 1024, NULL,
     "compute threads; 0: one for each core"},
    {"kv-bytes", LH_OPTION_BYTES, AT(kv_bytes), "512M", "BYTES", 1 << 20, (int64_t)1 << 50, NULL,
     "memory for the KV cache, which bounds how long a conversation may be"},
};

const lh_option_table lh_run_command_options = {
    .program = "longhaul-gateway run",
    .arguments = "MODEL [PROMPT]",
    .summary =
        "Serves a model on this machine alone for as long as it is talked with, with a worker of "
        "its own, and leaves nothing running. MODEL is a GGUF file, the name of one that is here "
        "(longhaul-gateway models), or what longhaul-gateway pull takes, which is fetched first. "
        "With a PROMPT, or with text at standard input, it answers once; otherwise it is a "
        "conversation, as longhaul-gateway chat has it",
    .example = "longhaul-gateway run hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M 'Hello!'",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

static bool is_reference(const char *model) {
    return strncmp(model, "hf:", 3) == 0 || strncasecmp(model, "http://", 7) == 0 ||
           strncasecmp(model, "https://", 8) == 0;
}

/* What a pull tells goes to standard error: standard output is the answer's. */
static lh_status pull(const char *reference, const char *models_dir,
                      char path[LH_MODELS_PATH_BYTES], lh_error *error) {
    char folder[LH_MODELS_PATH_BYTES];
    const lh_pull_options wanted = {.reference = reference,
                                    .sha256 = "",
                                    .output = "",
                                    .folder = folder,
                                    .hub = {.url = lh_hub_url_choose(""),
                                            .token = "",
                                            .tries = PULL_TRIES,
                                            .stall_timeout_s = PULL_STALL_TIMEOUT_S},
                                    .path = path};
    lh_status status = lh_models_folder_choose(models_dir, folder, error);
    int own = dup(STDOUT_FILENO);
    if (status == LH_OK && (own < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0))
        status = lh_fail(error, LH_ERR_IO, "standard output cannot be set aside");
    if (status == LH_OK)
        status = lh_pull(&wanted, error);
    fflush(stdout);
    if (own >= 0) {
        dup2(own, STDOUT_FILENO);
        close(own);
    }
    return status;
}

static lh_status find_model(const char *model, const char *models_dir,
                            char path[LH_MODELS_PATH_BYTES], lh_error *error) {
    char folder[LH_MODELS_PATH_BYTES];
    if (is_reference(model))
        return pull(model, models_dir, path, error);
    if (strlen(model) >= LH_MODELS_PATH_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "MODEL is over %d bytes", LH_MODELS_PATH_BYTES - 1);
    strcpy(path, model);
    if (access(model, F_OK) == 0)
        return LH_OK; /* what is wrong with it is told where it is opened */
    if (strchr(model, '/'))
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "%.160s: no such file; longhaul-gateway models lists what is here, and "
                       "hf:OWNER/REPO fetches from a hub",
                       model);
    lh_status status = lh_models_folder_choose(models_dir, folder, error);
    return status == LH_OK ? lh_models_folder_find(folder, model, path, error) : status;
}

static void tell(const char *text) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s", text);
}

static lh_status serve_and_talk(const run_settings *settings, const char *path, const char *prompt,
                                lh_error *error) {
    const lh_own_service_options wanted = {
        .model = path, .threads = settings->threads, .kv_bytes = settings->kv_bytes};
    lh_own_service *service;
    if (lh_answer_style_check(&settings->style, error) != LH_OK)
        return error->status;
    lh_interrupt_catch();
    tell("loading the model ...");
    lh_status status = lh_own_service_start(&wanted, &service, error);
    tell("");
    if (status != LH_OK)
        return status;
    if (!prompt && isatty(STDIN_FILENO))
        fputs("/help lists what there is, /bye leaves.\n", stderr);
    const lh_conversation_options conversation = {
        .url = lh_own_service_url(service), .key = "", .style = &settings->style, .prompt = prompt};
    status = lh_conversation_run(&conversation, error);
    lh_own_service_stop(service);
    return status;
}

static lh_status run(const char *model, const run_settings *settings, const char *prompt,
                     lh_error *error) {
    char path[LH_MODELS_PATH_BYTES];
    lh_status status = find_model(model, settings->models_dir, path, error);
    return status == LH_OK ? serve_and_talk(settings, path, prompt, error) : status;
}

int lh_run_command(int argc, char **argv) {
    run_settings settings;
    lh_error error;
    int code;
    const char *model = lh_command_take_word(&lh_run_command_options, &argc, &argv), *prompt = NULL;
    if (model && argc > 1 && strncmp(argv[1], "--", 2) != 0) {
        prompt = argv[1];
        argc--;
        argv++;
    }
    if (!lh_command_take_flags(&lh_run_command_options, argc, argv, &settings, &code))
        return code;
    if (!model)
        return lh_command_refuse(&lh_run_command_options,
                                 "which model? Say longhaul-gateway run MODEL; longhaul-gateway "
                                 "models lists those that are here");
    return lh_command_finish(&lh_run_command_options, run(model, &settings, prompt, &error),
                             &error);
}
