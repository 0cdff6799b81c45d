// Reverse-mode differentiation: libtorch's own engine, started from JavaScript and run to the end before returning.
#include "env.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace door {
namespace {

std::vector<at::Tensor> tensorsOf(const Napi::CallbackInfo& info, size_t index) {
  auto& state = environmentOf(info.Env());
  auto array = info[index].As<Napi::Array>();
  std::vector<at::Tensor> tensors(array.Length());
  for (uint32_t k = 0; k < array.Length(); k++) {
    double handle = array.Get(k).As<Napi::Number>().DoubleValue();
    if (handle != -1) tensors[k] = state.get(handle);
  }
  return tensors;
}

// backward(outputs, gradOutputs, retainGraph)
Napi::Value backward(const Napi::CallbackInfo& info) {
  torch::autograd::backward(tensorsOf(info, 0), tensorsOf(info, 1), info[2].As<Napi::Boolean>().Value());
  return info.Env().Undefined();
}

// grad(outputs, inputs, gradOutputs, retainGraph, allowUnused) -> handles, -1 where unused
Napi::Value grad(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  auto grads = torch::autograd::grad(tensorsOf(info, 0), tensorsOf(info, 1), tensorsOf(info, 2),
                                     info[3].As<Napi::Boolean>().Value(), info[5].As<Napi::Boolean>().Value(),
                                     info[4].As<Napi::Boolean>().Value());
  auto result = Napi::Array::New(env, grads.size());
  for (size_t k = 0; k < grads.size(); k++) {
    if (grads[k].defined()) result.Set(k, wrap(env, grads[k]));
    else result.Set(k, Napi::Number::New(env, -1));
  }
  return result;
}

Napi::Value setRequiresGrad(const Napi::CallbackInfo& info) {
  tensorAt(info, 0).set_requires_grad(info[1].As<Napi::Boolean>().Value());
  return info.Env().Undefined();
}

Napi::Value gradOf(const Napi::CallbackInfo& info) {
  const auto& value = tensorAt(info, 0).grad();
  return value.defined() ? wrap(info.Env(), value) : Napi::Number::New(info.Env(), -1);
}

Napi::Value setGrad(const Napi::CallbackInfo& info) {
  double handle = info[1].As<Napi::Number>().DoubleValue();
  tensorAt(info, 0).mutable_grad() = handle == -1 ? at::Tensor() : environmentOf(info.Env()).get(handle);
  return info.Env().Undefined();
}

// setGradMode(enabled) -> the mode before
Napi::Value setGradMode(const Napi::CallbackInfo& info) {
  bool before = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(info[0].As<Napi::Boolean>().Value());
  return Napi::Boolean::New(info.Env(), before);
}

Napi::Value gradMode(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), c10::GradMode::is_enabled()); }

}  // namespace

void registerAutograd(Napi::Env env, Napi::Object exports) {
  exports["backward"] = guarded(env, "backward", backward);
  exports["grad"] = guarded(env, "grad", grad);
  exports["setRequiresGrad"] = guarded(env, "requiresGrad", setRequiresGrad);
  exports["gradOf"] = guarded(env, "grad", gradOf);
  exports["setGrad"] = guarded(env, "setGrad", setGrad);
  exports["setGradMode"] = guarded(env, "setGradMode", setGradMode);
  exports["gradMode"] = guarded(env, "gradMode", gradMode);
}

}  // namespace door
