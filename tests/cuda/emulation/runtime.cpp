/* Queues, events and memory of runtime.h. One lock over all: threads of the host may each have
 * their streams, and one kernel is emulated at a time. */
#include "tests/cuda/emulation/runtime.h"

#include "tests/cuda/emulation/grid.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

struct CUevent_st {
    uint64_t recorded = 0, passed = 0; /* how often it was put behind a stream, and was come to */
};

namespace {

struct work {
    std::function<void()> run;
    std::shared_ptr<emulation::grid> grid; /* that runs; NULL: something else does */
    cudaEvent_t event;                     /* that it waits for; NULL: none */
    uint64_t generation;                   /* of the event */
};

/* Makes a piece of work, each time that a graph is launched. */
typedef std::function<work()> recorded;

} // namespace

struct CUstream_st {
    std::deque<work> queue;
    CUgraph_st *recording = nullptr;
};

/* What was recorded, in its order. */
struct CUgraph_st {
    std::vector<recorded> list;
};
struct CUgraphExec_st {
    std::vector<recorded> list;
};

namespace {

std::recursive_mutex the_lock;
typedef std::lock_guard<std::recursive_mutex> guard;
std::vector<cudaStream_t> streams;

struct block {
    size_t bytes;
    bool is_device;
};
std::map<const char *, block> blocks;
/* LONGHAUL_EMULATED_BYTES: less, for tests of what happens when it is short. */
size_t device_bytes() {
    const char *bytes = getenv("LONGHAUL_EMULATED_BYTES");
    return bytes ? strtoull(bytes, nullptr, 10) : size_t{4} << 30;
}
size_t used_bytes = 0;
size_t free_device_bytes() {
    return device_bytes() > used_bytes ? device_bytes() - used_bytes : 0;
}

uint64_t random_state = 7;
size_t random_below(size_t count) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(random_state >> 33) % count;
}

[[noreturn]] void die(const char *what) {
    fprintf(stderr, "emulated runtime: %s\n", what);
    abort();
}

bool can_run(cudaStream_t stream) {
    if (stream->queue.empty())
        return false;
    const work &next = stream->queue.front();
    return !next.event || next.event->passed >= next.generation;
}

/* Now and then a block of a grid that has only grids before it. */
void begin_early(cudaStream_t stream) {
    if (random_below(4) > 0)
        return;
    size_t grids = 0;
    while (grids < stream->queue.size() && stream->queue[grids].grid)
        grids++;
    if (grids > 1)
        stream->queue[1 + random_below(grids - 1)].grid->begin_block();
}

/* Some stream goes on by one piece of work. */
void advance() {
    std::vector<cudaStream_t> able;
    std::copy_if(streams.begin(), streams.end(), std::back_inserter(able), can_run);
    if (able.empty())
        die("every stream waits for an event that none will come to");
    cudaStream_t stream = able[random_below(able.size())];
    begin_early(stream);
    const work next = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (next.run)
        next.run();
}

/* The allocation that holds [address, address + bytes). */
const block *find_block(const void *address, size_t bytes) {
    const char *begin = static_cast<const char *>(address);
    auto after = blocks.upper_bound(begin);
    if (after == blocks.begin())
        return nullptr;
    auto found = std::prev(after);
    return begin + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

cudaError_t allocate(void **memory, size_t bytes, bool is_device) {
    const guard locked(the_lock);
    if (std::any_of(streams.begin(), streams.end(),
                    [](cudaStream_t stream) { return stream->recording != nullptr; }))
        die("memory is allocated while a stream is recorded");
    if (is_device && bytes > free_device_bytes())
        return cudaErrorMemoryAllocation;
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*memory)
        return cudaErrorMemoryAllocation;
    memset(*memory, 0xff, bytes);
    blocks[static_cast<char *>(*memory)] = {bytes, is_device};
    used_bytes += is_device ? bytes : 0;
    return cudaSuccess;
}

