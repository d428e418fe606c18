/* dlopen. */
#include "common/sandbox/late_libraries.h"

#include "common/base/digest.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 512
#define HOSTS      "hosts:"
#define BLANKS     " \t\n"

/* What is loaded is never closed: it is found by its name when somebody asks for it again. */
static void load(const char *name) {
    (void)dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void load_service(const char *name) {
    char library[LINE_BYTES];
    snprintf(library, sizeof library, "libnss_%.100s.so.2", name);
    load(library);
}

/* "files [NOTFOUND=return] dns"; what stands between brackets is no service. */
static void load_services(char *list) {
    bool is_reaction = false;
    char *rest;
    for (char *word = strtok_r(list, BLANKS, &rest); word; word = strtok_r(NULL, BLANKS, &rest)) {
        is_reaction = is_reaction || word[0] == '[';
        if (!is_reaction)
            load_service(word);
        is_reaction = is_reaction && word[strlen(word) - 1] != ']';
    }
}

static void load_name_services(const char *path) {
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, HOSTS, strlen(HOSTS)) == 0)
            load_services(line + strlen(HOSTS));
    if (file)
        fclose(file);
}

void lh_late_libraries_load(const char *name_services) {
    uint8_t digest[LH_SHA256_BYTES];
    load("libgcc_s.so.1");
    (void)lh_sha256_digest("", 0, digest); /* its first use reads OpenSSL's configuration */
    load_name_services(name_services);
}
