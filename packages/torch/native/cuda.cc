// CUDA beyond tensors: graphs, streams, events, memory. Without CUDA in the build only `hasCuda` is left, and src/cuda.ts says so.
#include "waiting.h"

#ifdef VERLET_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/profiler/stubs/base.h>
#endif

namespace door {

#ifdef VERLET_CUDA
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

double numberAt(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::Number>().DoubleValue(); }
bool flagAt(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::Boolean>().Value(); }

// Device -1 is the current one.
c10::DeviceIndex deviceAt(const Napi::CallbackInfo& info, size_t index) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  auto device = static_cast<int>(numberAt(info, index));
  if (device >= c10::cuda::device_count()) throw std::runtime_error("there is no device cuda:" + std::to_string(device));
  return device < 0 ? c10::cuda::current_device() : static_cast<c10::DeviceIndex>(device);
}

// --- Devices and memory -------------------------------------------------------------------------------------------

Napi::Value setDevice(const Napi::CallbackInfo& info) {
  auto before = c10::cuda::current_device();
  c10::cuda::set_device(deviceAt(info, 0));
  return Napi::Number::New(info.Env(), before);
}

Napi::Value properties(const Napi::CallbackInfo& info) {
  cudaDeviceProp found;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&found, deviceAt(info, 0)));
  auto result = Napi::Object::New(info.Env());
  result["name"] = std::string(found.name);
  result["multiprocessors"] = found.multiProcessorCount;
  result["totalMemory"] = static_cast<double>(found.totalGlobalMem);
  result["capability"] = std::to_string(found.major) + "." + std::to_string(found.minor);
  result["l2CacheBytes"] = found.l2CacheSize;
  return result;
}

Napi::Value memoryStats(const Napi::CallbackInfo& info) {
  auto device = deviceAt(info, 0);
  auto stats = allocator::getDeviceStats(device);
  constexpr auto all = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
  size_t free = 0, total = 0;
  {
    c10::cuda::CUDAGuard guard(device);
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  }
  auto result = Napi::Object::New(info.Env());
  result["allocated"] = static_cast<double>(stats.allocated_bytes[all].current);
  result["peakAllocated"] = static_cast<double>(stats.allocated_bytes[all].peak);
  result["reserved"] = static_cast<double>(stats.reserved_bytes[all].current);
  result["peakReserved"] = static_cast<double>(stats.reserved_bytes[all].peak);
  result["allocationRetries"] = static_cast<double>(stats.num_alloc_retries);
  result["outOfMemory"] = static_cast<double>(stats.num_ooms);
  result["free"] = static_cast<double>(free);
  result["total"] = static_cast<double>(total);
  return result;
}

Napi::Value resetPeak(const Napi::CallbackInfo& info) {
  allocator::resetPeakStats(deviceAt(info, 0));
  return info.Env().Undefined();
}

Napi::Value emptyCache(const Napi::CallbackInfo& info) {
  allocator::emptyCache();
  return info.Env().Undefined();
}

// synchronize(device, async)
Napi::Value synchronize(const Napi::CallbackInfo& info) {
  auto device = deviceAt(info, 0);
  return runJob(info.Env(), "cudaSynchronize", flagAt(info, 1), [device] {
    c10::cuda::CUDAGuard guard(device);
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  });
}

// --- Streams: a pair of id and device ---------------------------------------------------------------------------------

c10::cuda::CUDAStream streamAt(const Napi::CallbackInfo& info, size_t index) {
  return c10::cuda::CUDAStream::unpack3(static_cast<c10::StreamId>(numberAt(info, index)),
                                        static_cast<c10::DeviceIndex>(numberAt(info, index + 1)), c10::DeviceType::CUDA);
}

Napi::Value toArray(Napi::Env env, const c10::cuda::CUDAStream& stream) {
  auto pair = Napi::Array::New(env, 2);
  pair.Set(0u, Napi::Number::New(env, static_cast<double>(stream.id())));
  pair.Set(1u, Napi::Number::New(env, static_cast<double>(stream.device_index())));
  return pair;
}

Napi::Value currentStream(const Napi::CallbackInfo& info) {
  return toArray(info.Env(), c10::cuda::getCurrentCUDAStream(deviceAt(info, 0)));
}

// newStream(device, highPriority)
Napi::Value newStream(const Napi::CallbackInfo& info) {
  return toArray(info.Env(), c10::cuda::getStreamFromPool(flagAt(info, 1), deviceAt(info, 0)));
}

Napi::Value setStream(const Napi::CallbackInfo& info) {
  c10::cuda::setCurrentCUDAStream(streamAt(info, 0));
  return info.Env().Undefined();
}

Napi::Value streamQuery(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), streamAt(info, 0).query()); }

// streamSynchronize(id, device, async)
Napi::Value streamSynchronize(const Napi::CallbackInfo& info) {
  auto stream = streamAt(info, 0);
  return runJob(info.Env(), "streamSynchronize", flagAt(info, 2), [stream] {
    c10::cuda::CUDAGuard guard(stream.device_index());
    stream.synchronize();
  });
}

