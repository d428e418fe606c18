/* The table of wire types, and shards as rows of blocks. */
#include "common/protocol/wire_type.h"

#include "common/protocol/wire_block.h"

#include <assert.h>

static bool encode_f32(const float *restrict values, uint8_t *restrict bytes,
                       uint8_t *restrict block) {
    (void)block;
    memcpy(bytes, values, LH_WIRE_BLOCK * sizeof(float));
    return lh_wire_greatest(values) < LH_F32_INFINITY_BITS;
}

static bool decode_f32(const uint8_t *restrict bytes, const uint8_t *restrict block,
                       float *restrict values) {
    (void)block;
    memcpy(values, bytes, LH_WIRE_BLOCK * sizeof(float));
    return lh_wire_greatest(values) < LH_F32_INFINITY_BITS;
}

static const lh_wire_codec lh_wire_f32 = {"f32", sizeof(float), 0, encode_f32, decode_f32};

static const lh_wire_codec *const codecs[] = {
    [LH_WIRE_F32] = &lh_wire_f32, [LH_WIRE_F16] = &lh_wire_f16, [LH_WIRE_Q8] = &lh_wire_q8};
#define CODEC_COUNT (sizeof(codecs) / sizeof(codecs[0]))

static const lh_wire_codec *codec_of(lh_wire_type wire) {
    assert((size_t)wire < CODEC_COUNT);
    return codecs[wire];
}

const char *lh_wire_name(lh_wire_type wire) {
    return codec_of(wire)->name;
}

bool lh_wire_parse(const char *name, lh_wire_type *wire) {
    for (uint32_t i = 0; i < CODEC_COUNT; i++)
        if (strcmp(codecs[i]->name, name) == 0)
            return lh_wire_from_number(i, wire);
    return false;
}

bool lh_wire_from_number(uint32_t number, lh_wire_type *wire) {
    if (number >= CODEC_COUNT)
        return false;
    *wire = (lh_wire_type)number;
    return true;
}

size_t lh_wire_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns) {
    const lh_wire_codec *codec = codec_of(wire);
    size_t blocks = (columns + LH_WIRE_BLOCK - 1) / LH_WIRE_BLOCK;
    return (size_t)rows * columns * codec->value_bytes + (size_t)rows * blocks * codec->block_bytes;
}

void lh_wire_cut_rows(lh_wire_type wire, const uint8_t *packed, uint32_t rows, uint32_t columns,
                      uint32_t first, uint32_t count, uint8_t *bytes) {
    const lh_wire_codec *codec = codec_of(wire);
    const size_t values = (size_t)columns * codec->value_bytes, /* of a row */
        blocks = (size_t)((columns + LH_WIRE_BLOCK - 1) / LH_WIRE_BLOCK) * codec->block_bytes;
    memcpy(bytes, packed + first * values, count * values);
    memcpy(bytes + count * values, packed + rows * values + first * blocks, count * blocks);
}

/* The last block of a row, where the width cuts it short. */
static bool encode_rest(const lh_wire_codec *codec, const float *values, uint32_t count,
                        uint8_t *bytes, uint8_t *block) {
    float filled[LH_WIRE_BLOCK] = {0};
    uint8_t whole[LH_WIRE_BLOCK * sizeof(float)];
    memcpy(filled, values, count * sizeof(float));
    bool good = codec->encode(filled, whole, block);
    memcpy(bytes, whole, (size_t)count * codec->value_bytes);
    return good;
}

static bool decode_rest(const lh_wire_codec *codec, const uint8_t *bytes, const uint8_t *block,
                        uint32_t count, float *values) {
    float whole[LH_WIRE_BLOCK];
    uint8_t filled[LH_WIRE_BLOCK * sizeof(float)] = {0};
    memcpy(filled, bytes, (size_t)count * codec->value_bytes);
    bool good = codec->decode(filled, block, whole);
    memcpy(values, whole, count * sizeof(float));
    return good;
}

bool lh_wire_encode(lh_wire_type wire, const float *values, uint32_t rows, uint32_t columns,
                    uint8_t *bytes) {
    const lh_wire_codec *codec = codec_of(wire);
    uint8_t *block = bytes + (size_t)rows * columns * codec->value_bytes;
    bool good = true;
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t left = columns, count; left > 0; left -= count) {
            count = left < LH_WIRE_BLOCK ? left : LH_WIRE_BLOCK;
            good &= count == LH_WIRE_BLOCK ? codec->encode(values, bytes, block)
                                           : encode_rest(codec, values, count, bytes, block);
            values += count;
            bytes += (size_t)count * codec->value_bytes;
            block += codec->block_bytes;
        }
    }
    return good;
}

bool lh_wire_decode(lh_wire_type wire, const uint8_t *bytes, uint32_t rows, uint32_t columns,
                    float *values) {
    const lh_wire_codec *codec = codec_of(wire);
    const uint8_t *block = bytes + (size_t)rows * columns * codec->value_bytes;
    bool good = true;
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t left = columns, count; left > 0; left -= count) {
            count = left < LH_WIRE_BLOCK ? left : LH_WIRE_BLOCK;
            good &= count == LH_WIRE_BLOCK ? codec->decode(bytes, block, values)
                                           : decode_rest(codec, bytes, block, count, values);
            values += count;
            bytes += (size_t)count * codec->value_bytes;
            block += codec->block_bytes;
        }
    }
    return good;
}
