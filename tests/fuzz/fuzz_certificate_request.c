/* A certificate request from whoever may join. */
#include "gateway/membership/certificate_request.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    lh_certificate_request *request = NULL;
    lh_error error;
    if (lh_certificate_request_parse((const char *)bytes, length, &request, &error) == LH_OK) {
        assert(lh_certificate_request_key(request));
        lh_certificate_request_destroy(request);
    } else {
        assert(!request && error.message[0]);
    }
    return 0;
}
