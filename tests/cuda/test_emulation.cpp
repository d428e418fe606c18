/* The emulation itself: what threads do together, and that it finds what it is there to find. */
#include "kernels/cuda/instructions.cuh"

#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

const uint32_t THREADS = 96;

struct line {
    uint32_t words[THREADS];
};

/* y[t] = x[THREADS - 1 - t], through shared memory. */
void turn_over(uint32_t *y, const uint32_t *x, bool waits) {
    lh_begin();
    LH_SHARED(line, shared);
    shared.words[threadIdx.x] = x[threadIdx.x];
    if (waits)
        __syncthreads();
    y[threadIdx.x] = shared.words[THREADS - 1 - threadIdx.x];
}

std::vector<uint32_t> turned_over(uint64_t seed, bool waits) {
    std::vector<uint32_t> x(THREADS), y(THREADS);
    for (uint32_t t = 0; t < THREADS; t++)
        x[t] = 7 * t;
    emulation::set_seed(seed);
    lh_launch(turn_over, 1, THREADS, nullptr, y.data(), (const uint32_t *)x.data(), waits);
    return y;
}

void test_threads_wait_at_a_barrier(void **) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        const std::vector<uint32_t> y = turned_over(seed, true);
        for (uint32_t t = 0; t < THREADS; t++)
            assert_int_equal(y[t], 7 * (THREADS - 1 - t));
    }
}

/* Shared memory begins as NaN, so who reads too early reads that. */
void test_a_missing_barrier_shows(void **) {
    std::set<std::vector<uint32_t>> results;
    for (uint64_t seed = 0; seed < 10; seed++)
        results.insert(turned_over(seed, false));
    assert_true(results.size() > 1);
    for (const std::vector<uint32_t> &y : results)
        assert_true(std::set<uint32_t>(y.begin(), y.end()).count(~0u));
}

/* Each block counts itself, and notes when it ran. */
void note_block(uint32_t *order, uint32_t *count) {
    lh_begin();
    if (threadIdx.x == 0)
        order[(*count)++] = blockIdx.z * 6 + blockIdx.y * 3 + blockIdx.x;
}

void test_blocks_run_once_in_any_order(void **) {
    std::set<std::vector<uint32_t>> orders;
    for (uint64_t seed = 0; seed < 10; seed++) {
        std::vector<uint32_t> order(12);
        uint32_t count = 0;
        emulation::set_seed(seed);
        lh_launch(note_block, dim3(3, 2, 2), 32, nullptr, order.data(), &count);
        assert_int_equal(count, 12);
        assert_int_equal(std::set<uint32_t>(order.begin(), order.end()).size(), 12);
        orders.insert(order);
    }
    assert_true(orders.size() > 5);
}

void exchange_words(uint32_t *y) {
    lh_begin();
    const uint32_t lane = threadIdx.x % 32;
    y[threadIdx.x] =
        __shfl_xor_sync(~0u, threadIdx.x, 5) << 16 | __shfl_sync(~0u, threadIdx.x, (int)(lane + 1));
    __syncwarp();
    if (__ballot_sync(~0u, lane % 3 == 0) != 0x49249249u || !__any_sync(~0u, lane == 31) ||
        __all_sync(~0u, lane < 31))
        y[threadIdx.x] = 0;
}

void test_threads_of_a_warp_exchange_words(void **) {
    std::vector<uint32_t> y(64);
    lh_launch(exchange_words, 1, 64, nullptr, y.data());
    for (uint32_t t = 0; t < 64; t++)
        assert_int_equal(y[t], (t ^ 5) << 16 | (t & 32) | ((t + 1) & 31));
}

/* d = a b as the fragments say, from whole matrices. */
void multiply(int32_t *d, const int8_t *a, const int8_t *b) {
    lh_begin();
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t fragment[4], column[2];
    int32_t result[4], halves[2][4];
    for (uint32_t i = 0; i < 4; i++)
        memcpy(&fragment[i], a + (g + 8 * (i % 2)) * 32 + 4 * t + 16 * (i / 2), 4);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(&column[i], b + g * 32 + 4 * t + 16 * i, 4);
    lh_multiply_block(result, fragment, column);
    lh_multiply_half(halves[0], fragment, column[0]);
    lh_multiply_half(halves[1], fragment + 2, column[1]);
    for (uint32_t i = 0; i < 4; i++) {
        emulation::check(result[i] == halves[0][i] + halves[1][i], "halves make the whole");
        d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = result[i];
    }
}

