// The torch wheel carries ProcessGroupGloo.hpp and its code, but none of Gloo's own headers. These declarations hold just
// what ProcessGroupGloo.hpp and GlooDeviceFactory.hpp mention; the definitions are inside libtorch_cpu.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {
class Store;
}

}  // namespace gloo
