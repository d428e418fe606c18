/* One number of a head whose pairs are rotated: what `rope` of kernels.h makes of it. */
#pragma once

#include "kernels/cuda/grid.cuh"

/* Dimension d of head[], by the angles of its row. */
__device__ inline float lh_rotated(const float *head, uint32_t d, uint32_t rotated,
                                   bool interleaved, const float *cosine, const float *sine) {
    if (d >= rotated)
        return head[d];
    const uint32_t half = rotated / 2;
    const uint32_t i = interleaved ? d / 2 : d % half;
    const bool is_second = interleaved ? d % 2 == 1 : d >= half;
    const float a = head[interleaved ? 2 * i : i], b = head[interleaved ? 2 * i + 1 : i + half];
    if (is_second)
        return lh_fma(a, sine[i], b * cosine[i]);
    return lh_fma(a, cosine[i], -(b * sine[i]));
}
