/* The gateway's records of its fleet, as another hand may have left them: what is read comes back
 * the same when it has been written. */
#include "gateway/membership/records_json.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void write_and_read(const lh_records *records) {
    lh_text_buffer once = {0}, again = {0};
    lh_records back = {0};
    lh_error error;
    assert(lh_records_render(records, &once) == LH_OK);
    assert(lh_records_parse(once.bytes, once.length, &back, &error) == LH_OK);
    assert(lh_records_render(&back, &again) == LH_OK);
    assert(once.length == again.length && memcmp(once.bytes, again.bytes, once.length) == 0);
    lh_records_reset(&back);
    lh_text_buffer_reset(&once);
    lh_text_buffer_reset(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    lh_records records = {0};
    lh_error error;
    lh_status status = lh_records_parse((const char *)bytes, length, &records, &error);
    if (status == LH_OK)
        write_and_read(&records);
    else
        assert(error.message[0]);
    lh_records_reset(&records);
    return 0;
}
