/* Runs a grid block by block, the threads of a block in turns (cuda.h). */
#include "tests/cuda/emulation/grid.h"

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
    block *of;
    emulation::place place;
    bool has_waited; /* for the grids before */
};

struct warp {
    warp_words words;
    warp_operation *operation;
    std::vector<uint32_t> waiting; /* threads that have come, by their numbers */
};

const uint32_t BLOCK_THREADS_MAX = 1024;
/* Each has a stack for each of its threads. */
const uint32_t EARLY_BLOCKS_MAX = 3;

block *running;
uint64_t grid_count, early_count;
uint32_t early_now; /* blocks that have begun and wait for grids */

} // namespace

/* A block of a grid. */
class block {
  public:
    /* To the end, or until all its threads wait for the grids before. */
    void begin(const place &place, const std::function<void()> &kernel, bool grids_have_run);
    /* They have run by now. */
    void finish();
    void wait_at_barrier();
    void wait_for_grids_before();
    void run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                     uint32_t *taken, uint32_t taken_count);
    void *shared_memory(const void *key, size_t bytes);
    const place &here() const {
        return threads_[running_].place;
    }

  private:
    static void run_threads(void *self);
    void resume();
    void next();
    void end_thread();

    thread threads_[BLOCK_THREADS_MAX];
    warp warps_[BLOCK_THREADS_MAX / WARP_THREADS];
    fiber host_;
    uint32_t count_ = 0, running_ = 0, left_ = 0;
    std::vector<uint32_t> ready_, at_barrier_, behind_grids_;
    bool grids_have_run_ = false;
    const std::function<void()> *kernel_ = nullptr;
    std::map<const void *, std::unique_ptr<char[]>> shared_;
};

namespace {
std::vector<std::unique_ptr<block>> idle; /* with their fibers, to be used again */
} // namespace

void check(bool holds, const char *what) {
    if (!holds) {
        const place &at = here();
        fprintf(stderr, "emulated kernel: %s (block %u %u %u, thread %u)\n", what, at.block.x,
                at.block.y, at.block.z, at.thread.x);
        abort();
    }
}

/* A fiber serves one number of a thread for all blocks that this one is in its time. */
void block::run_threads(void *self) {
    const thread &mine = *static_cast<thread *>(self);
    for (;;) {
        (*mine.of->kernel_)();
        check(&mine.of->threads_[mine.of->running_] == &mine, "a thread ended as another one");
        check(mine.has_waited, "a thread ended that had not waited for the grids before its own");
        mine.of->end_thread();
    }
}

/* Another thread that can go on, chosen at random; the host where all have ended, or wait for the
 * grids before. */
void block::next() {
    fiber *from = threads_[running_].stack.get();
    if (ready_.empty()) {
        check(left_ == behind_grids_.size(),
              !at_barrier_.empty() ? "a thread ended, or waits for its warp or for the grids "
                                     "before, while others wait at a barrier"
                                   : "a thread ended, or waits for the grids before, while its "
                                     "warp waits for it");
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

void block::wait_for_grids_before() {
    threads_[running_].has_waited = true;
    if (grids_have_run_)
        return;
    behind_grids_.push_back(running_);
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

void block::begin(const place &place, const std::function<void()> &kernel, bool grids_have_run) {
    count_ = left_ = place.block_dim.x;
    kernel_ = &kernel;
    shared_.clear();
    grids_have_run_ = grids_have_run;
    for (uint32_t t = 0; t < count_; t++) {
        thread &thread = threads_[t];
        if (!thread.stack)
            thread.stack.reset(new fiber(run_threads, &thread));
        thread.of = this;
        thread.has_waited = false;
        thread.place = place;
        thread.place.thread = dim3(t, 0, 0);
        ready_.push_back(t);
    }
    resume();
}

void block::finish() {
    grids_have_run_ = true;
    ready_.swap(behind_grids_);
    resume();
}

/* The threads that are ready, and those that these wake. */
void block::resume() {
    running = this;
    const uint32_t chosen = random_below(ready_.size());
    running_ = ready_[chosen];
    ready_[chosen] = ready_.back();
    ready_.pop_back();
    fiber::hand_over(&host_, threads_[running_].stack.get());
    running = nullptr;
}

const place &here() {
    return running->here();
}

void set_seed(uint64_t seed) {
    random_state = seed;
}

grid::grid(dim3 blocks, dim3 threads, std::function<void()> kernel)
    : blocks_(blocks), threads_(threads), kernel_(std::move(kernel)) {
    if (threads.x == 0 || threads.x % WARP_THREADS != 0 || threads.x > BLOCK_THREADS_MAX ||
        threads.y != 1 || threads.z != 1 || blocks.x == 0 || blocks.y == 0 || blocks.z == 0 ||
        blocks.y > 65535 || blocks.z > 65535) {
        fprintf(stderr, "emulated launch: %u x %u x %u blocks of %u x %u x %u threads\n", blocks.x,
                blocks.y, blocks.z, threads.x, threads.y, threads.z);
        abort();
    }
}

grid::~grid() = default;

void grid::list_blocks() {
    for (uint32_t z = 0; z < blocks_.z; z++)
        for (uint32_t y = 0; y < blocks_.y; y++)
            for (uint32_t x = 0; x < blocks_.x; x++)
                left_.emplace_back(x, y, z);
    is_listed_ = true;
}

std::unique_ptr<block> grid::begin(bool grids_have_run) {
    if (idle.empty())
        idle.emplace_back(new block);
    std::unique_ptr<block> begun = std::move(idle.back());
    idle.pop_back();
    std::swap(left_[random_below(left_.size())], left_.back());
    begun->begin({dim3(0, 0, 0), left_.back(), threads_, blocks_}, kernel_, grids_have_run);
    left_.pop_back();
    return begun;
}

void grid::begin_block() {
    if (!is_listed_)
        list_blocks();
    if (left_.empty() || early_now == EARLY_BLOCKS_MAX)
        return;
    begun_.push_back(begin(false));
    early_now++;
    early_count++;
}

void grid::run() {
    grid_count++;
    if (!is_listed_)
        list_blocks();
    while (!left_.empty() || !begun_.empty()) {
        if (random_below(left_.size() + begun_.size()) < left_.size()) {
            idle.push_back(begin(true));
            continue;
        }
        begun_.back()->finish();
        idle.push_back(std::move(begun_.back()));
        begun_.pop_back();
        early_now--;
    }
}

uint64_t grids() {
    return grid_count;
}

uint64_t early_blocks() {
    return early_count;
}

void wait_for_block() {
    running->wait_at_barrier();
}

void wait_for_grids_before() {
    running->wait_for_grids_before();
}

void run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                 uint32_t *taken, uint32_t taken_count) {
    running->run_in_warp(combine, given, given_count, taken, taken_count);
}

void *shared_memory(const void *key, size_t bytes) {
    return running->shared_memory(key, bytes);
}

} // namespace emulation
