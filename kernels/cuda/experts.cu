/* A mixture of experts: which rows go to which, and the order of their slots.
 *
 * Choosing is a warp's work for each row. Slots are a stable counting sort by expert: a block of
 * threads for each expert counts its rows, another one gives each of them its place behind those of
 * the experts before. There are such orders of all slots, for products of all experts at once, and
 * of the n-th experts of the rows, since a sum meets its experts one by one. */
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/grid.cuh"

namespace {

/* The least that shares are divided by. */
const float SUM_MIN = 0x1p-14f;
const uint32_t WARP = 32, GROUPS_MAX = LH_CUDA_EXPERT_GROUPS_MAX;
static_assert(LH_CUDA_EXPERTS_MAX == WARP * 32, "a bit for each 32 experts");
static_assert(LH_CUDA_EXPERTS_USED_MAX == WARP, "a lane for each");
static_assert(GROUPS_MAX == 2 * WARP, "two for each lane");

struct choice_arguments {
    lh_cuda_routing routing;
    float *logits;
    size_t stride;
    uint32_t rows;
    uint32_t *chosen;
    float *shares;
};

/* A number that compares as the value does; below all where it is none. */
__device__ uint32_t order_of(float value) {
    const float zero_is_positive = value + 0.0f;
    const uint32_t bits = __float_as_uint(zero_is_positive);
    if (value != value)
        return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The greatest of some values and its index; of equal ones the first. */
struct candidate {
    uint32_t order, index;
};

__device__ candidate better(candidate a, candidate b) {
    const bool is_a = a.order > b.order || (a.order == b.order && a.index < b.index);
    return is_a ? a : b;
}

/* Of the whole warp. */
__device__ candidate best_of_warp(candidate mine) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        mine = better(mine, {__shfl_xor_sync(~0u, mine.order, lanes),
                             __shfl_xor_sync(~0u, mine.index, lanes)});
    return mine;
}

__device__ float greatest_of_warp(float v) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const float other = __shfl_xor_sync(~0u, v, lanes);
        v = other > v ? other : v;
    }
    return v;
}

/* Lanes i % 16 of a sum go on by 32 values in their order, of which each lane has one. */
__device__ float add_to_lanes(float sum, float v) {
    const float other = __shfl_xor_sync(~0u, v, 16);
    const bool is_lower = threadIdx.x % WARP < LH_LANES;
    sum += is_lower ? v : other;
    return sum + (is_lower ? other : v);
}

/* The softmax of v[count], a warp; each lane reads and writes its own elements. */
__device__ void soften(float *v, uint32_t count) {
    const uint32_t lane = threadIdx.x % WARP;
    float greatest = -INFINITY, sum = 0;
    for (uint32_t i = lane; i < count; i += WARP)
        greatest = v[i] > greatest ? v[i] : greatest;
    greatest = greatest_of_warp(greatest);
    for (uint32_t begin = 0; begin < count; begin += WARP) {
        const uint32_t i = begin + lane;
        const float p = i < count ? lh_exp(v[i] - greatest) : 0.0f;
        if (i < count)
            v[i] = p;
        sum = add_to_lanes(sum, p);
    }
    sum = lh_lane_sum(sum);
    for (uint32_t i = lane; i < count; i += WARP)
        v[i] /= sum;
}

__device__ void make_shares(float *v, const lh_cuda_routing &r) {
    if (r.kind == LH_CUDA_ROUTING_SOFTMAX)
        soften(v, r.experts);
    if (r.kind == LH_CUDA_ROUTING_SIGMOID)
        for (uint32_t i = threadIdx.x % WARP; i < r.experts; i += WARP)
            v[i] = 1.0f / (1.0f + lh_exp(-v[i]));
}

__device__ float biased(const lh_cuda_routing &r, const float *v, uint32_t i) {
    return r.bias ? v[i] + r.bias[i] : v[i];
}

