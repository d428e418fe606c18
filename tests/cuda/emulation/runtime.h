/* As much of the CUDA runtime as kernels/cuda/plugin.cu uses, on a machine without a GPU.
 *
 * A stream is a queue. What is asked of one waits there until somebody waits for it; meanwhile the
 * queues go on in turns of chance, each in its own order and no further than an event it waits for;
 * but a grid begins early, now and then, behind others.
 * So a copy that should have waited for a kernel, or a host that should have waited for a copy, is
 * found: the bytes are those of before. The default stream carries out at once what it is asked.
 * Stricter than the runtime: a stream copies only between memory of the device and pinned memory,
 * within their bounds; what is used after it was freed, or freed while a stream has yet to use it,
 * aborts. Memory of the device holds 0xff at first. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum { cudaMemcpyDefault = 4, cudaStreamNonBlocking = 1 };
enum { cudaStreamCaptureModeThreadLocal = 1 };
enum { cudaEventDisableTiming = 2 };

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
};

namespace emulation {

/* Carries out now (the default stream) or when the stream comes to it. */
void enqueue(cudaStream_t stream, std::function<void()> work);
/* A grid: where only grids are before it in its stream, some of its blocks may begin early. */
void launch(cudaStream_t stream, dim3 blocks, dim3 threads, std::function<void()> kernel);

/* Whether all of these bytes are of one allocation. */
bool is_allocated(const void *memory, size_t bytes);

} // namespace emulation

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride,
                              size_t bytes, size_t rows, int kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
