/* Runs a grid block by block, the threads of a block in turns (cuda.h). */
#include "tests/cuda/emulation/cuda.h"
#include "tests/cuda/emulation/fiber.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

namespace emulation {

namespace {

/* splitmix64. */
uint64_t random_state = 1;
uint32_t random_below(size_t count) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>((z ^ z >> 31) % count);
}

struct thread {
    std::unique_ptr<fiber> stack;
    emulation::place place;
};

struct warp {
    warp_words words;
    warp_operation *operation;
    std::vector<uint32_t> waiting; /* threads that have come, by their numbers */
};

const uint32_t BLOCK_THREADS_MAX = 1024;

/* The block that runs. */
class block {
  public:
    void run(const place &place, const std::function<void()> &kernel);
    void wait_at_barrier();
    void run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                     uint32_t *taken, uint32_t taken_count);
    void *shared_memory(const void *key, size_t bytes);
    const place &here() const {
        return threads_[running_].place;
    }

  private:
    static void run_threads(void *number);
    void next();
    void end_thread();

    thread threads_[BLOCK_THREADS_MAX];
    warp warps_[BLOCK_THREADS_MAX / WARP_THREADS];
    fiber host_;
    uint32_t count_ = 0, running_ = 0, left_ = 0;
    std::vector<uint32_t> ready_, at_barrier_;
    const std::function<void()> *kernel_ = nullptr;
    std::map<const void *, std::unique_ptr<char[]>> shared_;
};

block the_block;
bool is_running;

} // namespace

void check(bool holds, const char *what) {
    if (!holds) {
        const place &at = here();
        fprintf(stderr, "emulated kernel: %s (block %u %u %u, thread %u)\n", what, at.block.x,
                at.block.y, at.block.z, at.thread.x);
        abort();
    }
}

/* A fiber serves one number of a thread for all blocks to come. */
void block::run_threads(void *number) {
    const uint32_t self = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(number));
    for (;;) {
        (*the_block.kernel_)();
        check(the_block.running_ == self, "a thread ended as another one");
        the_block.end_thread();
    }
}

/* Another thread that can go on, chosen at random; the host where all have ended. */
void block::next() {
    fiber *from = threads_[running_].stack.get();
    if (ready_.empty()) {
        check(left_ == 0, !at_barrier_.empty() ? "a thread ended, or waits for its warp, while "
                                                 "others wait at a barrier"
                                               : "a thread ended while its warp waits for it");
        fiber::hand_over(from, &host_);
        return;
    }
    const uint32_t chosen = random_below(ready_.size());
    const uint32_t was = running_;
    running_ = ready_[chosen];
    ready_[chosen] = ready_.back();
    ready_.pop_back();
    if (running_ != was)
        fiber::hand_over(from, threads_[running_].stack.get());
}

void block::end_thread() {
    left_--;
    next();
}

void block::wait_at_barrier() {
    at_barrier_.push_back(running_);
    if (at_barrier_.size() == count_) {
        ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
        at_barrier_.clear();
    }
    next();
}

void block::run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                        uint32_t *taken, uint32_t taken_count) {
    const uint32_t self = running_, lane = self % WARP_THREADS;
    warp &mine = warps_[self / WARP_THREADS];
    check(mine.waiting.empty() || mine.operation == combine,
          "threads of one warp are at different operations");
    mine.operation = combine;
    memcpy(mine.words.given[lane], given, given_count * sizeof *given);
    mine.waiting.push_back(self);
    if (mine.waiting.size() == WARP_THREADS) {
        combine(&mine.words);
        ready_.insert(ready_.end(), mine.waiting.begin(), mine.waiting.end());
        mine.waiting.clear();
    }
    next();
    memcpy(taken, mine.words.taken[lane], taken_count * sizeof *taken);
}

void *block::shared_memory(const void *key, size_t bytes) {
    std::unique_ptr<char[]> &memory = shared_[key];
    if (!memory) {
        memory.reset(new char[bytes]);
        memset(memory.get(), 0xff, bytes);
    }
    return memory.get();
}

void block::run(const place &place, const std::function<void()> &kernel) {
    count_ = left_ = place.block_dim.x;
    kernel_ = &kernel;
    shared_.clear();
    for (uint32_t t = 0; t < count_; t++) {
        if (!threads_[t].stack)
            threads_[t].stack.reset(new fiber(run_threads, reinterpret_cast<void *>(uintptr_t{t})));
        threads_[t].place = place;
        threads_[t].place.thread = dim3(t, 0, 0);
        ready_.push_back(t);
    }
    const uint32_t chosen = random_below(count_);
    running_ = ready_[chosen];
    ready_[chosen] = ready_.back();
    ready_.pop_back();
    fiber::hand_over(&host_, threads_[running_].stack.get());
}

const place &here() {
    return the_block.here();
}

void set_seed(uint64_t seed) {
    random_state = seed;
}

void run_grid(dim3 grid, dim3 block, const std::function<void()> &kernel) {
    if (is_running || block.x == 0 || block.x % WARP_THREADS != 0 || block.x > BLOCK_THREADS_MAX ||
        block.y != 1 || block.z != 1 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
        grid.y > 65535 || grid.z > 65535) {
        fprintf(stderr, "emulated launch: %u x %u x %u blocks of %u x %u x %u threads%s\n", grid.x,
                grid.y, grid.z, block.x, block.y, block.z, is_running ? " within another" : "");
        abort();
    }
    is_running = true;
    std::vector<dim3> blocks;
    for (uint32_t z = 0; z < grid.z; z++)
        for (uint32_t y = 0; y < grid.y; y++)
            for (uint32_t x = 0; x < grid.x; x++)
                blocks.emplace_back(x, y, z);
    for (; !blocks.empty(); blocks.pop_back()) {
        std::swap(blocks[random_below(blocks.size())], blocks.back());
        the_block.run({dim3(0, 0, 0), blocks.back(), block, grid}, kernel);
    }
    is_running = false;
}

void wait_for_block() {
    the_block.wait_at_barrier();
}

void run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                 uint32_t *taken, uint32_t taken_count) {
    the_block.run_in_warp(combine, given, given_count, taken, taken_count);
}

void *shared_memory(const void *key, size_t bytes) {
    return the_block.shared_memory(key, bytes);
}

} // namespace emulation
