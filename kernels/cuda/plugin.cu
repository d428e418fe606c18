/* The table of plugin.h: the runtime's own functions under the names that the program uses. */
#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/cuda/plugin.h"
}

#include <cstdio>

namespace {

int count_devices(int *count) {
    return (int)cudaGetDeviceCount(count);
}

int describe(int device, lh_cuda_facts *facts) {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess)
        return (int)error;
    *facts = {};
    snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, properties.name);
    facts->major = (uint32_t)properties.major;
    facts->minor = (uint32_t)properties.minor;
    facts->multiprocessors = (uint32_t)properties.multiProcessorCount;
    facts->memory_bytes = properties.totalGlobalMem;
    return 0;
}

int use(int device) {
    return (int)cudaSetDevice(device);
}

/* Of a cublasStatus_t. */
const char *blas_error_text(int status) {
    switch (status) {
    case 1:
        return "cuBLAS does not start";
    case 3:
        return "cuBLAS is out of memory";
    case 7:
        return "cuBLAS refuses an argument";
    case 8:
    case 15:
        return "cuBLAS has no such product for this GPU";
    default:
        return "cuBLAS has failed";
    }
}

const char *error_text(int error) {
    if (error > LH_CUDA_BLAS_ERRORS)
        return blas_error_text(error - LH_CUDA_BLAS_ERRORS);
    return error == LH_CUDA_NO_BLAS ? "there is no cuBLAS" : cudaGetErrorString((cudaError_t)error);
}

int memory_info(size_t *free_bytes, size_t *total_bytes) {
    return (int)cudaMemGetInfo(free_bytes, total_bytes);
}

/* An error of an allocation is told once, and is none of the calls behind it. */
int allocate(void **memory, size_t bytes) {
    const cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaErrorMemoryAllocation)
        (void)cudaGetLastError();
    return (int)error;
}

int release(void *memory) {
    return (int)cudaFree(memory);
}

int allocate_host(void **memory, size_t bytes) {
    const cudaError_t error = cudaMallocHost(memory, bytes);
    if (error == cudaErrorMemoryAllocation)
        (void)cudaGetLastError();
    return (int)error;
}

int release_host(void *memory) {
    return (int)cudaFreeHost(memory);
}

int create_stream(lh_cuda_stream *stream, bool is_urgent) {
    int least, greatest;
    const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error != cudaSuccess)
        return (int)error;
    return (int)cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking,
                                             is_urgent ? greatest : least);
}

int destroy_stream(lh_cuda_stream stream) {
    return (int)cudaStreamDestroy(stream);
}

int finish_stream(lh_cuda_stream stream) {
    return (int)cudaStreamSynchronize(stream);
}

int create_event(lh_cuda_event *event) {
    return (int)cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

int destroy_event(lh_cuda_event event) {
    return (int)cudaEventDestroy(event);
}

int record(lh_cuda_event event, lh_cuda_stream stream) {
    return (int)cudaEventRecord(event, stream);
}

int wait_for(lh_cuda_stream stream, lh_cuda_event event) {
    return (int)cudaStreamWaitEvent(stream, event, 0);
}

int finish_event(lh_cuda_event event) {
    return (int)cudaEventSynchronize(event);
}

int copy(lh_cuda_stream stream, void *to, size_t to_stride, const void *from, size_t from_stride,
         size_t bytes, size_t rows) {
    if (rows == 1 || (bytes == to_stride && bytes == from_stride))
        return (int)cudaMemcpyAsync(to, from, bytes * rows, cudaMemcpyDefault, stream);
    return (int)cudaMemcpy2DAsync(to, to_stride, from, from_stride, bytes, rows, cudaMemcpyDefault,
                                  stream);
}

int clear(lh_cuda_stream stream, void *to, size_t bytes) {
    return (int)cudaMemsetAsync(to, 0, bytes, stream);
}

int begin_recording(lh_cuda_stream stream) {
    return (int)cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

int end_recording(lh_cuda_stream stream, lh_cuda_graph *graph) {
    cudaGraph_t recorded = nullptr;
    cudaError_t error = cudaStreamEndCapture(stream, &recorded);
    if (error != cudaSuccess)
        return (int)error;
    error = cudaGraphInstantiate(graph, recorded, 0);
    const cudaError_t destroyed = cudaGraphDestroy(recorded);
    return (int)(error != cudaSuccess ? error : destroyed);
}

int replay(lh_cuda_graph graph, lh_cuda_stream stream) {
    return (int)cudaGraphLaunch(graph, stream);
}

int destroy_graph(lh_cuda_graph graph) {
    return (int)cudaGraphExecDestroy(graph);
}

#define X(name) lh_cuda_##name,
const lh_cuda_plugin plugin = {LH_CUDA_PLUGIN_VERSION,
                               count_devices,
                               describe,
                               use,
                               error_text,
                               memory_info,
                               allocate,
                               release,
                               allocate_host,
                               release_host,
                               create_stream,
                               destroy_stream,
                               finish_stream,
                               create_event,
                               destroy_event,
                               record,
                               wait_for,
                               finish_event,
                               copy,
                               clear,
                               begin_recording,
                               end_recording,
                               replay,
                               destroy_graph,
                               LH_CUDA_KERNELS(X)};
#undef X

} // namespace

extern "C" __attribute__((visibility("default"))) const lh_cuda_plugin *lh_cuda_plugin_open(void) {
    return &plugin;
}