/* How good a group of neighbours is: its best expert, or its two best together. */
__device__ float rate_group(const lh_cuda_routing &r, const float *v, uint32_t group,
                            uint32_t each) {
    float best = -INFINITY, second = -INFINITY;
    for (uint32_t i = group * each; i < (group + 1) * each; i++) {
        const float value = biased(r, v, i);
        if (value > best) {
            second = best;
            best = value;
        } else if (value > second) {
            second = value;
        }
    }
    return r.kind == LH_CUDA_ROUTING_SIGMOID && each > 1 ? best + second : best;
}

/* A bit for each group that counts. */
__device__ uint64_t choose_groups(const lh_cuda_routing &r, const float *v) {
    const uint32_t lane = threadIdx.x % WARP, each = r.experts / r.groups;
    uint32_t orders[GROUPS_MAX / WARP];
#pragma unroll
    for (uint32_t k = 0; k < GROUPS_MAX / WARP; k++) {
        const uint32_t group = k * WARP + lane;
        orders[k] = group < r.groups ? order_of(rate_group(r, v, group, each)) : 0;
    }
    uint64_t chosen = 0;
    for (uint32_t n = 0; n < r.groups_used; n++) {
        candidate best = {0, UINT32_MAX};
#pragma unroll
        for (uint32_t k = 0; k < GROUPS_MAX / WARP; k++) {
            const uint32_t group = k * WARP + lane;
            if (group < r.groups && !(chosen >> group & 1))
                best = better(best, {orders[k], group});
        }
        best = best_of_warp(best);
        if (best.index < r.groups)
            chosen |= uint64_t{1} << best.index;
    }
    return chosen;
}

__device__ bool counts(const lh_cuda_routing &r, uint64_t groups, uint32_t expert) {
    return r.groups <= 1 || (groups >> expert / (r.experts / r.groups) & 1);
}

/* Lane n gets the n-th best expert. */
__device__ uint32_t find_greatest(const lh_cuda_routing &r, const float *v) {
    const uint32_t lane = threadIdx.x % WARP;
    const uint64_t groups = r.groups > 1 ? choose_groups(r, v) : 0;
    uint32_t mine = 0, taken = 0; /* taken: a bit for each 32 experts, of which one is the lane's */
    for (uint32_t n = 0; n < r.used; n++) {
        candidate best = {0, UINT32_MAX};
        for (uint32_t i = lane; i < r.experts; i += WARP)
            if (!(taken >> i / WARP & 1) && counts(r, groups, i))
                best = better(best, {order_of(biased(r, v, i)), i});
        best = best_of_warp(best);
        if (best.index >= r.experts)
            best.index = 0; /* fewer count than are to be used */
        if (best.index % WARP == lane)
            taken |= 1u << best.index / WARP;
        if (n == lane)
            mine = best.index;
    }
    return mine;
}

/* Lane n gets the n-th expert in their order. */
__device__ uint32_t sorted(uint32_t mine, uint32_t used) {
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t place = 0, result = 0;
    for (uint32_t n = 0; n < used; n++) {
        const uint32_t other = __shfl_sync(~0u, mine, (int)n);
        place += other < mine || (other == mine && n < lane);
    }
    for (uint32_t n = 0; n < used; n++) {
        const uint32_t at = __shfl_sync(~0u, place, (int)n), other = __shfl_sync(~0u, mine, (int)n);
        result = at == lane ? other : result;
    }
    return result;
}

/* The share of lane n's expert, the n-th. */
__device__ float final_share(const lh_cuda_routing &r, float share) {
    const bool is_used = threadIdx.x % WARP < r.used;
    if (r.kind == LH_CUDA_ROUTING_SOFTMAX_OF_CHOSEN) {
        const float greatest = greatest_of_warp(is_used ? share : -INFINITY);
        share = is_used ? lh_exp(share - greatest) : 0.0f;
        share /= lh_lane_sum(add_to_lanes(0.0f, share));
    }
    float sum = 0;
    for (uint32_t n = 0; n < r.used; n++)
        sum += __shfl_sync(~0u, share, (int)n);
    if (r.is_normalized)
        share /= sum > SUM_MIN ? sum : SUM_MIN;
    return r.scale != 1.0f ? share * r.scale : share;
}

