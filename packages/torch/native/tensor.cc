// Tensors in and out of JavaScript: typed arrays, shape, release.
#include "env.h"

#include <unordered_set>

namespace door {
namespace {

at::ScalarType scalarTypeOf(const Napi::TypedArray& array) {
  switch (array.TypedArrayType()) {
    case napi_float32_array: return at::kFloat;
    case napi_float64_array: return at::kDouble;
    case napi_int32_array: return at::kInt;
    case napi_int16_array: return at::kShort;
    case napi_int8_array: return at::kChar;
    case napi_uint8_array:
    case napi_uint8_clamped_array: return at::kByte;
    case napi_uint16_array: return at::kUInt16;
    case napi_bigint64_array: return at::kLong;
    default: throw std::runtime_error("this kind of typed array has no tensor dtype");
  }
}

void* dataOf(const Napi::TypedArray& array) {
  return static_cast<char*>(array.ArrayBuffer().Data()) + array.ByteOffset();
}

// fromTypedArray(array, shape, dtype): copies; converts, or reinterprets Uint16Array as the bits of a 16-bit float.
Napi::Value fromTypedArray(const Napi::CallbackInfo& info) {
  auto array = info[0].As<Napi::TypedArray>();
  auto sizes = toSizes(info[1]);
  auto target = static_cast<at::ScalarType>(info[2].As<Napi::Number>().Int32Value());
  auto source = scalarTypeOf(array);
  bool bits = source == at::kUInt16 && (target == at::kBFloat16 || target == at::kHalf);
  if (bits) source = target;
  int64_t count = 1;
  for (auto size : sizes) {
    if (size < 0) throw std::runtime_error("a shape cannot hold a negative size");
    count *= size;
  }
  if (count != static_cast<int64_t>(array.ElementLength()))
    throw std::runtime_error("the array has " + std::to_string(array.ElementLength()) + " elements, the shape asks for " + std::to_string(count));
  at::NoGradGuard guard;
  if (count == 0) return wrap(info.Env(), at::empty(sizes, at::TensorOptions().dtype(target)));
  auto view = at::from_blob(dataOf(array), sizes, at::TensorOptions().dtype(source));
  return wrap(info.Env(), source == target ? view.clone() : view.to(target));
}

// copyToTypedArray(handle, array): converts to the array's dtype and copies; the array must have numel elements.
Napi::Value copyToTypedArray(const Napi::CallbackInfo& info) {
  const auto& tensor = tensorAt(info, 0);
  auto array = info[1].As<Napi::TypedArray>();
  if (static_cast<int64_t>(array.ElementLength()) != tensor.numel())
    throw std::runtime_error("the array has " + std::to_string(array.ElementLength()) + " elements, the tensor " + std::to_string(tensor.numel()));
  if (tensor.numel() == 0) return info[1];
  at::NoGradGuard guard;
  auto source = scalarTypeOf(array);
  if (source == at::kUInt16 && (tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf)) source = tensor.scalar_type();
  at::from_blob(dataOf(array), tensor.sizes(), at::TensorOptions().dtype(source)).copy_(tensor);
  return info[1];
}

// copyBytes(handle, byteOffset, Uint8Array): raw bytes of a contiguous CPU tensor, for streamed writing.
Napi::Value copyBytes(const Napi::CallbackInfo& info) {
  const auto& tensor = tensorAt(info, 0);
  auto offset = info[1].As<Napi::Number>().Int64Value();
  auto array = info[2].As<Napi::Uint8Array>();
  if (!tensor.device().is_cpu() || !tensor.is_contiguous()) throw std::runtime_error("wants a contiguous tensor on the CPU");
  if (offset < 0 || offset + static_cast<int64_t>(array.ByteLength()) > static_cast<int64_t>(tensor.nbytes()))
    throw std::runtime_error("byte range outside the tensor");
  std::memcpy(array.Data(), static_cast<const char*>(tensor.data_ptr()) + offset, array.ByteLength());
  return info.Env().Undefined();
}

// shape(handle): writes the sizes into the shared buffer and returns their number.
napi_value shape(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  double handle;
  napi_get_value_double(env, argument, &handle);
  auto& state = environmentOf(env);
  try {
    const auto& tensor = state.get(handle);
    auto sizes = tensor.sizes();
    for (size_t k = 0; k < sizes.size(); k++) state.buffer[k] = static_cast<double>(sizes[k]);
    napi_value result;
    napi_create_uint32(env, sizes.size(), &result);
    return result;
  } catch (const std::exception& error) {
    toError(Napi::Env(env), "shape", error).ThrowAsJavaScriptException();
    return nullptr;
  }
}

Napi::Value dtype(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<int>(tensorAt(info, 0).scalar_type()));
}

Napi::Value device(const Napi::CallbackInfo& info) { return Napi::String::New(info.Env(), tensorAt(info, 0).device().str()); }

Napi::Value stride(const Napi::CallbackInfo& info) {
  auto strides = tensorAt(info, 0).strides();
  auto result = Napi::Array::New(info.Env(), strides.size());
  for (size_t k = 0; k < strides.size(); k++) result.Set(k, static_cast<double>(strides[k]));
  return result;
}

Napi::Value flag(const Napi::CallbackInfo& info) {
  const auto& tensor = tensorAt(info, 0);
  switch (info[1].As<Napi::Number>().Int32Value()) {
    case 0: return Napi::Boolean::New(info.Env(), tensor.requires_grad());
    case 1: return Napi::Boolean::New(info.Env(), tensor.is_contiguous());
    case 2: return Napi::Boolean::New(info.Env(), tensor.is_leaf());
    case 3: return Napi::Boolean::New(info.Env(), tensor.is_pinned());
    default: return Napi::Boolean::New(info.Env(), tensor.is_view());
  }
}

Napi::Value numel(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), tensorAt(info, 0).numel()); }
Napi::Value elementSize(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), tensorAt(info, 0).element_size()); }
Napi::Value dataPointer(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(tensorAt(info, 0).data_ptr())));
}