cudaError_t release(void *memory) {
    const guard locked(the_lock);
    if (!memory)
        return cudaSuccess;
    auto found = blocks.find(static_cast<char *>(memory));
    if (found == blocks.end())
        die("memory is freed that was not allocated");
    while (std::any_of(streams.begin(), streams.end(),
                       [](cudaStream_t stream) { return !stream->queue.empty(); }))
        advance(); /* as cudaFree does */
    used_bytes -= found->second.is_device ? found->second.bytes : 0;
    blocks.erase(found);
    free(memory);
    return cudaSuccess;
}

void copy_rows(char *to, size_t to_stride, const char *from, size_t from_stride, size_t bytes,
               size_t rows) {
    if (!find_block(to, (rows - 1) * to_stride + bytes) ||
        !find_block(from, (rows - 1) * from_stride + bytes))
        die("a copy reaches beyond memory that was allocated for it");
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * to_stride, from + row * from_stride, bytes);
}

} // namespace

namespace emulation {

static void put(cudaStream_t stream, const recorded &make) {
    const guard locked(the_lock);
    if (stream && stream->recording)
        stream->recording->list.push_back(make);
    else if (stream)
        stream->queue.push_back(make());
    else
        make().run();
}

void enqueue(cudaStream_t stream, std::function<void()> run) {
    put(stream, [=] { return work{run, nullptr, nullptr, 0}; });
}

void launch(cudaStream_t stream, dim3 blocks, dim3 threads, std::function<void()> kernel) {
    put(stream, [=] {
        const std::shared_ptr<grid> launched = std::make_shared<grid>(blocks, threads, kernel);
        return work{[=] { launched->run(); }, launched, nullptr, 0};
    });
}

bool is_allocated(const void *memory, size_t bytes) {
    const guard locked(the_lock);
    return find_block(memory, bytes) != nullptr;
}

} // namespace emulation

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "emulated GPU");
    properties->major = 9;
    properties->multiProcessorCount = 2;
    properties->totalGlobalMem = device_bytes();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetLastError() {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "invalid argument";
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const guard locked(the_lock);
    *free_bytes = free_device_bytes();
    *total_bytes = device_bytes();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return allocate(memory, bytes, true);
}
cudaError_t cudaFree(void *memory) {
    return release(memory);
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    return allocate(memory, bytes, false);
}
cudaError_t cudaFreeHost(void *memory) {
    return release(memory);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -1;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
    const guard locked(the_lock);
    *stream = new CUstream_st;
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const guard locked(the_lock);
    cudaStreamSynchronize(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const guard locked(the_lock);
    if (stream && stream->recording)
        die("a stream is waited for while it is recorded");
    while (stream && !stream->queue.empty())
        advance();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    const guard locked(the_lock);
    stream->queue.push_back({nullptr, nullptr, event, event->recorded});
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int) {
    const guard locked(the_lock);
    if (stream->recording)
        die("a recording within another");
    stream->recording = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const guard locked(the_lock);
    if (!stream->recording)
        die("the end of a recording that has not begun");
    *graph = stream->recording;
    stream->recording = nullptr;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    *exec = new CUgraphExec_st{graph->list};
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    const guard locked(the_lock);
    for (const recorded &make : exec->list)
        stream->queue.push_back(make());
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new CUevent_st;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const guard locked(the_lock);
    while (event->passed < event->recorded)
        advance();
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const guard locked(the_lock);
    const uint64_t generation = ++event->recorded;
    emulation::enqueue(stream, [=] { event->passed = std::max(event->passed, generation); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const guard locked(the_lock);
    while (event->passed < event->recorded)
        advance();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                            cudaStream_t stream) {
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride,
                              size_t bytes, size_t rows, int, cudaStream_t stream) {
    if (to_stride < bytes || from_stride < bytes)
        return cudaErrorInvalidValue;
    if (bytes > 0 && rows > 0)
        emulation::enqueue(stream, [=] {
            copy_rows(static_cast<char *>(to), to_stride, static_cast<const char *>(from),
                      from_stride, bytes, rows);
        });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    emulation::enqueue(stream, [=] {
        if (!find_block(to, bytes))
            die("memory is cleared beyond what was allocated");
        memset(to, byte, bytes);
    });
    return cudaSuccess;
}