/* A warp for each row. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS) choose_experts(choice_arguments a) {
    lh_begin();
    const uint32_t row = (blockIdx.x * LH_BLOCK_THREADS + threadIdx.x) / WARP,
                   lane = threadIdx.x % WARP;
    if (row >= a.rows)
        return;
    const lh_cuda_routing &r = a.routing;
    float *v = a.logits + row * a.stride;
    make_shares(v, r);
    __syncwarp();
    const uint32_t expert = sorted(find_greatest(r, v), r.used);
    const float share = final_share(r, lane < r.used ? v[expert] : 0.0f);
    if (lane < r.used) {
        a.chosen[(size_t)row * r.used + lane] = expert;
        a.shares[(size_t)row * r.used + lane] = share;
    }
}

/* ---- Slots ---- */

struct slot_arguments {
    lh_cuda_experts e;
    uint32_t experts, used, rows;
    const float *scale;
    uint32_t first_order;
};

const uint32_t WARPS = LH_BLOCK_THREADS / WARP;

struct warp_counts {
    uint32_t of[WARPS];
};

/* Order 0 is that of all slots, order 1 + i that of the i-th expert of each row. */
struct order {
    uint32_t begin, step, count; /* its places in `chosen` */
};

__device__ order order_at(const slot_arguments &a, uint32_t index) {
    if (index == 0)
        return {0, 1, a.rows * a.used};
    return {index - 1, a.used, a.rows};
}

/* The sum of a number of each thread, and, in *before, that of those before this one. All threads
 * come to it. */
__device__ uint32_t sum_of_block(warp_counts &shared, uint32_t mine, uint32_t *before) {
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t up_to_here = mine, all = 0;
#pragma unroll
    for (uint32_t lanes = 1; lanes < WARP; lanes *= 2) {
        const uint32_t other =
            __shfl_sync(~0u, up_to_here, (int)(lane < lanes ? lane : lane - lanes));
        up_to_here += lane < lanes ? 0 : other;
    }
    __syncthreads();
    if (lane == WARP - 1)
        shared.of[warp] = up_to_here;
    __syncthreads();
    *before = up_to_here - mine;
    for (uint32_t i = 0; i < WARPS; i++) {
        *before += i < warp ? shared.of[i] : 0;
        all += shared.of[i];
    }
    return all;
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS) count_slots(slot_arguments a) {
    lh_begin();
    LH_SHARED(warp_counts, shared);
    const uint32_t index = a.first_order + blockIdx.x / a.experts, expert = blockIdx.x % a.experts;
    const order order = order_at(a, index);
    uint32_t mine = 0, before;
    for (uint32_t i = threadIdx.x; i < order.count; i += LH_BLOCK_THREADS)
        mine += a.e.chosen[order.begin + (size_t)i * order.step] == expert;
    const uint32_t count = sum_of_block(shared, mine, &before);
    if (threadIdx.x == 0)
        a.e.counts[index * a.experts + expert] = count;
}

/* Entry i of an order has its place there. */
__device__ void fill_slot(const slot_arguments &a, uint32_t index, uint32_t i, uint32_t place) {
    const uint32_t at = index == 0 ? i : i * a.used + index - 1, row = at / a.used;
    if (index == 0) {
        a.e.rows[place] = row;
        a.e.slot_shares[place] = a.e.shares[at];
        a.e.slot_scale[place] = a.scale[row];
        a.e.slots[at] = place;
    } else {
        a.e.nth_rows[place] = row;
        a.e.nth_slots[place] = a.e.slots[at];
        a.e.nth_shares[place] = a.e.shares[at];
    }
}

__device__ uint32_t groups_for(uint32_t slots) {
    return (slots + LH_CUDA_EXPERT_ROWS - 1) / LH_CUDA_EXPERT_ROWS;
}

/* The groups of an expert whose slots begin at `first`; the last expert empties those that are
 * left. */
