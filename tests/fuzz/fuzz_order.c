/* Orders of a team's first member: hostile bytes. Checksums of a manifest are made right on the
 * way, so that the fuzzer gets behind them; what is an order can be written again. */
#include "common/base/crc32c.h"
#include "worker/team/order_code.h"

#include <stdlib.h>
#include <string.h>

#define MANIFEST_OFFSET 8u
#define FRAME_HEAD      16u

static void seal(uint8_t *bytes, size_t length) {
    if (length < MANIFEST_OFFSET + FRAME_HEAD)
        return;
    uint8_t *frame = bytes + MANIFEST_OFFSET;
    uint32_t payload = (uint32_t)(length - MANIFEST_OFFSET - FRAME_HEAD);
    memcpy(frame + 4, &payload, sizeof payload);
    uint32_t crc = lh_crc32c(0, frame + FRAME_HEAD, payload);
    memcpy(frame + 8, &crc, sizeof crc);
    crc = lh_crc32c(0, frame, FRAME_HEAD - 4);
    memcpy(frame + 12, &crc, sizeof crc);
}

/* 64-byte aligned, and of exactly this length for whoever watches the memory. */
static uint8_t *aligned_copy(const uint8_t *data, size_t size) {
    void *copy = NULL;
    if (posix_memalign(&copy, 64, size > 0 ? size : 1) != 0)
        abort();
    memcpy(copy, data, size);
    return copy;
}

static void write_again(const lh_stage_order *order) {
    lh_decoded_order decoded;
    size_t length = lh_order_bytes(order);
    void *memory = NULL;
    if (posix_memalign(&memory, 64, length) != 0 || lh_order_encode(order, memory, NULL) != LH_OK ||
        lh_order_decode(memory, length, &decoded, NULL) != LH_OK ||
        decoded.order.kind != order->kind || decoded.order.step != order->step)
        abort();
    free(decoded.memory);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    bool is_sealed = data[0] % 2 == 1;
    uint8_t *bytes = aligned_copy(data + 1, size - 1);
    lh_decoded_order decoded;
    if (is_sealed)
        seal(bytes, size - 1);
    if (lh_order_decode(bytes, size - 1, &decoded, NULL) == LH_OK)
        write_again(&decoded.order);
    free(decoded.memory);
    free(bytes);
    return 0;
}
