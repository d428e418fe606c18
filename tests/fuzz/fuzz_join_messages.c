/* The bodies of joining; the first byte says which. What is taken can be rendered, and is taken
 * again as the same. */
#include "common/protocol/join/join_messages_json.h"

#include <stdlib.h>
#include <string.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

#define CHECK(type)                                                                                \
    static void check_##type(const char *bytes, size_t length) {                                   \
        static lh_join_##type taken, again;                                                        \
        lh_error error = {.status = LH_OK};                                                        \
        lh_status status = lh_join_##type##_parse(bytes, length, &taken, &error);                  \
        if (status != LH_OK) {                                                                     \
            need(error.message[0] != '\0');                                                        \
            return;                                                                                \
        }                                                                                          \
        char *text = lh_join_##type##_render(&taken);                                              \
        need(text &&lh_join_##type##_parse(text, strlen(text), &again, &error) == LH_OK &&         \
             memcmp(&taken, &again, sizeof taken) == 0);                                           \
        free(text);                                                                                \
    }

CHECK(request)
CHECK(renewal)
CHECK(grant)
CHECK(reach)

static void check_refusal(const char *bytes, size_t length) {
    lh_join_refusal refusal;
    lh_error error = {.status = LH_OK};
    if (lh_join_refusal_parse(bytes, length, &refusal, &error) == LH_OK)
        need(refusal.code <= LH_JOIN_OTHER &&
             strnlen(refusal.message, sizeof refusal.message) < sizeof refusal.message);
}

static void check_reach_request(const char *bytes, size_t length) {
    char address[LH_JOIN_ADDRESS_BYTES];
    lh_error error = {.status = LH_OK};
    if (lh_join_reach_request_parse(bytes, length, address, &error) == LH_OK)
        need(strnlen(address, sizeof address) < sizeof address && address[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const checks[])(const char *, size_t) = {
        check_request, check_renewal, check_grant, check_reach, check_refusal, check_reach_request};
    if (size > 0)
        checks[data[0] % (sizeof checks / sizeof checks[0])]((const char *)data + 1, size - 1);
    return 0;
}
