/* The constants are those of the paper. */
#include "worker/compute/stage/philox.h"

#define ROUNDS 10

void lh_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * a, second = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(second >> 32) ^ b ^ key0;
        c = (uint32_t)(first >> 32) ^ d ^ key1;
        b = (uint32_t)second;
        d = (uint32_t)first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

double lh_philox_uniform(uint64_t seed, uint64_t counter) {
    uint32_t words[4];
    lh_philox((const uint32_t[4]){(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0},
              (const uint32_t[2]){(uint32_t)seed, (uint32_t)(seed >> 32)}, words);
    return (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) * 0x1p-53;
}
