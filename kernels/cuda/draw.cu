/* Draws from rows of logits: mask, biases and penalties, then what top-k, top-p and min-p leave,
 * and of it the token with the greatest sum of logit and noise. Nothing is sorted.
 *
 * A row is cut into chunks, a block for each. What is left by a cut is what comes in the order of
 * the tokens, the more probable first and the lower token of equals, until its weights have come to
 * what is enough: tokens are counted for top-k, masses for top-p, both as integers, so that it does
 * not matter who adds them first. The order is that of numbers of 50 or 60 bits (order_key). The
 * blocks add weights up by the first ten bits of it, the last of them to come finds the ten bits
 * that the cut has, and so on with the next ten among those that have the same ones before. */
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/noise.cuh"

namespace {

#define DRAW_THREADS 256u
#define CHUNK_TOKENS 2048u
#define DIGIT_BITS   10u
#define DIGITS       (1u << DIGIT_BITS)
/* Of a probability, which is at most 1. */
#define VALUE_BITS 30u

/* What atomic additions take. */
typedef unsigned long long weight;

/* A cut that is being found. */
struct cut_state {
    uint64_t least;  /* the order_key of the last token that the cut before leaves */
    uint64_t prefix; /* the digits that are known, others 0 */
    weight above;    /* of the tokens that are left for certain */
    weight enough;
    uint32_t blocks_done;
};

/* Of one row in the caller's scratch. */
struct row_scratch {
    cut_state cut;
    weight weights[DIGITS];
};

struct draw_arguments {
    uint32_t *tokens;
    const float *logits;
    size_t stride;
    uint32_t rows, count, chunks;
    uint32_t token_bits; /* of an order_key: whole digits */
    const lh_cuda_draw_row *draws;
    row_scratch *scratch; /* [rows] */
    float *maxima;  /* [rows][chunks]: infinite where a logit is not a number below infinity */
    lh_lead *leads; /* [rows][chunks] */
};

/* ---- What a block does together ---- */

struct warp_values {
    float scores[DRAW_THREADS / 32];
    uint32_t tokens[DRAW_THREADS / 32];
};

__device__ lh_lead better(lh_lead a, lh_lead b) {
    return b.score > a.score || (b.score == a.score && b.token < a.token) ? b : a;
}

__device__ lh_lead lead_of_warp(lh_lead mine) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        mine = better(mine, {__shfl_xor_sync(~0u, mine.score, lanes),
                             __shfl_xor_sync(~0u, mine.token, lanes)});
    return mine;
}

/* Thread 0 gets it. */
__device__ lh_lead lead_of_block(lh_lead mine) {
    LH_SHARED(warp_values, warps);
    mine = lead_of_warp(mine);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        warps.scores[threadIdx.x / 32] = mine.score;
        warps.tokens[threadIdx.x / 32] = mine.token;
    }
    __syncthreads();
    for (uint32_t warp = 1; threadIdx.x == 0 && warp < DRAW_THREADS / 32; warp++)
        mine = better(mine, {warps.scores[warp], warps.tokens[warp]});
    return mine;
}

/* The greatest logit of the row. */
__device__ float row_max(const draw_arguments &a, uint32_t row) {
    const float *maxima = a.maxima + (size_t)row * a.chunks;
    float max = -INFINITY;
    for (uint32_t chunk = threadIdx.x % 32; chunk < a.chunks; chunk += 32)
        max = maxima[chunk] > max ? maxima[chunk] : max;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const float other = __shfl_xor_sync(~0u, max, lanes);
        max = other > max ? other : max;
    }
    return max + 0.0f;
}

/* function(token) for the tokens of this block's chunk, each by one thread. */
template <typename F> __device__ void for_each_token(const draw_arguments &a, F function) {
    const uint32_t begin = blockIdx.x * CHUNK_TOKENS;
    for (uint32_t i = threadIdx.x; i < CHUNK_TOKENS && begin + i < a.count; i += DRAW_THREADS)
        function(begin + i);
}

/* ---- Mask, biases, penalties ---- */

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    mask_logits(float *logits, size_t stride, uint32_t rows, uint32_t count,
                const lh_cuda_logit_changes *changes) {
    lh_begin();
    const uint32_t token = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    for (uint32_t row = blockIdx.y; token < count && row < rows; row += gridDim.y) {
        const uint64_t *mask = changes[row].mask;
        if (mask && !(mask[token / 64] >> token % 64 & 1))
            logits[row * stride + token] = -INFINITY;
    }
}

