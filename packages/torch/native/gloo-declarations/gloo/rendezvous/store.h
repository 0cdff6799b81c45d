// The virtual functions stand in Gloo's order: ProcessGroupGloo's store wrapper overrides them, so the table must match.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gloo {
namespace rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {}
  virtual bool has_v2_support() { return false; }
  virtual std::vector<std::vector<char>> multi_get(const std::vector<std::string>& keys) { return {}; }
  virtual void multi_set(const std::vector<std::string>& keys, const std::vector<std::vector<char>>& values) {}
  virtual void append(const std::string& key, const std::vector<char>& value) {}
  virtual int64_t add(const std::string& key, int64_t value) { return 0; }
};

}  // namespace rendezvous
}  // namespace gloo
