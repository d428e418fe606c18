/* Times to bytes and back. */
#include "common/protocol/step_times.h"

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/protocol/step_frame.h"

#include <string.h>

#define HEAD_BYTES   64u /* before the name: numbers, and its length */
#define SHARD_BYTES  32u
#define GATHER_BYTES 20u
#define BASE_US_MAX  (1ull << 52) /* 142 years: sums of such times do not overflow */

uint32_t lh_step_times_offset(uint64_t base_us, int64_t now_us) {
    uint64_t passed = (uint64_t)now_us - base_us;
    return now_us < 0 || (uint64_t)now_us < base_us || passed >= LH_STEP_TIMES_NEVER
               ? LH_STEP_TIMES_NEVER
               : (uint32_t)passed;
}

static uint32_t listed(uint32_t count) {
    return count < LH_STEP_TIMES_SHARDS_MAX ? count : LH_STEP_TIMES_SHARDS_MAX;
}

static uint32_t listed_gathers(const lh_step_times *times) {
    return times->gather_count < LH_STEP_TIMES_GATHERS_MAX ? times->gather_count
                                                           : LH_STEP_TIMES_GATHERS_MAX;
}

size_t lh_step_times_bytes(const lh_step_times *times) {
    return LH_STEP_FRAME_HEAD_BYTES + HEAD_BYTES + strlen(times->worker) +
           ((size_t)listed(times->taken_count) + listed(times->given_count)) * SHARD_BYTES +
           (size_t)listed_gathers(times) * GATHER_BYTES;
}

/* The numbers before the name, shards and gathers lie in memory as they go into a frame. */
#define NUMBERS_AT    offsetof(lh_step_times, base_us)
#define NUMBERS_BYTES (HEAD_BYTES - sizeof(uint32_t))
_Static_assert(offsetof(lh_step_times, gather_count) + sizeof(uint32_t) - NUMBERS_AT ==
                       NUMBERS_BYTES &&
                   sizeof(lh_step_shard_taken) == SHARD_BYTES &&
                   sizeof(lh_step_shard_given) == SHARD_BYTES &&
                   sizeof(lh_step_gather) == GATHER_BYTES,
               "numbers are copied as they lie in memory");

lh_status lh_step_times_encode(const lh_step_times *times, uint8_t *buffer, size_t capacity,
                               size_t *length, lh_error *error) {
    if (times->worker[0] == '\0')
        return lh_fail(error, LH_ERR_INVALID, "times frame: the worker has no name");
    size_t bytes = lh_step_times_bytes(times);
    if (bytes > capacity) {
        return lh_fail(error, LH_ERR_LIMIT, "times frame: %zu bytes for a buffer of %zu", bytes,
                       capacity);
    }
    lh_byte_writer writer = {
        .bytes = buffer, .capacity = capacity, .length = LH_STEP_FRAME_HEAD_BYTES};
    uint32_t name_bytes = (uint32_t)strlen(times->worker);
    lh_put_bytes(&writer, (const uint8_t *)times + NUMBERS_AT, NUMBERS_BYTES);
    lh_put_u32(&writer, name_bytes);
    lh_put_bytes(&writer, times->worker, name_bytes);
    lh_put_bytes(&writer, times->taken, listed(times->taken_count) * sizeof(times->taken[0]));
    lh_put_bytes(&writer, times->given, listed(times->given_count) * sizeof(times->given[0]));
    lh_put_bytes(&writer, times->gathers, listed_gathers(times) * sizeof(times->gathers[0]));
    lh_step_frame_seal(buffer, LH_STEP_FRAME_TIMES, writer.length - LH_STEP_FRAME_HEAD_BYTES);
    *length = writer.length;
    return LH_OK;
}

/* ---- Reading ---- */

static bool is_name(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++) {
        bool good = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                    (name[i] >= '0' && name[i] <= '9') || strchr("._-", name[i]);
        if (!good || name[i] == '\0')
            return false;
    }
    return length > 0;
}

