// The memory of a CPU tensor as a JavaScript ArrayBuffer, without a copy: what is written through one is read through the other.
#include "env.h"

namespace door {

namespace {

// hostView(handle) -> ArrayBuffer. The tensor's memory lives as long as the buffer does.
Napi::Value hostView(const Napi::CallbackInfo& info) {
  const auto& tensor = tensorAt(info, 0);
  if (!tensor.device().is_cpu()) throw std::runtime_error("only memory of the CPU can be viewed, this tensor is on " + tensor.device().str());
  if (!tensor.is_contiguous()) throw std::runtime_error("only contiguous tensors can be viewed");
  auto* owner = new at::Tensor(tensor);
  return Napi::ArrayBuffer::New(
      info.Env(), tensor.mutable_data_ptr(), tensor.nbytes(), [](Napi::Env, void*, at::Tensor* held) { delete held; }, owner);
}

}  // namespace

void registerHostView(Napi::Env env, Napi::Object exports) { exports["hostView"] = guarded(env, "hostView", hostView); }

}  // namespace door