__device__ float penalized(float logit, const lh_cuda_logit_changes &c, lh_cuda_token_count count) {
    if (count.prompt_count > 0 || count.output_count > 0)
        logit = logit > 0 ? logit / c.repetition_penalty : logit * c.repetition_penalty;
    if (count.output_count > 0)
        logit -= c.presence_penalty + c.frequency_penalty * (float)count.output_count;
    return logit;
}

/* A block for each row. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    change_logits(float *logits, size_t stride, const lh_cuda_logit_changes *changes) {
    lh_begin();
    const lh_cuda_logit_changes &c = changes[blockIdx.x];
    float *row = logits + blockIdx.x * stride;
    for (uint32_t i = threadIdx.x; i < c.bias_count; i += LH_BLOCK_THREADS)
        row[c.biases[i].token] += c.biases[i].bias;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < c.count_count; i += LH_BLOCK_THREADS) {
        float *logit = &row[c.counts[i].token];
        *logit = penalized(*logit, c, c.counts[i]);
    }
}

/* ---- Maxima ---- */

__global__ void __launch_bounds__(DRAW_THREADS) find_maxima(draw_arguments a) {
    lh_begin();
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        const float *logits = a.logits + row * a.stride;
        lh_lead lead = {-INFINITY, 0};
        for_each_token(a, [&](uint32_t token) {
            const float logit = logits[token] < INFINITY ? logits[token] : INFINITY;
            lead.score = logit > lead.score ? logit : lead.score;
        });
        lead = lead_of_block(lead);
        if (threadIdx.x == 0)
            a.maxima[(size_t)row * a.chunks + blockIdx.x] = lead.score;
        if (blockIdx.x > 0)
            continue;
        row_scratch *scratch = &a.scratch[row];
        for (uint32_t digit = threadIdx.x; digit < DIGITS; digit += DRAW_THREADS)
            scratch->weights[digit] = 0;
        if (threadIdx.x == 0)
            scratch->cut = {0, 0, 0, 0, 0};
    }
}

/* ---- Cuts ---- */

__device__ float probability_of(const lh_cuda_draw_row &draw, float logit, float max) {
    return lh_exp((logit - max) / draw.temperature);
}

/* In the order of the tokens the first is the greatest. */
__device__ uint64_t order_key(const draw_arguments &a, float probability, uint32_t token) {
    return (uint64_t)__float_as_uint(probability) << a.token_bits |
           (((1u << a.token_bits) - 1) - token);
}

enum cut_measure { CUT_BY_COUNT, CUT_BY_MASS };

template <cut_measure MEASURE>
__device__ bool is_cut(const lh_cuda_draw_row &draw, uint32_t count) {
    if (!(draw.temperature > 0))
        return false;
    return MEASURE == CUT_BY_COUNT ? draw.top_k > 0 && draw.top_k < count : draw.top_p < 1;
}

template <cut_measure MEASURE>
__device__ weight enough_of(const lh_cuda_draw_row &draw, weight total) {
    if (MEASURE == CUT_BY_COUNT)
        return draw.top_k;
    const uint64_t share = (uint64_t)(draw.top_p * 0x1p32f);
    const weight enough = (total >> 32) * share + ((total & UINT32_MAX) * share >> 32);
    return enough > 0 ? enough : 1; /* one is left at least */
}

struct digit_weights {
    weight of[DIGITS];
    weight sums[DIGITS / 32]; /* of 32 digits each */
    uint32_t is_last;
};

/* The digit in which the weights come to `enough`, from the greatest on; 0 where they never do.
 * *above: what they come to before it is added up. */
__device__ uint32_t find_digit(const digit_weights &weights, weight enough, weight *above) {
    uint32_t part = DIGITS / 32 - 1, digit;
    for (; part > 0 && *above + weights.sums[part] < enough; part--)
        *above += weights.sums[part];
    for (digit = 32 * part + 31; digit > 32 * part && *above + weights.of[digit] < enough; digit--)
        *above += weights.of[digit];
    return digit;
}

