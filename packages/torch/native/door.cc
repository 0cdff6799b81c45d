// The door: any ATen operator by name. JavaScript writes arguments into a shared buffer of doubles by the operator's
// schema, one native call reads them, runs the boxed kernel and leaves the results as slot numbers. No object crosses.
#include "env.h"

#include <sstream>

namespace door {
namespace {

Kind elementListKind(const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType: return Kind::TensorList;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return Kind::IntList;
    case c10::TypeKind::FloatType: return Kind::FloatList;
    case c10::TypeKind::BoolType: return Kind::BoolList;
    case c10::TypeKind::OptionalType:
      return element->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::TensorType
                 ? Kind::OptionalTensorList
                 : Kind::Unsupported;
    default: return Kind::Unsupported;
  }
}

Kind kindOf(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType: return Kind::Tensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType: return Kind::Int;
    case c10::TypeKind::FloatType: return Kind::Float;
    case c10::TypeKind::BoolType: return Kind::Bool;
    case c10::TypeKind::NumberType: return Kind::Scalar;
    case c10::TypeKind::StringType: return Kind::String;
    case c10::TypeKind::DeviceObjType: return Kind::Device;
    case c10::TypeKind::GeneratorType: return Kind::Generator;
    case c10::TypeKind::ListType: return elementListKind(type->castRaw<c10::ListType>()->getElementType());
    default: return Kind::Unsupported;
  }
}

Operator inspect(const c10::OperatorHandle& handle, std::string name) {
  const auto& schema = handle.schema();
  Operator op{handle, std::move(name), {}, {}, {}, false};
  for (const auto& argument : schema.arguments()) {
    auto type = argument.type();
    bool optional = type->kind() == c10::TypeKind::OptionalType;
    if (optional) type = type->castRaw<c10::OptionalType>()->getElementType();
    bool hasDefault = argument.default_value().has_value();
    op.arguments.push_back({kindOf(type), optional, hasDefault, hasDefault ? *argument.default_value() : c10::IValue(), argument.name()});
  }
  for (const auto& ret : schema.returns()) {
    op.returns.push_back(kindOf(ret.type()));
    int alias = -1;
    if (ret.alias_info() && ret.alias_info()->isWrite()) {
      for (size_t k = 0; k < schema.arguments().size(); k++) {
        const auto* info = schema.arguments()[k].alias_info();
        if (info && info->isWrite() && info->beforeSets() == ret.alias_info()->beforeSets() &&
            op.arguments[k].kind == Kind::Tensor) {
          alias = static_cast<int>(k);
        }
      }
    }
    op.aliases.push_back(alias);
  }
  op.singleTensor = op.returns.size() == 1 && op.returns[0] == Kind::Tensor && op.aliases[0] < 0;
  return op;
}

Napi::Value resolve(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  auto& state = environmentOf(env);
  std::string full = info[0].As<Napi::String>().Utf8Value();
  auto found = state.operatorIndex.find(full);
  uint32_t index;
  if (found != state.operatorIndex.end()) {
    index = found->second;
  } else {
    auto dot = full.find('.');
    auto name = full.substr(0, dot);
    auto overload = dot == std::string::npos ? std::string() : full.substr(dot + 1);
    auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
    if (!handle) throw std::runtime_error("libtorch has no operator '" + full + "'");
    index = static_cast<uint32_t>(state.operators.size());
    state.operators.push_back(inspect(*handle, full));
    state.operatorIndex.emplace(full, index);
  }
  const auto& op = state.operators[index];
  auto result = Napi::Object::New(env);
  auto arguments = Napi::Array::New(env, op.arguments.size());
  for (size_t k = 0; k < op.arguments.size(); k++) {
    auto argument = Napi::Object::New(env);
    argument["name"] = op.arguments[k].name;
    argument["kind"] = std::string(1, static_cast<char>(op.arguments[k].kind));
    argument["optional"] = op.arguments[k].optional;
    argument["hasDefault"] = op.arguments[k].hasDefault;
    arguments.Set(k, argument);
  }
  auto returns = Napi::Array::New(env, op.returns.size());
  auto aliases = Napi::Array::New(env, op.returns.size());
  for (size_t k = 0; k < op.returns.size(); k++) {
    returns.Set(k, std::string(1, static_cast<char>(op.returns[k])));
    aliases.Set(k, op.aliases[k]);
  }
  std::ostringstream schema;
  schema << op.handle.schema();
  result["index"] = index;
  result["arguments"] = arguments;
  result["returns"] = returns;
  result["aliases"] = aliases;
  result["singleTensor"] = op.singleTensor;
  result["schema"] = schema.str();
  return result;
}

