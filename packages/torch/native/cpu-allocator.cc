// Large CPU tensors from memory that was used before. The C library gives blocks above 32 MB back to the system at once and
// gets them again page by page: of a training step of a small model that was a seventh of the time.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

namespace {

// Smaller blocks are the C library's own business; it is good at them.
constexpr size_t smallest = size_t{1} << 20;

// Eight sizes per power of two: batches of slightly different length share blocks, and at most an eighth is wasted.
size_t roundUp(size_t bytes) {
  size_t power = smallest;
  while (power * 2 <= bytes) power *= 2;
  const size_t step = power / 8;
  return (bytes + step - 1) / step * step;
}

// VERLET_CPU_CACHE_MB, else an eighth of the machine's memory, at most 4 GiB. 0 keeps nothing.
size_t limitFromEnvironment() {
  if (const char* text = std::getenv("VERLET_CPU_CACHE_MB")) return static_cast<size_t>(std::strtoull(text, nullptr, 10)) << 20;
  const auto pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  const size_t memory = pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : 0;
  return std::min(memory / 8, size_t{4} << 30);
}

constexpr size_t hugePage = size_t{2} << 20;

// Memory for large blocks in huge pages where the system gives them: walking through megabytes page by page, small models wait
// for the translation of addresses as long as for the memory itself.
void* allocateBlock(size_t bytes) {
#ifdef __linux__
  if (bytes >= 2 * hugePage) {
    void* data = nullptr;
    if (posix_memalign(&data, hugePage, bytes) == 0) {
      madvise(data, bytes / hugePage * hugePage, MADV_HUGEPAGE);
      return data;
    }
  }
#endif
  return c10::alloc_cpu(bytes);
}

struct Block {
  void* data;
  size_t bytes;
};

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < smallest || limit == 0) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    void* data = take(roundUp(bytes));
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  using Idle = std::list<Block>;  // oldest first
  std::mutex mutex;
  Idle idle;
  std::multimap<size_t, Idle::iterator> bySize;
  std::unordered_map<void*, size_t> live;
  size_t idleBytes = 0;
  const size_t limit = limitFromEnvironment();

  void* take(size_t bytes) {
    std::lock_guard lock(mutex);
    void* data = nullptr;
    if (auto found = bySize.find(bytes); found != bySize.end()) {
      data = found->second->data;
      idleBytes -= bytes;
      idle.erase(found->second);
      bySize.erase(found);
    } else {
      try {
        data = allocateBlock(bytes);
      } catch (const c10::Error&) {
        while (!idle.empty()) dropOldest();
        data = allocateBlock(bytes);
      }
    }
    live.emplace(data, bytes);
    return data;
  }

  void give(void* data) {
    std::lock_guard lock(mutex);
    auto found = live.find(data);
    // raw_deleter is asked for small blocks too.
    if (found == live.end()) return c10::free_cpu(data);
    const size_t bytes = found->second;
    live.erase(found);
    if (bytes > limit) return c10::free_cpu(data);
    while (idleBytes + bytes > limit) dropOldest();
    bySize.emplace(bytes, idle.insert(idle.end(), {data, bytes}));
    idleBytes += bytes;
  }

  void dropOldest() {
    const auto oldest = idle.begin();
    auto [from, to] = bySize.equal_range(oldest->bytes);
    for (auto entry = from; entry != to; ++entry)
      if (entry->second == oldest) {
        bySize.erase(entry);
        break;
      }
    idleBytes -= oldest->bytes;
    c10::free_cpu(oldest->data);
    idle.erase(oldest);
  }

  static void release(void* data);
};

// Never destroyed: tensors of other static objects may outlive any order of destruction.
CachingAllocator& allocator() {
  static auto* instance = new CachingAllocator();
  return *instance;
}

void CachingAllocator::release(void* data) {
  if (data) allocator().give(data);
}

const bool installed = [] {
  c10::SetCPUAllocator(&allocator(), 1);
  return true;
}();

}  // namespace