void test_tiles_are_multiplied(void **) {
    std::vector<int8_t> a(16 * 32), b(8 * 32);
    std::vector<int32_t> d(16 * 8);
    for (size_t i = 0; i < a.size(); i++)
        a[i] = (int8_t)(i * 37 + i / 5);
    for (size_t i = 0; i < b.size(); i++)
        b[i] = (int8_t)(i * 91 + 11);
    lh_launch(multiply, 1, 32, nullptr, d.data(), (const int8_t *)a.data(),
              (const int8_t *)b.data());
    for (uint32_t o = 0; o < 16; o++)
        for (uint32_t r = 0; r < 8; r++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < 32; k++)
                sum += a[o * 32 + k] * b[r * 32 + k];
            assert_int_equal(d[o * 8 + r], sum);
        }
}

void test_instructions(void **) {
    assert_int_equal(__dp4a((int)0x80ff017f, (int)0x807f02ff, 5), 5 + 128 * 128 - 127 + 2 - 127);
    assert_int_equal(__byte_perm(0x33221100, 0x776655f4, 0x4710), 0xf4771100);
    assert_int_equal(__byte_perm(0x33221180, 0, 0x8901), 0xff008011);
    assert_int_equal(__float2int_rn(2.5f), 2);
    assert_int_equal(__float2int_rn(-3.5f), -4);
}

void some_wait() {
    lh_begin();
    if (threadIdx.x != 5)
        __syncthreads();
}

void a_warp_parts() {
    lh_begin();
    if (threadIdx.x % 32 < 16)
        __shfl_sync(~0u, 1, 0);
    else
        __ballot_sync(~0u, 1);
}

void a_part_of_a_warp() {
    lh_begin();
    if (threadIdx.x % 32 < 16)
        __shfl_sync(0xffffu, 1, 0);
}

void a_thread_waits_for_no_grid() {
    if (threadIdx.x != 5)
        lh_await_grids_before();
}

bool aborts(void (*kernel)()) {
    const pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        lh_launch(kernel, 1, 64, nullptr);
        _exit(0);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

void test_threads_that_part_are_found(void **) {
    assert_true(aborts(some_wait));
    assert_true(aborts(a_warp_parts));
    assert_true(aborts(a_part_of_a_warp));
    assert_true(aborts(a_thread_waits_for_no_grid));
}

/* x[block] += weights[block], which are read ahead. With `hurries` x is, too. */
void add_weights(uint32_t *x, const uint32_t *weights, bool hurries) {
    const uint32_t i = blockIdx.x;
    const uint32_t early = hurries ? x[i] : 0, weight = weights[i];
    lh_let_next_begin();
    lh_await_grids_before();
    if (threadIdx.x == 0)
        x[i] = (hurries ? early : x[i]) + weight;
}

/* Grids of a stream, and then the same as a graph: what they make of x. */
std::vector<uint32_t> added(bool hurries) {
    const uint32_t BLOCKS = 4, GRIDS = 6;
    std::vector<uint32_t> x(BLOCKS), weights = {1, 20, 300, 4000};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (turn == 1)
            cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        for (uint32_t i = 0; i < GRIDS; i++)
            lh_launch(add_weights, BLOCKS, 32, stream, x.data(), (const uint32_t *)weights.data(),
                      hurries);
    }
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, stream);
    cudaGraphLaunch(exec, stream);
    cudaStreamDestroy(stream);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return x;
}

void test_grids_begin_early(void **) {
    const uint64_t before = emulation::early_blocks();
    for (uint32_t i = 0; i < 20; i++)
        assert_true(added(false) == std::vector<uint32_t>({18, 360, 5400, 72000}));
    assert_true(emulation::early_blocks() > before + 20);
}

void test_who_reads_too_early_is_found(void **) {
    std::set<std::vector<uint32_t>> results;
    for (uint32_t i = 0; i < 20; i++)
        results.insert(added(true));
    assert_true(results.size() > 1);
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_wait_at_a_barrier),
        cmocka_unit_test(test_a_missing_barrier_shows),
        cmocka_unit_test(test_blocks_run_once_in_any_order),
        cmocka_unit_test(test_threads_of_a_warp_exchange_words),
        cmocka_unit_test(test_tiles_are_multiplied),
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_threads_that_part_are_found),
        cmocka_unit_test(test_grids_begin_early),
        cmocka_unit_test(test_who_reads_too_early_is_found),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
