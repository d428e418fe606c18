/* access, and a look into the folder. */
#include "gateway/cli/model_choice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

lh_status lh_model_choose(const char *model, const char *models_dir,
                          char path[LH_MODELS_PATH_BYTES], lh_error *error) {
    char folder[LH_MODELS_PATH_BYTES];
    if (snprintf(path, LH_MODELS_PATH_BYTES, "%s", model) >= LH_MODELS_PATH_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "--model is over %d bytes", LH_MODELS_PATH_BYTES - 1);
    if (access(model, F_OK) == 0 || strchr(model, '/'))
        return LH_OK; /* what is wrong with a path is told where it is opened */
    lh_error problem;
    if (lh_models_folder_choose(models_dir, folder, &problem) != LH_OK)
        return LH_OK;
    lh_status status = lh_models_folder_find(folder, model, path, &problem);
    return status == LH_OK ? LH_OK
                           : lh_fail(error, status, "--model %.60s: no such file, and %.230s",
                                     model, problem.message);
}
