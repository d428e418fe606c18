/* The folder, and whose it is. */
#include "gateway/cli/state_option.h"

lh_status lh_state_option_folder(const char *state_dir, char folder[LH_STATE_PATH_BYTES],
                                 lh_error *error) {
    lh_status status = lh_state_folder_choose(state_dir, "gateway", folder, error);
    return status == LH_OK ? lh_state_folder_act_as_owner(folder, error) : status;
}
