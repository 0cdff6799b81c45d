// Files mapped into memory, and tensors that view them without a copy.
#include "env.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

namespace door {
namespace {

// Private mapping: a tensor that is written to gets its own page, the file never changes.
struct MappedFile {
  void* data = nullptr;
  size_t size = 0;
  ~MappedFile() {
    if (data) munmap(data, size);
  }
};

// mapFile(path) -> External holding the mapping
Napi::Value mapFile(const Napi::CallbackInfo& info) {
  auto path = info[0].As<Napi::String>().Utf8Value();
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
  struct stat status;
  if (fstat(descriptor, &status) != 0 || status.st_size <= 0) {
    close(descriptor);
    throw std::runtime_error("cannot map " + path + ": it is empty or cannot be read");
  }
  auto file = std::make_shared<MappedFile>();
  file->size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, file->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  close(descriptor);
  if (data == MAP_FAILED) throw std::runtime_error("cannot map " + path + ": " + std::strerror(errno));
  file->data = data;
  return Napi::External<std::shared_ptr<MappedFile>>::New(info.Env(), new std::shared_ptr<MappedFile>(file),
                                                          [](Napi::Env, std::shared_ptr<MappedFile>* held) { delete held; });
}

// mappedTensor(file, byteOffset, shape, dtype): keeps the mapping alive for as long as the tensor lives.
Napi::Value mappedTensor(const Napi::CallbackInfo& info) {
  auto file = *info[0].As<Napi::External<std::shared_ptr<MappedFile>>>().Data();
  auto offset = info[1].As<Napi::Number>().Int64Value();
  auto sizes = toSizes(info[2]);
  auto type = static_cast<at::ScalarType>(info[3].As<Napi::Number>().Int32Value());
  auto itemSize = static_cast<int64_t>(c10::elementSize(type));
  int64_t bytes = itemSize;
  for (auto size : sizes) {
    if (size < 0 || (size > 0 && bytes > INT64_MAX / size)) throw std::runtime_error("shape is out of range");
    bytes *= size;
  }
  auto options = at::TensorOptions().dtype(type);
  if (bytes == 0) return wrap(info.Env(), at::empty(sizes, options));
  if (offset < 0 || offset > static_cast<int64_t>(file->size) - bytes) throw std::runtime_error("tensor lies outside the file");
  auto* start = static_cast<char*>(file->data) + offset;
  // Kernels assume aligned elements; a file that does not align its data is copied instead.
  if (reinterpret_cast<uintptr_t>(start) % itemSize != 0) {
    auto copy = at::empty(sizes, options);
    std::memcpy(copy.data_ptr(), start, bytes);
    return wrap(info.Env(), copy);
  }
  return wrap(info.Env(), at::from_blob(start, sizes, [file](void*) {}, options));
}

}  // namespace

void registerMapping(Napi::Env env, Napi::Object exports) {
  exports["mapFile"] = guarded(env, "mapFile", mapFile);
  exports["mappedTensor"] = guarded(env, "mappedTensor", mappedTensor);
}

}  // namespace door