at::Scalar readScalar(const double*& cursor) {
  double tag = *cursor++;
  double value = *cursor++;
  if (tag == 0) return at::Scalar(static_cast<int64_t>(value));
  if (tag == 2) return at::Scalar(value != 0);
  return at::Scalar(value);
}

c10::IValue readArgument(Environment& state, const Argument& argument, const double*& cursor) {
  // Optional tensors use handle -1 for None; every other optional value is preceded by a presence flag.
  if (argument.optional && argument.kind != Kind::Tensor) {
    if (*cursor++ == 0) return c10::IValue();
  }
  switch (argument.kind) {
    case Kind::Tensor: {
      double handle = *cursor++;
      if (handle == -1) return argument.optional ? c10::IValue() : c10::IValue(at::Tensor());
      return c10::IValue(state.get(handle));
    }
    case Kind::Int: return c10::IValue(static_cast<int64_t>(*cursor++));
    case Kind::Float: return c10::IValue(*cursor++);
    case Kind::Bool: return c10::IValue(*cursor++ != 0);
    case Kind::Scalar: return c10::IValue(readScalar(cursor));
    case Kind::String: return c10::IValue(state.strings.at(static_cast<size_t>(*cursor++)));
    case Kind::Device: return c10::IValue(c10::Device(state.strings.at(static_cast<size_t>(*cursor++))));
    case Kind::IntList: {
      auto length = static_cast<size_t>(*cursor++);
      c10::List<int64_t> list;
      list.reserve(length);
      for (size_t k = 0; k < length; k++) list.push_back(static_cast<int64_t>(*cursor++));
      return list;
    }
    case Kind::FloatList: {
      auto length = static_cast<size_t>(*cursor++);
      c10::List<double> list;
      for (size_t k = 0; k < length; k++) list.push_back(*cursor++);
      return list;
    }
    case Kind::BoolList: {
      auto length = static_cast<size_t>(*cursor++);
      c10::List<bool> list;
      for (size_t k = 0; k < length; k++) list.push_back(*cursor++ != 0);
      return list;
    }
    case Kind::TensorList: {
      auto length = static_cast<size_t>(*cursor++);
      c10::List<at::Tensor> list;
      list.reserve(length);
      for (size_t k = 0; k < length; k++) list.push_back(state.get(*cursor++));
      return list;
    }
    case Kind::OptionalTensorList: {
      auto length = static_cast<size_t>(*cursor++);
      c10::List<std::optional<at::Tensor>> list;
      for (size_t k = 0; k < length; k++) {
        double handle = *cursor++;
        if (handle == -1) list.push_back(std::nullopt);
        else list.push_back(state.get(handle));
      }
      return list;
    }
    case Kind::Generator:
    case Kind::Unsupported: break;
  }
  throw std::runtime_error("argument '" + argument.name + "' has a type that cannot be passed from JavaScript");
}