/* By the last block of the row: all weights are there, and are 0 again afterwards. */
template <cut_measure MEASURE>
__device__ void choose_digit(const draw_arguments &a, uint32_t row, digit_weights &weights,
                             uint32_t shift) {
    row_scratch *scratch = &a.scratch[row];
    for (uint32_t digit = threadIdx.x; digit < DIGITS; digit += DRAW_THREADS)
        weights.of[digit] = atomicExch(&scratch->weights[digit], 0ull);
    __syncthreads();
    if (threadIdx.x < DIGITS / 32) {
        weight sum = 0;
        for (uint32_t digit = 0; digit < 32; digit++)
            sum += weights.of[32 * threadIdx.x + digit];
        weights.sums[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    cut_state *cut = &scratch->cut;
    if (shift == VALUE_BITS + a.token_bits - DIGIT_BITS) {
        weight total = 0;
        for (uint32_t part = 0; part < DIGITS / 32; part++)
            total += weights.sums[part];
        cut->enough = enough_of<MEASURE>(a.draws[row], total);
        cut->above = 0;
    }
    weight above = cut->above;
    cut->prefix |= (uint64_t)find_digit(weights, cut->enough, &above) << shift;
    cut->above = above;
    cut->blocks_done = 0;
    if (shift == 0) {
        cut->least = cut->prefix;
        cut->prefix = 0;
    }
}

/* Adds the weights of this chunk's tokens that have the digits before. */
template <cut_measure MEASURE>
__device__ void add_weights(const draw_arguments &a, uint32_t row, digit_weights &weights,
                            uint32_t shift) {
    const lh_cuda_draw_row &draw = a.draws[row];
    const float *logits = a.logits + row * a.stride, max = row_max(a, row);
    row_scratch *scratch = &a.scratch[row];
    const uint64_t least = scratch->cut.least, prefix = scratch->cut.prefix;
    for (uint32_t digit = threadIdx.x; digit < DIGITS; digit += DRAW_THREADS)
        weights.of[digit] = 0;
    __syncthreads();
    for_each_token(a, [&](uint32_t token) {
        const float probability = probability_of(draw, logits[token], max);
        const uint64_t key = order_key(a, probability, token);
        if (probability > 0 && key >= least && (key ^ prefix) >> shift >> DIGIT_BITS == 0) {
            const weight mine = MEASURE == CUT_BY_COUNT ? 1 : (weight)(probability * 0x1p40f);
            atomicAdd(&weights.of[key >> shift & (DIGITS - 1)], mine);
        }
    });
    __syncthreads();
    for (uint32_t digit = threadIdx.x; digit < DIGITS; digit += DRAW_THREADS)
        if (weights.of[digit] > 0)
            atomicAdd(&scratch->weights[digit], weights.of[digit]);
}

/* One digit of the cut of each row that has it. */
template <cut_measure MEASURE>
__global__ void __launch_bounds__(DRAW_THREADS) cut_digit(draw_arguments a, uint32_t shift) {
    lh_begin();
    LH_SHARED(digit_weights, weights);
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        if (!is_cut<MEASURE>(a.draws[row], a.count))
            continue;
        add_weights<MEASURE>(a, row, weights, shift);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            weights.is_last = atomicAdd(&a.scratch[row].cut.blocks_done, 1u) == a.chunks - 1;
        __syncthreads();
        if (weights.is_last)
            choose_digit<MEASURE>(a, row, weights, shift);
        __syncthreads();
    }
}

/* ---- Who leads ---- */

/* Of four tokens by one thread. */
__device__ lh_lead lead_of_quad(const draw_arguments &a, uint32_t row, float max, uint32_t quad) {
    const lh_cuda_draw_row &draw = a.draws[row];
    const float *logits = a.logits + row * a.stride;
    const bool is_greedy = !(draw.temperature > 0);
    const bool is_truncated =
        is_cut<CUT_BY_COUNT>(draw, a.count) || is_cut<CUT_BY_MASS>(draw, a.count) || draw.min_p > 0;
    const uint64_t least = a.scratch[row].cut.least;
    lh_four_words words = {};
    if (!is_greedy)
        words = lh_words_of(draw.seed, draw.position, quad);
    lh_lead lead = {-INFINITY, UINT32_MAX};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t token = 4 * quad + i;
        if (token >= a.count)
            continue;
        if (is_greedy) {
            lead = better(lead, {logits[token], token});
            continue;
        }
        const float scaled = (logits[token] - max) / draw.temperature;
        if (is_truncated) {
            const float probability = lh_exp(scaled);
            if (!(probability > 0 && probability >= draw.min_p &&
                  order_key(a, probability, token) >= least))
                continue;
        }
        lead = better(lead, {scaled + lh_noise_of(words.of[i]), token});
    }
    return lead;
}

