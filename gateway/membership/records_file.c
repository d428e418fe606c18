/* One file under one lock. */
#include "gateway/membership/records_file.h"

#include "common/base/state_folder.h"
#include "gateway/membership/records_json.h"

#include <stdlib.h>
#include <string.h>

lh_status lh_records_read(const char *folder, lh_records *records, lh_error *error) {
    char *bytes;
    size_t length;
    lh_error cause;
    *records = (lh_records){0};
    lh_status status =
        lh_state_file_read(folder, LH_RECORDS_FILE, LH_RECORDS_BYTES_MAX, &bytes, &length, &cause);
    if (status == LH_ERR_NOT_FOUND)
        return LH_OK;
    if (status != LH_OK)
        return lh_fail(error, status, "%s", cause.message);
    status = lh_records_parse(bytes, length, records, &cause);
    free(bytes);
    if (status == LH_OK)
        return LH_OK;
    lh_records_reset(records);
    return lh_fail(error, status == LH_ERR_NO_MEMORY ? status : LH_ERR_INVALID,
                   "%.150s/" LH_RECORDS_FILE ": %.140s", folder, cause.message);
}

lh_status lh_records_read_existing(const char *folder, lh_records *records, lh_error *error) {
    lh_status status = lh_records_read(folder, records, error);
    if (status != LH_OK || records->authorities.count > 0)
        return status;
    lh_records_reset(records);
    return lh_fail(error, LH_ERR_NOT_FOUND,
                   "there is no fleet in %.200s: is --state-dir that of the gateway, and is this "
                   "its user?",
                   folder);
}

lh_status lh_records_begin(const char *folder, lh_records_change *change, lh_error *error) {
    *change = (lh_records_change){.folder = folder};
    lh_status status = lh_state_folder_lock(folder, &change->lock, error);
    if (status != LH_OK)
        return status;
    status = lh_records_read(folder, &change->records, error);
    if (status != LH_OK)
        lh_state_folder_unlock(change->lock);
    return status;
}

lh_status lh_records_commit(lh_records_change *change, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = lh_records_render(&change->records, &text);
    if (status != LH_OK)
        lh_fail(error, status, "no memory for the fleet's records");
    else
        status =
            lh_state_file_write(change->folder, LH_RECORDS_FILE, text.bytes, text.length, error);
    lh_text_buffer_reset(&text);
    lh_records_abandon(change);
    return status;
}

void lh_records_abandon(lh_records_change *change) {
    lh_records_reset(&change->records);
    lh_state_folder_unlock(change->lock);
}