static lh_status get_head(lh_byte_reader *reader, lh_step_times *times, lh_error *error) {
    lh_get_bytes(reader, (uint8_t *)times + NUMBERS_AT, NUMBERS_BYTES);
    uint32_t name_bytes = lh_get_u32(reader);
    if (reader->failed || name_bytes >= LH_STEP_TIMES_NAME_BYTES) {
        return lh_fail(error, LH_ERR_MALFORMED, "times: %s",
                       reader->failed ? "cut" : "a name that is too long");
    }
    lh_get_bytes(reader, times->worker, name_bytes);
    times->worker[name_bytes] = '\0';
    if (reader->failed || !is_name(times->worker, name_bytes)) {
        return lh_fail(error, LH_ERR_MALFORMED, "times: the name is %s",
                       reader->failed ? "cut" : "not that of a worker");
    }
    if (times->base_us > BASE_US_MAX) {
        return lh_fail(error, LH_ERR_MALFORMED, "times of %s: its clock is beyond all time",
                       times->worker);
    }
    return LH_OK;
}

static lh_status decode(const uint8_t *payload, size_t length, lh_step_times *times,
                        lh_error *error) {
    lh_byte_reader reader = {.bytes = payload, .length = length};
    memset(times, 0, sizeof *times);
    lh_status status = get_head(&reader, times, error);
    if (status != LH_OK)
        return status;
    size_t taken = listed(times->taken_count), given = listed(times->given_count),
           gathers = listed_gathers(times);
    if (lh_bytes_left(&reader) != (taken + given) * SHARD_BYTES + gathers * GATHER_BYTES) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "times of %s: %zu bytes for %zu shards and %zu gathers", times->worker,
                       lh_bytes_left(&reader), taken + given, gathers);
    }
    lh_get_bytes(&reader, times->taken, taken * sizeof(times->taken[0]));
    lh_get_bytes(&reader, times->given, given * sizeof(times->given[0]));
    lh_get_bytes(&reader, times->gathers, gathers * sizeof(times->gathers[0]));
    return LH_OK;
}

/* The head of the frame at the offset; the whole frame is there. */
static lh_status find_frame(const uint8_t *body, size_t length, size_t offset,
                            lh_step_frame_head *head, lh_error *error) {
    if (length - offset < LH_STEP_FRAME_HEAD_BYTES)
        return lh_fail(error, LH_ERR_MALFORMED, "times: cut in the head of a frame");
    lh_status status = lh_step_frame_head_decode(body + offset, head, error);
    if (status != LH_OK)
        return status;
    if (head->type != LH_STEP_FRAME_TIMES)
        return lh_fail(error, LH_ERR_MALFORMED, "an answer with a frame of type %u", head->type);
    if (length - offset - LH_STEP_FRAME_HEAD_BYTES < head->payload_bytes)
        return lh_fail(error, LH_ERR_MALFORMED, "times: a frame is cut");
    return LH_OK;
}

lh_status lh_step_times_read(const uint8_t *body, size_t length, size_t *offset,
                             lh_step_times *times, lh_error *error) {
    if (*offset >= length)
        return LH_AGAIN;
    lh_step_frame_head head;
    lh_status status = find_frame(body, length, *offset, &head, error);
    if (status != LH_OK)
        return status;
    const uint8_t *payload = body + *offset + LH_STEP_FRAME_HEAD_BYTES;
    if (lh_crc32c(0, payload, head.payload_bytes) != head.payload_crc32c)
        return lh_fail(error, LH_ERR_CORRUPT, "times: the CRC32C of a frame differs");
    *offset += LH_STEP_FRAME_HEAD_BYTES + head.payload_bytes;
    return decode(payload, head.payload_bytes, times, error);
}

size_t lh_step_times_fitting(const uint8_t *body, size_t length, size_t bytes_max) {
    size_t end = 0;
    lh_step_frame_head head;
    while (end < length && find_frame(body, length, end, &head, NULL) == LH_OK) {
        size_t next = end + LH_STEP_FRAME_HEAD_BYTES + head.payload_bytes;
        if (next > bytes_max)
            break;
        end = next;
    }
    return end;
}
