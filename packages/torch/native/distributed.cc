// c10d: a TCP store where processes meet, and process groups over Gloo (CPU) and NCCL (CUDA). A collective is issued on the
// JavaScript thread, so that all ranks issue them in one order; only waiting for it goes elsewhere.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
// NCCL's process group pulls in the headers of most CUDA libraries; without them the addon still builds, on Gloo alone.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cublas_v2.h>) && __has_include(<cusparse.h>) && \
    __has_include(<cusolverDn.h>)
#define VERLET_NCCL
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <cstdlib>
#include <thread>

#include "waiting.h"

namespace door {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Works = c10::intrusive_ptr<c10d::Work>;

struct Store {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

struct Group {
  c10::intrusive_ptr<c10d::Backend> backend;
  bool nccl = false;
};

template <typename Held>
Napi::Value external(Napi::Env env, Held held) {
  return Napi::External<Held>::New(env, new Held(std::move(held)), [](Napi::Env, Held* gone) { delete gone; });
}

Store& storeOf(const Napi::CallbackInfo& info) {
  auto& held = *info[0].As<Napi::External<Store>>().Data();
  if (!held.store) throw std::runtime_error("the store was closed");
  return held;
}

Group& groupOf(const Napi::CallbackInfo& info) {
  auto& held = *info[0].As<Napi::External<Group>>().Data();
  if (!held.backend) throw std::runtime_error("the process group was closed");
  return held;
}

double numberAt(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::Number>().DoubleValue(); }
Milliseconds timeoutAt(const Napi::CallbackInfo& info, size_t index) { return Milliseconds(static_cast<int64_t>(numberAt(info, index))); }
std::string textAt(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::String>().Utf8Value(); }
bool flagAt(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::Boolean>().Value(); }

std::vector<uint8_t> bytesAt(const Napi::CallbackInfo& info, size_t index) {
  auto array = info[index].As<Napi::Uint8Array>();
  return {array.Data(), array.Data() + array.ByteLength()};
}

Napi::Value toBytes(Napi::Env env, const std::vector<uint8_t>& value) {
  auto array = Napi::Uint8Array::New(env, value.size());
  if (!value.empty()) std::memcpy(array.Data(), value.data(), value.size());
  return array;
}

// storeOpen(host, port, isServer, worldSize or 0, timeoutMs) -> promise of the store
Napi::Value storeOpen(const Napi::CallbackInfo& info) {
  auto host = textAt(info, 0);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(numberAt(info, 1));
  options.isServer = flagAt(info, 2);
  auto worldSize = static_cast<size_t>(numberAt(info, 3));
  if (worldSize > 0) options.numWorkers = worldSize;
  options.waitWorkers = worldSize > 0;
  options.timeout = timeoutAt(info, 4);
  auto made = std::make_shared<Store>();
  return runJob(
      info.Env(), "storeOpen", true, [=] { made->store = c10::make_intrusive<c10d::TCPStore>(host, options); },
      [=](Napi::Env env) { return external(env, *made); });
}

Napi::Value storePort(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), storeOf(info).store->getPort()); }

Napi::Value storeSet(const Napi::CallbackInfo& info) {
  auto store = storeOf(info).store;
  return runJob(info.Env(), "storeSet", true, [store, key = textAt(info, 1), value = bytesAt(info, 2)] { store->set(key, value); });
}

// storeGet(store, key, timeoutMs): waits for the key. On a connection of its own: a store serves one call at a time.
Napi::Value storeGet(const Napi::CallbackInfo& info) {
  auto store = storeOf(info).store;
  auto value = std::make_shared<std::vector<uint8_t>>();
  return runJob(
      info.Env(), "storeGet", true,
      [store, value, key = textAt(info, 1), timeout = timeoutAt(info, 2)] {
        auto mine = store->clone();
        mine->wait({key}, timeout);
        *value = mine->get(key);
      },
      [value](Napi::Env env) { return toBytes(env, *value); });
}

Napi::Value storeAdd(const Napi::CallbackInfo& info) {
  auto store = storeOf(info).store;
  auto sum = std::make_shared<int64_t>(0);
  return runJob(
      info.Env(), "storeAdd", true,
      [store, sum, key = textAt(info, 1), amount = static_cast<int64_t>(numberAt(info, 2))] { *sum = store->add(key, amount); },
      [sum](Napi::Env env) { return Napi::Number::New(env, static_cast<double>(*sum)); });
}

Napi::Value storeCheck(const Napi::CallbackInfo& info) {
  auto store = storeOf(info).store;
  auto found = std::make_shared<bool>(false);
  return runJob(
      info.Env(), "storeCheck", true, [store, found, key = textAt(info, 1)] { *found = store->check({key}); },
      [found](Napi::Env env) { return Napi::Boolean::New(env, *found); });
}

