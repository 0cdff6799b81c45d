// The machine as libtorch sees it: threads, devices, random generators, build facts.
#include "env.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

namespace door {
namespace {

Napi::Value setThreads(const Napi::CallbackInfo& info) {
  if (info[0].IsNumber()) at::set_num_threads(info[0].As<Napi::Number>().Int32Value());
  return Napi::Number::New(info.Env(), at::get_num_threads());
}

at::Generator generatorOf(const Napi::CallbackInfo& info, size_t index) {
  return at::globalContext().defaultGenerator(c10::Device(info[index].As<Napi::String>().Utf8Value()));
}

// manualSeed(seed): all devices. A seed is any integer up to 2^53.
Napi::Value manualSeed(const Napi::CallbackInfo& info) {
  at::manual_seed(static_cast<uint64_t>(info[0].As<Napi::Number>().Int64Value()));
  return info.Env().Undefined();
}

Napi::Value generatorState(const Napi::CallbackInfo& info) { return wrap(info.Env(), generatorOf(info, 0).get_state()); }

Napi::Value setGeneratorState(const Napi::CallbackInfo& info) {
  generatorOf(info, 0).set_state(tensorAt(info, 1));
  return info.Env().Undefined();
}

Napi::Value buildInfo(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  auto result = Napi::Object::New(env);
  result["version"] = TORCH_VERSION;
  result["cpuCapability"] = at::get_cpu_capability();
  result["config"] = at::show_config();
  result["parallel"] = at::get_parallel_info();
  result["hasMkldnn"] = at::hasMKLDNN();
  result["hasMps"] = at::hasMPS();
#ifdef VERLET_CUDA
  result["cuda"] = true;
#else
  result["cuda"] = false;
#endif
  result["cudaAvailable"] = at::hasCUDA() && at::globalContext().hasCUDA();
  result["cudaDevices"] = at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  return result;
}

Napi::Value setDeterministic(const Napi::CallbackInfo& info) {
  at::globalContext().setDeterministicAlgorithms(info[0].As<Napi::Boolean>().Value(), true);
  return info.Env().Undefined();
}

}  // namespace

void registerRuntime(Napi::Env env, Napi::Object exports) {
  exports["threads"] = guarded(env, "threads", setThreads);
  exports["manualSeed"] = guarded(env, "manualSeed", manualSeed);
  exports["generatorState"] = guarded(env, "generatorState", generatorState);
  exports["setGeneratorState"] = guarded(env, "setGeneratorState", setGeneratorState);
  exports["buildInfo"] = guarded(env, "buildInfo", buildInfo);
  exports["setDeterministic"] = guarded(env, "setDeterministic", setDeterministic);
}

}  // namespace door
