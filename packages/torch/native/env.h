// What one JavaScript environment (the main thread or a worker thread) owns on the native side.
#pragma once
#include <napi.h>
#include <torch/torch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace door {

// How one argument of an operator is written into the shared argument buffer. The letters are mirrored in src/door.ts.
enum class Kind : char {
  Tensor = 'T',
  Int = 'i',
  Float = 'f',
  Bool = 'b',
  Scalar = 'S',
  String = 's',
  Device = 'd',
  Generator = 'g',
  IntList = 'I',
  FloatList = 'F',
  BoolList = 'B',
  TensorList = 'L',
  OptionalTensorList = 'O',
  Unsupported = '?',
};

struct Argument {
  Kind kind;
  bool optional;
  bool hasDefault;
  c10::IValue defaultValue;
  std::string name;
};

struct Operator {
  c10::OperatorHandle handle;
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Kind> returns;
  // For a return that aliases an argument for writing: that argument's index, else -1. JavaScript already holds its handle.
  std::vector<int> aliases;
  bool singleTensor;
};

struct Environment {
  std::vector<at::Tensor> slots;
  std::vector<uint32_t> freeSlots;
  std::vector<Operator> operators;
  std::unordered_map<std::string, uint32_t> operatorIndex;
  std::vector<std::string> strings;
  torch::jit::Stack stack;
  double* buffer = nullptr;
  size_t bufferLength = 0;
  Napi::Reference<Napi::Float64Array> bufferReference;
  Napi::FunctionReference errorClass;
  int64_t live = 0;

  uint32_t put(at::Tensor tensor) {
    live++;
    if (!freeSlots.empty()) {
      uint32_t slot = freeSlots.back();
      freeSlots.pop_back();
      slots[slot] = std::move(tensor);
      return slot;
    }
    slots.push_back(std::move(tensor));
    return static_cast<uint32_t>(slots.size() - 1);
  }

  bool isLive(double handle) const {
    return handle >= 0 && handle < static_cast<double>(slots.size()) && slots[static_cast<size_t>(handle)].defined();
  }

  const at::Tensor& get(double handle) const {
    if (!isLive(handle)) {
      throw std::runtime_error("a tensor was used after dispose(), or was never made");
    }
    return slots[static_cast<size_t>(handle)];
  }

  void release(double handle) {
    if (!isLive(handle)) return;
    auto slot = static_cast<uint32_t>(handle);
    slots[slot].reset();
    freeSlots.push_back(slot);
    live--;
  }
};

inline Environment& environmentOf(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return *static_cast<Environment*>(data);
}

inline const at::Tensor& tensorAt(const Napi::CallbackInfo& info, size_t index) {
  return environmentOf(info.Env()).get(info[index].As<Napi::Number>().DoubleValue());
}

inline Napi::Value wrap(Napi::Env env, at::Tensor tensor) {
  return Napi::Number::New(env, environmentOf(env).put(std::move(tensor)));
}

std::string describe(const at::Tensor& tensor);

// Turns a C++ exception into the JavaScript TorchError; `context` names the operator or function that failed.
Napi::Error toError(Napi::Env env, const std::string& context, const std::exception& error);

// Wraps a function so that every C++ exception becomes a TorchError that names it.
template <typename Function>
Napi::Function guarded(Napi::Env env, const char* name, Function function) {
  return Napi::Function::New(
      env,
      [name, function](const Napi::CallbackInfo& info) -> Napi::Value {
        try {
          return function(info);
        } catch (const Napi::Error&) {
          throw;
        } catch (const std::exception& error) {
          throw toError(info.Env(), name, error);
        }
      },
      name);
}

std::vector<int64_t> toSizes(const Napi::Value& value);

void registerDoor(Napi::Env env, Napi::Object exports);
void registerTensors(Napi::Env env, Napi::Object exports);
void registerAutograd(Napi::Env env, Napi::Object exports);
void registerRuntime(Napi::Env env, Napi::Object exports);
void registerMapping(Napi::Env env, Napi::Object exports);
void registerDistributed(Napi::Env env, Napi::Object exports);
void registerCuda(Napi::Env env, Napi::Object exports);
void registerHostView(Napi::Env env, Napi::Object exports);

}  // namespace door