Napi::Value item(const Napi::CallbackInfo& info) {
  auto scalar = tensorAt(info, 0).item();
  if (scalar.isBoolean()) return Napi::Number::New(info.Env(), scalar.toBool() ? 1 : 0);
  return Napi::Number::New(info.Env(), scalar.toDouble());
}

// A second handle on the same tensor, with its own life.
Napi::Value alias(const Napi::CallbackInfo& info) { return wrap(info.Env(), tensorAt(info, 0)); }

napi_value release(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  double handle;
  napi_get_value_double(env, argument, &handle);
  environmentOf(env).release(handle);
  return nullptr;
}

// releaseMany(n): releases the n handles that stand in the shared buffer.
napi_value releaseMany(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  uint32_t length;
  napi_get_value_uint32(env, argument, &length);
  auto& state = environmentOf(env);
  for (uint32_t k = 0; k < length && k < state.bufferLength; k++) state.release(state.buffer[k]);
  return nullptr;
}

Napi::Value liveCount(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), environmentOf(info.Env()).live); }

// Bytes behind the live handles, each storage counted once.
Napi::Value liveBytes(const Napi::CallbackInfo& info) {
  std::unordered_set<const void*> seen;
  double bytes = 0;
  for (const auto& tensor : environmentOf(info.Env()).slots) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    if (seen.insert(tensor.storage().unsafeGetStorageImpl()).second) bytes += static_cast<double>(tensor.storage().nbytes());
  }
  return Napi::Number::New(info.Env(), bytes);
}

// What the garbage collector is told about a tensor that no scope owns, so that it comes in time when such tensors are
// forgotten. Large ones count for less than they are: the collector shall not run after every weight that is loaded.
int64_t hintedBytes(const at::Tensor& tensor) {
  constexpr int64_t least = 1024, most = 16 << 20;
  return least + std::min<int64_t>(most, tensor.has_storage() ? static_cast<int64_t>(tensor.nbytes()) : 0);
}

// account(handle, 1 or -1)
napi_value account(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  double handle, sign;
  napi_get_value_double(env, arguments[0], &handle);
  napi_get_value_double(env, arguments[1], &sign);
  auto& state = environmentOf(env);
  if (!state.isLive(handle)) return nullptr;
  int64_t now = 0;
  napi_adjust_external_memory(env, static_cast<int64_t>(sign) * hintedBytes(state.get(handle)), &now);
  return nullptr;
}

}  // namespace

void registerTensors(Napi::Env env, Napi::Object exports) {
  napi_value function;
  napi_create_function(env, "shape", NAPI_AUTO_LENGTH, shape, nullptr, &function);
  exports["shape"] = Napi::Value(env, function);
  napi_create_function(env, "release", NAPI_AUTO_LENGTH, release, nullptr, &function);
  exports["release"] = Napi::Value(env, function);
  napi_create_function(env, "account", NAPI_AUTO_LENGTH, account, nullptr, &function);
  exports["account"] = Napi::Value(env, function);
  napi_create_function(env, "releaseMany", NAPI_AUTO_LENGTH, releaseMany, nullptr, &function);
  exports["releaseMany"] = Napi::Value(env, function);
  exports["fromTypedArray"] = guarded(env, "tensor", fromTypedArray);
  exports["copyToTypedArray"] = guarded(env, "copyToTypedArray", copyToTypedArray);
  exports["copyBytes"] = guarded(env, "copyBytes", copyBytes);
  exports["dtype"] = guarded(env, "dtype", dtype);
  exports["device"] = guarded(env, "device", device);
  exports["stride"] = guarded(env, "stride", stride);
  exports["flag"] = guarded(env, "flag", flag);
  exports["numel"] = guarded(env, "numel", numel);
  exports["elementSize"] = guarded(env, "elementSize", elementSize);
  exports["dataPointer"] = guarded(env, "dataPointer", dataPointer);
  exports["item"] = guarded(env, "item", item);
  exports["alias"] = guarded(env, "alias", alias);
  exports["liveCount"] = guarded(env, "liveCount", liveCount);
  exports["liveBytes"] = guarded(env, "liveBytes", liveBytes);
}

}  // namespace door