// recordStream(tensor, id, device): its memory is not reused before that stream has done what is queued on it by then.
Napi::Value recordStream(const Napi::CallbackInfo& info) {
  auto tensor = tensorAt(info, 0);
  tensor.record_stream(streamAt(info, 1).unwrap());
  return info.Env().Undefined();
}

// --- Events -------------------------------------------------------------------------------------------------------

struct Event {
  cudaEvent_t event = nullptr;
  c10::DeviceIndex device = 0;
  bool recorded = false;
  ~Event() {
    if (event) cudaEventDestroy(event);
  }
};

using SharedEvent = std::shared_ptr<Event>;

SharedEvent eventAt(const Napi::CallbackInfo& info, size_t index) {
  auto event = *info[index].As<Napi::External<SharedEvent>>().Data();
  if (!event) throw std::runtime_error("the event was disposed");
  return event;
}

SharedEvent recordedAt(const Napi::CallbackInfo& info, size_t index) {
  auto event = eventAt(info, index);
  if (!event->recorded) throw std::runtime_error("the event was never recorded");
  return event;
}

// newEvent(device, timing)
Napi::Value newEvent(const Napi::CallbackInfo& info) {
  auto made = std::make_shared<Event>();
  made->device = deviceAt(info, 0);
  c10::cuda::CUDAGuard guard(made->device);
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&made->event, flagAt(info, 1) ? cudaEventDefault : cudaEventDisableTiming));
  return Napi::External<SharedEvent>::New(info.Env(), new SharedEvent(made), [](Napi::Env, SharedEvent* held) { delete held; });
}

// eventRecord(event, streamId, streamDevice)
Napi::Value eventRecord(const Napi::CallbackInfo& info) {
  auto event = eventAt(info, 0);
  auto stream = streamAt(info, 1);
  if (stream.device_index() != event->device) throw std::runtime_error("the event and the stream belong to different devices");
  c10::cuda::CUDAGuard guard(event->device);
  C10_CUDA_CHECK(cudaEventRecord(event->event, stream.stream()));
  event->recorded = true;
  return info.Env().Undefined();
}

// streamWaitEvent(event, streamId, streamDevice)
Napi::Value streamWaitEvent(const Napi::CallbackInfo& info) {
  auto event = recordedAt(info, 0);
  auto stream = streamAt(info, 1);
  c10::cuda::CUDAGuard guard(stream.device_index());
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream.stream(), event->event, 0));
  return info.Env().Undefined();
}

Napi::Value eventQuery(const Napi::CallbackInfo& info) {
  auto event = recordedAt(info, 0);
  auto status = cudaEventQuery(event->event);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return Napi::Boolean::New(info.Env(), false);
  }
  C10_CUDA_CHECK(status);
  return Napi::Boolean::New(info.Env(), true);
}

// eventSynchronize(event, async)
Napi::Value eventSynchronize(const Napi::CallbackInfo& info) {
  auto event = recordedAt(info, 0);
  return runJob(info.Env(), "eventSynchronize", flagAt(info, 1), [event] {
    c10::cuda::CUDAGuard guard(event->device);
    C10_CUDA_CHECK(cudaEventSynchronize(event->event));
  });
}

// eventElapsed(start, end) -> milliseconds; both must be done
Napi::Value eventElapsed(const Napi::CallbackInfo& info) {
  auto start = recordedAt(info, 0), end = recordedAt(info, 1);
  float milliseconds = 0;
  c10::cuda::CUDAGuard guard(start->device);
  C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start->event, end->event));
  return Napi::Number::New(info.Env(), milliseconds);
}

Napi::Value eventDispose(const Napi::CallbackInfo& info) {
  info[0].As<Napi::External<SharedEvent>>().Data()->reset();
  return info.Env().Undefined();
}

// --- Graphs -------------------------------------------------------------------------------------------------------

struct Graph {
  std::unique_ptr<at::cuda::CUDAGraph> graph;
  std::optional<c10::cuda::CUDAStream> before;
  c10::DeviceIndex device = 0;
};

Graph& graphAt(const Napi::CallbackInfo& info, size_t index) {
  auto& held = *info[index].As<Napi::External<Graph>>().Data();
  if (!held.graph) throw std::runtime_error("the graph was disposed");
  return held;
}

using Pool = decltype(at::cuda::graph_pool_handle());

Napi::Value toArray(Napi::Env env, const Pool& pool) {
  auto pair = Napi::Array::New(env, 2);
  pair.Set(0u, Napi::Number::New(env, static_cast<double>(pool.first)));
  pair.Set(1u, Napi::Number::New(env, static_cast<double>(pool.second)));
  return pair;
}

Napi::Value newPool(const Napi::CallbackInfo& info) { return toArray(info.Env(), at::cuda::graph_pool_handle()); }