Napi::Value storeDelete(const Napi::CallbackInfo& info) {
  auto store = storeOf(info).store;
  auto found = std::make_shared<bool>(false);
  return runJob(
      info.Env(), "storeDelete", true, [store, found, key = textAt(info, 1)] { *found = store->deleteKey(key); },
      [found](Napi::Env env) { return Napi::Boolean::New(env, *found); });
}

Napi::Value storeClose(const Napi::CallbackInfo& info) {
  auto store = std::move(info[0].As<Napi::External<Store>>().Data()->store);
  return runJob(info.Env(), "storeClose", true, [store]() mutable { store.reset(); });
}

Group makeGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout, const std::string& host,
               const std::string& interface) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  if (!interface.empty()) options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  else if (!host.empty()) options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
  else options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  return {c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options), false};
}

#ifdef VERLET_NCCL
Group makeNccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout, int device) {
  // The watchdog shall abort a stuck communicator, which we report, and not the whole process.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  at::Device bound(at::kCUDA, static_cast<c10::DeviceIndex>(device));
  backend->setBoundDeviceId(bound);
  // Connects now, on this worker thread; else the first collective would do so on the JavaScript thread.
  backend->eagerConnectSingleDevice(bound);
  return {backend, true};
}
#endif

// groupOpen(store, prefix, backend, rank, size, timeoutMs, host, interface, device) -> promise of the group
Napi::Value groupOpen(const Napi::CallbackInfo& info) {
  // A connection of its own, too: Gloo keeps the store and waits in it.
  auto store = storeOf(info).store;
  auto prefix = textAt(info, 1), name = textAt(info, 2), host = textAt(info, 6), interface = textAt(info, 7);
  int rank = static_cast<int>(numberAt(info, 3)), size = static_cast<int>(numberAt(info, 4)), device = static_cast<int>(numberAt(info, 8));
  (void)device;
  auto timeout = timeoutAt(info, 5);
  auto made = std::make_shared<Group>();
  return runJob(
      info.Env(), "groupOpen", true,
      [=] {
        auto own = store->clone();
        own->setTimeout(timeout);
        c10::intrusive_ptr<c10d::Store> scoped = c10::make_intrusive<c10d::PrefixStore>(prefix, own);
        if (name == "gloo") {
          *made = makeGloo(scoped, rank, size, timeout, host, interface);
          return;
        }
#ifdef VERLET_NCCL
        if (name == "nccl") {
          *made = makeNccl(scoped, rank, size, timeout, device);
          return;
        }
#endif
        throw std::runtime_error("the addon was built without the backend '" + name + "'");
      },
      [=](Napi::Env env) { return external(env, *made); });
}

// Waits until the work is done, or throws what went wrong. On the JavaScript thread a CUDA work only orders the streams.
void finish(const Works& work, bool nccl, bool async, Milliseconds timeout) {
  if (!nccl || !async) {
    work->wait();
    return;
  }
  auto deadline = std::chrono::steady_clock::now() + timeout + Milliseconds(1000);
  while (!work->isCompleted()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("timed out waiting for the operation");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (work->exception()) std::rethrow_exception(work->exception());
}

c10d::ReduceOp::RedOpType reductionAt(const Napi::CallbackInfo& info, size_t index) {
  auto name = textAt(info, index);
  if (name == "sum") return c10d::ReduceOp::SUM;
  if (name == "avg") return c10d::ReduceOp::AVG;
  if (name == "max") return c10d::ReduceOp::MAX;
  if (name == "min") return c10d::ReduceOp::MIN;
  if (name == "product") return c10d::ReduceOp::PRODUCT;
  throw std::runtime_error("unknown reduction '" + name + "'; known: sum, avg, max, min, product");
}

const at::Tensor& dense(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) throw std::runtime_error("wants a contiguous tensor, got " + describe(tensor) + " with gaps");
  return tensor;
}

// Gloo has no average: sums and divides.
struct Averaging {
  bool needed;
  int64_t size;
  void operator()(const at::Tensor& tensor) const {
    if (!needed) return;
    at::NoGradGuard guard;
    tensor.detach().div_(size);
  }
};

Averaging averaging(const Group& group, c10d::ReduceOp::RedOpType& reduction, const at::Tensor& tensor) {
  bool needed = reduction == c10d::ReduceOp::AVG && !group.nccl;
  if (needed) {
    if (!at::isFloatingType(tensor.scalar_type())) throw std::runtime_error("cannot average " + describe(tensor));
    reduction = c10d::ReduceOp::SUM;
  }
  return {needed, group.backend->getSize()};
}