__global__ void __launch_bounds__(DRAW_THREADS) find_leads(draw_arguments a) {
    lh_begin();
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        const float max = row_max(a, row);
        lh_lead lead = {-INFINITY, UINT32_MAX};
        for (uint32_t i = threadIdx.x; i < CHUNK_TOKENS / 4; i += DRAW_THREADS)
            lead = better(lead, lead_of_quad(a, row, max, blockIdx.x * (CHUNK_TOKENS / 4) + i));
        lead = lead_of_block(lead);
        if (threadIdx.x == 0)
            a.leads[(size_t)row * a.chunks + blockIdx.x] = lead;
    }
}

/* A warp for each row. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS) find_tokens(draw_arguments a) {
    lh_begin();
    const uint32_t row = blockIdx.x * (LH_BLOCK_THREADS / 32) + threadIdx.x / 32;
    if (row >= a.rows)
        return;
    const float max = row_max(a, row);
    lh_lead lead = {-INFINITY, UINT32_MAX};
    for (uint32_t chunk = threadIdx.x % 32; chunk < a.chunks; chunk += 32)
        lead = better(lead, a.leads[(size_t)row * a.chunks + chunk]);
    lead = lead_of_warp(lead);
    if (threadIdx.x % 32 == 0)
        a.tokens[row] = max > -INFINITY && max < INFINITY ? lead.token : UINT32_MAX;
}

} // namespace

int lh_cuda_change_logits(lh_cuda_stream stream, float *logits, size_t stride, uint32_t rows,
                          uint32_t count, const lh_cuda_logit_changes *changes) {
    if (rows == 0 || count == 0)
        return 0;
    const dim3 grid(lh_blocks_for(count, LH_BLOCK_THREADS), lh_grid_rows(rows));
    const int error = lh_launch(mask_logits, grid, LH_BLOCK_THREADS, stream, logits, stride, rows,
                                count, changes);
    return error
               ? error
               : lh_launch(change_logits, rows, LH_BLOCK_THREADS, stream, logits, stride, changes);
}

size_t lh_cuda_draw_scratch_bytes(uint32_t rows, uint32_t count) {
    const size_t chunks = lh_blocks_for(count, CHUNK_TOKENS);
    return rows * (sizeof(row_scratch) + chunks * (sizeof(lh_lead) + sizeof(float)));
}

template <cut_measure MEASURE>
static int find_cut(lh_cuda_stream stream, dim3 grid, const draw_arguments &a) {
    int error = 0;
    for (uint32_t shift = VALUE_BITS + a.token_bits; shift > 0 && error == 0;) {
        shift -= DIGIT_BITS;
        error = lh_launch(cut_digit<MEASURE>, grid, DRAW_THREADS, stream, a, shift);
    }
    return error;
}

int lh_cuda_draw(lh_cuda_stream stream, uint32_t *tokens, const float *logits, size_t stride,
                 uint32_t rows, uint32_t count, const lh_cuda_draw_row *draws, lh_cuda_cuts cuts,
                 void *scratch) {
    if (rows == 0)
        return 0;
    const uint32_t chunks = lh_blocks_for(count, CHUNK_TOKENS);
    row_scratch *of_rows = (row_scratch *)scratch;
    lh_lead *leads = (lh_lead *)(of_rows + rows);
    const uint32_t token_bits = count <= 1u << 2 * DIGIT_BITS ? 2 * DIGIT_BITS : 3 * DIGIT_BITS;
    float *maxima = (float *)(leads + (size_t)rows * chunks);
    const draw_arguments a = {tokens,     logits, stride,  rows,   count, chunks,
                              token_bits, draws,  of_rows, maxima, leads};
    const dim3 grid(chunks, lh_grid_rows(rows));
    int error = lh_launch(find_maxima, grid, DRAW_THREADS, stream, a);
    if (error == 0 && cuts.top_k)
        error = find_cut<CUT_BY_COUNT>(stream, grid, a);
    if (error == 0 && cuts.top_p)
        error = find_cut<CUT_BY_MASS>(stream, grid, a);
    if (error == 0)
        error = lh_launch(find_leads, grid, DRAW_THREADS, stream, a);
    if (error != 0)
        return error;
    return lh_launch(find_tokens, lh_blocks_for(rows, LH_BLOCK_THREADS / 32), LH_BLOCK_THREADS,
                     stream, a);
}