// graphBegin(device, poolFirst, poolSecond) -> graph. Capture needs a stream that is not the default one; it becomes current
// until graphEnd.
Napi::Value graphBegin(const Napi::CallbackInfo& info) {
  auto held = std::make_unique<Graph>();
  held->device = deviceAt(info, 0);
  Pool pool{static_cast<Pool::first_type>(numberAt(info, 1)), static_cast<Pool::second_type>(numberAt(info, 2))};
  c10::cuda::set_device(held->device);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  // Cached blocks cannot be taken over by the graph's own pool; give them back so that it has room.
  allocator::emptyCache();
  held->graph = std::make_unique<at::cuda::CUDAGraph>();
  held->before = c10::cuda::getCurrentCUDAStream(held->device);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, held->device));
  try {
    // Thread-local: another worker thread may go on allocating while this one captures.
    held->graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  } catch (...) {
    c10::cuda::setCurrentCUDAStream(*held->before);
    throw;
  }
  return Napi::External<Graph>::New(info.Env(), held.release(), [](Napi::Env, Graph* gone) { delete gone; });
}

Napi::Value graphEnd(const Napi::CallbackInfo& info) {
  auto& held = graphAt(info, 0);
  std::exception_ptr failure;
  try {
    held.graph->capture_end();
  } catch (...) {
    failure = std::current_exception();
  }
  if (held.before) c10::cuda::setCurrentCUDAStream(*held.before);
  held.before.reset();
  if (failure) std::rethrow_exception(failure);
  return toArray(info.Env(), held.graph->pool());
}

napi_value graphReplay(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  void* data = nullptr;
  napi_get_value_external(env, argument, &data);
  try {
    auto* held = static_cast<Graph*>(data);
    if (!held || !held->graph) throw std::runtime_error("the graph was disposed");
    held->graph->replay();
  } catch (const std::exception& error) {
    toError(Napi::Env(env), "graphReplay", error).ThrowAsJavaScriptException();
  }
  return nullptr;
}

// The executable must not be taken away from a device that is still running it.
Napi::Value graphDispose(const Napi::CallbackInfo& info) {
  auto& held = *info[0].As<Napi::External<Graph>>().Data();
  if (!held.graph) return info.Env().Undefined();
  c10::cuda::CUDAGuard guard(held.device);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  held.graph.reset();
  return info.Env().Undefined();
}

// --- Profiling ----------------------------------------------------------------------------------------------------

Napi::Value nvtxPush(const Napi::CallbackInfo& info) {
  torch::profiler::impl::cudaStubs()->rangePush(info[0].As<Napi::String>().Utf8Value().c_str());
  return info.Env().Undefined();
}

Napi::Value nvtxPop(const Napi::CallbackInfo& info) {
  torch::profiler::impl::cudaStubs()->rangePop();
  return info.Env().Undefined();
}

}  // namespace
#endif  // VERLET_CUDA

void registerCuda(Napi::Env env, Napi::Object exports) {
#ifdef VERLET_CUDA
  auto cuda = Napi::Object::New(env);
  cuda["setDevice"] = guarded(env, "setDevice", setDevice);
  cuda["properties"] = guarded(env, "deviceProperties", properties);
  cuda["memoryStats"] = guarded(env, "memoryStats", memoryStats);
  cuda["resetPeak"] = guarded(env, "resetPeak", resetPeak);
  cuda["emptyCache"] = guarded(env, "emptyCache", emptyCache);
  cuda["synchronize"] = guarded(env, "synchronize", synchronize);
  cuda["currentStream"] = guarded(env, "currentStream", currentStream);
  cuda["newStream"] = guarded(env, "newStream", newStream);
  cuda["setStream"] = guarded(env, "setStream", setStream);
  cuda["streamQuery"] = guarded(env, "streamQuery", streamQuery);
  cuda["streamSynchronize"] = guarded(env, "streamSynchronize", streamSynchronize);
  cuda["recordStream"] = guarded(env, "recordStream", recordStream);
  cuda["newEvent"] = guarded(env, "newEvent", newEvent);
  cuda["eventRecord"] = guarded(env, "eventRecord", eventRecord);
  cuda["streamWaitEvent"] = guarded(env, "streamWaitEvent", streamWaitEvent);
  cuda["eventQuery"] = guarded(env, "eventQuery", eventQuery);
  cuda["eventSynchronize"] = guarded(env, "eventSynchronize", eventSynchronize);
  cuda["eventElapsed"] = guarded(env, "eventElapsed", eventElapsed);
  cuda["eventDispose"] = guarded(env, "eventDispose", eventDispose);
  cuda["newPool"] = guarded(env, "newPool", newPool);
  cuda["graphBegin"] = guarded(env, "graphBegin", graphBegin);
  cuda["graphEnd"] = guarded(env, "graphEnd", graphEnd);
  cuda["graphDispose"] = guarded(env, "graphDispose", graphDispose);
  napi_value replay;
  napi_create_function(env, "graphReplay", NAPI_AUTO_LENGTH, graphReplay, nullptr, &replay);
  cuda["graphReplay"] = Napi::Value(env, replay);
  cuda["nvtxPush"] = guarded(env, "nvtxPush", nvtxPush);
  cuda["nvtxPop"] = guarded(env, "nvtxPop", nvtxPop);
  exports["cuda"] = cuda;
#endif
}

}  // namespace door