void writeReturn(Environment& state, Kind kind, int alias, const c10::IValue& value, double*& cursor) {
  if (alias >= 0) return;
  switch (kind) {
    case Kind::Tensor: {
      const auto& tensor = value.toTensor();
      *cursor++ = tensor.defined() ? static_cast<double>(state.put(tensor)) : -1;
      return;
    }
    case Kind::TensorList: {
      auto list = value.toTensorVector();
      *cursor++ = static_cast<double>(list.size());
      for (auto& tensor : list) *cursor++ = tensor.defined() ? static_cast<double>(state.put(std::move(tensor))) : -1;
      return;
    }
    case Kind::Int: *cursor++ = value.isInt() ? static_cast<double>(value.toInt()) : value.toScalar().toDouble(); return;
    case Kind::Float: *cursor++ = value.toDouble(); return;
    case Kind::Bool: *cursor++ = value.toBool() ? 1 : 0; return;
    case Kind::Scalar: *cursor++ = value.toScalar().toDouble(); return;
    default: throw std::runtime_error("returns a type that cannot be passed to JavaScript");
  }
}

std::string describeArguments(const Operator& op, const torch::jit::Stack& stack) {
  std::ostringstream out;
  for (size_t k = 0; k < stack.size() && k < op.arguments.size(); k++) {
    const auto& value = stack[k];
    if (value.isTensor()) {
      out << "\n  " << op.arguments[k].name << ": " << (value.toTensor().defined() ? describe(value.toTensor()) : "none");
    } else if (value.isTensorList()) {
      out << "\n  " << op.arguments[k].name << ": [";
      size_t shown = 0;
      for (const auto& tensor : value.toTensorVector()) {
        if (shown++ == 6) { out << ", ..."; break; }
        out << (shown > 1 ? ", " : "") << describe(tensor);
      }
      out << "]";
    } else if (value.isInt() || value.isDouble() || value.isBool() || value.isIntList()) {
      out << "\n  " << op.arguments[k].name << ": " << value;
    }
  }
  return out.str();
}

// The hot path: plain Node-API, no wrapper objects. Returns the slot of a single tensor, or -1 with results in the buffer.
napi_value call(napi_env env, napi_callback_info info) {
  auto& state = environmentOf(env);
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  uint32_t index = 0;
  napi_get_value_uint32(env, argument, &index);
  if (index >= state.operators.size()) {
    napi_throw_error(env, "ERR_TORCH", "no such operator handle");
    return nullptr;
  }
  const auto& op = state.operators[index];
  auto& stack = state.stack;
  stack.clear();
  bool running = false;
  // The kernel consumes the stack; this copy of the arguments is only made when its message is needed.
  try {
    const double* cursor = state.buffer;
    auto provided = static_cast<uint64_t>(*cursor++);
    for (size_t k = 0; k < op.arguments.size(); k++) {
      if (provided >> k & 1) {
        stack.push_back(readArgument(state, op.arguments[k], cursor));
      } else if (op.arguments[k].hasDefault) {
        stack.push_back(op.arguments[k].defaultValue);
      } else if (op.arguments[k].optional) {
        stack.emplace_back();
      } else {
        throw std::runtime_error("argument '" + op.arguments[k].name + "' is missing");
      }
    }
    running = true;
    op.handle.callBoxed(&stack);
    napi_value result;
    if (op.singleTensor) {
      uint32_t slot = state.put(std::move(stack[0]).toTensor());
      stack.clear();
      napi_create_uint32(env, slot, &result);
      return result;
    }
    double* out = state.buffer;
    size_t needed = 0;
    for (size_t k = 0; k < stack.size(); k++) needed += 1 + (stack[k].isTensorList() ? stack[k].toTensorVector().size() : 0);
    if (needed > state.bufferLength) throw std::runtime_error("returned more tensors than the argument buffer holds");
    for (size_t k = 0; k < stack.size(); k++) writeReturn(state, op.returns[k], op.aliases[k], stack[k], out);
    stack.clear();
    napi_create_int32(env, -1, &result);
    return result;
  } catch (const std::exception& error) {
    std::string got;
    if (running) {
      // Boxed kernels may have popped the arguments already: read them again from the untouched buffer.
      torch::jit::Stack again;
      try {
        const double* cursor = state.buffer;
        auto provided = static_cast<uint64_t>(*cursor++);
        for (size_t k = 0; k < op.arguments.size(); k++)
          again.push_back(provided >> k & 1 ? readArgument(state, op.arguments[k], cursor) : op.arguments[k].defaultValue);
        got = describeArguments(op, again);
      } catch (const std::exception&) {
      }
    }
    stack.clear();
    auto thrown = toError(Napi::Env(env), op.name, error);
    if (!got.empty()) {
      auto message = thrown.Value().Get("message").As<Napi::String>().Utf8Value() + "\ngot" + got;
      thrown.Value().Set("message", message);
    }
    thrown.ThrowAsJavaScriptException();
    return nullptr;
  }
}