// allReduce(group, tensor, reduction, timeoutMs, async)
Napi::Value allReduce(const Napi::CallbackInfo& info) {
  auto& group = groupOf(info);
  std::vector<at::Tensor> tensors{dense(tensorAt(info, 1)).detach()};
  auto reduction = reductionAt(info, 2);
  auto average = averaging(group, reduction, tensors[0]);
  c10d::AllreduceOptions options;
  options.reduceOp = reduction;
  options.timeout = timeoutAt(info, 3);
  bool async = flagAt(info, 4);
  auto work = group.backend->allreduce(tensors, options);
  return runJob(info.Env(), "allReduce", async, [=, nccl = group.nccl, timeout = options.timeout] {
    finish(work, nccl, async, timeout);
    average(tensors[0]);
  });
}

// allGather(group, output, input, timeoutMs, async)
Napi::Value allGather(const Napi::CallbackInfo& info) {
  auto& group = groupOf(info);
  auto output = dense(tensorAt(info, 1)).detach(), input = dense(tensorAt(info, 2)).detach();
  c10d::AllgatherOptions options;
  options.timeout = timeoutAt(info, 3);
  bool async = flagAt(info, 4);
  auto work = group.backend->_allgather_base(output, input, options);
  return runJob(info.Env(), "allGather", async, [=, nccl = group.nccl, timeout = options.timeout] { finish(work, nccl, async, timeout); });
}

// reduceScatter(group, output, input, reduction, timeoutMs, async)
Napi::Value reduceScatter(const Napi::CallbackInfo& info) {
  auto& group = groupOf(info);
  auto output = dense(tensorAt(info, 1)).detach(), input = dense(tensorAt(info, 2)).detach();
  auto reduction = reductionAt(info, 3);
  auto average = averaging(group, reduction, input);
  c10d::ReduceScatterOptions options;
  options.reduceOp = reduction;
  options.timeout = timeoutAt(info, 4);
  bool async = flagAt(info, 5);
  auto work = group.backend->_reduce_scatter_base(output, input, options);
  return runJob(info.Env(), "reduceScatter", async, [=, nccl = group.nccl, timeout = options.timeout] {
    finish(work, nccl, async, timeout);
    average(output);
  });
}

// broadcast(group, tensor, source, timeoutMs, async)
Napi::Value broadcast(const Napi::CallbackInfo& info) {
  auto& group = groupOf(info);
  std::vector<at::Tensor> tensors{dense(tensorAt(info, 1)).detach()};
  c10d::BroadcastOptions options;
  options.rootRank = static_cast<int64_t>(numberAt(info, 2));
  options.timeout = timeoutAt(info, 3);
  bool async = flagAt(info, 4);
  auto work = group.backend->broadcast(tensors, options);
  return runJob(info.Env(), "broadcast", async, [=, nccl = group.nccl, timeout = options.timeout] { finish(work, nccl, async, timeout); });
}

// barrier(group, timeoutMs, async)
Napi::Value barrier(const Napi::CallbackInfo& info) {
  auto& group = groupOf(info);
  c10d::BarrierOptions options;
  options.timeout = timeoutAt(info, 1);
  bool async = flagAt(info, 2);
  auto work = group.backend->barrier(options);
  return runJob(info.Env(), "barrier", async, [=, nccl = group.nccl, timeout = options.timeout] { finish(work, nccl, async, timeout); });
}

Napi::Value groupClose(const Napi::CallbackInfo& info) {
  auto* held = info[0].As<Napi::External<Group>>().Data();
  auto backend = std::move(held->backend);
  bool nccl = held->nccl;
  return runJob(info.Env(), "groupClose", true, [backend, nccl]() mutable {
    if (backend && nccl) backend->shutdown();
    backend.reset();
  });
}

}  // namespace

void registerDistributed(Napi::Env env, Napi::Object exports) {
#ifdef VERLET_NCCL
  exports["hasNccl"] = true;
#else
  exports["hasNccl"] = false;
#endif
  exports["storeOpen"] = guarded(env, "storeOpen", storeOpen);
  exports["storePort"] = guarded(env, "storePort", storePort);
  exports["storeSet"] = guarded(env, "storeSet", storeSet);
  exports["storeGet"] = guarded(env, "storeGet", storeGet);
  exports["storeAdd"] = guarded(env, "storeAdd", storeAdd);
  exports["storeCheck"] = guarded(env, "storeCheck", storeCheck);
  exports["storeDelete"] = guarded(env, "storeDelete", storeDelete);
  exports["storeClose"] = guarded(env, "storeClose", storeClose);
  exports["groupOpen"] = guarded(env, "groupOpen", groupOpen);
  exports["groupClose"] = guarded(env, "groupClose", groupClose);
  exports["allReduce"] = guarded(env, "allReduce", allReduce);
  exports["allGather"] = guarded(env, "allGather", allGather);
  exports["reduceScatter"] = guarded(env, "reduceScatter", reduceScatter);
  exports["broadcast"] = guarded(env, "broadcast", broadcast);
  exports["barrier"] = guarded(env, "barrier", barrier);
}

}  // namespace door
