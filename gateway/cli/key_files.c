/* stat(2), and the rule of private_file.h. */
#include "gateway/cli/key_files.h"

#include "common/base/private_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 512

typedef struct key_look {
    lh_findings *findings;
    size_t good, bad, unseen;
} key_look;

/* Whose they are does not matter here: the gateway refuses another user's by itself, and this
 * command may be run by root. */
static void check_file(key_look *look, const char *path, const struct stat *info) {
    const char *fault = lh_private_file_fault(info->st_uid, info->st_mode, info->st_uid);
    look->good += !fault;
    if (!fault)
        return;
    look->bad++;
    lh_finding_advise(lh_findings_add(look->findings, LH_VERDICT_TO_DO, path,
                                      "mode %04o, so that others may use it",
                                      (unsigned)(info->st_mode & 07777)),
                      "chmod 600 it, and have another key made if somebody else has read it");
}

static void check_folder(key_look *look, const char *path, const struct stat *info) {
    if (info->st_mode & (S_IWGRP | S_IWOTH)) {
        look->bad++;
        lh_finding_advise(lh_findings_add(look->findings, LH_VERDICT_TO_DO, path,
                                          "mode %04o: others may put files there",
                                          (unsigned)(info->st_mode & 07777)),
                          "chmod 700 it");
    }
    DIR *folder = opendir(path);
    look->unseen += !folder;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char file[PATH_BYTES];
        struct stat of_file;
        int length = snprintf(file, sizeof file, "%.255s/%.255s", path, entry->d_name);
        if (length > 0 && length < PATH_BYTES && lstat(file, &of_file) == 0 &&
            S_ISREG(of_file.st_mode))
            check_file(look, file, &of_file);
    }
    if (folder)
        closedir(folder);
}

void lh_key_files_check(const char *const *paths, size_t count, lh_findings *findings) {
    key_look look = {.findings = findings};
    size_t given = 0;
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        given += paths[i][0] != '\0';
        if (paths[i][0] && stat(paths[i], &info) != 0)
            look.unseen++;
        else if (paths[i][0] && S_ISDIR(info.st_mode))
            check_folder(&look, paths[i], &info);
        else if (paths[i][0])
            check_file(&look, paths[i], &info);
    }
    if (look.bad > 0)
        return;
    if (given == 0)
        lh_findings_add(findings, LH_VERDICT_FINE, "", "the gateway has none");
    else if (look.unseen > 0)
        lh_findings_add(findings, LH_VERDICT_UNKNOWN, "",
                        "not to be seen from here: run this as the gateway's user, on its machine");
    else
        lh_findings_add(findings, LH_VERDICT_FINE, "", "%zu, for their owner alone", look.good);
}