Napi::Value argumentBuffer(const Napi::CallbackInfo& info) {
  auto& state = environmentOf(info.Env());
  auto length = info[0].As<Napi::Number>().Uint32Value();
  auto array = Napi::Float64Array::New(info.Env(), length);
  state.bufferReference = Napi::Reference<Napi::Float64Array>::New(array, 1);
  state.buffer = array.Data();
  state.bufferLength = length;
  return array;
}

Napi::Value internString(const Napi::CallbackInfo& info) {
  auto& strings = environmentOf(info.Env()).strings;
  strings.push_back(info[0].As<Napi::String>().Utf8Value());
  return Napi::Number::New(info.Env(), strings.size() - 1);
}

Napi::Value allSchemas(const Napi::CallbackInfo& info) {
  auto names = c10::Dispatcher::singleton().getAllOpNames();
  auto result = Napi::Array::New(info.Env());
  uint32_t count = 0;
  for (const auto& name : names) {
    auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle) continue;
    std::ostringstream out;
    out << handle->schema();
    result.Set(count++, out.str());
  }
  return result;
}

Napi::Value setErrorClass(const Napi::CallbackInfo& info) {
  environmentOf(info.Env()).errorClass = Napi::Persistent(info[0].As<Napi::Function>());
  return info.Env().Undefined();
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::ostringstream out;
  out << c10::toString(tensor.scalar_type()) << tensor.sizes();
  if (!tensor.device().is_cpu()) out << " on " << tensor.device();
  return out.str();
}

Napi::Error toError(Napi::Env env, const std::string& context, const std::exception& error) {
  const auto* torchError = dynamic_cast<const c10::Error*>(&error);
  std::string message = context + ": " + (torchError ? torchError->what_without_backtrace() : error.what());
  auto& state = environmentOf(env);
  if (!state.errorClass.IsEmpty()) {
    const char* kind = dynamic_cast<const c10::OutOfMemoryError*>(&error) ? "out-of-memory" : "operator";
    return Napi::Error(env, state.errorClass.New({Napi::String::New(env, message), Napi::String::New(env, kind)}));
  }
  return Napi::Error::New(env, message);
}

std::vector<int64_t> toSizes(const Napi::Value& value) {
  auto array = value.As<Napi::Array>();
  std::vector<int64_t> sizes(array.Length());
  for (uint32_t k = 0; k < array.Length(); k++) sizes[k] = array.Get(k).As<Napi::Number>().Int64Value();
  return sizes;
}

void registerDoor(Napi::Env env, Napi::Object exports) {
  napi_value function;
  napi_create_function(env, "call", NAPI_AUTO_LENGTH, call, nullptr, &function);
  exports["call"] = Napi::Value(env, function);
  exports["resolve"] = guarded(env, "resolve", resolve);
  exports["argumentBuffer"] = guarded(env, "argumentBuffer", argumentBuffer);
  exports["internString"] = guarded(env, "internString", internString);
  exports["allSchemas"] = guarded(env, "allSchemas", allSchemas);
  exports["setErrorClass"] = guarded(env, "setErrorClass", setErrorClass);
}

}  // namespace door
