/* A key, its digest, two lines. */
#include "gateway/cli/key_command.h"

#include "common/base/commands.h"
#include "gateway/auth/api_key.h"
#include "gateway/auth/key_list.h"

#include <stddef.h>
#include <string.h>

typedef struct key_settings {
    const char *from;
    bool admin;
} key_settings;

static const lh_option options[] = {
    {"from", LH_OPTION_TEXT, offsetof(key_settings, from), "", "PATH", 0, 0, NULL,
     "file with a key that exists, one line, readable by its owner only; default: a new key is "
     "made"},
    {"admin", LH_OPTION_FLAG, offsetof(key_settings, admin), "0", NULL, 0, 0, NULL,
     "the key may also ask for /fleet and /trace"},
};

const lh_option_table lh_key_command_options = {
    .program = "longhaul-gateway key",
    .arguments = "NAME",
    .summary = "Makes an API key. The line for the gateway's --api-key-file goes to standard "
               "output, the key itself, shown this once, to standard error",
    .example = "longhaul-gateway key alice >> /etc/longhaul/api-keys",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* The name is held against the rules by the parser that will read the line. */
static lh_status render_line(const char *name, const char *key, bool is_admin, char *line,
                             size_t bytes, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    lh_key_list list;
    const lh_key_limits none = {0};
    if (strlen(name) >= LH_KEY_NAME_BYTES || strpbrk(name, " \t\n#"))
        return lh_fail(error, LH_ERR_INVALID, "a name is 1 to %d of A-Z a-z 0-9 . _ -",
                       LH_KEY_NAME_BYTES - 1);
    if (lh_sha256_digest(key, strlen(key), digest))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a digest");
    lh_sha256_render(digest, hex);
    snprintf(line, bytes, "%s sha256:%s%s", name, hex, is_admin ? " admin" : "");
    lh_status status = lh_key_list_parse(line, strlen(line), &none, &list, error);
    lh_key_list_reset(&list);
    return status;
}

static lh_status make(const char *name, const key_settings *settings, lh_error *error) {
    char key[LH_API_KEY_BYTES], line[256];
    lh_status status = LH_OK;
    if (settings->from[0])
        status = lh_api_key_read(settings->from, key, error);
    else
        lh_api_key_make(key);
    if (status == LH_OK)
        status = render_line(name, key, settings->admin, line, sizeof line, error);
    if (status == LH_OK && !settings->from[0])
        fprintf(stderr, "%s\n", key);
    explicit_bzero(key, sizeof key);
    if (status == LH_OK && (printf("%s\n", line) < 0 || fflush(stdout) != 0))
        status = lh_fail(error, LH_ERR_IO, "the line could not be written");
    return status;
}

int lh_key_command(int argc, char **argv) {
    key_settings settings;
    lh_error error;
    int code;
    const char *name = lh_command_take_word(&lh_key_command_options, &argc, &argv);
    if (!lh_command_take_flags(&lh_key_command_options, argc, argv, &settings, &code))
        return code;
    if (!name)
        return lh_command_refuse(&lh_key_command_options,
                                 "whose key? Give a name first: longhaul-gateway key NAME >> FILE");
    return lh_command_finish(&lh_key_command_options, make(name, &settings, &error), &error);
}