__device__ void fill_groups(const slot_arguments &a, lh_cuda_expert_group *groups, uint32_t most,
                            uint32_t expert, uint32_t first, uint32_t count) {
    const uint32_t own = groups_for(count), end = expert + 1 == a.experts ? most : own;
    for (uint32_t i = threadIdx.x; i < end; i += LH_BLOCK_THREADS) {
        const uint32_t done = i * LH_CUDA_EXPERT_ROWS, left = count - done;
        groups[i] =
            i < own ? lh_cuda_expert_group{expert, first + done,
                                           left < LH_CUDA_EXPERT_ROWS ? left : LH_CUDA_EXPERT_ROWS}
                    : lh_cuda_expert_group{0, 0, 0};
    }
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS) place_slots(slot_arguments a) {
    lh_begin();
    LH_SHARED(warp_counts, shared);
    const uint32_t index = a.first_order + blockIdx.x / a.experts, expert = blockIdx.x % a.experts;
    const order order = order_at(a, index);
    const uint32_t *counts = a.e.counts + index * a.experts;
    uint32_t slots = 0, groups = 0, before;
    for (uint32_t i = threadIdx.x; i < expert; i += LH_BLOCK_THREADS) {
        slots += counts[i];
        groups += groups_for(counts[i]);
    }
    slots = sum_of_block(shared, slots, &before);
    groups = sum_of_block(shared, groups, &before);
    /* orders of n-th experts lie one after the other */
    uint32_t place = slots + (index == 0 ? 0 : (index - 1) * a.rows);
    const uint32_t most = lh_cuda_expert_groups(a.experts, order.count);
    lh_cuda_expert_group *first_group =
        index == 0 ? a.e.groups : a.e.nth_groups + (size_t)(index - 1) * most;
    fill_groups(a, first_group + groups, most - groups, expert, place, counts[expert]);
    for (uint32_t begin = 0; begin < order.count; begin += LH_BLOCK_THREADS) {
        const uint32_t i = begin + threadIdx.x;
        const bool is_mine =
            i < order.count && a.e.chosen[order.begin + (size_t)i * order.step] == expert;
        const uint32_t all = sum_of_block(shared, is_mine, &before);
        if (is_mine)
            fill_slot(a, index, i, place + before);
        place += all;
    }
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    sigmoid_rows(float *y, const float *x, size_t stride, uint32_t rows) {
    lh_begin();
    const uint32_t row = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (row < rows)
        y[row] = 1.0f / (1.0f + lh_exp(-x[row * stride]));
}

} // namespace

int lh_cuda_route(lh_cuda_stream stream, const lh_cuda_experts *experts,
                  const lh_cuda_routing *routing, float *logits, size_t stride, const float *scale,
                  uint32_t rows) {
    if (rows == 0)
        return 0;
    if (routing->experts > LH_CUDA_EXPERTS_MAX || routing->used > LH_CUDA_EXPERTS_USED_MAX ||
        routing->groups > GROUPS_MAX || routing->used == 0)
        return LH_CUDA_INVALID_VALUE;
    const choice_arguments choice = {*routing, logits,          stride,
                                     rows,     experts->chosen, experts->shares};
    slot_arguments slots = {*experts, routing->experts, routing->used, rows, scale, 0};
    const uint32_t orders = experts->nth_groups ? 1 + routing->used : 1;
    int error = lh_launch(choose_experts, lh_blocks_for((uint64_t)rows * WARP, LH_BLOCK_THREADS),
                          LH_BLOCK_THREADS, stream, choice);
    if (!error)
        error = lh_launch(count_slots, orders * routing->experts, LH_BLOCK_THREADS, stream, slots);
    if (!error)
        error = lh_launch(place_slots, routing->experts, LH_BLOCK_THREADS, stream, slots);
    slots.first_order = 1;
    if (!error && orders > 1)
        error = lh_launch(place_slots, routing->used * routing->experts, LH_BLOCK_THREADS, stream,
                          slots);
    return error;
}

int lh_cuda_sigmoid(lh_cuda_stream stream, float *y, const float *x, size_t stride, uint32_t rows) {
    if (rows == 0)
        return 0;
    return lh_launch(sigmoid_rows, lh_blocks_for(rows, LH_BLOCK_THREADS), LH_BLOCK_THREADS, stream,
                     y, x, stride, rows);
}
